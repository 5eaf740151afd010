package apply_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/clitest"
	"github.com/dts-sched/dts/internal/testkit"
)

// flow is a workflow as the server answers it.
func flow(id string, revision int, definition string) wire.Workflow {
	return wire.Workflow{
		ID: id, Namespace: "default", Revision: revision, Definition: json.RawMessage(definition),
		CreatedAt: wire.At(clitest.Now), UpdatedAt: wire.At(clitest.Now),
	}
}

// takeFlows answers every PUT of a workflow, and says that it came to this.
func takeFlows(s *clitest.Stub, change string) {
	s.Handle("PUT /v1/workflows/{id}", func(w http.ResponseWriter, r *http.Request) {
		var definition json.RawMessage
		testkit.Must(s.T, json.NewDecoder(r.Body).Decode(&definition))
		w.Header().Set("Dts-Change", change)
		s.Reply(w, http.StatusOK, flow(r.PathValue("id"), 2, string(definition)))
	})
}

// nightly is a file with a workflow, a schedule and a task that run it, the workflow last.
const nightly = `schedules:
- {id: night, every: 1h, workflow: {id: etl, params: {day: today}}}
tasks:
- {id: once, type: workflow, payload: {workflow: etl, params: {day: now}}}
workflows:
- id: etl
  params: {day: {type: string, default: now}}
  labels: {v: 1.10}
  steps: [{id: load, task: {type: noop, timeout: 5m}}]
`

func TestApply_PutsWorkflowsBeforeWhatRunsThem(t *testing.T) {
	s := clitest.Start(t)
	takeFlows(s, "created")
	takePuts(s, "created")
	clitest.AcceptBatches(s)
	applyText(t, s.Pipe(), nightly).Expect(t, 0, "workflow\tdefault\tetl\tcreated\t2\n"+
		"schedule\tdefault\tnight\tcreated\t3\ntask\tdefault\tonce\tcreated\t\n", "")
	want := []string{
		"PUT /v1/workflows/etl?namespace=default", "PUT /v1/schedules/night?namespace=default", "POST /v1/tasks/batch",
	}
	if lines := s.Lines()[len(want):]; !slices.Equal(lines, want) { // after the check
		t.Errorf("asked %q, want %q", lines, want)
	}
	wantBody := `{"every":"1h","task":{"type":"workflow","payload":{"workflow":"etl","params":{"day":"today"}}}}`
	if got := s.LastOf("PUT").Body; got != wantBody {
		t.Errorf("sent %s, want %s", got, wantBody)
	}
}

func TestApply_ChangesNothingIfOneEntryIsRefused(t *testing.T) {
	for _, change := range []string{"created", "changed"} {
		s := clitest.Start(t)
		takeFlows(s, change)
		s.On("PUT /v1/schedules/{id}", 400,
			clitest.Problem(400, wire.Invalid, "task.payload.params.day", "task.payload.params.day: is missing"))
		s.Handle("POST /v1/tasks/batch", func(w http.ResponseWriter, r *http.Request) {
			var b wire.SubmissionBatch
			testkit.Must(s.T, json.NewDecoder(r.Body).Decode(&b))
			if !strings.Contains(string(b.Tasks[0].Payload), `"definition"`) {
				t.Errorf("the task is checked against the workflow in force: %s", b.Tasks[0].Payload)
			}
			conflict := clitest.Problem(409, wire.TaskConflict, "", "it has other content")
			s.Reply(w, 200, wire.BatchAnswer{Results: []wire.BatchResult{{Status: 409, Error: &conflict}}})
		})
		got := applyText(t, s.Pipe(), nightly, "-o", "json")
		const want = "dtsctl: -:2:60: schedule night: task.payload.params.day: is missing (invalid)\n" + nothingChanged
		if got.Code != 1 || got.Err != want || strings.Count(got.Out, `"outcome":"refused"`) != 1 ||
			strings.Count(got.Out, `"outcome"`) != 1 {
			t.Errorf("%s: %+v", change, got)
		}
		for _, line := range s.Lines() {
			if !strings.Contains(line, "dry_run=true") {
				t.Errorf("%s: %s changes something", change, line)
			}
		}
	}
}

