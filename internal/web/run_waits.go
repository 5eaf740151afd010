package web

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html/template"
	"net/url"
	"slices"
	"strings"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/edge"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/workflow"
	"github.com/dts-sched/dts/internal/workflow/expr"
)

// How much of what a run waits for its page shows.
const (
	shownWaits   = 3       // steps that wait, above the graph
	shownForms   = 5       // approvals, with their forms
	shownFields  = 20      // fields of these forms
	shownChoices = 4 << 10 // bytes of values to choose from, of all fields
	shownNames   = 20      // names of signals to choose from
	shownSignals = 20      // signals that the run has
	shownData    = 200     // bytes of the data of a signal or an answer
	shownBy      = 300     // bytes of the names that an approval asks
)

// waitingStep is a step that waits, and what it waits for.
type waitingStep struct {
	ID   string
	Says template.HTML
}

// approvalForm is the form that answers the approval of a step.
type approvalForm struct {
	waitingStep
	Fields []formField // of the form, then the note
	Seen   string      // the generation that the reader has seen
	HasOwn bool        // the approval asks for more than a note
}

// signalForm is the form that gives a run a signal.
type signalForm struct {
	Name  string   // that stands in the field
	First string   // for which a step waits, or will
	Names []string // of some of those that the run does not have yet
	Data  formField
	Waits bool // a step waits for First
	Open  bool // so it does, or the form was sent
}

// givenSignal is a signal that a run has, with the beginning of its data.
type givenSignal struct {
	workflow.Signal
	Text string
}

// readWaits says what a run waits for, and makes the forms that answer.
func (v *visit) readWaits(o *oneRun) {
	for _, s := range o.Steps {
		if s.State == workflow.Waiting {
			o.Waiting = append(o.Waiting, waitingStep{s.ID, v.waitWords(s)})
		}
	}
	v.readApprovals(o)
	o.Signal = v.signalForm(o.Run)
	for _, s := range slices.Backward(o.Run.Run.Signals) {
		if len(o.Given) < shownSignals {
			o.Given = append(o.Given, givenSignal{s, cutHTML(plainJSON(s.Data), shownData)})
		}
	}
}

// plainJSON is JSON without the escapes of characters that mean something in HTML.
func plainJSON(raw json.RawMessage) string {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var value any
	if d.Decode(&value) != nil {
		return string(raw)
	}
	text, err := wire.Encode(value)
	if err != nil {
		return string(raw)
	}
	return string(text)
}

// FirstWaiting are the steps that wait which the page names first.
func (o *oneRun) FirstWaiting() []waitingStep { return o.Waiting[:min(len(o.Waiting), shownWaits)] }

// SignalsLeftOut is how many signals of the run its page does not show.
func (o *oneRun) SignalsLeftOut() int { return len(o.Run.Run.Signals) - len(o.Given) }

// IsOpen reports whether a step waits for an answer of people.
func (o *oneRun) IsOpen(s control.RunStep) bool {
	return s.State == workflow.Waiting && s.Wait.Approval != nil
}

// questions tells what the run asks its readers from what it asks later; "" if it asks nothing.
func (o *oneRun) questions() string {
	text := ""
	for _, s := range o.Steps {
		if o.IsOpen(s) {
			text += fmt.Sprintln(s.ID, s.Generation)
		}
	}
	if f := o.Signal; f != nil {
		text += fmt.Sprintln(f.First, f.Waits, f.Names)
	}
	if text == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(text))
	return " " + hex.EncodeToString(sum[:8])
}

// readApprovals makes the forms of the approvals that are open: as many as there is room for. The form that was sent
// comes first, then the one that the address names.
func (v *visit) readApprovals(o *oneRun) {
	open := slices.DeleteFunc(slices.Clone(o.Steps), func(s control.RunStep) bool { return !o.IsOpen(s) })
	last := func(s control.RunStep) int {
		switch {
		case v.form.Has(answerPrefix(s.ID) + "note"):
			return 0
		case s.ID == v.query.Get("answer"):
			return 1
		}
		return 2
	}
	slices.SortStableFunc(open, func(a, b control.RunStep) int { return cmp.Compare(last(a), last(b)) })
	fields, room := 0, shownChoices
	for i, s := range open {
		if fields += len(s.Wait.Approval.Form); i > 0 && (i >= shownForms || fields > shownFields) {
			o.NotOpen = len(open) - i
			return
		}
		o.Approvals = append(o.Approvals, v.approvalForm(s, &room))
	}
}

