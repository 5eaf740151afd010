package web

import (
	"cmp"
	"context"
	"encoding/json"
	"html/template"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/definition"
	"github.com/dts-sched/dts/internal/task"
)

// typesShown is how many further types that nodes run are offered.
const typesShown = 12

// submission is what the page that submits a task shows.
type submission struct {
	payloadForm
	From    string // the task of which it is a copy; "" for none
	Lacks   bool   // the copy lacks how long to wait between attempts
	When    []formField
	Further []formField
}

// payloadForm is the part of a form that asks for the type and the payload of tasks.
type payloadForm struct {
	Types   []typeButton
	Type    string // "" for one that the reader types
	AsJSON  bool   // the payload is typed as JSON
	HasForm bool   // there is a form for the type
	Payload []formField
	Rare    []formField   // of the payload
	Kept    []hiddenField // of payloads of other types
}

// typeButton leads to the form of a type, with what was typed.
type typeButton struct {
	Name    string
	Value   string
	Present bool
}

// formField is a field of a form, with what stands in it.
type formField struct {
	Name     string
	Label    template.HTML
	Hint     template.HTML
	Value    string
	Wrong    string
	Long     bool // it has several lines
	Check    bool // it is a box to check
	Wide     bool
	Required bool
	Note     template.HTML // what else is to know of it
	Step     string        // of a number: 1 or any; "" for a text
	Min, Max string        // of a number; "" for none
	Options  []fieldOption // the reader chooses one of these; none: the reader types
}

// fieldOption is one of those that a field offers.
type fieldOption struct {
	Value, Name string
	Present     bool
}

// Rows is how many lines the field shows.
func (f formField) Rows() int { return min(max(strings.Count(f.Value, "\n")+1, 3), 20) }

// Open reports whether fields that few need are shown: one of them has something, or something is wrong with it.
func (payloadForm) Open(fields []formField) bool {
	return slices.ContainsFunc(fields, func(f formField) bool { return f.Value != "" || f.Wrong != "" })
}

func readSubmit(ctx context.Context, v *visit) (any, string, error) {
	nodes, err := v.site.Control.ListNodes(ctx, v.who)
	if err != nil {
		return nil, "", err
	}
	var copied task.Task
	if from := v.first("from"); from != "" {
		if copied, err = v.copied(ctx, from); err != nil {
			return nil, "", err
		}
	}
	return v.submission(copied, typesOf(nodes)), string(v.T("Submit a task")), nil
}

// bareSubmit shows a form while Redis does not answer, unless it is to have a copy of a task.
func bareSubmit(v *visit) (any, string) {
	if v.form == nil && v.first("from") != "" {
		return nil, ""
	}
	return v.submission(task.Task{}, nil), string(v.T("Submit a task"))
}

// Can reports whether the form, sent again, submits another task: not with the id of one.
func (s submission) Can(string) bool {
	return slices.ContainsFunc(s.When, func(f formField) bool { return f.Name == "id" && f.Value == "" })
}

// submission is what the page shows, given the task of which it is a copy, and the types that nodes run besides.
func (v *visit) submission(copied task.Task, types []string) submission {
	first := v.firstValues(copied)
	s := submission{payloadForm: v.payloadForm(copied, types, first), From: v.first("from")}
	s.Lacks = copied.Retry.Backoff != (task.Backoff{})
	s.When, s.Further = v.fields(v.whenFields(), first), v.fields(v.furtherFields(), first)
	return s
}

// otherType is what the address has for a type that the reader types.
const otherType = "other"

// first is a value of the form that was refused, or of the address.
func (v *visit) first(name string) string { return strings.TrimSpace(v.Typed(name, v.query.Get(name))) }

// copied is the task of which a copy is asked for. Errors: as for GetTask.
func (v *visit) copied(ctx context.Context, from string) (task.Task, error) {
	who := v.who
	namespace, id, found := strings.Cut(from, "/")
	if !found {
		return task.Task{}, v.invalid("from", v.T("give a namespace and an id, as in default/report-1"))
	}
	who.Namespace = namespace
	return v.site.Control.GetTask(ctx, who, id)
}

