package dts

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/definition"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/workflow"
	"github.com/dts-sched/dts/internal/workflow/expr"
	"github.com/dts-sched/dts/internal/workflow/text"
)

// start is the payload of a run: of a workflow that was put, by its name, or of one that it brings.
type start struct {
	named    bool
	name     string
	workflow Workflow
	params   any
}

// payload returns the JSON. Whether the workflow is valid is not looked at. Error: a *task.Error, in the words of Go.
func (s start) payload() (json.RawMessage, error) {
	params, err := paramsOf(s.params)
	if err != nil {
		return nil, err
	}
	if s.named {
		return wire.Encode(struct {
			Workflow string                     `json:"workflow"`
			Params   map[string]json.RawMessage `json:"params,omitempty"`
		}{s.name, params})
	}
	d, err := s.workflow.definition()
	if err != nil {
		return nil, s.inGo(task.Within("payload.definition", err))
	}
	written, err := text.Encode(d)
	if err != nil {
		return nil, task.Invalid("workflow", "cannot be JSON: %v", err)
	}
	if strings.Contains(written, `\ufffd`) { // in place of what is no UTF-8, unless it was so in JSON
		if _, err := workflow.Compile(d); err != nil {
			return nil, s.inGo(task.Within("payload.definition", err))
		}
	}
	return wire.Encode(struct {
		Definition json.RawMessage            `json:"definition"`
		Params     map[string]json.RawMessage `json:"params,omitempty"`
	}{wire.PlainSigns([]byte(written)), params})
}

// checkRun checks a task as package control does, if it is a run of a workflow. Error: a *task.Error, with fields such
// as "payload.definition.steps[2].when".
func checkRun(d task.Definition) error {
	if d.Type != TypeWorkflow {
		return nil
	}
	in, err := text.ParseStart(d.Namespace, d.Payload)
	if err != nil || in.Workflow != "" { // only Redis knows one that was put
		return err
	}
	if _, err := workflow.Compile(in.Definition); err != nil {
		return task.Within("payload.definition", err)
	}
	_, err = in.Definition.Bind(in.Params)
	return task.Within("payload", err)
}

// paramsOf returns the parameters of a run by name. Error: a *task.Error.
func paramsOf(v any) (params map[string]json.RawMessage, _ error) {
	raw, err := payloadOf(v)
	if err != nil {
		return nil, task.Within("params", err)
	}
	if raw != nil && json.Unmarshal(raw, &params) != nil {
		return nil, task.Invalid("params", "must be a struct or a map whose JSON is an object")
	}
	return params, nil
}

// inGo is the function inGo for a run.
func (s start) inGo(err error) error {
	var public *Error
	var inner *task.Error
	switch {
	case errors.As(err, &public):
		named := *public
		named.Field = s.field(public.Field)
		named.Message = strings.Replace(public.Message, public.Field, named.Field, 1)
		return &named
	case errors.As(err, &inner):
		named := *inner
		named.Field = s.field(inner.Field)
		return &named
	}
	return err
}

// inGo returns an error about a submission with that payload. If it is about a workflow, its field is in the words of
// Go.
func inGo(payload any, err error) error {
	if s, is := payload.(start); is && err != nil {
		return s.inGo(err)
	}
	return err
}

// field returns the name that a field of the payload has in Go.
func (s start) field(name string) string {
	around, name := "", name
	if rest, is := strings.CutPrefix(name, "task.payload."); is { // of a schedule
		around, name = "task.", "payload."+rest
	}
	if rest, is := strings.CutPrefix(name, "payload.params"); is {
		return around + "params" + rest
	}
	if name == "payload.workflow" {
		return around + "workflow"
	}
	rest, is := strings.CutPrefix(name, "payload.definition.")
	switch {
	case !is:
		return around + name
	case rest == "id": // of the run: it is too long for those of the steps
		return around + rest
	}
	for section, steps := range map[string]Steps{
		"steps": s.workflow.Steps, "on_failure": s.workflow.OnFailure, "finally": s.workflow.Finally,
	} {
		index, of, is := strings.Cut(strings.TrimPrefix(rest, section+"["), "]")
		i, err := strconv.Atoi(index)
		if is && err == nil && i < len(steps) && strings.HasPrefix(rest, section+"[") && steps[i].ID != "" {
			rest = section + "." + steps[i].ID + strings.TrimPrefix(of, ".task")
		}
	}
	return around + "workflow." + rest
}

// inGo returns an error about the definition, with a field such as "steps[2].when", with the field in the words of Go.
func (w Workflow) inGo(err error) error {
	var public *Error
	var inner *task.Error
	switch {
	case errors.As(err, &public) && public.Field != "":
		within := *public
		within.Field = "payload.definition." + public.Field
		within.Message = strings.Replace(public.Message, public.Field, within.Field, 1)
		return start{workflow: w}.inGo(&within)
	case errors.As(err, &inner):
		return start{workflow: w}.inGo(task.Within("payload.definition", err))
	}
	return err
}

