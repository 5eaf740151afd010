package flow_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/clitest"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// etl is a file with a workflow.
const etl = `# loads what the shops sold
params:
  day: {type: string, required: true}
  size: {type: integer, default: 5}
steps:
  - id: list
    task: {type: noop, payload: {day: "${{ params.day }}"}}
  - id: load
    needs: [list]
    task:
      type: noop
      timeout: 5m
  - {id: report, needs: [load], task: {type: noop}}
finally:
  - {id: tidy, task: {type: noop}}
`

// write writes a file of a test, and returns its path.
func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "etl.yaml")
	testkit.Must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// terminal is a terminal without colours.
func terminal(s *clitest.Stub) clitest.Shell {
	sh := s.Terminal()
	sh.Env = map[string]string{"NO_COLOR": "1"}
	return sh
}

// run is a run with steps in several states.
func run(changes ...func(*wire.Run)) wire.Run {
	ago := func(d time.Duration) *wire.Time { return new(wire.At(clitest.Now.Add(-d))) }
	r := wire.Run{
		ID: "etl-1", Namespace: "default", State: wire.StateRunning, Attempt: 1, Phase: new(wire.RunPhaseMain),
		Params: wire.RunParams{"day": json.RawMessage(`"2026-01-01"`)}, StartedAt: ago(3 * time.Minute),
		Deadline: new(wire.At(clitest.Now.Add(2 * time.Hour))),
		Steps: []wire.RunStep{
			{
				ID: "list", Section: wire.RunSectionSteps, State: wire.StepSucceeded, Task: new("etl-1@.list"),
				TaskState: new(wire.StateSucceeded), Attempt: new(1), Generation: new(1),
				StartedAt: ago(3 * time.Minute), FinishedAt: ago(2 * time.Minute),
			},
			{
				ID: "load", Section: wire.RunSectionSteps, State: wire.StepActive, Task: new("etl-1@.load"),
				TaskState: new(wire.StateRunning), Attempt: new(2), Generation: new(1), StartedAt: ago(90 * time.Second),
				Needs: []string{"list"}, Rule: new("success"), Error: new("no room"),
			},
			{
				ID: "report", Section: wire.RunSectionSteps, State: wire.StepBlocked, Needs: []string{"load"},
				Rule: new("success"), Reason: new("waits for load (rule success)"),
			},
			{ID: "tidy", Section: wire.RunSectionFinally, State: wire.StepBlocked, Reason: new("waits for the end of steps")},
		},
	}
	for _, change := range changes {
		change(&r)
	}
	return r
}

// succeeded makes a run one that has succeeded.
func succeeded(r *wire.Run) {
	r.State, r.Phase, r.Deadline = wire.StateSucceeded, new(wire.RunPhaseEnded), nil
	r.FinishedAt, r.Result = new(wire.At(clitest.Now)), new(`{"rows":3}`)
	for i := range r.Steps {
		r.Steps[i].State, r.Steps[i].Reason, r.Steps[i].Error = wire.StepSucceeded, nil, nil
	}
}

func TestRun_SendsTheFileAndItsParameters(t *testing.T) {
	s := clitest.Start(t)
	s.On("POST /v1/runs", 201, clitest.Task("etl-1", wire.StateScheduled))
	path := write(t, etl)
	s.Pipe().Run(t, "flow", "run", "-f", path, "-p", "day=20260101", "-p", "size=7", "-p", "more=a=b", "--id", "etl-1",
		"--label", "team=data", "--delay", "1h").Expect(t, 0, "etl-1\n", "")
	var sent struct {
		ID         string
		Delay      string
		Labels     map[string]string
		Params     map[string]any
		Definition struct {
			Steps []struct {
				ID   string
				Task struct{ Timeout string }
			}
		}
	}
	testkit.Must(t, json.Unmarshal([]byte(s.Last().Body), &sent))
	if sent.Params["day"] != "20260101" || sent.Params["size"] != 7.0 || sent.Params["more"] != "a=b" {
		t.Errorf("the parameters are %v", sent.Params)
	}
	if len(sent.Definition.Steps) != 3 || sent.Definition.Steps[1].Task.Timeout != "5m" || sent.Delay != "1h0m0s" ||
		sent.Labels["team"] != "data" || sent.ID != "etl-1" {
		t.Errorf("it has sent %s", s.Last().Body)
	}
	terminal(s).Run(t, "flow", "run", "-f", path, "-p", "day=1").Expect(t, 0, "etl-1 scheduled due in 3 minutes\n", "")
}

