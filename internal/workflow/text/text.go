// Package text reads and writes definitions of workflows as files have them.
package text

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/workflow"
	"github.com/dts-sched/dts/internal/workflow/expr"
	"github.com/dts-sched/dts/internal/workflow/words"
)

// Start is what the payload of a run says: what it runs, by name or as a definition, and with which parameters.
type Start struct {
	Workflow   string // the id of a workflow that was put; "": Definition
	Definition workflow.Definition
	Params     map[string]json.RawMessage
}

// ParseStart reads the payload of a run in a namespace. workflow.Compile checks the definition. Error: CodeInvalid,
// with the fields, as "payload.definition.deadline".
func ParseStart(namespace string, payload []byte) (Start, error) {
	var text struct {
		Workflow   string                     `json:"workflow,omitempty"`
		Definition *words.Workflow            `json:"definition,omitempty"`
		Params     map[string]json.RawMessage `json:"params,omitempty"`
	}
	if err := decode(payload, &text); err != nil {
		return Start{}, task.Invalid("payload", "%s", err)
	}
	start := Start{Workflow: text.Workflow, Params: text.Params}
	switch {
	case (text.Definition == nil) == (text.Workflow == ""):
		return start, task.Invalid("payload", "has either workflow, the id of one that was put, or definition")
	case text.Workflow != "":
		var invalid *task.Error
		if errors.As(workflow.ValidateID(text.Workflow), &invalid) {
			return start, task.Invalid("payload.workflow", "%s", invalid.Message)
		}
		return start, nil
	}
	var err error
	start.Definition, err = definitionOf(*text.Definition, namespace)
	return start, task.Within("payload.definition", err)
}

// WorkflowOf returns the id of the workflow that was put and that a task runs; "" if it runs none.
func WorkflowOf(d task.Definition) string {
	var start struct {
		Workflow string `json:"workflow"`
	}
	if d.Type != task.WorkflowType || json.Unmarshal(d.Payload, &start) != nil {
		return ""
	}
	return start.Workflow
}

// Parse reads a definition as files have it, as JSON. Error: CodeInvalid, with the fields.
func Parse(namespace, text string) (workflow.Definition, error) {
	var in words.Workflow
	if err := decode([]byte(text), &in); err != nil {
		return workflow.Definition{}, task.Invalid("definition", "%s", err)
	}
	return definitionOf(in, namespace)
}

// planText is the definition that a run has, with the name of its workflow and its revision; "" and 0 if it has none.
type planText struct {
	Workflow   string         `json:"workflow,omitempty"`
	Revision   int            `json:"revision,omitempty"`
	Definition words.Workflow `json:"definition"`
}

// EncodePlan writes the definition that a run has from its begin on, and the revision of its workflow that it is.
func EncodePlan(d workflow.Definition, revision int) (string, error) {
	text, err := json.Marshal(planText{d.ID, revision, textOf(d)})
	return string(text), err
}

// ParsePlan reads what EncodePlan wrote. Error: CodeInvalid, with the fields.
func ParsePlan(namespace, text string) (_ workflow.Definition, revision int, _ error) {
	var in planText
	if err := decode([]byte(text), &in); err != nil {
		return workflow.Definition{}, 0, task.Invalid("definition", "%s", err)
	}
	d, err := definitionOf(in.Definition, namespace)
	d.ID = in.Workflow
	return d, in.Revision, err
}

// StepIDs returns the ids of the steps of a plan, in the order of workflow.Flow, as far as they can be read. Unlike
// ParsePlan, it also reads plans that have words of a later release.
func StepIDs(plan string) (ids []string) {
	type steps []struct {
		ID string `json:"id"`
	}
	var in struct {
		Definition struct {
			Steps     steps `json:"steps"`
			OnFailure steps `json:"on_failure"`
			Finally   steps `json:"finally"`
		} `json:"definition"`
	}
	if json.Unmarshal([]byte(plan), &in) != nil {
		return nil
	}
	for _, s := range slices.Concat(in.Definition.Steps, in.Definition.OnFailure, in.Definition.Finally) {
		ids = append(ids, s.ID)
	}
	return ids
}