// typesOf are the types that living nodes run, beyond those that have a form.
func typesOf(nodes []cluster.Node) []string {
	var types []string
	for _, n := range nodes {
		if n.State == cluster.StateAlive {
			types = append(types, n.Types...)
		}
	}
	slices.Sort(types)
	types = slices.DeleteFunc(slices.Compact(types), func(name string) bool { return slices.Contains(formTypes, name) })
	return types[:min(len(types), typesShown)]
}

// typeButtons lead to the forms of types.
func (v *visit) typeButtons(present string, more []string) []typeButton {
	var buttons []typeButton
	for _, name := range slices.Concat(formTypes, more) {
		buttons = append(buttons, typeButton{Name: name, Value: name, Present: name == present})
	}
	return append(buttons, typeButton{Name: string(v.T("other")), Value: otherType, Present: present == ""})
}

// firstValues are what stands in the fields of a new form: that of the task of which it is a copy.
func (v *visit) firstValues(t task.Task) map[string]string {
	first := map[string]string{
		"namespace": cmp.Or(t.Ref.Namespace, v.namespaceOfNew()), "type": t.Type, "queue": t.Queue, "owner": t.Owner,
		"labels": textOf(t.Labels, "="), "timeout": durationText(t.Timeout), "retention": durationText(t.Retention),
		"start_by": durationText(t.StartBy), "once": definition.OnceText(t.Once), "priority": numberText(t.Priority),
		"fair_key": t.FairKey, "fair_weight": numberText(t.FairWeight), "limit_key": t.LimitKey,
		"cost": numberText(t.Cost),
	}
	maps.Copy(first, reachTexts(definition.Reach(t.Definition)))
	first["retry.max_attempts"] = numberText(t.Retry.MaxAttempts)
	var delays []string
	for _, d := range t.Retry.Delays {
		delays = append(delays, durationText(d))
	}
	first["retry.delays"] = strings.Join(delays, ", ")
	if t.OnEnd != nil {
		raw, _ := json.Marshal(definition.FollowUp(t.OnEnd)) // of texts, numbers and JSON
		first["on_end"] = pretty(raw)
	}
	return first
}

// numberText is a number as it is typed; "" for 0.
func numberText(n int) string {
	if n == 0 {
		return ""
	}
	return itoa(n)
}

// durationText is a duration as it is typed; "" for none.
func durationText(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return task.FormatDuration(d)
}

// payloadForm asks for a type, and for its payload: by the fields of the type or, if it has none or they cannot have
// the payload of the copy, as JSON. first gets the values of a copy.
func (v *visit) payloadForm(copied task.Task, types []string, first map[string]string) payloadForm {
	f := payloadForm{Type: cmp.Or(v.first("type"), copied.Type, "http"), AsJSON: v.first("as") == asJSON}
	if f.Type == otherType || v.Typed("other", "") != "" {
		f.Type = ""
	}
	f.Types = v.typeButtons(f.Type, types)
	fields := v.payloadFields(f.Type)
	f.HasForm = len(fields) > 0
	if len(copied.Payload) > 0 && copied.Type == f.Type {
		typed, known := v.typedAs(fields, copied.Payload)
		f.AsJSON = f.AsJSON || !known
		maps.Copy(first, typed)
		first["payload"] = pretty(copied.Payload)
	}
	if f.Type == "" {
		f.Payload = []formField{{Name: "type", Label: v.T("Type"), Hint: v.T("as workers name it"), Required: true}}
	}
	if f.AsJSON = f.AsJSON || !f.HasForm; f.AsJSON {
		f.Payload = append(f.Payload, formField{Name: "payload", Label: v.T("Payload"), Hint: "{}", Long: true, Wide: true})
		fields = nil
	}
	for i, field := range fields {
		asked := field.asked(i == 0 && f.Type != "noop")
		if field.Kind == aList {
			asked.Note = v.T("The program and its arguments: each line is one argument, " +
				"or all are a list in JSON. No shell reads it.")
		}
		if field.More {
			f.Rare = append(f.Rare, asked)
		} else {
			f.Payload = append(f.Payload, asked)
		}
	}
	f.Payload, f.Rare = v.fields(f.Payload, first), v.fields(f.Rare, first)
	f.Kept = v.keptFields(f.Payload, f.Rare)
	return f
}