func TestRun_RunsAWorkflowThatWasPut(t *testing.T) {
	s := clitest.Start(t)
	s.On("POST /v1/runs", 201, clitest.Task("etl-1", wire.StateScheduled))
	definition := []byte(`{"params": {"day": {"type": "string"}}, "steps": [{"id": "a", "task": {"type": "noop"}}]}`)
	s.On("GET /v1/workflows/{id}", 200, wire.Workflow{ID: "etl", Definition: definition})
	s.Pipe().Run(t, "flow", "run", "etl", "-p", "day=20260101", "-p", "size=7").Expect(t, 0, "etl-1\n", "")
	if body := s.Last().Body; body != `{"params":{"day":"20260101","size":7},"workflow":"etl"}` {
		t.Errorf("it has sent %s", body)
	}
	s = clitest.Start(t)
	s.On("GET /v1/workflows/{id}", 404, clitest.Problem(404, wire.WorkflowNotFound, "", "no workflow etl"))
	s.Pipe().Run(t, "flow", "run", "etl", "-p", "day=1").Expect(t, 1, "", "dtsctl: no workflow etl (workflow_not_found)\n")
	s = clitest.Start(t)
	s.On("POST /v1/runs", 404, clitest.Problem(404, wire.WorkflowNotFound, "", "no workflow etl"))
	s.Pipe().Run(t, "flow", "run", "etl").Expect(t, 1, "", "dtsctl: no workflow etl (workflow_not_found)\n")
}

func TestRun_ReadsStandardInput(t *testing.T) {
	s := clitest.Start(t)
	s.On("POST /v1/runs", 200, clitest.Task("etl-1", wire.StateScheduled))
	sh := terminal(s)
	sh.Stdin = `{"steps": [{"id": "a", "task": {"type": "noop"}}]}`
	sh.Run(t, "flow", "run", "-f", "-", "--dry-run").Expect(t, 0,
		"The workflow and its parameters are valid. Nothing was started.\n", "")
	sh = s.Pipe()
	sh.Stdin = "steps: [{id: a, task: {type: noop}}]"
	sh.Run(t, "flow", "run", "-f", "-", "--dry-run").Expect(t, 0, "", "")
	if line := s.Last().Line; line != "POST /v1/runs?dry_run=true" {
		t.Errorf("it has asked for %s", line)
	}
}

func TestRun_WaitsForTheEnd(t *testing.T) {
	s := clitest.Start(t)
	s.On("POST /v1/runs", 201, clitest.Task("etl-1", wire.StateScheduled))
	s.On("GET /v1/tasks/{id}", 200, clitest.Task("etl-1", wire.StateFailed, clitest.Ran, func(t *wire.Task) {
		t.Error = new("step load failed")
	}))
	s.On("GET /v1/events", 503, clitest.Problem(503, wire.Unavailable, "", "no"))
	got := s.Pipe().Run(t, "flow", "run", "-f", write(t, etl), "-p", "day=1", "--wait")
	got.Expect(t, 1, "etl-1\tfailed\n", "submitted etl-1\ndtsctl: etl-1 failed: step load failed\n")
}

