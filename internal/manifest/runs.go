package manifest

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/workflow/words"
)

// Ref is the name of a workflow or schedule.
type Ref struct{ Namespace, ID string }

// Ref returns the name of the entry.
func (e *Entry) Ref() Ref { return Ref{e.Namespace, e.ID} }

// runPayload is the payload of a run of a workflow.
type runPayload struct {
	Workflow   string          `json:"workflow,omitempty"`
	Definition json.RawMessage `json:"definition,omitempty"`
	Params     json.RawMessage `json:"params,omitempty"`
}

// readTask returns the fields of a schedule that has "workflow: {id, params}" with the task that this stands for.
func (e *Entry) readTask(r *yamlReader, body []yamlPair) []yamlPair {
	at := func(name string) int {
		return slices.IndexFunc(body, func(p yamlPair) bool { return p.key == name })
	}
	workflow, own := at("workflow"), at("task")
	switch {
	case workflow < 0 && own < 0:
		r.complain(e.node, below(e.path, "task"), "is missing")
		return body
	case workflow < 0:
		return body
	case own >= 0:
		r.complain(body[workflow].node, below(e.path, "workflow"), "stands for a task: give one of them, not both")
		return body
	}
	e.short = true
	var run struct {
		ID     string          `json:"id"`
		Params json.RawMessage `json:"params"`
	}
	_ = json.Unmarshal(body[workflow].raw, &run) // the reader has complained already
	payload, _ := wire.Encode(runPayload{Workflow: run.ID, Params: run.Params})
	body[workflow].key = "task"
	body[workflow].raw = objectOf([]yamlPair{
		{key: "type", raw: quoted(task.WorkflowType)}, {key: "payload", raw: payload},
	})
	return body
}

// shortField returns what a field of the API is called in a schedule that has "workflow: {id, params}".
func shortField(field string) string {
	switch rest, is := strings.CutPrefix(field, "task.payload."); {
	case is && strings.HasPrefix(rest, "params"):
		return "workflow." + rest
	case is && rest == "workflow":
		return "workflow.id"
	case field == "task" || strings.HasPrefix(field, "task."):
		return "workflow"
	}
	return field
}

// Runs returns the name of the workflow that a schedule or task runs. It returns false if there is none.
func (e *Entry) Runs() (Ref, bool) {
	_, _, run := e.start()
	return Ref{e.Namespace, run.Workflow}, run.Workflow != ""
}

// start returns the fields of the entry, those of its task, and what this runs, if it is a run of a workflow.
func (e *Entry) start() (body, of map[string]json.RawMessage, run runPayload) {
	if json.Unmarshal(e.Body, &body) != nil {
		return nil, nil, run
	}
	if e.Kind != KindSchedule {
		of = body
	} else if json.Unmarshal(body["task"], &of) != nil {
		return nil, nil, run
	}
	if textOf(of["type"]) == task.WorkflowType {
		_ = json.Unmarshal(of["payload"], &run) // what has another form, names no workflow
	}
	return body, of, run
}

// RunPayload returns the payload of the task of an entry for which Runs returns true.
func (e *Entry) RunPayload() json.RawMessage {
	_, of, _ := e.start()
	return of["payload"]
}

// WithParamsOf returns the body of an entry for which Runs returns true, with a definition in place of the name of its
// workflow that has the parameters of the workflow, and nothing else of it. So the server can check the entry before
// the workflow is put.
func (e *Entry) WithParamsOf(workflow *Entry) (json.RawMessage, error) {
	definition, err := paramsOnly(workflow.Body)
	if err != nil {
		return nil, err
	}
	body, of, run := e.start()
	if err := labelRun(of, run.Workflow); err != nil {
		return nil, err
	}
	run.Workflow, run.Definition = "", definition
	of["payload"], err = wire.Encode(run)
	if err == nil && e.Kind == KindSchedule {
		body["task"], err = wire.Encode(of)
	}
	if err != nil {
		return nil, err
	}
	return wire.Encode(body)
}

// paramsOnly returns a definition that has the parameters of another one, and a step.
func paramsOnly(definition json.RawMessage) (json.RawMessage, error) {
	d := words.Workflow{}
	if err := json.Unmarshal(definition, &d); err != nil {
		return nil, err
	}
	return wire.Encode(words.Workflow{Params: d.Params, Steps: []words.Step{{ID: "a", Task: &words.Task{Type: "noop"}}}})
}

// labelRun adds the label that the server gives to a run of a workflow.
func labelRun(of map[string]json.RawMessage, workflow string) (err error) {
	labels := make(map[string]string)
	if raw := of["labels"]; raw != nil {
		if err := json.Unmarshal(raw, &labels); err != nil {
			return err
		}
	}
	if _, has := labels[task.WorkflowType]; !has && len(labels) < task.LabelsLimit {
		labels[task.WorkflowType] = workflow
	}
	of["labels"], err = wire.Encode(labels)
	return err
}
