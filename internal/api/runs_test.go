package api

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/workflow"
	"github.com/dts-sched/dts/internal/workflow/text"
)

// etl is the definition of the runs of these tests.
const etl = `{
	"params": {"day": {"type": "string", "required": true}, "size": {"type": "integer", "default": 5}},
	"steps": [
		{"id": "list", "task": {"type": "http", "payload": {"url": "http://x/${{ params.day }}"}}},
		{"id": "load", "needs": ["list"], "task": {"type": "http"}},
		{"id": "report", "needs": ["load"], "when": "params.size > 3", "task": {"type": "http"}}],
	"on_failure": [{"id": "alert", "task": {"type": "http"}}],
	"finally": [{"id": "tidy", "task": {"type": "http"}}],
	"deadline": "2h"}`

// startFlowRig is a rig whose nodes all know runs.
func startFlowRig(t *testing.T) *rig {
	t.Helper()
	nobody := func(context.Context) ([]cluster.Node, error) { return nil, nil }
	backend, useCases := startBackend(t, func(o *control.Options) {
		testkit.Must(t, o.Store.Advance(t.Context(), nobody))
	})
	testkit.Must(t, backend.store.Advance(t.Context(), nobody))
	return startRigOn(t, backend, useCases)
}

// createFlow creates a run of etl, without the API.
func (r *rig) createFlow(id string) {
	r.t.Helper()
	d := task.Definition{
		Ref: ref(id), Type: task.WorkflowType,
		Payload: []byte(`{"definition": ` + etl + `, "params": {"day": "2026-11-25"}}`),
	}
	for _, c := range r.store.Tasks.Create(r.ctx, []task.Definition{d.Normalize()}) {
		testkit.Must(r.t, c.Err)
	}
}

// startFlow starts a run of etl.
func (r *rig) startFlow(id string) {
	r.t.Helper()
	body := `{"id": "` + id + `", "definition": ` + etl + `, "params": {"day": "2026-11-25"}, "labels": {"team": "data"}}`
	if got := r.call("POST", "/v1/runs", body); got.status != http.StatusCreated {
		r.t.Fatalf("status %d: %s", got.status, got.body)
	}
}

// plan does what the leader of a run does once: it carries on the run from what its tasks are. begin says that the run
// begins, after its claim.
func (r *rig) plan(id string, begin bool) {
	r.t.Helper()
	if begin {
		r.claim(id)
	}
	leader := r.store.Partitions.At(0).Lead(fence)
	reads, err := leader.ReadRuns(r.ctx, partition.ReadRun{Ref: ref(id)})
	testkit.Must(r.t, err)
	read := reads[0]
	start, err := text.ParseStart("default", read.Task.Payload)
	testkit.Must(r.t, err)
	flow, err := workflow.Compile(start.Definition)
	testkit.Must(r.t, err)
	run := workflow.NewRun(flow)
	if read.Text != "" {
		run, err = workflow.DecodeRun(read.Text, flow.Len())
		testkit.Must(r.t, err)
	}
	params, err := start.Definition.Bind(start.Params)
	testkit.Must(r.t, err)
	in := workflow.Input{
		Now: clock.Now().Truncate(time.Millisecond), Room: 100,
		About: workflow.About{Ref: ref(id), Created: read.Task.CreatedAt, Params: params},
	}
	if begin {
		in.Begin = read.Task.Attempt
	}
	for line := range strings.Lines(read.Asks) {
		ask, _ := flow.ParseAsk(strings.TrimSpace(line))
		in.Asks = append(in.Asks, ask)
	}
	if !read.Task.CancelRequested.IsZero() {
		in.Asks = append(in.Asks, workflow.Ask{Do: workflow.DoCancel})
	}
	var steps []task.Ref
	for i := range flow.Len() {
		steps = append(steps, ref(id).Step(flow.StepID(i)))
	}
	found, err := leader.ReadSteps(r.ctx, steps)
	testkit.Must(r.t, err)
	var seen []partition.Seen
	for i := range steps {
		t := found[i].Task
		seen = append(seen, found[i].Seen)
		in.Tasks = append(in.Tasks, workflow.Task{
			Step: i, State: t.State, Attempt: t.Attempt, Result: t.Result, Error: t.Error,
		})
	}
	plan := workflow.Next(flow, run, in)
	write := partition.RunWrite{
		Run: read, Begin: begin, Saw: seen, Text: plan.Run.Encode(), Look: in.Now.Add(time.Hour),
	}
	write.Plan, err = text.EncodePlan(start.Definition, 0)
	testkit.Must(r.t, err)
	for _, released := range plan.Release {
		write.Release = append(write.Release, partition.Release{Task: released.Task, Again: released.Again, Attempts: 1})
	}
	if plan.End != nil {
		write.End = &partition.RunEnd{State: plan.End.State, Error: plan.End.Error, Kept: in.Now.Add(time.Hour)}
	}
	written, err := leader.Advance(r.ctx, []partition.RunWrite{write})
	testkit.Must(r.t, err)
	if !written[0] {
		r.t.Fatalf("the plan of %s was not written", id)
	}
}

