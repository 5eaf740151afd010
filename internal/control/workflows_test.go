package control

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/workflow"
)

// twoSteps is a workflow, which has a param.
func twoSteps(deadline string) json.RawMessage {
	const text = `{"params": {"day": {"type": "string", "required": true}}, "deadline": %q, "steps": [
		{"id": "extract", "task": {"type": "noop"}},
		{"id": "load", "needs": ["extract"], "task": {"type": "noop", "payload": {"day": "${{ params.day }}"}}}]}`
	return fmt.Appendf(nil, text, deadline)
}

// newFlowWorld is a world whose nodes all know workflows.
func newFlowWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	testkit.Must(t, w.store.Advance(w.ctx, func(context.Context) ([]cluster.Node, error) { return nil, nil }))
	return w
}

func TestWorkflows_ArePutLikeSchedules(t *testing.T) {
	t.Parallel()
	w := newFlowWorld(t)
	for i, c := range []struct {
		deadline string
		o        PutOptions
		code     task.Code
		revision int
		created  bool
		changed  bool
	}{
		{"1h", PutOptions{IfMatch: 1}, workflow.CodeChanged, 0, false, false},
		{"1h", PutOptions{DryRun: true}, "", 1, true, true},
		{"1h", PutOptions{IfAbsent: true}, "", 1, true, true},
		{"60m", PutOptions{}, "", 1, false, false},
		{"2h", PutOptions{IfAbsent: true}, workflow.CodeChanged, 0, false, false},
		{"2h", PutOptions{IfMatch: 1}, "", 2, false, true},
		{"3h", PutOptions{IfMatch: 1}, workflow.CodeChanged, 0, false, false},
		{"nothing", PutOptions{}, task.CodeInvalid, 0, false, false},
	} {
		put, err := w.PutWorkflow(w.ctx, me, "etl", twoSteps(c.deadline), c.o)
		if c.code != "" {
			if task.CodeOf(err) != c.code {
				t.Fatalf("%d: %v, want %s", i, err, c.code)
			}
			continue
		}
		if err != nil || put.Workflow.Revision != c.revision || put.Created != c.created || put.Changed != c.changed {
			t.Fatalf("%d: %+v, %v", i, put, err)
		}
	}
	rolled, err := w.RollbackWorkflow(w.ctx, me, "etl", 1, PutOptions{})
	if err != nil || rolled.Workflow.Revision != 3 || rolled.Workflow.EffectiveDeadline().Hours() != 1 {
		t.Errorf("rolled back: %+v, %v", rolled, err)
	}
	history, err := w.ListWorkflowRevisions(w.ctx, me, "etl")
	testkit.Must(t, err)
	var deadlines []string
	for _, r := range history {
		deadlines = append(deadlines, fmt.Sprint(r.Number, r.Definition.Deadline))
	}
	if got := strings.Join(deadlines, " "); got != "3 1h0m0s 2 2h0m0s 1 1h0m0s" {
		t.Errorf("history: %s", got)
	}
	if _, err := w.RollbackWorkflow(w.ctx, me, "etl", 9, PutOptions{}); task.CodeOf(err) != workflow.CodeRevisionNotFound {
		t.Errorf("a revision that was never there: %v", err)
	}
}

func TestWorkflows_AreListedPausedAndDeleted(t *testing.T) {
	t.Parallel()
	w := newFlowWorld(t)
	for _, id := range []string{"a", "b", "c"} {
		_, err := w.PutWorkflow(w.ctx, me, id, twoSteps("1h"), PutOptions{})
		testkit.Must(t, err)
	}
	page, err := w.ListWorkflows(w.ctx, me, "", 2, "")
	testkit.Must(t, err)
	rest, err := w.ListWorkflows(w.ctx, me, "", 2, page.NextCursor)
	testkit.Must(t, err)
	var ids []string
	for _, one := range append(page.Workflows, rest.Workflows...) {
		ids = append(ids, one.ID)
	}
	if fmt.Sprint(ids) != "[a b c]" || len(page.Workflows) != 2 || rest.NextCursor != "" {
		t.Errorf("listed: %v, the first page has %d", ids, len(page.Workflows))
	}
	paused, err := w.PauseWorkflow(w.ctx, me, "a", "not now")
	if err != nil || paused.PausedAt.IsZero() || paused.PauseNote != "not now" {
		t.Errorf("paused: %+v, %v", paused, err)
	}
	resumed, err := w.ResumeWorkflow(w.ctx, me, "a")
	if err != nil || !resumed.PausedAt.IsZero() || resumed.PauseNote != "" {
		t.Errorf("resumed: %+v, %v", resumed, err)
	}
	w.put(daily(nil))
	for i := range usersLimit + 1 {
		w.put(daily(func(d *schedule.Definition) {
			d.ID = fmt.Sprintf("runs-%c", 'a'+i)
			d.Task = task.Definition{Type: task.WorkflowType, Payload: []byte(`{"workflow": "a", "params": {"day": ""}}`)}
		}))
	}
	_, err = w.PauseSchedule(w.ctx, me, "runs-a", "")
	testkit.Must(t, err)
	for _, remove := range []func(context.Context, Caller, string, int) (WorkflowUsers, error){
		w.PreviewDeleteWorkflow, w.DeleteWorkflow,
	} {
		if _, err := remove(w.ctx, me, "a", 7); task.CodeOf(err) != workflow.CodeChanged {
			t.Errorf("deleted at another revision: %v", err)
		}
		users, err := remove(w.ctx, me, "a", 1)
		const want = "[runs-a runs-b runs-c runs-d runs-e runs-f runs-g runs-h runs-i runs-j]"
		if err != nil || fmt.Sprint(users.Schedules) != want || !users.More {
			t.Errorf("it is run by %v, more: %t, %v", users.Schedules, users.More, err)
		}
	}
	if users, err := w.DeleteWorkflow(w.ctx, me, "b", 0); err != nil || len(users.Schedules) > 0 || users.More {
		t.Errorf("one that no schedule runs: %+v, %v", users, err)
	}
	if _, err := w.GetWorkflow(w.ctx, me, "a"); task.CodeOf(err) != workflow.CodeNotFound {
		t.Errorf("a deleted workflow: %v", err)
	}
}