// stepsPrefix is before the names of the fields of forms that answer steps.
const stepsPrefix = "steps."

// answerPrefix is before the names of the fields of the form that answers a step.
func answerPrefix(step string) string { return stepsPrefix + step + "." }

// approvalForm is the form of a step. room is how many bytes of values to choose from there may be yet.
func (v *visit) approvalForm(s control.RunStep, room *int) approvalForm {
	prefix := answerPrefix(s.ID)
	f := approvalForm{waitingStep: waitingStep{s.ID, v.waitWords(s)}, Seen: itoa(s.Generation)}
	f.HasOwn = len(s.Wait.Approval.Form) > 0
	isSent := v.form.Has(prefix + "note")
	for _, p := range s.Wait.Approval.Form {
		f.Fields = append(f.Fields, v.answerField(prefix+"data."+p.Name, p, isSent, room))
	}
	f.Fields = append(f.Fields, v.typedField(formField{Name: prefix + "note", Label: v.T("Note"), Wide: true}))
	return f
}

// answerField is the field for a param of the form of an approval.
func (v *visit) answerField(name string, p workflow.Param, isSent bool, room *int) formField {
	f := v.paramField(name, p)
	size := 0
	for _, raw := range p.Enum {
		size += 2 * len(raw)
	}
	switch {
	case len(p.Enum) > 0 && size <= *room:
		*room -= size
		f.Options, f.Long, f.Wide, f.Required = v.optionsOf(name, p), false, false, p.Required
		if f.Note = ""; p.Required {
			f.Note = v.T("needed")
		}
	case p.Type == expr.Boolean:
		f.Check, f.Required, f.Note = true, false, ""
		if !isSent && string(p.Default) == "true" {
			f.Value = "true"
		}
	case p.Type == expr.Integer || p.Type == expr.Number:
		f.Step = "any"
		if p.Type == expr.Integer && (p.Min == nil || *p.Min == float64(int64(*p.Min))) {
			f.Step = "1"
		}
		if p.Min != nil {
			f.Min = trimmed(*p.Min)
		}
		if p.Max != nil {
			f.Max = trimmed(*p.Max)
		}
	}
	return f
}

// optionsOf are the values that a param may have, as JSON. The default comes first, or nothing if there is none.
func (v *visit) optionsOf(name string, p workflow.Param) (options []fieldOption) {
	chosen := v.Typed(name, string(p.Default))
	if p.Default == nil {
		options = append(options, fieldOption{Name: "–", Present: chosen == ""})
	}
	for _, raw := range p.Enum {
		options = append(options, fieldOption{string(raw), paramText(p, raw), string(raw) == chosen})
	}
	if !slices.ContainsFunc(options, func(o fieldOption) bool { return o.Present }) {
		options[0].Present = true // a browser chooses it
	}
	return options
}

// answerOf is what was typed into the fields of an approval. Those that are empty are left out.
func answerOf(form url.Values, prefix string, params []workflow.Param) (map[string]json.RawMessage, error) {
	data := map[string]json.RawMessage{}
	for _, p := range params {
		text := form.Get(prefix + "data." + p.Name)
		isChosen := slices.ContainsFunc(p.Enum, func(raw json.RawMessage) bool { return string(raw) == text })
		switch {
		case isChosen:
			data[p.Name] = json.RawMessage(text)
		case p.Type == expr.Boolean && len(p.Enum) == 0:
			data[p.Name] = json.RawMessage("false")
			if text == "true" {
				data[p.Name] = json.RawMessage("true")
			}
		default:
			raw, err := typedParam(p, text)
			if err != nil {
				return nil, err
			}
			if raw != nil {
				data[p.Name] = raw
			}
		}
	}
	return data, nil
}

// signalForm is the form that gives a run a signal; nil if it can take none. A step that waits comes first.
func (v *visit) signalForm(r control.Run) *signalForm {
	names := slices.DeleteFunc(r.Flow.SignalNames(), func(name string) bool {
		_, given := r.Run.IsGiven(name)
		return given
	})
	if r.Task.State.Final() || len(names) == 0 {
		return nil
	}
	first, waits := names[0], false
	for _, s := range r.Steps {
		if s.State == workflow.Waiting && s.Wait.Signal != "" && !waits {
			first, waits = s.Wait.Signal, true
		}
	}
	f := signalForm{
		Name: v.Typed("name", first), First: first, Names: names[:min(len(names), shownNames)], Waits: waits,
		Open: waits || v.form.Has("name"),
	}
	f.Data = v.typedField(formField{
		Name: "data", Label: v.T("Data, as JSON"), Hint: `{"amount": 7}`, Long: true, Wide: true,
	})
	v.label("name", v.T("Signal"))
	return &f
}

