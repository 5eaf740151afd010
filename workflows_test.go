package dts_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts"
	"github.com/dts-sched/dts/internal/testkit"
)

// everything is a workflow with all that Go can say of one.
func everything() dts.Workflow {
	return dts.Workflow{
		Description: "a <test>", Owner: "data", Labels: map[string]string{"team": "data"},
		Params: map[string]dts.Parameter{
			"day": {Type: dts.ParameterString, Required: true, Pattern: "2026-.*"},
			"n":   {Type: dts.ParameterInteger, Default: 2, Enum: []any{1, 2}, Min: new(1.), Max: new(2.)},
		},
		Steps: dts.Steps{
			{ID: "say", Type: "say", Payload: map[string]string{"text": "${{ params.day }}"}, Queue: "default",
				Timeout: time.Minute, Owner: "me", Labels: map[string]string{"a": "b"}, StartBy: time.Hour,
				Priority: 3, FairKey: "k", FairWeight: 2, LimitKey: "b,a", Cost: 5,
				Slots: 2, AllowFailure: true,
				Select: "name", Prefer: []dts.Preference{{Select: "zone=eu", Weight: 3}},
				Route: dts.Route{By: dts.RouteHash, Key: "k", Sticky: dts.StickyPrefer}, Retry: dts.Retry{
					MaxAttempts: 3, MaxElapsed: time.Hour, Backoff: dts.Backoff{Initial: time.Second, Factor: 2, Max: time.Minute},
				}},
			{ID: "choose", Needs: []string{"say"}, Rule: dts.RuleAllDone, When: "params.n > 0", Decide: []dts.Choice{
				{When: "params.n == 2", Then: []string{"both"}}, {Then: []string{"one"}},
			}},
			{ID: "both", Needs: []string{"choose"}, Type: "noop", Retry: dts.Retry{Delays: []time.Duration{0, time.Second}}},
			{ID: "one", Needs: []string{"choose"}, Type: "noop"},
			{ID: "ask", Needs: []string{"one"}, Wait: &dts.Wait{
				Timeout: time.Hour, OnTimeout: dts.TimeoutSkip, Approval: &dts.Approval{
					By: []string{"ops"}, Form: map[string]dts.Parameter{"n": {Type: dts.ParameterInteger, Min: new(1.)}},
				},
			}},
			{ID: "paid", Needs: []string{"one"}, Wait: &dts.Wait{Signal: "paid"}},
			{ID: "nap", Needs: []string{"say"}, Wait: &dts.Wait{For: time.Millisecond}},
			{ID: "dawn", Needs: []string{"say"}, Wait: &dts.Wait{Until: "${{ run.created }}"}},
		},
		OnFailure: dts.Steps{{ID: "alarm", Type: "noop"}}, Finally: dts.Steps{{ID: "tidy", Type: "noop"}},
		Failure: dts.FailureStop, AtOnce: 3, MaxRuns: 2, Deadline: time.Hour, Closing: time.Minute, Retention: 48 * time.Hour,
		Output: map[string]string{"said": dts.Output("say")},
	}
}

// putOnceKnown puts a workflow as soon as the fleet knows workflows.
func putOnceKnown(t *testing.T, c *dts.Client, id string, w dts.Workflow) *dts.NamedWorkflow {
	t.Helper()
	begin(t, c, dts.Workflow{Steps: dts.Steps{step("a")}}, nil)
	named, err := c.PutWorkflow(t.Context(), id, w)
	testkit.Must(t, err)
	return named
}