// decode reads JSON whose fields must all be known.
func decode(text []byte, to any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(to); err != nil {
		return fmt.Errorf("cannot be read: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}

// reader collects the errors of a definition.
type reader struct{ errs []error }

func (r *reader) span(field, text string) time.Duration { return r.note(task.ParseSpan(field, text)) }

func (r *reader) duration(field, text string) time.Duration {
	return r.note(task.ParseDuration(field, text))
}

// note returns a duration, and keeps the error with which it was read.
func (r *reader) note(d time.Duration, err error) time.Duration {
	if err != nil {
		r.errs = append(r.errs, err)
	}
	return d
}

// definitionOf is the workflow, without an id. Error: CodeInvalid for durations.
func definitionOf(in words.Workflow, namespace string) (workflow.Definition, error) {
	var r reader
	d := workflow.Definition{
		Ref: task.Ref{Namespace: namespace}, Owner: in.Owner, Description: in.Description, Labels: in.Labels,
		Failure: workflow.Failure(in.Failure), Deadline: r.span("deadline", in.Deadline),
		Closing: r.span("closing", in.Closing), Retention: r.span("retention", in.Retention), AtOnce: in.AtOnce,
		MaxRuns: in.MaxRuns, Output: in.Output,
	}
	d.Params = paramsOf(in.Params)
	for _, list := range []struct {
		name string
		in   []words.Step
		out  *[]workflow.Step
	}{{"steps", in.Steps, &d.Steps}, {"on_failure", in.OnFailure, &d.OnFailure}, {"finally", in.Finally, &d.Finally}} {
		for i, s := range list.in {
			step, err := stepOf(s)
			r.errs = append(r.errs, task.Within(fmt.Sprintf("%s[%d]", list.name, i), err))
			*list.out = append(*list.out, step)
		}
	}
	return d, task.Join(r.errs...)
}

// paramsOf are declarations, sorted by their names.
func paramsOf(in map[string]words.Param) (out []workflow.Param) {
	for _, name := range slices.Sorted(maps.Keys(in)) {
		p := in[name]
		out = append(out, workflow.Param{
			Name: name, Type: expr.Type(p.Type), Required: p.Required, Default: p.Default, Enum: p.Enum,
			Pattern: p.Pattern, Min: p.Min, Max: p.Max,
		})
	}
	return out
}

// stepOf is the step. Error: CodeInvalid for durations and where it may run, in fields such as "task.timeout".
func stepOf(in words.Step) (workflow.Step, error) {
	s := workflow.Step{
		ID: in.ID, Needs: in.Needs, Rule: workflow.Rule(in.Rule), When: in.When, AllowFailure: in.AllowFailure,
	}
	for _, c := range in.Decide {
		s.Decide = append(s.Decide, workflow.Choice{When: c.When, Then: c.Then})
	}
	if in.Wait != nil {
		var err error
		if s.Wait, err = ParseWait(*in.Wait); err != nil {
			return s, task.Within("wait", err)
		}
	}
	t := in.Task
	if t == nil {
		return s, nil
	}
	var r reader
	s.Task = &task.Definition{
		Type: t.Type, Queue: t.Queue, Payload: t.Payload, Timeout: r.span("timeout", t.Timeout), Retry: r.retry(t.Retry),
		Owner: t.Owner, Labels: t.Labels, StartBy: r.span("start_by", t.StartBy), Priority: t.Priority,
		FairKey: t.FairKey, FairWeight: t.FairWeight, LimitKey: t.LimitKey, Cost: t.Cost,
	}
	r.reach(s.Task, t)
	return s, task.Within("task", task.Join(r.errs...))
}

func (r *reader) retry(in *words.Retry) (out task.Retry) {
	if in == nil {
		return out
	}
	out.MaxAttempts, out.MaxElapsed = in.MaxAttempts, r.span("retry.max_elapsed", in.MaxElapsed)
	if b := in.Backoff; b != nil {
		out.Backoff = task.Backoff{
			Initial: r.span("retry.backoff.initial", b.Initial), Factor: b.Factor,
			Max: r.span("retry.backoff.max", b.Max), Jitter: b.Jitter,
		}
	}
	for i, delay := range in.Delays {
		out.Delays = append(out.Delays, r.duration(fmt.Sprintf("retry.delays[%d]", i), delay))
	}
	return out
}

// Encode writes a definition as JSON that Parse reads.
func Encode(d workflow.Definition) (string, error) {
	text, err := json.Marshal(textOf(d))
	return string(text), err
}

func textOf(d workflow.Definition) words.Workflow {
	out := words.Workflow{
		Description: d.Description, Owner: d.Owner, Labels: d.Labels, Failure: string(d.Failure), Deadline: span(d.Deadline),
		Closing: span(d.Closing), Retention: span(d.Retention), AtOnce: d.AtOnce, MaxRuns: d.MaxRuns, Output: d.Output,
		Steps: textsOf(d.Steps), OnFailure: textsOf(d.OnFailure), Finally: textsOf(d.Finally),
	}
	out.Params = textsOfParams(d.Params)
	return out
}

func textsOfParams(params []workflow.Param) map[string]words.Param {
	if len(params) == 0 {
		return nil
	}
	out := make(map[string]words.Param, len(params))
	for _, p := range params {
		out[p.Name] = words.Param{
			Type: string(p.Type), Required: p.Required, Default: p.Default, Enum: p.Enum, Pattern: p.Pattern, Min: p.Min,
			Max: p.Max,
		}
	}
	return out
}

// span writes a duration as people do, 10m rather than 10m0s; "" for 0.
func span(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return task.FormatDuration(d)
}

// retryOf writes a policy; nil for the default.
func retryOf(r task.Retry) *words.Retry {
	out := words.Retry{MaxAttempts: r.MaxAttempts, MaxElapsed: span(r.MaxElapsed)}
	if b := r.Backoff; b != (task.Backoff{}) {
		out.Backoff = &words.Backoff{Initial: span(b.Initial), Factor: b.Factor, Max: span(b.Max), Jitter: b.Jitter}
	}
	for _, d := range r.Delays {
		out.Delays = append(out.Delays, d.String())
	}
	if out.MaxAttempts == 0 && out.MaxElapsed == "" && out.Backoff == nil && out.Delays == nil {
		return nil
	}
	return &out
}

func textsOf(steps []workflow.Step) (out []words.Step) {
	for _, s := range steps {
		text := words.Step{
			ID: s.ID, Needs: s.Needs, Rule: string(s.Rule), When: s.When, AllowFailure: s.AllowFailure,
		}
		for _, c := range s.Decide {
			text.Decide = append(text.Decide, words.Choice{When: c.When, Then: c.Then})
		}
		text.Wait = textOfWait(s.Wait)
		if t := s.Task; t != nil {
			text.Task = &words.Task{
				Type: t.Type, Queue: t.Queue, Payload: t.Payload, Timeout: span(t.Timeout), Retry: retryOf(t.Retry),
				Owner: t.Owner, Labels: t.Labels, StartBy: span(t.StartBy), Priority: t.Priority, FairKey: t.FairKey,
				FairWeight: t.FairWeight, LimitKey: t.LimitKey, Cost: t.Cost,
			}
			reachOf(text.Task, t)
		}
		out = append(out, text)
	}
	return out
}
