package web

import (
	"cmp"
	"context"
	"encoding/json"
	"html/template"
	"net/url"
	"strings"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/workflow"
	"github.com/dts-sched/dts/internal/workflow/expr"
)

// workflowStart is what the page shows that starts a run of a workflow.
type workflowStart struct {
	workflow.Stored
	Fields []formField // of its params
	When   []formField
}

// Can reports whether the form, sent again, starts another run: not with the id of one.
func (s workflowStart) Can(string) bool {
	return s.When[0].Value == ""
}

// shownValue is how many bytes of a value are shown beside a field, or in it before somebody types.
const shownValue = 60

// paramPrefix is before the names of params in a form, as in errors.
const paramPrefix = payloadPrefix + "params."

func readWorkflowStart(ctx context.Context, v *visit) (any, string, error) {
	v.who = v.ofPath()
	s, err := v.site.Control.GetWorkflow(ctx, v.who, v.param("id"))
	if err != nil {
		return nil, "", err
	}
	o := workflowStart{Stored: s}
	for _, p := range s.Params {
		o.Fields = append(o.Fields, v.paramField(paramPrefix+p.Name, p))
	}
	o.When = []formField{
		v.typedField(formField{Name: "id", Label: v.T("Id"), Hint: v.T("one is drawn")}),
		v.typedField(formField{Name: "due", Label: v.whenLabel(), Hint: v.T("now")}),
		v.typedField(formField{Name: "owner", Label: v.T("Owner")}),
	}
	return o, string(v.T("Run %s", s.ID)), nil
}

// paramField is the field for a param.
func (v *visit) paramField(name string, p workflow.Param) formField {
	f := formField{
		Name: name, Label: escaped(p.Name), Note: v.paramNote(p), Long: p.Type == expr.List || p.Type == expr.Object,
	}
	if p.Default != nil {
		f.Hint = escaped(task.Cut(paramText(p, p.Default), shownValue))
	}
	f.Required, f.Wide = p.Required && !f.Long, f.Long
	return v.typedField(f)
}

// typedField is a field with what was typed into it, and what is wrong with that.
func (v *visit) typedField(f formField) formField {
	v.label(f.Name, f.Label)
	f.Value, f.Wrong = v.Typed(f.Name, ""), v.Wrong(f.Name)
	if f.Name == "due" {
		f.Wrong = cmp.Or(f.Wrong, v.Wrong("delay"), v.Wrong("run_at"))
	}
	return f
}

// paramText is a value of a param as somebody types it.
func paramText(p workflow.Param, raw json.RawMessage) string {
	var text string
	if p.Type == expr.String && json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}

// paramNote says what a param may be.
func (v *visit) paramNote(p workflow.Param) template.HTML {
	said := v.paramType(p.Type)
	if p.Required {
		said += "; " + v.T("needed")
	}
	if len(p.Enum) > 0 {
		var values []string
		for _, raw := range p.Enum[:min(len(p.Enum), 10)] {
			values = append(values, task.Cut(paramText(p, raw), shownValue))
		}
		said += "; " + v.T("one of %s", v.List(values))
	}
	if p.Pattern != "" {
		said += "; " + v.T("like %s", code(p.Pattern))
	}
	if p.Min != nil {
		said += "; " + v.T("from %s", trimmed(*p.Min))
	}
	if p.Max != nil {
		said += "; " + v.T("up to %s", trimmed(*p.Max))
	}
	return said
}

// trimmed is a number without zeros at its end.
func trimmed(n float64) string {
	text, _ := json.Marshal(n) // of a number of a definition, which is finite
	return string(text)
}

// paramType is a type of params in words.
func (v *visit) paramType(t expr.Type) template.HTML {
	switch t {
	case expr.String:
		return v.T("a text")
	case expr.Integer:
		return v.T("a whole number")
	case expr.Number:
		return v.T("a number")
	case expr.Boolean:
		return v.T("true or false")
	case expr.List:
		return v.T("a list, as JSON")
	}
	return v.T("an object, as JSON")
}

// typedParam is the value of a param that was typed; nil for nothing.
func typedParam(p workflow.Param, text string) (json.RawMessage, error) {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	if p.Type != expr.String {
		text = strings.TrimSpace(text)
	}
	raw := json.RawMessage(text)
	switch {
	case text == "":
		return nil, nil
	case p.Type == expr.String || !json.Valid(raw): // the definition says what is wrong with that
		return wire.Encode(text)
	}
	return raw, nil
}

// startWorkflow starts a run with what was typed. A field that is empty is left out.
func startWorkflow(ctx context.Context, v *visit, form url.Values) (result, error) {
	who, get := v.ofPath(), func(name string) string { return strings.TrimSpace(form.Get(name)) }
	s, err := v.site.Control.GetWorkflow(ctx, who, v.param("id"))
	if err != nil {
		return result{}, err
	}
	params := wire.RunParams{}
	for _, p := range s.Params {
		raw, err := typedParam(p, form.Get(paramPrefix+p.Name))
		if err != nil {
			return result{}, err
		}
		if raw != nil {
			params[p.Name] = raw
		}
	}
	payload, err := wire.Encode(struct {
		Workflow string         `json:"workflow"`
		Params   wire.RunParams `json:"params,omitempty"`
	}{s.ID, params})
	if err != nil {
		return result{}, err
	}
	d := task.Definition{
		Ref:  task.Ref{Namespace: s.Namespace, ID: cmp.Or(get("id"), form.Get(keyField))},
		Type: task.WorkflowType, Payload: payload, Owner: get("owner"),
	}
	if err := v.setDue(&d, get("due")); err != nil {
		return result{}, err
	}
	made, err := v.site.Control.SubmitRun(ctx, who, d, false)
	if err != nil {
		return result{}, err
	}
	said := "run-started"
	if made.Existed && d.ID != v.who.Key {
		said = "run-there-before"
	}
	return result{path: string(v.Path("runs", made.Task.Namespace, made.Task.ID)), said: said}, nil
}