func TestClient_KeepsWorkflows(t *testing.T) {
	t.Parallel()
	newFlows(t).overBoth(t, func(t *testing.T, c *dts.Client) {
		ctx := t.Context()
		first := putOnceKnown(t, c, "all", everything())
		if first.Revision != 1 || first.ID != "all" || first.Namespace == "" || first.CreatedAt.IsZero() {
			t.Errorf("it was put as %+v", first)
		}
		read, err := c.GetWorkflow(ctx, "all")
		testkit.Must(t, err)
		say := read.Definition.Steps[0]
		waits := turn{say.Priority, say.FairKey, say.FairWeight, say.LimitKey, say.Cost}
		if waits != (turn{3, "k", 2, "b,a", 5}) {
			t.Errorf("the first step is read with %+v", waits)
		}
		wanted := everything().Steps[0]
		want, got := placed{wanted.Select, wanted.Prefer, wanted.Route, 2},
			placed{say.Select, say.Prefer, say.Route, say.Slots}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the first step is placed (-want +got):\n%s", diff)
		}
		for i, s := range everything().Steps {
			if diff := cmp.Diff(s.Wait, read.Definition.Steps[i].Wait); diff != "" {
				t.Errorf("the step %s waits (-want +got):\n%s", s.ID, diff)
			}
		}
		same, err := c.PutWorkflow(ctx, "all", read.Definition, dts.IfRevision(1)) // what was read can be put
		testkit.Must(t, err)
		if diff := cmp.Diff(read, same); diff != "" || same.Revision != 1 {
			t.Errorf("the same again changes (-before +after):\n%s", diff)
		}

		run, err := c.StartWorkflow(ctx, "all", dts.Params{"day": "2026-11-29"})
		testkit.Must(t, err)
		ended := endOfRun(t, c, run.ID)
		if ended.Result != `{"said":"2026-11-29"}` || ended.Step("one").State != dts.StepSkipped ||
			run.Labels["workflow"] != "all" {
			t.Errorf("the run is %+v of %+v", ended, run)
		}

		changed := everything()
		changed.Description = "another"
		dry, err := c.PutWorkflow(ctx, "all", changed, dts.DryRun())
		testkit.Must(t, err)
		if dry.Definition.Description != "another" || dry.Revision != 2 {
			t.Errorf("a dry run says %+v", dry)
		}
		_, err = c.PutWorkflow(ctx, "all", changed, dts.IfAbsent())
		wantCode(t, "IfAbsent", err, dts.CodeWorkflowChanged)
		_, err = c.PutWorkflow(ctx, "all", changed, dts.IfRevision(7))
		wantCode(t, "IfRevision", err, dts.CodeWorkflowChanged)
		_, err = c.PutWorkflow(ctx, "all", changed, dts.Paused(true))
		wantCode(t, "Paused", err, dts.CodeInvalid)
		_, err = c.PutWorkflow(ctx, "all", changed)
		testkit.Must(t, err)

		revisions, err := c.WorkflowRevisions(ctx, "all")
		testkit.Must(t, err)
		if len(revisions) != 2 || revisions[0].Definition.Description != "another" || revisions[1].Revision != 1 {
			t.Errorf("its revisions are %+v", revisions)
		}
		_, err = c.RollbackWorkflow(ctx, "all", 9)
		wantCode(t, "RollbackWorkflow", err, dts.CodeWorkflowRevisionNotFound)
		back, err := c.RollbackWorkflow(ctx, "all", 1)
		testkit.Must(t, err)
		if back.Revision != 3 || back.Definition.Description != "a <test>" {
			t.Errorf("rolled back it is %+v", back)
		}
		keepsPauses(t, c)
	})
}

// keepsPauses is the rest of TestClient_KeepsWorkflows.
func keepsPauses(t *testing.T, c *dts.Client) {
	t.Helper()
	ctx := t.Context()
	_, err := c.PutWorkflow(ctx, "b", dts.Workflow{Steps: dts.Steps{step("a")}})
	testkit.Must(t, err)
	paused, err := c.PauseWorkflow(ctx, "b", "closed")
	testkit.Must(t, err)
	if !paused.Paused || paused.PauseNote != "closed" || paused.PausedAt.IsZero() {
		t.Errorf("paused it is %+v", paused)
	}
	resumed, err := c.ResumeWorkflow(ctx, "b")
	testkit.Must(t, err)
	if resumed.Paused {
		t.Errorf("resumed it is %+v", resumed)
	}
	for filter, want := range map[dts.WorkflowFilter][]string{{}: {"all", "b"}, {Prefix: "al"}: {"all"}} {
		var ids []string
		for w, err := range c.ListWorkflows(ctx, filter) {
			testkit.Must(t, err)
			ids = append(ids, w.ID)
		}
		if diff := cmp.Diff(want, ids); diff != "" {
			t.Errorf("%+v lists (-want +got):\n%s", filter, diff)
		}
	}
	for _, id := range []string{"all", "b"} {
		testkit.Must(t, c.DeleteWorkflow(ctx, id))
		_, err := c.GetWorkflow(ctx, id)
		wantCode(t, "GetWorkflow", err, dts.CodeWorkflowNotFound)
	}
	_, err = c.PutSchedule(ctx, "s", dts.ScheduleDefinition{Every: time.Hour, Task: dts.TaskTemplate{
		Type: dts.TypeWorkflow, Payload: dts.RunOf("b", dts.Params{"n": 1}),
	}})
	var refused *dts.Error
	if !errors.As(err, &refused) || refused.Field != "task.workflow" {
		t.Errorf("a schedule of a workflow that is gone: %v", err)
	}
	_, err = c.StartWorkflow(ctx, "b", nil)
	if !errors.As(err, &refused) || refused.Code != dts.CodeInvalid || refused.Field != "workflow" {
		t.Errorf("a run of a workflow that is gone: %v", err)
	}
}

func wantCode(t *testing.T, what string, err error, want dts.Code) {
	t.Helper()
	if dts.CodeOf(err) != want {
		t.Errorf("%s: %v, want %s", what, err, want)
	}
}