// readFlow reads the run etl-1 by the API.
func (r *rig) readFlow() wire.Run {
	r.t.Helper()
	got := r.call("GET", "/v1/runs/etl-1", "")
	if got.status != http.StatusOK {
		r.t.Fatalf("status %d: %s", got.status, got.body)
	}
	return runIn(r.t, got)
}

func runIn(t *testing.T, got answer) (run wire.Run) {
	t.Helper()
	if got.status != http.StatusOK {
		t.Fatalf("status %d: %s", got.status, got.body)
	}
	testkit.Must(t, json.Unmarshal(got.body, &run))
	return run
}

// statesOfSteps are the states of the steps of a run, with what their tasks are and why they wait.
func statesOfSteps(run wire.Run) map[string]string {
	states := make(map[string]string)
	for _, s := range run.Steps {
		words := []string{string(s.State)}
		if s.TaskState != nil {
			words = append(words, string(*s.TaskState))
		}
		if s.Reason != nil {
			words = append(words, *s.Reason)
		}
		states[s.ID] = strings.Join(words, " ")
	}
	return states
}

func TestSubmitRun_AcceptsARunOnce(t *testing.T) {
	t.Parallel()
	r := startFlowRig(t)
	body := `{"id": "etl-1", "definition": ` + etl + `, "params": {"day": "2026-11-25"}, "owner": "ops", "delay": "1h"}`
	dry := r.call("POST", "/v1/runs?dry_run=true", body)
	if dry.status != http.StatusOK || dry.header.Get("Dts-Change") != "created" {
		t.Errorf("a dry run: %d %q %s", dry.status, dry.header.Get("Dts-Change"), dry.body)
	}
	first := r.call("POST", "/v1/runs", body)
	if first.status != http.StatusCreated || first.header.Get("Location") != "/v1/runs/etl-1" {
		t.Errorf("status %d, Location %q: %s", first.status, first.header.Get("Location"), first.body)
	}
	var made wire.Task
	testkit.Must(t, json.Unmarshal(first.body, &made))
	if made.Type != "workflow" || wire.Value(made.Owner) != "ops" || made.State != wire.StateScheduled {
		t.Errorf("it is %+v", made)
	}
	if again := r.call("POST", "/v1/runs", body); again.status != http.StatusOK {
		t.Errorf("once more: %d %s", again.status, again.body)
	}
	other := strings.Replace(body, "2026-11-25", "2026-11-26", 1)
	if p := r.call("POST", "/v1/runs", other).problem(t); p.Code != "task_conflict" {
		t.Errorf("with other parameters: %+v", p)
	}
	keyed := r.call("POST", "/v1/runs?namespace=b", `{"definition": {"steps": [{"id": "a", "task": {"type": "http"}}]}}`,
		"Idempotency-Key", "order-7")
	if location := keyed.header.Get("Location"); location != "/v1/runs/order-7?namespace=b" {
		t.Errorf("with a key: %d %q", keyed.status, location)
	}
}