// A new revision breaks a schedule that the same file puts after it.
func TestApply_DoesNotWarnOfASchedulePutAfterwards(t *testing.T) {
	const unfit = ": its runs will fail: params.day: is missing"
	s := clitest.Start(t)
	s.Handle("PUT /v1/workflows/{id}", func(w http.ResponseWriter, _ *http.Request) {
		answer := flow("etl", 2, `{"steps":[{"id":"a","task":{"type":"noop"}}]}`)
		answer.Warnings = []string{"schedule night" + unfit, "schedule nightly" + unfit}
		w.Header().Set("Dts-Change", "changed")
		s.Reply(w, http.StatusOK, answer)
	})
	takePuts(s, "changed")
	clitest.AcceptBatches(s)
	applyText(t, s.Pipe(), nightly).Expect(t, 0, "workflow\tdefault\tetl\tchanged\t2\n"+
		"schedule\tdefault\tnight\tchanged\t3\ntask\tdefault\tonce\tcreated\t\n",
		"warning: workflow etl: schedule nightly"+unfit+"\n")
}

// The server knows a workflow only once it is put, so a dry run has it check the parameters of its runs by themselves.
func TestApply_DryRunChecksRunsOfAWorkflowThatIsNotPut(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/workflows/{id}", 404, clitest.Problem(404, wire.WorkflowNotFound, "", "no"))
	s.On("GET /v1/schedules/{id}", 404, clitest.Problem(404, wire.ScheduleNotFound, "", "no"))
	takeFlows(s, "created")
	var sent wire.ScheduleDefinition
	s.Handle("PUT /v1/schedules/{id}", func(w http.ResponseWriter, r *http.Request) {
		testkit.Must(s.T, json.NewDecoder(r.Body).Decode(&sent))
		answer := inForce("night", 1, nil)
		answer.Task = sent.Task
		w.Header().Set("Dts-Change", "created")
		s.Reply(w, http.StatusOK, answer)
	})
	clitest.AcceptBatches(s)
	got := applyText(t, s.Pipe(), nightly, "--dry-run")
	got.Expect(t, 0, `workflow	default	etl	created	2
  + labels.v: 1.10
  + params.day.default: now
  + params.day.type: string
  + steps.load.task.timeout: 5m
  + steps.load.task.type: noop
schedule	default	night	created	1
  + every: 1h
  + task.labels.workflow: etl
  + task.payload.params.day: today
  + task.payload.workflow: etl
  + task.type: workflow
task	default	once	created	
`, "")
	const want = `{"definition":{"params":{"day":{"type":"string","default":"now"}},` +
		`"steps":[{"id":"a","task":{"type":"noop"}}]},"params":{"day":"today"}}`
	if string(sent.Task.Payload) != want {
		t.Errorf("the schedule was checked with %s, want %s", sent.Task.Payload, want)
	}
	body := s.Last().Body
	if !strings.Contains(body, `"definition":{"params":{"day"`) || !strings.Contains(body, `"day":"now"`) {
		t.Errorf("the task was checked with %s", body)
	}
}

func TestApply_DryRunComparesWorkflowsStepByStep(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/workflows/{id}", 200, flow("etl", 1,
		`{"steps":[{"id":"list","task":{"type":"noop"}},{"id":"load","task":{"type":"noop","timeout":"5m"}}]}`))
	s.Handle("GET /v1/schedules/{id}", func(w http.ResponseWriter, _ *http.Request) {
		answer := inForce("night", 7, nil)
		answer.Task.Type, answer.Task.Payload = "workflow", json.RawMessage(`{"workflow":"etl"}`)
		s.Reply(w, 200, answer)
	})
	takeFlows(s, "changed")
	s.Handle("PUT /v1/schedules/{id}", func(w http.ResponseWriter, _ *http.Request) {
		answer := inForce("night", 8, nil)
		answer.Task.Type = "workflow"
		w.Header().Set("Dts-Change", "changed")
		s.Reply(w, http.StatusOK, answer)
	})
	applyText(t, s.Pipe(), `
workflows: [{id: etl, steps: [{id: load, task: {type: noop, timeout: 6m}}, {id: list, task: {type: noop}}]}]
schedules: [{id: night, every: 1h, workflow: {id: etl}}]
`, "--dry-run").Expect(t, 0, "workflow\tdefault\tetl\tchanged\t2\n"+
		"  - steps.load.task.timeout: 5m\n  + steps.load.task.timeout: 6m\nschedule\tdefault\tnight\tunchanged\t7\n", "")
}