func TestRun_NamesThePlaceOfAnError(t *testing.T) {
	s := clitest.Start(t)
	refused := clitest.Problem(400, wire.Invalid, "definition.steps[1].task.timeout",
		`definition.steps[1].task.timeout: 5m0s is too long`)
	refused.Errors = []wire.InvalidField{
		{Field: new("definition.steps[2].needs[0]"), Detail: `definition.steps[2].needs[0]: "load" is no step`},
		{Field: new("id"), Detail: "id: is too long"},
		{Field: refused.Field, Detail: refused.Detail},
		{Field: new("definition.output"), Detail: "definition.output: is missing"},
	}
	s.On("POST /v1/runs", 400, refused)
	path := write(t, etl)
	s.Pipe().Run(t, "flow", "run", "-f", path, "-p", "day=1").Expect(t, 1, "", strings.ReplaceAll(
		`dtsctl: id: is too long (invalid)
dtsctl: FILE:2:1: output: is missing (invalid)
dtsctl: FILE:12:16: steps[1].task.timeout: 5m0s is too long (invalid)
dtsctl: FILE:13:26: steps[2].needs[0]: "load" is no step (invalid)
`, "FILE", path))
	s = clitest.Start(t)
	s.On("POST /v1/runs", 400, clitest.Problem(400, wire.Invalid, "params.day", "params.day: is missing"))
	s.Pipe().Run(t, "flow", "run", "-f", path).Expect(t, 1, "", "dtsctl: params.day: is missing (invalid)\n")
	s.On("PUT /v1/workflows/{id}", 400, clitest.Problem(400, wire.Invalid, "id", `id: "a@b" is no id`))
	s.Pipe().Run(t, "flow", "put", "a@b", "-f", path).Expect(t, 1, "", "dtsctl: id: \"a@b\" is no id (invalid)\n")
}

func TestPut_PrintsWhatCameOfIt(t *testing.T) {
	s := clitest.Start(t)
	answer := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Dts-Change", "changed")
		s.Reply(w, 200, wire.Workflow{
			Namespace: "default", ID: "etl", Revision: 3, Definition: []byte(`{"steps":[{"id":"a"}]}`),
			CreatedAt: wire.At(clitest.Now), UpdatedAt: wire.At(clitest.Now), Warnings: []string{"step load: nobody runs it"},
		})
	}
	s.Handle("PUT /v1/workflows/{id}", answer)
	s.Handle("POST /v1/workflows/{id}/rollback", answer)
	const warning = "warning: step load: nobody runs it\n"
	path := write(t, etl)
	s.Pipe().Run(t, "flow", "put", "etl", "-f", path).Expect(t, 0, "etl\t3\tchanged\n", warning)
	s.Pipe().Run(t, "flow", "rollback", "etl", "1", "--dry-run").Expect(t, 0, "etl\t3\tchanged\n", warning)
	terminal(s).Run(t, "flow", "rollback", "etl", "1").Expect(t, 0, "etl changed, revision 3\n", warning)
	for _, line := range []string{"flow rollback etl 1 --dry-run", "flow put etl --dry-run -f " + path} {
		terminal(s).Run(t, strings.Fields(line)...).Expect(t, 0, "etl would be changed, revision 3\n", warning)
	}
}

func TestDelete_NamesSchedulesThatRunTheWorkflow(t *testing.T) {
	s := clitest.Start(t)
	s.On("DELETE /v1/workflows/{id}", 200, wire.WorkflowDeletion{Schedules: []string{"daily", "hourly"}, More: new(true)})
	const warning = "warning: schedules that start it fail from then on: daily, hourly\n" +
		"warning: there may be more schedules that start it: not all were looked at\n"
	s.Pipe().Run(t, "flow", "delete", "etl").Expect(t, 0, "etl\n", warning)
	terminal(s).Run(t, "flow", "delete", "etl", "--dry-run").Expect(t, 0, "etl would be deleted\n", warning)
	if line := s.Last().Line; line != "DELETE /v1/workflows/etl?dry_run=true" {
		t.Errorf("it has asked for %s", line)
	}
}