func TestSubmitRun_NamesFieldsOfTheRequest(t *testing.T) {
	t.Parallel()
	r := startFlowRig(t)
	with := func(definition, more string) string { return `{"definition": ` + definition + more + `}` }
	step := func(more string) string { return `{"steps": [{"id": "a", ` + more + `}]}` }
	for body, want := range map[string]string{
		`{}`:                            "definition",
		with(`{"step": []}`, ``):        "definition.step",
		with(`{"steps": []}`, ``):       "definition.steps",
		with(step(`"tasks": {}`), ``):   "definition.steps[0].tasks",
		with(step(`"needs": "b"`), ``):  "definition.steps[0].needs",
		with(step(`"rule": "all"`), ``): "definition.steps[0].rule",
		with(step(`"task": {"type": "http", "timeout": "soon"}`), ``):            "definition.steps[0].task.timeout",
		with(step(`"task": {"type": "http"}, "needs": ["b"]`), ``):               "definition.steps[0].needs[0]",
		with(step(`"task": {"type": "http"}, "when": "1 +"`), ``):                "definition.steps[0].when",
		with(step(`"task": {"type": "http", "payload": {"u": "${{ x }}"}}`), ``): "definition.steps[0].task.payload.u",
		with(etl, ``): "params.day",
		with(etl, `, "params": {"day": "1", "size": "big"}`):                        "params.size",
		with(etl, `, "params": {"day": "1", "hour": 3}`):                            "params.hour",
		with(etl, `, "params": {"day": "1"}, "id": "`+strings.Repeat("x", 199)+`"`): "id",
		with(etl, `, "params": {"day": "1"}, "queue": "low"`):                       "queue",
	} {
		p := r.call("POST", "/v1/runs", body).problem(t)
		if p.Code != "invalid" || wire.Value(p.Field) != want || strings.Contains(p.Detail, "payload.def") {
			t.Errorf("%s: %s %q, want %q", body, p.Code, wire.Value(p.Field), want)
			t.Log(p.Detail)
		}
	}
}

// What does not fit the document is told together with what only the use case can find.
func TestDefinition_IsRefusedWithAllThatIsWrong(t *testing.T) {
	t.Parallel()
	r := startFlowRig(t)
	const wrong = `{"deadline": "1ms", "steps": [
		{"id": "a", "needs": ["b"], "task": {"type": "http", "timeout": "soon"}}]}`
	for _, c := range []struct{ method, path, body, prefix string }{
		{"PUT", "/v1/workflows/etl", wrong, ""},
		{"POST", "/v1/runs", `{"definition": ` + wrong + `}`, "definition."},
	} {
		p := r.call(c.method, c.path, c.body).problem(t)
		var fields []string
		for _, one := range p.Errors {
			fields = append(fields, strings.TrimPrefix(wire.Value(one.Field), c.prefix))
		}
		if got := strings.Join(fields, " "); got != "steps[0].task.timeout deadline steps[0].needs[0]" {
			t.Errorf("%s names %s", c.path, got)
		}
	}
}

func TestGetRun_TellsOfEachStep(t *testing.T) {
	t.Parallel()
	r := startFlowRig(t)
	r.startFlow("etl-1")
	r.submit("other")
	before := r.readFlow()
	if before.State != wire.StateScheduled || before.Phase != nil || before.Deadline != nil || len(before.Steps) != 5 {
		t.Errorf("before it begins: %+v", before)
	}
	if got := string(before.Params["day"]); got != `"2026-11-25"` {
		t.Errorf("the parameter day is %s", got)
	}
	r.plan("etl-1", true)
	r.end("etl-1@.list", task.Succeeded, "")
	r.plan("etl-1", false)
	r.begin("etl-1@.load")
	got := r.readFlow()
	want := map[string]string{
		"list": "succeeded succeeded", "load": "active running", "report": "blocked waits for load (rule success)",
		"alert": "blocked waits for the end of steps", "tidy": "blocked waits for the end of on_failure",
	}
	if diff := cmp.Diff(want, statesOfSteps(got)); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	load := got.Steps[1]
	if wire.Value(load.Task) != "etl-1@.load" || wire.Value(load.Attempt) != 1 || load.StartedAt == nil ||
		wire.Value(load.Rule) != "success" || !cmp.Equal(load.Needs, []string{"list"}) || load.Section != "steps" {
		t.Errorf("load is %+v", load)
	}
	if wire.Value(got.Phase) != "main" || got.Attempt != 1 || got.Deadline == nil ||
		got.Deadline.Sub(got.StartedAt.Time).Round(time.Minute) != 2*time.Hour {
		t.Errorf("the run is %+v", got)
	}
	for path, code := range map[string]string{
		"/v1/runs/none": "task_not_found", "/v1/runs/other": "task_not_a_run", "/v1/runs/other/audit": "task_not_a_run",
		"/v1/runs/none/graph": "task_not_found", "/v1/runs/etl-1?namespace=b": "task_not_found",
	} {
		if p := r.call("GET", path, "").problem(t); string(p.Code) != code {
			t.Errorf("%s: %s, want %s", path, p.Code, code)
		}
	}
	for path, code := range map[string]string{
		"POST /v1/tasks/etl-1@.load/retry": "task_is_step", "POST /v1/runs/other/cancel": "task_not_a_run",
		"POST /v1/runs/other/rerun": "task_not_a_run", "POST /v1/runs/other/pause": "task_not_a_run",
		"POST /v1/runs/etl-1/rerun": "task_not_finished",
	} {
		method, path, _ := strings.Cut(path, " ")
		if p := r.call(method, path, "").problem(t); string(p.Code) != code {
			t.Errorf("%s %s: %s, want %s", method, path, p.Code, code)
		}
	}
}