func TestApply_NamesThePlacesInWorkflows(t *testing.T) {
	s := clitest.Start(t)
	s.Handle("PUT /v1/workflows/{id}", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("dry_run") != "true" {
			t.Errorf("%s changes something", r.URL)
		}
		if r.PathValue("id") == "a" {
			s.Reply(w, 400, clitest.Problem(400, wire.Invalid, "steps[0].needs[0]", `steps[0].needs[0]: "x" is no step`))
			return
		}
		w.Header().Set("Dts-Change", "created")
		s.Reply(w, 200, flow("e", 0, `{"steps":[{"id":"b","task":{"type":"noop"}}]}`))
	})
	s.On("PUT /v1/schedules/{id}", 400,
		clitest.Problem(400, wire.Invalid, "task.payload.params.day", "task.payload.params.day: is missing"))
	text := `workflows:
- {id: a, steps: [{id: b, needs: [x], task: {type: noop}}]}
- {id: c, steps: [{id: b, taks: {type: noop}}], labels: 7}
- {id: d}
- {id: e, steps: [{id: b, task: {type: noop}}]}
schedules:
- {id: y, every: 1h, workflow: {id: e, params: {}}}
- {id: z, every: 1h, workflow: {id: c}}
- {id: v, every: 1h, workflow: {id: a}, task: {type: noop}}
- {id: u, every: 1h}
- {id: t, every: 1h, workflow: {name: a}}
- {id: s, every: 1h, workflow: {id: a}}
`
	applyText(t, s.Pipe(), text).Expect(t, 2, "", `dtsctl: nothing was changed:
-:2:35: workflows[0].steps[0].needs[0]: "x" is no step
-:3:27: workflows[1].steps[0].taks: is not a field here; did you mean task?
-:3:57: workflows[1].labels: must be a mapping, not "7"
-:4:3: workflows[2].steps: is missing
-:7:40: schedules[0].workflow.params.day: is missing
-:9:32: schedules[2].workflow: stands for a task: give one of them, not both
-:10:3: schedules[3].task: is missing
-:11:32: schedules[4].workflow.id: is missing
-:11:33: schedules[4].workflow.name: is not a field here
Run 'dtsctl apply --help' for what it takes.
`)
}

func TestApply_TellsFaultsInTheOrderOfTheFile(t *testing.T) {
	s := clitest.Start(t)
	refused := clitest.Problem(400, wire.Invalid, "steps[0].when", "steps[0].when: is wrong")
	refused.Errors = []wire.InvalidField{
		{Field: new("steps[0].when"), Detail: "steps[0].when: is wrong"},
		{Field: new("deadline"), Detail: "deadline: is too long"},
	}
	s.On("PUT /v1/workflows/{id}", 400, refused)
	const text = "workflows:\n- id: a\n  deadline: 1000h\n  steps: [{id: b, when: x, task: {type: noop}}]\n"
	got := applyText(t, s.Pipe(), text)
	const want = "dtsctl: -:3:13: workflow a: deadline: is too long (invalid)\n" +
		"dtsctl: -:4:25: workflow a: steps[0].when: is wrong (invalid)\n"
	if got.Code != 1 || got.Err != want {
		t.Errorf("%d: %s", got.Code, got.Err)
	}
}

func TestApply_PrunesWorkflowsAfterSchedules(t *testing.T) {
	s := clitest.Start(t)
	takeFlows(s, "unchanged")
	s.On("GET /v1/schedules", 200, wire.ScheduleList{
		Schedules: []wire.Schedule{inForce("night", 4, wire.Labels{"a": "1"})},
	})
	labelled := func(id, labels string) wire.Workflow {
		return flow(id, 1, `{"labels":`+labels+`,"steps":[{"id":"a","task":{"type":"noop"}}]}`)
	}
	s.On("GET /v1/workflows", 200, wire.WorkflowList{Workflows: []wire.Workflow{
		labelled("etl", `{"a":"1"}`), labelled("kept", `{"a":"1"}`), labelled("other", `{"a":"2"}`), labelled("none", `{}`),
	}})
	s.On("DELETE /v1/schedules/{id}", 200, wire.ScheduleDeletion{})
	s.Handle("DELETE /v1/workflows/{id}", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	})
	const text = "workflows: [{id: kept, labels: {a: 1}, steps: [{id: a, task: {type: noop}}]}]"
	applyText(t, s.Pipe(), text, "--prune", "-l", "a=1").Expect(t, 0, "workflow\tdefault\tkept\tunchanged\t2\n"+
		"schedule\tdefault\tnight\tpruned\t4\nworkflow\tdefault\tetl\tpruned\t1\n", "")
	var deleted []string
	for _, line := range s.Lines() {
		if strings.HasPrefix(line, "DELETE") {
			deleted = append(deleted, line)
		}
	}
	want := []string{"DELETE /v1/schedules/night?namespace=default", "DELETE /v1/workflows/etl?namespace=default"}
	if !slices.Equal(deleted, want) {
		t.Errorf("sent %q, want %q", deleted, want)
	}
}