// definition returns the workflow as package workflow has it. Error: a *task.Error, with fields such as "steps[2].set".
func (w Workflow) definition() (workflow.Definition, error) {
	d := workflow.Definition{
		Ref: task.Ref{Namespace: task.DefaultNamespace}, Description: w.Description, Owner: w.Owner,
		Labels: maps.Clone(w.Labels), Failure: workflow.Failure(w.Failure), AtOnce: w.AtOnce, Deadline: w.Deadline,
		Closing: w.Closing, Retention: w.Retention, MaxRuns: w.MaxRuns,
	}
	var errs []error
	params, err := parametersOf("params", w.Params)
	d.Params, errs = params, append(errs, err)
	for _, section := range []struct {
		name string
		in   Steps
		out  *[]workflow.Step
	}{{"steps", w.Steps, &d.Steps}, {"on_failure", w.OnFailure, &d.OnFailure}, {"finally", w.Finally, &d.Finally}} {
		for i, s := range section.in {
			step, err := s.definition()
			errs = append(errs, task.Within(fmt.Sprintf("%s[%d]", section.name, i), err))
			*section.out = append(*section.out, step)
		}
	}
	output, err := jsonOf("output", w.Output)
	d.Output = output
	return d, task.Join(append(errs, err)...)
}

// parametersOf returns parameters, sorted by their names. Error: a *task.Error, with fields such as
// "params.day.enum[0]".
func parametersOf(field string, in map[string]Parameter) (out []workflow.Param, _ error) {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(in)) {
		p, err := in[name].definition(name)
		errs = append(errs, task.Within(field+"."+name, err))
		out = append(out, p)
	}
	return out, task.Join(errs...)
}

// definition returns what a step waits for. Error: a *task.Error.
func (w Wait) definition() (*workflow.Wait, error) {
	out := &workflow.Wait{
		For: w.For, Until: w.Until, Signal: w.Signal, Timeout: w.Timeout, OnTimeout: workflow.OnTimeout(w.OnTimeout),
	}
	if w.Approval == nil {
		return out, nil
	}
	form, err := parametersOf("form", w.Approval.Form)
	out.Approval = &workflow.Approval{By: slices.Clone(w.Approval.By), Form: form}
	return out, task.Within("approval", err)
}

// definition returns the parameter. Error: a *task.Error.
func (p Parameter) definition(name string) (out workflow.Param, _ error) {
	out = workflow.Param{
		Name: name, Type: expr.Type(p.Type), Required: p.Required, Pattern: p.Pattern, Min: p.Min, Max: p.Max,
	}
	var errs []error
	for i, v := range p.Enum {
		raw, err := wire.Encode(v)
		if err != nil {
			err = task.Invalid(fmt.Sprintf("enum[%d]", i), "cannot be JSON: %v", err)
		}
		errs = append(errs, err)
		out.Enum = append(out.Enum, raw)
	}
	value, err := jsonOf("default", p.Default)
	out.Default = value
	return out, task.Join(append(errs, err)...)
}

// jsonOf returns a value as JSON, nil for none. Error: a *task.Error for the field.
func jsonOf(field string, v any) (json.RawMessage, error) {
	if v == nil {
		return nil, nil
	}
	raw, err := wire.Encode(v)
	if err != nil {
		return nil, task.Invalid(field, "cannot be JSON: %v", err)
	}
	return raw, nil
}

// definition returns the step. Error: a *task.Error.
func (s Step) definition() (workflow.Step, error) {
	out := workflow.Step{
		ID: s.ID, Needs: slices.Clone(s.Needs), Rule: workflow.Rule(s.Rule), When: s.When, AllowFailure: s.AllowFailure,
	}
	for _, c := range s.Decide {
		out.Decide = append(out.Decide, workflow.Choice{When: c.When, Then: slices.Clone(c.Then)})
	}
	if s.Wait != nil {
		var err error
		if out.Wait, err = s.Wait.definition(); err != nil {
			return out, task.Within("wait", err)
		}
	}
	if (len(s.Decide) > 0 || s.Wait != nil) && s.Type == "" {
		return out, nil
	}
	payload, err := s.payload()
	if err != nil {
		return out, task.Within("task", err)
	}
	in, err := Submission{
		Type: s.Type, Queue: s.Queue, Timeout: s.Timeout, Retry: s.Retry, Owner: s.Owner, Labels: s.Labels,
		StartBy: s.StartBy, Priority: s.Priority, FairKey: s.FairKey, FairWeight: s.FairWeight, LimitKey: s.LimitKey,
		Cost: s.Cost, Slots: s.Slots, Select: s.Select, Prefer: s.Prefer, Route: s.Route,
	}.wire()
	if err == nil {
		var d task.Definition
		d, err = definition.Task(in)
		d.Payload = payload
		out.Task = &d
	}
	return out, task.Within("task", err)
}

// payload returns the payload with the expressions of Set in it. Error: a *task.Error.
func (s Step) payload() (json.RawMessage, error) {
	raw, err := payloadOf(s.Payload)
	if err != nil || len(s.Set) == 0 {
		return raw, err
	}
	fields := map[string]any{}
	if len(raw) > 0 {
		decoder := json.NewDecoder(bytes.NewReader(raw))
		decoder.UseNumber()
		if err := decoder.Decode(&fields); err != nil {
			return nil, task.Invalid("set", "needs a payload whose JSON is an object")
		}
	}
	for _, path := range slices.Sorted(maps.Keys(s.Set)) {
		names := strings.Split(path, ".")
		at := fields
		for i, name := range names[:len(names)-1] {
			inner, is := at[name].(map[string]any)
			switch {
			case at[name] == nil:
				inner = map[string]any{}
			case !is:
				return nil, task.Invalid("set", "%s is no object of the payload", strings.Join(names[:i+1], "."))
			}
			at[name], at = inner, inner
		}
		at[names[len(names)-1]] = s.Set[path]
	}
	return wire.Encode(fields)
}