func TestSubmitRun_RunsAWorkflowByItsName(t *testing.T) {
	t.Parallel()
	r := startFlowRig(t)
	who := control.Caller{Namespace: "default"}
	if got := r.call("POST", "/v1/runs", `{"workflow": "etl"}`); got.problem(t).Code != "workflow_not_found" ||
		got.status != http.StatusNotFound {
		t.Errorf("a run of a workflow that is not there: %d %s", got.status, got.body)
	}
	_, err := r.endpoints.Control.PutWorkflow(r.ctx, who, "etl", []byte(etl), control.PutOptions{})
	testkit.Must(t, err)
	body := `{"id": "etl-1", "workflow": "etl", "params": {"day": "2026-11-25"}}`
	if got := r.call("POST", "/v1/runs", body); got.status != http.StatusCreated {
		t.Fatalf("status %d: %s", got.status, got.body)
	}
	if run := r.readFlow(); wire.Value(run.Workflow) != "etl" || len(run.Steps) != 5 || run.Revision != nil {
		t.Errorf("it is %+v", run)
	}
	_, err = r.endpoints.Control.PauseWorkflow(r.ctx, who, "etl", "")
	testkit.Must(t, err)
	r.claim("etl-1")
	if run := r.readFlow(); !strings.Contains(wire.Value(run.Waits), "etl is paused") {
		t.Errorf("it waits for %q", wire.Value(run.Waits))
	}
}