// A run, and a schedule of runs, is checked as a whole before it is accepted.
func TestWorkflows_AreCheckedBeforeTheyRun(t *testing.T) {
	t.Parallel()
	w := newFlowWorld(t)
	_, err := w.PutWorkflow(w.ctx, me, "etl", twoSteps("1h"), PutOptions{})
	testkit.Must(t, err)
	for payload, want := range map[string]string{
		`{"workflow": "etl", "params": {"day": "monday"}}`:  "",
		`{"workflow": "etl"}`:                               "payload.params.day",
		`{"workflow": "etl", "params": {"d": 1, "day":""}}`: "payload.params.d",
		`{"workflow": "other"}`:                             "payload.workflow",
		`{"definition": {"steps": []}}`:                     "payload.definition.steps",
		`{"definition": {"max_runs": 1, "steps": [{"id": "a", "task": {"type": "noop"}}]}}`: "payload.definition.max_runs",
	} {
		d := task.Definition{Type: task.WorkflowType, Payload: []byte(payload)}
		_, submitted := w.Submit(w.ctx, me, d)
		_, put := w.PutSchedule(w.ctx, me, daily(func(s *schedule.Definition) { s.Task = d }), PutOptions{DryRun: true})
		for prefix, err := range map[string]error{"": submitted, "task.": put} {
			switch {
			case want == "" && err != nil:
				t.Errorf("%s is refused: %v", payload, err)
			case want != "" && (err == nil || !strings.HasPrefix(err.Error(), prefix+want+":")):
				t.Errorf("%s: %v, want an error of %s", payload, err, prefix+want)
			}
		}
	}
	run, err := w.Submit(w.ctx, me, task.Definition{
		Type: task.WorkflowType, Payload: []byte(`{"workflow": "etl", "params": {"day": ""}}`),
	})
	if err != nil || run.Task.Labels["workflow"] != "etl" || len(run.Warnings) > 0 {
		t.Errorf("a run: labels %v, warnings %v, %v", run.Task.Labels, run.Warnings, err)
	}
	_, err = w.PutWorkflow(w.ctx, me, "Ü", twoSteps("1h"), PutOptions{})
	if err == nil || !strings.Contains(err.Error(), "must be 1 to 100 characters") {
		t.Errorf("an id that is no name: %v", err)
	}
	for field, d := range map[string]task.Definition{
		"queue": {Queue: "default"}, "timeout": {Timeout: 1000}, "retry": {Retry: task.Retry{MaxAttempts: 2}},
		"id": {Ref: task.Ref{ID: strings.Repeat("x", task.IDLimit-8)}},
	} {
		d.Type, d.Payload = task.WorkflowType, []byte(`{"workflow": "etl", "params": {"day": ""}}`)
		if _, err := w.Submit(w.ctx, me, d); err == nil || !strings.HasPrefix(err.Error(), field+":") {
			t.Errorf("a run with %s: %v", field, err)
		}
	}
}

// Nodes of earlier releases drop the ends of steps, so no run begins while one lives.
func TestWorkflows_WaitForTheLayout(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if _, err := w.PutWorkflow(w.ctx, me, "etl", twoSteps("1h"), PutOptions{}); task.CodeOf(err) != task.CodeInvalid {
		t.Errorf("a workflow was put: %v", err)
	}
	d := task.Definition{Type: task.WorkflowType, Payload: []byte(`{"workflow": "etl"}`)}
	if _, err := w.Submit(w.ctx, me, d); err == nil || !strings.Contains(err.Error(), "earlier release") {
		t.Errorf("a run was accepted: %v", err)
	}
}
