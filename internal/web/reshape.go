package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/edge"
	"github.com/dts-sched/dts/internal/manifest"
	"github.com/dts-sched/dts/internal/task"
)

// Some buttons of a form ask for another form: for another type, or for fields instead of a text. Such a form is shown
// with what was typed, and nothing else is done.

// The names of these buttons.
const (
	showType    = "show_type"    // its value is a type, or otherType
	showPayload = "show_payload" // its value is asJSON or asFields
	showText    = "show_text"    // of a new schedule in fields
)

// How a payload is typed. Fields can also have a whole schedule.
const (
	asJSON   = "json"
	asFields = "fields"
	asYAML   = "yaml" // of the address: a new schedule is written as text
)

// reshape makes the form that the pressed button asks for. It returns false if the button is none of these.
func (v *visit) reshape() bool {
	form := v.form
	var err error
	switch {
	case form.Has(showType):
		v.retype(form.Get(showType))
	case form.Has(showText):
		err = v.fieldsAsText()
	case form.Get(showPayload) == asJSON:
		err = v.payloadAsJSON()
	case form.Get(showPayload) == asFields && form.Has("text"):
		err = v.textAsFields()
	case form.Get(showPayload) == asFields:
		err = v.payloadAsFields()
	default:
		return false
	}
	form.Del(showType)
	form.Del(showPayload)
	form.Del(showText)
	form.Del("from") // its payload is that of the task of which it was a copy
	var wrong *task.Error
	if errors.As(err, &wrong) {
		v.problem = &edge.Problem{Status: http.StatusUnprocessableEntity, Detail: wrong.Error(), Field: wrong.Field}
	}
	return true
}

// retype gives the form another type. A payload that is typed as JSON stays.
func (v *visit) retype(name string) {
	v.form.Del("other")
	if name == otherType {
		name = ""
		v.form.Set("other", "true")
	}
	v.form.Set("type", name)
	if strings.TrimSpace(v.form.Get("payload")) == "" {
		v.form.Set("as", asFields)
	}
}

// payloadAsJSON makes JSON of the fields of the payload. Error: CodeInvalid.
func (v *visit) payloadAsJSON() error {
	fields := v.payloadFields(v.form.Get("type"))
	payload, err := v.payloadOf(fields, v.form.Get)
	if err != nil {
		return err
	}
	for _, f := range fields {
		v.form.Del(payloadPrefix + f.Name)
	}
	v.form.Set("as", asJSON)
	v.form.Set("payload", pretty(payload))
	return nil
}

// payloadAsFields has the fields of the type show the payload. Error: CodeInvalid.
func (v *visit) payloadAsFields() error {
	typed, known := map[string]string{}, true
	if text := strings.TrimSpace(v.form.Get("payload")); text != "" {
		typed, known = v.typedAs(v.payloadFields(v.form.Get("type")), json.RawMessage(text))
	}
	if !known {
		return v.invalid("payload", v.T("the fields of the type cannot have all of it"))
	}
	v.form.Set("as", asFields)
	v.form.Del("payload")
	for name, text := range typed {
		v.form.Set(name, text)
	}
	return nil
}

// fieldsAsText makes a text of the fields of a new schedule. Error: CodeInvalid.
func (v *visit) fieldsAsText() error {
	text, err := v.typedText()
	if err == nil {
		v.form.Set("text", text)
	}
	return err
}

// textAsFields has fields show the schedule of the text. Fields that were not typed into need no text. Error:
// CodeInvalid.
func (v *visit) textAsFields() error {
	if v.text() == v.firstText() {
		v.form.Del("text")
		return nil
	}
	before := v.form
	read := newScheduleEdit()
	read.Text = v.text()
	entry, err := v.readText(read)
	if err != nil || entry == nil {
		return v.invalid("", v.T("The text cannot be read: check it first."))
	}
	d, err := manifest.DocumentOf(read.definition, read.options.Paused != nil && *read.options.Paused)
	if err != nil {
		return err
	}
	v.form = maps.Clone(before)
	v.form.Del("text")
	v.typeIn(d)
	lacking, err := v.lacking(d)
	if err == nil && len(lacking) > 0 {
		err = v.invalid("", v.T("The fields cannot have %s of this text.", v.List(lacking)))
	}
	if err != nil {
		v.form = before
	}
	return err
}