// whenFields are the fields that say where and when a task runs.
func (v *visit) whenFields() []formField {
	return []formField{
		{Name: "due", Label: v.whenLabel(), Hint: v.T("now, 10m, or 2026-01-02 15:04")},
		{Name: "queue", Label: v.T("Queue"), Hint: task.DefaultQueue},
		{Name: "namespace", Label: v.T("Namespace"), Hint: task.DefaultNamespace},
		{Name: "id", Label: v.T("Id"), Hint: v.T("a new one")},
		{Name: "labels", Label: v.T("Labels"), Hint: v.T("name=value, one a line"), Long: true, Wide: true},
	}
}

// furtherFields are those that few need.
func (v *visit) furtherFields() []formField {
	fields := append(v.attemptFields(), v.ownerField(), v.onceField())
	return append(slices.Concat(fields, v.precedenceFields(), v.reachFields()), v.followUpField())
}

// attemptFields are those of the attempts of a task, and of how long it may wait and is kept.
func (v *visit) attemptFields() []formField {
	return []formField{
		{Name: "retry.max_attempts", Label: v.T("Attempts at most"), Hint: v.T("that of the type")},
		{Name: "retry.delays", Label: v.T("Waits between attempts"), Hint: "1m, 5m, 10m"},
		{Name: "timeout", Label: v.T("Timeout of an attempt"), Hint: "30s"},
		{Name: "retention", Label: v.T("How long it is kept after its end"), Hint: "24h"},
		{Name: "start_by", Label: v.T("Cancel if not begun within"), Hint: "1h"},
	}
}

func (v *visit) ownerField() formField { return formField{Name: "owner", Label: v.T("Owner")} }

// fields fills in what was typed, or else the first values, and what is wrong.
func (v *visit) fields(fields []formField, first map[string]string) []formField {
	for i := range fields {
		f := &fields[i]
		f.Value, f.Wrong = v.Typed(f.Name, first[f.Name]), v.Wrong(f.Name)
		v.label(f.Name, f.Label)
		if f.Check && v.form != nil { // of a box that is not checked, a browser sends nothing
			f.Value = v.form.Get(f.Name)
		}
		if f.Name == "due" {
			f.Wrong = cmp.Or(f.Wrong, v.Wrong("delay"), v.Wrong("run_at"))
			v.label("delay", f.Label)
			v.label("run_at", f.Label)
		}
	}
	return fields
}

// submitTask is the action of the form that submits a task.
func submitTask(ctx context.Context, v *visit, form url.Values) (result, error) {
	d, err := v.definitionOf(form)
	if err != nil {
		return result{}, err
	}
	who := v.who
	who.Namespace = d.Namespace
	made, err := v.site.Control.Submit(ctx, who, d)
	if err != nil {
		return result{}, err
	}
	said := "submitted"
	switch ref := d.Ref; {
	case made.Once.Outcome == task.OnceReplaced:
		said = "replaced"
	case made.Once.Outcome == task.OnceSkipped:
		said = "skipped"
	case made.Once.Outcome == task.OnceExisting && made.Task.Ref != ref.Keyed(d.Once.Key):
		said = "existing"
	case made.Existed && d.ID != v.who.Key:
		said = "there-before"
	}
	return result{path: string(v.Path("tasks", made.Task.Namespace, made.Task.ID)), said: said}, nil
}

// SentBefore is why the form was refused, if the task that it asked for before it was edited is there: the id of that
// task is the key of the form. "" for another reason.
func (v *visit) SentBefore() template.HTML {
	if v.path != "/submit" || v.problem == nil || v.problem.Code != task.CodeTaskConflict || v.first("id") != "" {
		return ""
	}
	path := v.Path("tasks", cmp.Or(v.first("namespace"), task.DefaultNamespace), v.who.Key)
	return v.T("What you sent first was submitted as %s. Send again to submit this as another task.",
		linkTo(path, code(v.who.Key)))
}