func TestFlow_RefusesFilesThatItCannotRead(t *testing.T) {
	s := clitest.Start(t)
	for text, want := range map[string]string{
		"":                              "FILE: is empty",
		"steps: [\n":                    "FILE:",
		"- a\n":                         "FILE:1:1: must be a mapping, not a list",
		"steps: []\n---\nsteps: []\n":   "FILE:3:1: is a second document: one is expected",
		"steps:\n  a: {}\n":             "FILE:1:1: steps: cannot be an object",
		"steps: []\nsteps: []\n":        "FILE:2:1: steps: is given twice, first in line 1",
		"steps: [{id: [a]}]\n":          "cannot be an array",
		"{\"steps\": [}":                "is not JSON",
		"steps:\n  - {id: a, needs: b}": "needs: cannot be a string",
		"params: {}":                    "FILE:1:1: steps: is missing",
		"steps: [{id: a}, {id: a}]":     `FILE:1:23: steps[1].id: "a" is missing, or is there twice`,
		"steps: [{id: a, needs: [b]}]":  `FILE:1:25: steps[0].needs[0]: "b" is no step of steps`,
		"steps: [{id: a, needs: [b]}, {id: b, needs: [a]}, {id: c}, {id: d, needs: [c, a]}]": "FILE:1:1: steps: have no " +
			"order: these are in a circle, or behind one: a, b, d",
		"steps:\n  - id: a\n    neds: [b]\n": "FILE:3:5: steps[0].neds: is not a field here; did you mean needs?",
		"workflows:\n  - id: etl\n    steps: []": "FILE:1:1: workflows: is no field of a workflow: this is a file for " +
			`"dtsctl apply -f"`,
	} {
		path := write(t, text)
		got := s.Pipe().Run(t, "flow", "graph", "-f", path)
		if got.Code != 2 || !strings.Contains(got.Err, strings.Replace(want, "FILE", path, 1)) {
			t.Errorf("%q: %d %s", text, got.Code, got.Err)
		}
	}
	for line, want := range map[string]string{
		"flow run":                            "WORKFLOW or -f is missing: which workflow?",
		"flow run -f /none.yaml":              "dtsctl: --file: open /none.yaml: no such file or directory",
		"flow run -f - -p day":                "--param: \"day\" must be NAME=VALUE",
		"flow run -f - --dry-run --wait":      "there is nothing to wait for",
		"flow run -f - --delay 1s --at 12:00": "give one of them, not both",
		"flow put etl -f - --if-match 0":      "--if-match: 0 is less than 1",
		"flow graph":                          "RUN is missing",
		"flow graph etl-1 -f -":               "one argument too many",
		"flow why etl-1 load x":               "one argument too many",
		"flow rerun etl-1 --from=":            "must not be empty",
	} {
		sh := s.Pipe()
		sh.Stdin = "steps: []"
		if got := sh.Run(t, strings.Fields(line)...); got.Code != 2 || !strings.Contains(got.Err, want) {
			t.Errorf("%s: %d %s", line, got.Code, got.Err)
		}
	}
	if lines := s.Lines(); len(lines) > 0 {
		t.Errorf("it has asked for %v", lines)
	}
}