// lacking are the names of what a document says of its schedule, and the fields of the form into which it was typed do
// not. Error: CodeInvalid.
func (v *visit) lacking(d manifest.Document) (names []string, _ error) {
	typed, err := v.typedDocument()
	if err != nil {
		return nil, err
	}
	want, err := wire.Encode(d.Schedules[0])
	if err != nil {
		return nil, err
	}
	got, err := wire.Encode(typed.Schedules[0])
	if err != nil {
		return nil, err
	}
	changes, err := manifest.Changes(want, got)
	for _, c := range changes {
		name, _, of := strings.Cut(c.Name, "labels.") // one of many
		if of {
			name += "labels"
		}
		names = append(names, name)
	}
	if wire.Value(d.Schedules[0].Paused) {
		names = append(names, "paused")
	}
	return slices.Compact(names), err
}

// typeIn types the schedule of a document into the fields of the form, as far as they can have it.
func (v *visit) typeIn(d manifest.Document) {
	s := d.Schedules[0]
	t, retry, misfire := s.Task, wire.Value(s.Task.Retry), wire.Value(s.Misfire)
	values := map[string]string{
		"id": s.ID, "namespace": d.Namespace, "every": textIn(s.Every), "cron": textIn(s.Cron),
		"timezone": textIn(s.Timezone), "queue": textIn(t.Queue), "type": t.Type, "as": asFields,
		"overlap": textIn(s.Overlap), "misfire.policy": textIn(misfire.Policy), "owner": textIn(s.Owner),
		"timeout": textIn(t.Timeout), "retention": textIn(t.Retention), "start_by": textIn(t.StartBy),
		"retry.max_attempts": numberText(wire.Value(retry.MaxAttempts)), "on_end": "",
		"priority": numberText(wire.Value(t.Priority)), "fair_key": wire.Value(t.FairKey),
		"fair_weight": numberText(wire.Value(t.FairWeight)), "limit_key": wire.Value(t.LimitKey),
		"cost": numberText(wire.Value(t.Cost)),
	}
	maps.Copy(values, reachTexts(t.Select, t.Prefer, t.Route, t.Slots))
	values["retry.delays"] = strings.Join(retry.Delays, ", ")
	if t.OnEnd != nil {
		raw, _ := json.Marshal(t.OnEnd) // of texts, numbers and JSON
		values["on_end"] = pretty(raw)
	}
	fields := v.payloadFields(t.Type)
	typed, known := v.typedAs(fields, t.Payload)
	if len(fields) == 0 || !known {
		values["as"], values["payload"] = asJSON, pretty(t.Payload)
	}
	maps.Copy(values, typed)
	for name, text := range values {
		v.form.Set(name, text)
	}
	if v.form.Del("other"); !slices.Contains(formTypes, t.Type) {
		v.form.Set("other", "true")
	}
}

// textIn is a field that may be left out, as it is typed; "" if it was.
func textIn[T ~string](field *T) string { return string(wire.Value(field)) }

// firstText is what a new schedule begins with as text.
func (v *visit) firstText() string {
	return fmt.Sprintf(firstText, strconv.Quote(v.namespaceOfNew()), v.zone)
}

// keptFields are fields of payloads of other types, which the form keeps until the reader comes back to these types.
func (v *visit) keptFields(shown ...[]formField) (kept []hiddenField) {
	for _, name := range slices.Sorted(maps.Keys(v.form)) {
		isShown := func(f formField) bool { return f.Name == name }
		if strings.HasPrefix(name, payloadPrefix) && !slices.ContainsFunc(slices.Concat(shown...), isShown) {
			kept = append(kept, hiddenField{name, v.form.Get(name)})
		}
	}
	return kept
}