// waitWords says what a step waits for, until when, and what comes then.
func (v *visit) waitWords(s control.RunStep) template.HTML {
	w := s.Wait
	said := v.T("Waits for an answer")
	switch {
	case w.Signal != "":
		said = v.T("Waits for the signal %s", code(w.Signal))
	case w.Approval == nil:
		return v.T("Waits until %s", v.Moment(s.Until))
	case len(w.Approval.By) > 0:
		said = v.T("Waits for an answer of %s", bdi(cutHTML(v.List(w.Approval.By), shownBy)))
	}
	if s.Until.IsZero() {
		return said
	}
	switch w.Effective() {
	case workflow.TimeoutSkip:
		return v.T("%s. It is skipped at %s", said, v.Moment(s.Until))
	case workflow.TimeoutContinue:
		return v.T("%s. It goes on without at %s", said, v.Moment(s.Until))
	}
	return v.T("%s. It fails at %s", said, v.Moment(s.Until))
}

// waitKind is what a step waits for, in a word or its time.
func (v *visit) waitKind(w workflow.Wait) string {
	switch {
	case w.For > 0:
		return task.FormatDuration(w.For)
	case w.Until != "":
		return string(v.T("a moment"))
	case w.Signal != "":
		return string(v.T("a signal"))
	}
	return string(v.T("an approval"))
}

// answerWords says what somebody has said to the approval of a step; "" if nobody has.
func (v *visit) answerWords(s control.RunStep) template.HTML {
	if s.Wait == nil || s.Wait.Approval == nil || s.Answer() == nil {
		return ""
	}
	a := s.Answer()
	said := v.T("Rejected")
	if a.Approved {
		said = v.T("Approved")
	}
	if a.By != "" {
		said += " " + v.T("by") + " " + isolated(v.By(a.By))
	}
	if a.Note != "" {
		said += v.T(": ") + bdi(a.Note)
	}
	if data, err := wire.Encode(a.Data); err == nil && len(a.Data) > 0 {
		said += " " + code(cutHTML(string(data), shownData))
	}
	return said
}

// approveStep approves what the reader has seen that a step asks for.
func approveStep(ctx context.Context, v *visit, form url.Values) (result, error) {
	return answerStep(ctx, v, form, true)
}

// rejectStep is approveStep for a rejection, which has a note and nothing else.
func rejectStep(ctx context.Context, v *visit, form url.Values) (result, error) {
	return answerStep(ctx, v, form, false)
}

func answerStep(ctx context.Context, v *visit, form url.Values, approved bool) (result, error) {
	c, who, id, step := v.site.Control, v.ofPath(), v.param("id"), v.param("step")
	prefix := answerPrefix(step)
	run, err := c.GetRun(ctx, who, id)
	if err != nil {
		return result{}, err
	}
	reply := control.Reply{Note: strings.TrimSpace(form.Get(prefix + "note"))}
	if i, known := run.Flow.Index(step); known && run.Steps[i].Wait != nil && run.Steps[i].Wait.Approval != nil {
		s := run.Steps[i]
		if s.State == workflow.Waiting {
			if err := v.changedSince(workflow.CodeStepNotWaiting, form, itoa(s.Generation)); err != nil {
				return result{}, err
			}
		}
		if reply.Data, err = answerOf(form, prefix, s.Wait.Approval.Form); err != nil {
			return result{}, err
		}
	}
	done := result{path: string(v.Path("runs", who.Namespace, id)), said: "step-rejected"}
	if approved {
		done.said = "step-approved"
		_, err = c.ApproveStep(ctx, who, id, step, reply)
	} else {
		_, err = c.RejectStep(ctx, who, id, step, reply.Note)
	}
	if edge.CodeOf(err) == workflow.CodeStepNotWaiting && reply.Note != "" {
		err = task.Errorf(workflow.CodeStepNotWaiting, "%v. %s", err, v.T("Your note was not kept."))
	}
	return done, task.Within(stepsPrefix+step, err)
}

// signalRun gives a run a signal.
func signalRun(ctx context.Context, v *visit, form url.Values) (result, error) {
	name, data := strings.TrimSpace(form.Get("name")), strings.TrimSpace(form.Get("data"))
	_, err := v.site.Control.SignalRun(ctx, v.ofPath(), v.param("id"), name, json.RawMessage(data))
	return result{path: v.parent(), said: "run-signalled"}, err
}