func TestRuns_ListsRuns(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/runs", 200, wire.TaskList{Tasks: []wire.Task{
		clitest.Task("etl-2", wire.StateFailed, clitest.Ran, func(t *wire.Task) { t.Error = new("step load failed") }),
		clitest.Task("etl-3", wire.StateRunning, clitest.Ran, func(t *wire.Task) {
			t.Run = &wire.RunProgress{Phase: wire.RunPhaseMain, Paused: true, Steps: 5, Ended: 2}
		}),
	}})
	line := "flow runs --state failed --since 2h -l team=data --workflow etl"
	s.Pipe().Run(t, strings.Fields(line)...).Expect(t, 0,
		"etl-2\tfailed\t1\t2026-01-02T15:07:05.000Z\t2026-01-02T15:04:01.500Z\t2026-01-02T15:04:03.000Z\t\t"+
			"step load failed\tdefault\t\t\t\n"+
			"etl-3\trunning\t1\t2026-01-02T15:07:05.000Z\t2026-01-02T15:04:01.500Z\t2026-01-02T15:04:03.000Z\t\t\tdefault"+
			"\t2\t5\ttrue\n", "")
	want := "GET /v1/runs?state=failed&label=team%3Ddata&label=workflow%3Detl&since=2026-01-02T13%3A04%3A05Z&limit=50"
	if line := s.Last().Line; line != want {
		t.Errorf("it has asked for %s", line)
	}
	got := terminal(s).Run(t, "flow", "runs", "-A")
	if got.Code != 0 || !strings.HasPrefix(got.Out, "NAMESPACE  ID") || !strings.Contains(got.Out, "2 of 5, paused") ||
		!strings.Contains(s.Last().Line, "namespace=%2A") {
		t.Errorf("%s: %+v", s.Last().Line, got)
	}
}

func TestShow_PrintsARunAndItsSteps(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/runs/{id}", 200, run())
	terminal(s).Run(t, "flow", "show", "etl-1").Expect(t, 0, `etl-1 running for 3m0s
params    {"day":"2026-01-01"}
deadline  in 2 hours

STEP    STATE      TASK       ATTEMPT  TOOK   WHY
list    succeeded  succeeded  1        1m0s
load    active     running    2        1m30s  no room
report  blocked                               waits for load (rule success)
tidy    blocked                               waits for the end of steps
`, "")
	s.Pipe().Run(t, "flow", "show", "etl-1").Expect(t, 0,
		"list\tsucceeded\tsucceeded\t1\t1m0s\t\tsteps\tetl-1@.list\t2026-01-02T15:01:05.000Z\t2026-01-02T15:02:05.000Z\n"+
			"load\tactive\trunning\t2\t1m30s\tno room\tsteps\tetl-1@.load\t2026-01-02T15:02:35.000Z\t\n"+
			"report\tblocked\t\t\t\twaits for load (rule success)\tsteps\t\t\t\n"+
			"tidy\tblocked\t\t\t\twaits for the end of steps\tfinally\t\t\t\n", "")
}

func TestShow_MarksAFailureThatIsAllowed(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/runs/{id}", 200, run(func(r *wire.Run) {
		r.Steps[1].State, r.Steps[1].FailureAllowed = wire.StepFailed, new(true)
	}))
	got := terminal(s).Run(t, "flow", "show", "etl-1")
	if !strings.Contains(got.Out, "(allowed) no room") || strings.Count(got.Out, "(allowed)") != 1 {
		t.Errorf("it prints %s", got.Out)
	}
}

func TestShow_WatchesARunUntilItsEnd(t *testing.T) {
	s := clitest.Start(t)
	looks := 0
	s.Handle("GET /v1/runs/{id}", func(w http.ResponseWriter, _ *http.Request) {
		if looks++; looks == 1 {
			s.Reply(w, 200, run())
			return
		}
		s.Reply(w, 200, run(succeeded))
	})
	got := s.Pipe().Run(t, "flow", "show", "etl-1", "--watch")
	var states []string
	for line := range strings.Lines(got.Out) {
		words := strings.Split(line, "\t")
		states = append(states, words[0]+" "+words[1])
	}
	const want = "list succeeded, load active, report blocked, tidy blocked, " +
		"load succeeded, report succeeded, tidy succeeded"
	if all := strings.Join(states, ", "); got.Code != 0 || all != want {
		t.Errorf("%d: %s", got.Code, all)
	}
}

