package dts_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts"
	"github.com/dts-sched/dts/internal/testkit"
)

// numbers is the payload of a step that sums numbers.
type numbers struct {
	From  int    `json:"from"`
	To    int    `json:"to"`
	Label string `json:"label,omitempty"`
}

// sums is what that step returns.
type sums struct {
	Sum   int    `json:"sum"`
	Label string `json:"label,omitempty"`
}

// newFlows is a fleet that knows workflows, and a worker with handlers for their steps.
func newFlows(t *testing.T) fleet {
	t.Helper()
	f := newFleet(t)
	w := dts.NewWorker(dts.WorkerOptions{Redis: f.redis, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	dts.HandleResult(w, "sum", func(_ context.Context, n numbers) (sums, error) {
		s := sums{Label: n.Label}
		for i := n.From; i <= n.To; i++ {
			s.Sum += i
		}
		return s, nil
	})
	dts.HandleResult(w, "add", func(_ context.Context, in struct{ Parts []sums }) (int, error) {
		total := 0
		for _, part := range in.Parts {
			total += part.Sum
		}
		return total, nil
	})
	dts.HandleResult(w, "say", func(_ context.Context, in struct{ Text string }) (string, error) { return in.Text, nil })
	dts.Handle(w, "break", func(context.Context, struct{}) error { return dts.Permanent(errors.New("the disk is full")) })
	dts.Handle(w, "hang", func(ctx context.Context, _ struct{}) error { <-ctx.Done(); return ctx.Err() })
	start(t, w.Run)
	testkit.Receive(t, w.Ready(), "the worker takes tasks")
	c, err := dts.Dial(f.address)
	testkit.Must(t, err)
	defer func() { testkit.Must(t, c.Close()) }()
	begin(t, c, dts.Workflow{Steps: dts.Steps{{ID: "a", Type: "noop"}}}, nil)
	return f
}

// begin starts a run as soon as the fleet knows workflows.
func begin(t *testing.T, c *dts.Client, w dts.Workflow, params any) (id string) {
	t.Helper()
	testkit.Eventually(t, "the fleet knows workflows", func() bool {
		run, err := c.Run(t.Context(), w, params)
		if err != nil && !strings.Contains(err.Error(), "no living node is of an earlier release") {
			t.Fatal(err)
		}
		if err == nil {
			id = run.ID
		}
		return err == nil
	})
	return id
}

// endOfRun waits for the end of a run that succeeds.
func endOfRun(t *testing.T, c *dts.Client, id string) *dts.Run {
	t.Helper()
	_, err := c.Wait(t.Context(), id)
	testkit.Must(t, err)
	run, err := c.GetRun(t.Context(), id)
	testkit.Must(t, err)
	if run.State != dts.StateSucceeded {
		t.Fatalf("the run is %s (%s): %+v", run.State, run.Error, run.Steps)
	}
	return run
}

// A chord whose parts get numbers from parameters, and whose end gets what they have returned.
func TestRun_FansOutAndIn(t *testing.T) {
	t.Parallel()
	newFlows(t).overBoth(t, func(t *testing.T, c *dts.Client) {
		type params struct {
			Most int `json:"most"`
		}
		flow := dts.Workflow{
			Owner:  "data",
			Params: map[string]dts.Parameter{"most": {Type: dts.ParameterInteger, Required: true}},
			Steps: dts.Chord(
				dts.Group(
					dts.Step{ID: "low", Type: "sum", Payload: numbers{From: 1, To: 50, Label: "to <50> & back"}},
					dts.Step{ID: "high", Type: "sum", Payload: numbers{From: 51}, Set: map[string]string{"to": dts.Param("most")}},
				),
				dts.Step{ID: "total", Type: "add", Payload: map[string]any{
					"parts": []string{dts.Output("low"), dts.Output("high")},
				}},
			),
			Output: map[string]any{"total": dts.Output("total"), "label": "${{ steps.low.output.label }}!"},
		}
		id := begin(t, c, flow, params{Most: 100})
		total, err := dts.OutputOf[int](t.Context(), c, id, "total")
		testkit.Must(t, err)
		low, err := dts.OutputOf[sums](t.Context(), c, id, "low")
		testkit.Must(t, err)
		if want := (sums{1275, "to <50> & back"}); total != 5050 || low != want {
			t.Errorf("the total is %d, want 5050; low is %+v, want %+v", total, low, want)
		}
		run := endOfRun(t, c, id)
		const output = `{"label":"to <50> & back!","total":5050}`
		if run.Result != output || run.Owner != "data" || string(run.Params["most"]) != "100" || run.Phase != dts.PhaseEnded {
			t.Errorf("the run has the result %s, want %s; the rest is %+v", run.Result, output, run)
		}
		if s := run.Step("total"); s.Task != id+"@.total" || s.TaskState != dts.StateSucceeded || len(s.Needs) != 2 {
			t.Errorf("the last step is %+v", s)
		}
	})
}

// Steps wait for a signal and an answer, which are their outputs.
func TestClient_AnswersStepsThatWait(t *testing.T) {
	t.Parallel()
	newFlows(t).overBoth(t, func(t *testing.T, c *dts.Client) {
		ctx := t.Context()
		form := map[string]dts.Parameter{"n": {Type: dts.ParameterInteger, Required: true}}
		id := begin(t, c, dts.Workflow{Steps: dts.Steps{
			{ID: "paid", Wait: &dts.Wait{Signal: "paid"}},
			{ID: "ok", Needs: []string{"paid"}, Wait: &dts.Wait{Approval: &dts.Approval{Form: form}, Timeout: time.Hour}},
			{ID: "no", Wait: &dts.Wait{Approval: &dts.Approval{}}, AllowFailure: true},
		}}, nil)
		_, err := c.SignalRun(ctx, id, "pay", nil)
		wantCode(t, "a signal that there is not", err, dts.CodeInvalid)
		_, err = c.SignalRun(ctx, id, "paid", make(chan int))
		wantCode(t, "data that cannot be JSON", err, dts.CodeInvalid)
		_, err = c.SignalRun(ctx, id, "paid", 7)
		testkit.Must(t, err)
		_, err = c.SignalRun(ctx, id, "paid", 8)
		wantCode(t, "another signal", err, dts.CodeSignalGiven)
		n, err := dts.OutputOf[int](ctx, c, id, "paid")
		if testkit.Must(t, err); n != 7 {
			t.Errorf("the signal says %d", n)
		}
		_, err = c.ApproveStep(ctx, id, "ok", "", nil)
		wantCode(t, "without its form", err, dts.CodeInvalid)
		_, err = c.ApproveStep(ctx, id, "ok", "", []int{7})
		wantCode(t, "a form that is no object", err, dts.CodeInvalid)
		run, err := c.ApproveStep(ctx, id, "ok", "fine", map[string]int{"n": 3})
		testkit.Must(t, err)
		if len(run.Signals) != 1 || string(run.Signals[0].Data) != "7" || run.Signals[0].At.IsZero() {
			t.Errorf("its signals are %+v", run.Signals)
		}
		answer, err := dts.OutputOf[dts.Answer](ctx, c, id, "ok")
		if testkit.Must(t, err); !answer.Approved || answer.Note != "fine" || string(answer.Data["n"]) != "3" {
			t.Errorf("the answer is %+v", answer)
		}
		no := run.Step("no")
		if no.State != dts.StepWaiting || no.WaitingSince.IsZero() || !no.WaitsUntil.IsZero() || no.Wait.Approval == nil {
			t.Errorf("it waits as %+v", no)
		}
		run, err = c.RejectStep(ctx, id, "no", "too dear")
		testkit.Must(t, err)
		if no := run.Step("no"); no.State != dts.StepFailed || no.Answer == nil || no.Answer.Note != "too dear" {
			t.Errorf("it is %+v", no)
		}
		_, err = c.ApproveStep(ctx, id, "no", "", nil)
		wantCode(t, "another answer", err, dts.CodeStepNotWaiting)
	})
}

// Text is output as well, whether or not it is JSON.
func TestGetRun_TellsAllowedFailures(t *testing.T) {
	t.Parallel()
	newFlows(t).overBoth(t, func(t *testing.T, c *dts.Client) {
		id := begin(t, c, dts.Workflow{Steps: dts.Steps{
			{ID: "allowed", Type: "break", AllowFailure: true},
			{ID: "fine", Type: "noop", AllowFailure: true},
			{ID: "behind", Type: "noop", Needs: []string{"allowed"}},
			{ID: "fails", Type: "break", Needs: []string{"behind", "fine"}},
		}}, nil)
		_, err := c.Wait(t.Context(), id)
		testkit.Must(t, err)
		run, err := c.GetRun(t.Context(), id)
		testkit.Must(t, err)
		for step, want := range map[string]struct {
			state   dts.StepState
			allowed bool
		}{
			"allowed": {dts.StepFailed, true}, "fails": {dts.StepFailed, false},
			"fine": {dts.StepSucceeded, false}, "behind": {dts.StepSucceeded, false},
		} {
			if s := run.Step(step); s.State != want.state || s.FailureAllowed != want.allowed {
				t.Errorf("%s: %+v, want %+v", step, s, want)
			}
		}
	})
}

func TestOutputOf_ReadsText(t *testing.T) {
	t.Parallel()
	newFlows(t).overBoth(t, func(t *testing.T, c *dts.Client) {
		id := begin(t, c, dts.Workflow{Steps: dts.Chain(
			dts.Step{ID: "say", Type: "say", Payload: map[string]string{"text": "4 files"}},
			dts.Step{ID: "again", Type: "say", Payload: map[string]string{"text": "${{ prev.output }} more"}},
			dts.Step{ID: "number", Type: "say", Payload: map[string]string{"text": "12"}},
			dts.Step{ID: "nothing", Type: "noop"},
		)}, nil)
		for step, want := range map[string]string{"say": "4 files", "again": "4 files more", "number": "12", "nothing": ""} {
			if got, err := dts.OutputOf[string](t.Context(), c, id, step); err != nil || got != want {
				t.Errorf("the output of %s is %q, want %q (%v)", step, got, want, err)
			}
		}
		if n, err := dts.OutputOf[int](t.Context(), c, id, "number"); err != nil || n != 12 {
			t.Errorf("the output of number is %d, want 12 (%v)", n, err)
		}
		if _, err := dts.OutputOf[int](t.Context(), c, id, "say"); err == nil || !strings.Contains(err.Error(), "into int") {
			t.Errorf("the text was read as a number: %v", err)
		}
	})
}

// Each step that does not succeed has another reason.
func TestOutputOf_SaysWhyThereIsNone(t *testing.T) {
	t.Parallel()
	newFlows(t).overBoth(t, func(t *testing.T, c *dts.Client) {
		id := begin(t, c, dts.Workflow{
			Steps: dts.Steps{
				{ID: "broken", Type: "break"},
				{ID: "behind", Type: "noop", Needs: []string{"broken"}},
				{ID: "choose", Decide: []dts.Choice{{When: "1 > 2", Then: []string{"left"}}, {Then: []string{"right"}}}},
				{ID: "left", Type: "noop", Needs: []string{"choose"}},
				{ID: "right", Type: "noop", Needs: []string{"choose"}},
				{ID: "never", Type: "noop", When: "run.attempt > 1"},
			},
			OnFailure: dts.Steps{{ID: "alarm", Type: "say", Payload: map[string]string{"text": "${{ run.id }} failed"}}},
		}, nil)
		for step, want := range map[string]dts.StepError{
			"broken": {State: dts.StepFailed, Reason: "the disk is full"},
			"behind": {State: dts.StepUpstreamFailed, Reason: "never runs: broken is failed (rule success)"},
			"left":   {State: dts.StepSkipped, Reason: "was skipped: choose chose another branch"},
			"never":  {State: dts.StepSkipped, Reason: "was skipped: its condition is false"},
		} {
			want.Run, want.Step = id, step
			var got *dts.StepError
			if _, err := dts.OutputOf[any](t.Context(), c, id, step); !errors.As(err, &got) || *got != want {
				t.Errorf("%s: %v, want %v", step, err, &want)
			}
		}
		for _, step := range []string{"choose", "right"} {
			if _, err := dts.OutputOf[any](t.Context(), c, id, step); err != nil {
				t.Errorf("%s: %v", step, err)
			}
		}
		if text, err := dts.OutputOf[string](t.Context(), c, id, "alarm"); err != nil || text != id+" failed" {
			t.Errorf("the alarm says %q (%v)", text, err)
		}
		if _, err := dts.OutputOf[any](t.Context(), c, id, "lef"); dts.CodeOf(err) != dts.CodeInvalid {
			t.Errorf("a step that is none: %v", err)
		}
		if _, err := dts.OutputOf[any](t.Context(), c, id+"@.right", "a"); dts.CodeOf(err) != dts.CodeTaskNotARun {
			t.Errorf("a task that is no run: %v", err)
		}
		if _, err := dts.OutputOf[any](t.Context(), c, "nobody", "a"); dts.CodeOf(err) != dts.CodeTaskNotFound {
			t.Errorf("a run that is not there: %v", err)
		}
		if _, err := c.Retry(t.Context(), id+"@.broken"); dts.CodeOf(err) != dts.CodeTaskIsStep {
			t.Errorf("a step was retried without its run: %v", err)
		}
	})
}

func TestOutputOf_WaitsForNothingAfterTheRun(t *testing.T) {
	t.Parallel()
	newFlows(t).overBoth(t, func(t *testing.T, c *dts.Client) {
		flow := dts.Workflow{Steps: dts.Chain(dts.Step{ID: "a", Type: "hang"}, dts.Step{ID: "b", Type: "noop"})}
		waiting, err := c.Submit(t.Context(), dts.Submission{
			Type: dts.TypeWorkflow, Delay: time.Hour, Payload: flow.With(nil),
		})
		testkit.Must(t, err)
		running := begin(t, c, flow, nil)
		testkit.Eventually(t, "a is active", func() bool {
			run, err := c.GetRun(t.Context(), running)
			testkit.Must(t, err)
			return run.Step("a").State == dts.StepActive
		})
		ctx, stop := context.WithCancelCause(t.Context())
		stop(errors.New("enough"))
		if _, err := dts.OutputOf[any](ctx, c, running, "b"); !errors.Is(err, context.Canceled) {
			t.Errorf("a wait that is given up: %v", err)
		}
		for id, want := range map[string]dts.StepError{
			waiting.ID: {State: dts.StepBlocked, Reason: "the run is cancelled"},
			running:    {State: dts.StepCancelled, Reason: "was not released: the run was cancelled"},
		} {
			want.Run, want.Step = id, "b"
			ended := make(chan error, 1)
			go func() {
				_, err := dts.OutputOf[any](t.Context(), c, id, "b")
				ended <- err
			}()
			_, err := c.Cancel(t.Context(), id)
			testkit.Must(t, err)
			var got *dts.StepError
			if err := testkit.Receive(t, ended, "the wait ends"); !errors.As(err, &got) || *got != want {
				t.Errorf("%v, want %v", err, &want)
			}
		}
	})
}

func TestClient_PausesAndRerunsRuns(t *testing.T) {
	t.Parallel()
	newFlows(t).overBoth(t, func(t *testing.T, c *dts.Client) {
		flow := dts.Workflow{Steps: dts.Chain(
			dts.Step{ID: "a", Type: "noop", Payload: json.RawMessage(`{"sleep":"300ms"}`)}, dts.Step{ID: "b", Type: "noop"},
		)}
		id := begin(t, c, flow, nil)
		testkit.Eventually(t, "the run runs", func() bool {
			run, err := c.PauseRun(t.Context(), id)
			if err != nil && dts.CodeOf(err) != dts.CodeTaskNotRunning {
				t.Fatal(err)
			}
			return err == nil && run.Paused
		})
		_, err := dts.OutputOf[any](t.Context(), c, id, "a")
		testkit.Must(t, err)
		run, err := c.ResumeRun(t.Context(), id)
		testkit.Must(t, err)
		if run.Paused {
			t.Errorf("the run is still paused: %+v", run)
		}
		endOfRun(t, c, id)
		if _, err := c.PauseRun(t.Context(), id); dts.CodeOf(err) != dts.CodeTaskNotRunning {
			t.Errorf("a run that has ended was paused: %v", err)
		}
		_, err = c.RerunRun(t.Context(), id, "b")
		testkit.Must(t, err)
		run = endOfRun(t, c, id)
		if run.Attempt != 2 || run.Step("a").Generation != 1 || run.Step("b").Generation != 2 {
			t.Errorf("after the rerun of b it is %+v", run)
		}
		if _, err := c.RerunRun(t.Context(), id, "x"); dts.CodeOf(err) != dts.CodeInvalid {
			t.Errorf("a step that is none was run again: %v", err)
		}
	})
}

// A schedule, a follow-up and many submissions at once start runs, too.
func TestWorkflow_IsAPayload(t *testing.T) {
	t.Parallel()
	newFlows(t).overBoth(t, func(t *testing.T, c *dts.Client) {
		flow := dts.Workflow{
			Params: map[string]dts.Parameter{"n": {Type: dts.ParameterInteger, Default: 1}},
			Steps:  dts.Steps{{ID: "a", Type: "say", Set: map[string]string{"text": "n is ${{ params.n }}"}}},
		}
		_, err := c.PutSchedule(t.Context(), "often", dts.ScheduleDefinition{
			Every: time.Hour, Task: dts.TaskTemplate{Type: dts.TypeWorkflow, Payload: flow.With(map[string]int{"n": 2})},
		})
		testkit.Must(t, err)
		tick, err := c.TriggerSchedule(t.Context(), "often")
		testkit.Must(t, err)
		many, err := c.SubmitMany(t.Context(), []dts.Submission{
			{ID: "three", Type: dts.TypeWorkflow, Payload: flow.With(map[string]int{"n": 3})},
			{ID: "four", Type: dts.TypeWorkflow, Payload: flow.With(map[string]string{"n": "4"})},
		})
		testkit.Must(t, err)
		var refused *dts.Error
		if many[0].Err != nil || !errors.As(many[1].Err, &refused) || refused.Field != "params.n" {
			t.Errorf("of two runs came %+v", many)
		}
		_, err = c.Submit(t.Context(), dts.Submission{ID: "first", Type: "noop", OnEnd: &dts.FollowUp{
			When: dts.WhenEnded, Task: dts.Submission{Type: dts.TypeWorkflow, Payload: flow.With(nil)},
		}})
		testkit.Must(t, err)
		ends(t, c, "first@e1")
		for id, want := range map[string]string{tick.Task: "n is 2", "three": "n is 3", "first@e1": "n is 1"} {
			if got, err := dts.OutputOf[string](t.Context(), c, id, "a"); err != nil || got != want {
				t.Errorf("%s says %q, want %q (%v)", id, got, want, err)
			}
		}
	})
}

// badWorkflows are refused before they are sent, for these fields.
func badWorkflows() map[string]dts.Workflow {
	all := map[string]dts.Workflow{
		"workflow.steps":    {},
		"workflow.deadline": {Deadline: time.Millisecond},
		"workflow.failure":  {Failure: "never"},
		"workflow.params.n.default": {
			Params: map[string]dts.Parameter{"n": {Type: dts.ParameterInteger, Default: "x"}},
		},
		"workflow.params.n.enum[1]": {
			Params: map[string]dts.Parameter{"n": {Type: dts.ParameterInteger, Enum: []any{1, "x"}}},
		},
		"workflow.output":                   {Output: func() {}},
		"workflow.output.n":                 {Output: map[string]string{"n": dts.Output("b")}},
		"workflow.finally.tidy.needs[0]":    {Finally: dts.Steps{step("tidy", "a")}},
		"workflow.on_failure.alarm.timeout": {OnFailure: dts.Steps{{ID: "alarm", Type: "noop", Timeout: -1}}},
	}
	for field, w := range all {
		if field != "workflow.steps" {
			w.Steps = dts.Steps{step("a")}
			all[field] = w
		}
	}
	for field, s := range map[string]dts.Step{
		"[1].id":                {Type: "noop"},
		".first.id":             step("first"),
		".b.type":               {ID: "b"},
		".b":                    {ID: "b", Type: "noop", Decide: []dts.Choice{{}}},
		".b.rule":               {ID: "b", Type: "noop", Rule: "mostly"},
		".b.needs[0]":           step("b", "c"),
		".b.when":               {ID: "b", Type: "noop", When: "1 +"},
		".b.payload":            {ID: "b", Type: "noop", Payload: func() {}},
		".b.payload.day":        {ID: "b", Type: "noop", Payload: map[string]string{"day": dts.Param("day")}},
		".b.set":                {ID: "b", Type: "noop", Payload: []int{1}, Set: map[string]string{"a": "1"}},
		".b.retry.delays[0]":    {ID: "b", Type: "noop", Retry: dts.Retry{Delays: []time.Duration{-1}}},
		".b.decide[0]":          {ID: "b", Decide: []dts.Choice{{When: "true"}}},
		".b.labels.a":           {ID: "b", Type: "noop", Labels: map[string]string{"a": "\xff"}},
		".b.payload.range.last": {ID: "b", Type: "noop", Set: map[string]string{"range.last": "${{ x }}"}},
		".b.payload.range[0]":   {ID: "b", Type: "noop", Payload: map[string]any{"range": []string{"${{ x }}"}}},
	} {
		all["workflow.steps"+field] = dts.Workflow{Steps: dts.Chain(step("first"), s)}
	}
	return all
}

func TestRun_NamesWhatIsWrongBeforeItIsSent(t *testing.T) {
	t.Parallel()
	var sent counting
	c, err := dts.Dial("http://127.0.0.1:1", dts.WithTransport(&sent))
	testkit.Must(t, err)
	defer func() { testkit.Must(t, c.Close()) }()
	check := func(field string, err error) {
		t.Helper()
		var refused *dts.Error
		if !errors.As(err, &refused) || refused.Code != dts.CodeInvalid || refused.Field != field ||
			!strings.HasPrefix(refused.Message, field+": ") {
			t.Errorf("%v, want it for %q", err, field)
		}
	}
	for field, w := range badWorkflows() {
		_, err := c.Run(t.Context(), w, nil)
		check(field, err)
		_, err = c.PutSchedule(t.Context(), "s", dts.ScheduleDefinition{
			Every: time.Hour, Task: dts.TaskTemplate{Type: dts.TypeWorkflow, Payload: w.With(nil)},
		})
		check("task."+field, err)
		_, err = c.PutWorkflow(t.Context(), "w", w)
		check(field, err)
	}
	flow := dts.Workflow{
		Params: map[string]dts.Parameter{"n": {Type: dts.ParameterInteger, Required: true, Max: new(5.)}},
		Steps:  dts.Steps{step("a")},
	}
	for field, params := range map[string]any{
		"params.n": map[string]int{"n": 6}, "params.m": map[string]int{"n": 1, "m": 1}, "params": []int{1},
		"params.payload": func() {},
	} {
		_, err := c.Run(t.Context(), flow, params)
		check(field, err)
	}
	if n := sent.requests.Load(); n > 0 {
		t.Errorf("sent %d requests", n)
	}
}

// What only nodes know is refused by them, in the same words.
func TestRun_NamesWhatNodesRefuse(t *testing.T) {
	t.Parallel()
	newFlows(t).overBoth(t, func(t *testing.T, c *dts.Client) {
		long := dts.Workflow{Steps: dts.Steps{step(strings.Repeat("x", 60))}}
		for field, s := range map[string]dts.Submission{
			"workflow.finally.call.payload.url": {Payload: dts.Workflow{
				Steps: dts.Steps{step("a")}, Finally: dts.Steps{{ID: "call", Type: "http"}},
			}.With(nil)},
			"id":    {ID: strings.Repeat("y", 150), Payload: long.With(nil)},
			"queue": {Queue: "low", Payload: dts.Workflow{Steps: dts.Steps{step("a")}}.With(nil)},
		} {
			s.Type = dts.TypeWorkflow
			_, err := c.Submit(t.Context(), s)
			many, _ := c.SubmitMany(t.Context(), []dts.Submission{s})
			for _, err := range []error{err, many[0].Err} {
				var refused *dts.Error
				if !errors.As(err, &refused) || refused.Field != field || !strings.HasPrefix(refused.Message, field+": ") {
					t.Errorf("%v, want it for %q", err, field)
				}
			}
		}
	})
}

// Set reaches into objects, and leaves the rest of the payload as it is.
func TestStep_SetsFieldsOfItsPayload(t *testing.T) {
	t.Parallel()
	newFlows(t).overBoth(t, func(t *testing.T, c *dts.Client) {
		id := begin(t, c, dts.Workflow{Steps: dts.Chain(dts.Step{
			ID: "a", Type: "noop", Queue: "nobody", Payload: json.RawMessage(`{"n":12345678901234567890.5,"in":{"a":"x"}}`),
			Set: map[string]string{"in.b": "${{ 1 + 1 }}", "at.first": "${{ [run.attempt] }}", "n2": "n"},
		})}, nil)
		var got *dts.Task
		testkit.Eventually(t, "the step is there", func() bool {
			var err error
			got, err = c.Get(t.Context(), id+"@.a")
			return err == nil
		})
		const want = `{"at":{"first":[1]},"in":{"a":"x","b":2},"n":12345678901234567890.5,"n2":"n"}`
		if diff := cmp.Diff(want, string(got.Payload)); diff != "" {
			t.Errorf("the payload (-want +got):\n%s", diff)
		}
	})
}

func TestWorker_HandlesNoWorkflows(t *testing.T) {
	t.Parallel()
	defer func() {
		if text := fmt.Sprint(recover()); !strings.Contains(text, `"workflow"`) || !strings.Contains(text, "another type") {
			t.Errorf("it panics with %q", text)
		}
	}()
	dts.Handle(dts.NewWorker(dts.WorkerOptions{}), "workflow", func(context.Context, struct{}) error { return nil })
}