// definitionOf is the task that a form asks for. A form that names no id gives its key, so that the same form, sent to
// several nodes, makes one task. Error: CodeInvalid, with all fields that are wrong.
func (v *visit) definitionOf(form url.Values) (task.Definition, error) {
	get := func(name string) string { return strings.TrimSpace(form.Get(name)) }
	d := task.Definition{
		Ref:  task.Ref{Namespace: cmp.Or(get("namespace"), task.DefaultNamespace), ID: cmp.Or(get("id"), form.Get(keyField))},
		Type: get("type"), Queue: get("queue"), Owner: get("owner"),
	}
	var wrong problems
	var err error
	d.Payload, err = v.payloadTyped(d.Type, form)
	wrong.add(err)
	wrong.add(v.setDue(&d, get("due")))
	d.Timeout, err = v.spanOf("timeout", get("timeout"))
	wrong.add(err)
	d.Retention, err = v.spanOf("retention", get("retention"))
	wrong.add(err)
	d.StartBy, err = v.spanOf("start_by", get("start_by"))
	wrong.add(err)
	wrong.add(v.setRetry(&d.Retry, get("retry.max_attempts"), get("retry.delays")))
	d.OnEnd, err = v.followUpOf(get("on_end"))
	wrong.add(err)
	wrong.add(v.setPrecedence(&d, get))
	wrong.add(v.setReach(&d, get))
	d.Once, err = v.onceOf(get("once"), get("due"))
	wrong.add(err)
	labels, said := v.pairsOf(form.Get("labels"), "=")
	if d.Labels = labels; said != "" {
		wrong.add(v.invalid("labels", said))
	}
	return d, wrong.err()
}

// payloadTyped is the payload that was typed, as JSON or into the fields of the type. Error: CodeInvalid.
func (v *visit) payloadTyped(typeName string, form url.Values) (json.RawMessage, error) {
	if fields := v.payloadFields(typeName); len(fields) > 0 && form.Get("as") != asJSON {
		return v.payloadOf(fields, form.Get)
	}
	text := strings.TrimSpace(form.Get("payload"))
	if text != "" && !json.Valid([]byte(text)) {
		return nil, v.invalid("payload", v.T("is not valid JSON"))
	}
	return json.RawMessage(text), nil
}

// whenLabel is the label of the field that says when a task is due.
func (v *visit) whenLabel() template.HTML { return v.T("When") }

// isNow reports whether a task is due at once, by what was typed into that field.
func isNow(text string) bool { return text == "" || text == "now" }

// setDue sets when a task is due: now, after a duration, or at a time in the reader's zone. Error: CodeInvalid.
func (v *visit) setDue(d *task.Definition, text string) error {
	if isNow(text) {
		return nil
	}
	if delay, err := time.ParseDuration(strings.ReplaceAll(text, " ", "")); err == nil && delay >= 0 {
		d.Delay = delay
		return nil
	}
	at, found := v.timeOf(text)
	if d.RunAt = at; !found {
		return v.invalid("due", v.T("give a duration, as in 10m, or a time, as in 2026-01-02 15:04"))
	}
	return nil
}

// setRetry sets how often a task is tried, and the waits between. Error: CodeInvalid.
func (v *visit) setRetry(r *task.Retry, attempts, delays string) error {
	if attempts != "" {
		n, err := strconv.Atoi(attempts)
		if err != nil || n < 1 {
			return v.invalid("retry.max_attempts", v.T("must be a whole number from %d on", 1))
		}
		r.MaxAttempts = n
	}
	for _, word := range wordsOf(delays) {
		d, err := v.durationOf("retry.delays", word)
		if err != nil {
			return err
		}
		r.Delays = append(r.Delays, d)
	}
	return nil
}