func TestGraph_DrawsARunOrAFile(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/runs/{id}/graph", 200, wire.RunGraph{Steps: []wire.GraphStep{
		{ID: "list", Section: wire.RunSectionSteps, State: wire.StepSucceeded},
		{ID: "load", Section: wire.RunSectionSteps, State: wire.StepFailed, Needs: []string{"list"}, Layer: 1},
		{ID: "tidy", Section: wire.RunSectionFinally, State: wire.StepActive},
	}})
	terminal(s).Run(t, "flow", "graph", "etl-1").Expect(t, 0, `✓ list  succeeded
│
✗ load  failed

finally:
▸ tidy  active
`, "")
	s.Pipe().Run(t, "flow", "graph", "etl-1", "--ascii").Expect(t, 0,
		"+ list  succeeded\n|\nx load  failed\n\nfinally:\n> tidy  active\n", "")
	if got := s.Pipe().Run(t, "flow", "graph", "etl-1", "--dot"); !strings.Contains(got.Out, `"list" -> "load"`) {
		t.Errorf("as DOT: %+v", got)
	}
	nobody := clitest.Shell{Server: "http://127.0.0.1:1"}
	path := write(t, etl)
	nobody.Run(t, "flow", "graph", "-f", path).Expect(t, 0, "● list\n│\n● load\n│\n● report\n\nfinally:\n● tidy\n", "")
	nobody.Run(t, "flow", "graph", "-f", path, "-o", "json").Expect(t, 0,
		`{"steps":[{"id":"list","section":"steps","layer":0,"row":0},`+
			`{"id":"load","section":"steps","needs":["list"],"layer":1,"row":0},`+
			`{"id":"report","section":"steps","needs":["load"],"layer":2,"row":0},`+
			`{"id":"tidy","section":"finally","layer":0,"row":0}]}`+"\n", "")
}

func TestWhy_SaysWhyStepsAreWhereTheyAre(t *testing.T) {
	s := clitest.Start(t)
	r := run()
	s.Handle("GET /v1/runs/{id}", func(w http.ResponseWriter, _ *http.Request) { s.Reply(w, 200, r) })
	s.On("GET /v1/tasks/{id}/why", 200, wire.Why{
		Now: new("It waits for attempt 1 of 25."), Also: []wire.WaitingFor{},
		WaitingFor: &wire.WaitingFor{Code: wire.WaitsForQueuePaused, Detail: "It is paused.", ToDo: "Resume it."},
	})
	terminal(s).Run(t, "flow", "why", "etl-1").Expect(t, 0, `etl-1 running for 3m0s
load    active   its task is running for 1m30s, attempt 2: no room
report  blocked  waits for load (rule success)
tidy    blocked  waits for the end of steps
`, "")
	s.Pipe().Run(t, "flow", "why", "etl-1", "report").Expect(t, 0, "report\tblocked\twaits for load (rule success)\n", "")
	s.Pipe().Run(t, "flow", "why", "etl-1", "lode").Expect(t, 1, "",
		"dtsctl: etl-1 has no step \"lode\" (dtsctl flow show etl-1)\n")
	r.Steps[1].TaskState = new(wire.StateQueued)
	const paused = "queue_paused\t\t\t\t\tIt is paused.\tResume it.\t\n"
	s.Pipe().Run(t, "flow", "why", "etl-1", "load").Expect(t, 0, paused, "")
	if line := s.Last().Line; line != "GET /v1/tasks/etl-1@.load/why" {
		t.Errorf("it has asked for %s", line)
	}
	r.State = wire.StateScheduled
	s.Pipe().Run(t, "flow", "why", "etl-1").Expect(t, 0, paused, "")
	if line := s.Last().Line; line != "GET /v1/tasks/etl-1/why" {
		t.Errorf("it has asked for %s", line)
	}
	r.State, r.Waits = wire.StateQueued, new("The workflow etl is paused.")
	s.Pipe().Run(t, "flow", "why", "etl-1").Expect(t, 0, "etl-1\tqueued\tThe workflow etl is paused.\n", "")
	r = run(func(r *wire.Run) { r.Waits, r.Steps = new("Its deadline was over."), r.Steps[3:] })
	s.Pipe().Run(t, "flow", "why", "etl-1").Expect(t, 0,
		"etl-1\trunning\tIts deadline was over.\ntidy\tblocked\twaits for the end of steps\n", "")
	terminal(s).Run(t, "flow", "why", "etl-1").Expect(t, 0,
		"etl-1 running for 3m0s\nIts deadline was over.\ntidy  blocked  waits for the end of steps\n", "")
}