func TestListRuns_ListsRunsOnly(t *testing.T) {
	t.Parallel()
	r := startFlowRig(t)
	r.submit("other")
	r.startFlow("etl-1")
	r.startFlow("etl-2")
	r.plan("etl-1", true)
	for query, want := range map[string]string{
		"": "etl-1 etl-2", "?state=running": "etl-1", "?label=team%3Dops": "", "?label=team%3Ddata&limit=1": "etl-1",
		"?namespace=b": "", "?namespace=*": "etl-1 etl-2", "?sort=state&order=asc": "etl-2 etl-1", "?owner=ann": "",
		"?since=2000-01-01T00:00:00Z": "etl-1 etl-2", "?until=2000-01-01T00:00:00Z": "",
	} {
		var list wire.TaskList
		testkit.Must(t, json.Unmarshal(r.call("GET", "/v1/runs"+query, "").body, &list))
		var ids []string
		for _, one := range list.Tasks {
			ids = append(ids, one.ID)
			if one.Payload != nil {
				t.Errorf("%s has its payload", one.ID)
			}
		}
		if got := strings.Join(ids, " "); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
}

func TestListRuns_SaysHowFarRunsAre(t *testing.T) {
	t.Parallel()
	r := startFlowRig(t)
	r.startFlow("etl-1")
	r.startFlow("etl-2")
	r.plan("etl-1", true)
	r.answeredBy("etl-1", "/pause")
	var list wire.TaskList
	testkit.Must(t, json.Unmarshal(r.call("GET", "/v1/runs", "").body, &list))
	got := map[string]*wire.RunProgress{}
	for _, one := range list.Tasks {
		got[one.ID] = one.Run
	}
	want := map[string]*wire.RunProgress{
		"etl-1": {Phase: wire.RunPhaseMain, Paused: true, Steps: 5}, "etl-2": nil,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestGetRun_OfAWorkflowSaysHowToFindItsRuns(t *testing.T) {
	t.Parallel()
	r := startFlowRig(t)
	who := control.Caller{Namespace: "default"}
	_, err := r.endpoints.Control.PutWorkflow(r.ctx, who, "etl", []byte(etl), control.PutOptions{})
	testkit.Must(t, err)
	const want = `no task "etl" in namespace "default", but a workflow of that id ` +
		"(dtsctl flow get etl; its runs: dtsctl flow runs --workflow etl)"
	for _, call := range []string{
		"GET ", "POST /pause", "POST /resume", "POST /rerun", "POST /cancel", "GET /graph", "GET /audit",
	} {
		method, path, _ := strings.Cut(call, " ")
		if p := r.call(method, "/v1/runs/etl"+path, "").problem(t); p.Code != "task_not_found" || p.Detail != want {
			t.Errorf("%s: %s %s", call, p.Code, p.Detail)
		}
	}
}

// answeredBy asks something of a run while its leader carries it on.
func (r *rig) answeredBy(id, path string) wire.Run {
	r.t.Helper()
	answered := make(chan answer, 1)
	go func() { answered <- r.call("POST", "/v1/runs/"+id+path, "") }()
	testkit.Eventually(r.t, "somebody asks", func() bool {
		reads, err := r.store.Partitions.At(0).ReadRuns(r.ctx, partition.ReadRun{Ref: ref(id)})
		return err == nil && reads[0].Asks != ""
	})
	r.plan(id, false)
	return runIn(r.t, <-answered)
}

func TestPauseRun_HoldsStepsBackUntilItIsResumed(t *testing.T) {
	t.Parallel()
	r := startFlowRig(t)
	r.startFlow("etl-1")
	if p := r.call("POST", "/v1/runs/etl-1/pause", "").problem(t); p.Code != "task_not_running" {
		t.Errorf("before it begins: %+v", p)
	}
	r.plan("etl-1", true)
	if run := r.answeredBy("etl-1", "/pause"); !run.Paused {
		t.Errorf("it is not paused: %+v", run)
	}
	r.end("etl-1@.list", task.Succeeded, "")
	testkit.Must(t, r.store.Tasks.AskRun(r.ctx, ref("etl-1"), "pause"))
	if run := r.readFlow(); len(run.Asked) != 1 || run.Asked[0] != "pause" {
		t.Errorf("it is asked for %v", run.Asked)
	}
	r.plan("etl-1", false)
	const waits = "blocked waits for the run to be resumed: it is paused"
	if got := statesOfSteps(r.readFlow())["load"]; got != waits {
		t.Errorf("load is %s", got)
	}
	if run := r.answeredBy("etl-1", "/resume"); run.Paused || statesOfSteps(run)["load"] != "active scheduled" {
		t.Errorf("after the pause: %+v", run)
	}
}

func TestRerunRun_BeginsAgainWithWhatFailed(t *testing.T) {
	t.Parallel()
	r := startFlowRig(t)
	r.startFlow("etl-1")
	r.plan("etl-1", true)
	r.end("etl-1@.list", task.Succeeded, "")
	r.plan("etl-1", false)
	r.end("etl-1@.load", task.Failed, "no room")
	for _, step := range []string{"alert", "tidy"} {
		r.plan("etl-1", false)
		r.end("etl-1@."+step, task.Succeeded, "")
	}
	r.plan("etl-1", false)
	failed := r.readFlow()
	if failed.State != wire.StateFailed || failed.FinishedAt == nil || wire.Value(failed.Steps[1].Error) != "no room" ||
		statesOfSteps(failed)["report"] != "upstream_failed never runs: load is failed (rule success)" {
		t.Errorf("it is %s (%s): %v", failed.State, wire.Value(failed.Error), statesOfSteps(failed))
	}
	if p := r.call("POST", "/v1/runs/etl-1/rerun", `{"from": ["lod"]}`).problem(t); wire.Value(p.Field) != "from" {
		t.Errorf("from a step that there is not: %+v", p)
	}
	if p := r.call("POST", "/v1/runs/etl-1/cancel", "").problem(t); p.Code != "task_finished" {
		t.Errorf("cancel: %+v", p)
	}
	again := runIn(t, r.call("POST", "/v1/runs/etl-1/rerun", ""))
	if again.State != wire.StateScheduled {
		t.Errorf("it is %s", again.State)
	}
	r.plan("etl-1", true)
	got := r.readFlow()
	want := map[string]string{
		"list": "succeeded succeeded", "load": "active scheduled", "report": "blocked waits for load (rule success)",
		"alert": "blocked waits for the end of steps", "tidy": "blocked waits for the end of on_failure",
	}
	if diff := cmp.Diff(want, statesOfSteps(got)); diff != "" || got.Attempt != 2 {
		t.Errorf("attempt %d (-want +got):\n%s", got.Attempt, diff)
	}
	if audit := string(r.call("GET", "/v1/runs/etl-1/audit", "").body); !strings.Contains(audit, `"sound":true`) {
		t.Errorf("audit: %s", audit)
	}
}

func TestCancelRun_EndsOneThatHasNotBegun(t *testing.T) {
	t.Parallel()
	r := startFlowRig(t)
	r.startFlow("etl-1")
	run := runIn(t, r.call("POST", "/v1/runs/etl-1/cancel?note=too+late", ""))
	if run.State != wire.StateCancelled || !strings.Contains(wire.Value(run.Error), "too late") {
		t.Errorf("it is %+v", run)
	}
	r.startFlow("etl-2")
	r.plan("etl-2", true)
	if run := runIn(t, r.call("POST", "/v1/runs/etl-2/cancel", "")); run.CancelRequestedAt == nil {
		t.Errorf("it is %+v", run)
	}
}

// The audit compares the run with its tasks: here a step has succeeded whose task has failed.
func TestAuditRun_SaysWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	r := startFlowRig(t)
	r.startFlow("etl-1")
	r.plan("etl-1", true)
	r.end("etl-1@.list", task.Succeeded, "")
	r.plan("etl-1", false)
	const key = "dts:{0}:states"
	name := ref("etl-1@.list").String()
	was := r.db.HGet(r.ctx, key, name).Val()
	is := strings.Replace(was, "succeeded", "failed", 1)
	if is == was {
		t.Fatalf("%s of %s is %q", name, key, was)
	}
	testkit.Must(t, r.db.HSet(r.ctx, key, name, is).Err())
	var audit wire.RunAudit
	testkit.Must(t, json.Unmarshal(r.call("GET", "/v1/runs/etl-1/audit", "").body, &audit))
	if audit.Sound || len(audit.Findings) != 1 || !strings.Contains(audit.Findings[0], "list") || audit.Steps != 5 {
		t.Errorf("it found %+v", audit)
	}
}

func TestRunGraph_DrawsInThreeForms(t *testing.T) {
	t.Parallel()
	r := startFlowRig(t)
	r.startFlow("etl-1")
	r.plan("etl-1", true)
	const drawing = `▸ list  active
│
○ load  blocked
│
○ report  blocked

on_failure:
○ alert  blocked

finally:
○ tidy  blocked
`
	drawn := r.call("GET", "/v1/runs/etl-1/graph?format=text", "")
	if string(drawn.body) != drawing || drawn.header.Get("Content-Type") != "text/plain; charset=UTF-8" {
		t.Errorf("%s\n%s", drawn.header.Get("Content-Type"), drawn.body)
	}
	dot := r.call("GET", "/v1/runs/etl-1/graph?format=dot", "")
	for _, line := range []string{
		`digraph "etl-1" {`, `"list" -> "load"`, `"list" [label="list\nactive", fillcolor=lightblue]`, `cluster_finally`,
	} {
		if !strings.Contains(string(dot.body), line) {
			t.Errorf("%q is not in\n%s", line, dot.body)
		}
	}
	var graph wire.RunGraph
	testkit.Must(t, json.Unmarshal(r.call("GET", "/v1/runs/etl-1/graph", "").body, &graph))
	want := wire.GraphStep{ID: "load", Section: "steps", State: "blocked", Needs: []string{"list"}, Layer: 1}
	if len(graph.Steps) != 5 || !cmp.Equal(graph.Steps[1], want) {
		t.Errorf("the places are %+v", graph.Steps)
	}
}