func TestChanges_PrintWhatBecameOfTheRun(t *testing.T) {
	s := clitest.Start(t)
	s.On("POST /v1/runs/{id}/pause", 200, run(func(r *wire.Run) { r.Paused = true }))
	s.On("POST /v1/runs/{id}/resume", 200, run(func(r *wire.Run) { r.Paused, r.Asked = true, []string{"resume"} }))
	s.On("POST /v1/runs/{id}/cancel", 200, run(func(r *wire.Run) { r.CancelRequestedAt = new(wire.At(clitest.Now)) }))
	s.On("POST /v1/runs/{id}/rerun", 200, run(func(r *wire.Run) {
		r.State, r.Attempt, r.StartedAt, r.RunAt = wire.StateScheduled, 1, nil, wire.At(clitest.Now)
	}))
	for _, c := range []struct{ line, out, request, body string }{
		{"pause etl-1", "etl-1 paused for 3m0s", "/pause", ""},
		{"resume etl-1", "etl-1 paused asked to resume", "/resume", ""},
		{"cancel etl-1 --note=wrong", "etl-1 running asked to stop", "/cancel?note=wrong", ""},
		{"rerun etl-1 --from a,b --from c", "etl-1 scheduled due now", "/rerun", `{"from":["a","b","c"]}`},
		{"rerun etl-1", "etl-1 scheduled due now", "/rerun", "{}"},
	} {
		terminal(s).Run(t, append([]string{"flow"}, strings.Fields(c.line)...)...).Expect(t, 0, c.out+"\n", "")
		if got := s.Last(); got.Line != "POST /v1/runs/etl-1"+c.request || got.Body != c.body {
			t.Errorf("%s has sent %s %s", c.line, got.Line, got.Body)
		}
	}
	s.Pipe().Run(t, "flow", "pause", "etl-1").Expect(t, 0, "etl-1\tpaused\n", "")
	s.Pipe().Run(t, "flow", "cancel", "etl-1").Expect(t, 0, "etl-1\trunning\tasked to stop\n", "")
	s = clitest.Start(t)
	s.On("POST /v1/runs/{id}/pause", 409, clitest.Problem(409, wire.TaskNotARun, "", `task "a" is no run of a workflow`))
	s.Pipe().Run(t, "flow", "pause", "a").Expect(t, 1, "", "dtsctl: task \"a\" is no run of a workflow (task_not_a_run)\n")
}

func TestAudit_EndsWithOneIfSomethingDoesNotFit(t *testing.T) {
	s := clitest.Start(t)
	a := wire.RunAudit{ID: "etl-1", State: wire.StateRunning, Steps: 4, Sound: true, Findings: []string{}}
	s.Handle("GET /v1/runs/{id}/audit", func(w http.ResponseWriter, _ *http.Request) { s.Reply(w, 200, a) })
	terminal(s).Run(t, "flow", "audit", "etl-1").Expect(t, 0, "Sound: 4 steps of etl-1 fit the definition.\n", "")
	s.Pipe().Run(t, "flow", "audit", "etl-1").Expect(t, 0, "", "")
	a.Sound, a.Findings = false, []string{"load is succeeded, its task is failed"}
	terminal(s).Run(t, "flow", "audit", "etl-1").Expect(t, 1,
		"load is succeeded, its task is failed\n\nNot sound: 1 finding.\n", "")
	s.Pipe().Run(t, "flow", "audit", "etl-1").Expect(t, 1, "load is succeeded, its task is failed\n", "")
}
