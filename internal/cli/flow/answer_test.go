package flow_test

import (
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/clitest"
)

// waits has the steps of a run wait for a signal, for an approval, and for a time.
func waits(r *wire.Run) {
	since := new(wire.At(clitest.Now.Add(-2 * time.Minute)))
	step := func(id, wait, reason string) wire.RunStep {
		return wire.RunStep{
			ID: id, Section: wire.RunSectionSteps, State: wire.StepWaiting, Generation: new(1), Wait: []byte(wait),
			WaitingSince: since, Reason: new(reason),
		}
	}
	const form = `{"amount": {"type": "integer", "required": true}, "day": {"type": "string"}}`
	r.Steps = []wire.RunStep{
		step("paid", `{"signal": "paid"}`, "waits for the signal paid"),
		step("also", `{"signal": "paid"}`, "waits for the signal paid"),
		step("ok", `{"approval": {"by": ["ops"], "form": `+form+`}}`, "waits for an answer of ops"),
		step("nap", `{"for": "1h"}`, "waits until 2026-01-02T16:04:05Z"),
	}
	r.Signals = []wire.RunSignal{{
		Name: "seen", By: new("ann"), At: wire.At(clitest.Now.Add(-time.Minute)), Data: []byte(`{"n":1}`),
	}}
}

func TestShow_SaysWhatStepsWaitForAndWhoCanAnswer(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/runs/{id}", 200, run(waits))
	const answers = `
dtsctl flow signal etl-1 paid
dtsctl flow approve etl-1 ok -p amount=INTEGER
dtsctl flow reject etl-1 ok
`
	terminal(s).Run(t, "flow", "show", "etl-1").Expect(t, 0, `etl-1 running for 3m0s
params    {"day":"2026-01-01"}
signal    seen by ann, 1 minute ago: {"n":1}
deadline  in 2 hours

STEP  STATE    TASK  ATTEMPT  TOOK  WHY
paid  waiting                 2m0s  waits for the signal paid
also  waiting                 2m0s  waits for the signal paid
ok    waiting                 2m0s  waits for an answer of ops
nap   waiting                 2m0s  waits until 2026-01-02T16:04:05Z
`+answers, "")
	if got := terminal(s).Run(t, "flow", "why", "etl-1"); !strings.HasSuffix(got.Out, answers) {
		t.Errorf("why prints\n%s", got.Out)
	}
	if got := s.Pipe().Run(t, "flow", "show", "etl-1"); strings.Contains(got.Out, "dtsctl") {
		t.Errorf("a pipe gets\n%s", got.Out)
	}
}

func TestSignal_SendsItsData(t *testing.T) {
	s := clitest.Start(t)
	s.On("POST /v1/runs/{id}/signals/{name}", 200, run())
	for args, want := range map[string]string{
		"":                       `{}`,
		`--data={"amount": 7.0}`: `{"data":{"amount":7.0}}`,
		`--data="late"`:          `{"data":"late"}`,
		`--data=null`:            `{"data":null}`,
	} {
		line := []string{"flow", "signal", "etl-1", "paid"}
		if args != "" {
			line = append(line, args)
		}
		s.Pipe().Run(t, line...).Expect(t, 0, "etl-1\trunning\n", "")
		if last := s.Last(); last.Body != want || last.Line != "POST /v1/runs/etl-1/signals/paid" {
			t.Errorf("%s: it has sent %s %s, want %s", args, last.Line, last.Body, want)
		}
	}
	got := s.Pipe().Run(t, "flow", "signal", "etl-1", "paid", "--data", "late")
	const wrong = `dtsctl: --data: late is no JSON: a text needs quotation marks, as in --data '"late"'`
	if got.Code != 2 || !strings.HasPrefix(got.Err, wrong) {
		t.Errorf("with a text: %d %s", got.Code, got.Err)
	}
}

func TestApprove_FillsInTheFormByItsTypes(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/runs/{id}", 200, run(waits))
	s.On("POST /v1/runs/{id}/steps/{step}/approve", 200, run())
	s.On("POST /v1/runs/{id}/steps/{step}/reject", 200, run())
	for line, want := range map[string]string{
		"approve etl-1 ok": `{}`,
		"approve etl-1 ok -p amount=7 -p day=20260101 --note fine": `{"data":{"amount":7,"day":"20260101"},"note":"fine"}`,
		"reject etl-1 ok --note no":                                `{"note":"no"}`,
	} {
		s.Pipe().Run(t, append([]string{"flow"}, strings.Fields(line)...)...).Expect(t, 0, "etl-1\trunning\n", "")
		if last := s.Last(); last.Body != want {
			t.Errorf("%s: it has sent %s %s, want %s", line, last.Line, last.Body, want)
		}
	}
	s = clitest.Start(t)
	s.On("POST /v1/runs/{id}/steps/{step}/reject", 409,
		clitest.Problem(409, wire.StepNotWaiting, "", "step ok waits for no answer: it was approved by ann"))
	s.Pipe().Run(t, "flow", "reject", "etl-1", "ok").Expect(t, 1, "",
		"dtsctl: step ok waits for no answer: it was approved by ann (step_not_waiting)\n")
	for line, want := range map[string]string{
		"flow approve etl-1":           "STEP is missing",
		"flow approve etl-1 ok -p day": `--param: "day" must be NAME=VALUE`,
		"flow signal etl-1":            "NAME is missing",
		"flow reject etl-1 ok no":      "one argument too many",
	} {
		if got := s.Pipe().Run(t, strings.Fields(line)...); got.Code != 2 || !strings.Contains(got.Err, want) {
			t.Errorf("%s: %d %s", line, got.Code, got.Err)
		}
	}
}

// A file is drawn, and put, with steps that wait.
func TestGraph_DrawsStepsThatWait(t *testing.T) {
	s := clitest.Start(t)
	path := write(t, "steps:\n- id: ok\n  wait: {approval: {form: {n: {type: integer}}}, timeout: 1h}\n")
	s.Pipe().Run(t, "flow", "graph", "-f", path).Expect(t, 0, "● ok\n", "")
	path = write(t, "steps:\n- id: ok\n  wait: {approvals: {}}\n")
	got := s.Pipe().Run(t, "flow", "graph", "-f", path)
	if !strings.Contains(got.Err, ":3:10: steps[0].wait.approvals: is not a field here; did you mean approval?") {
		t.Errorf("it says %s", got.Err)
	}
	s.On("GET /v1/runs/{id}/graph", 200, wire.RunGraph{Steps: []wire.GraphStep{
		{ID: "ok", Section: wire.RunSectionSteps, State: wire.StepWaiting},
	}})
	terminal(s).Run(t, "flow", "graph", "etl-1").Expect(t, 0, "◷ ok  waiting\n", "")
	terminal(s).Run(t, "flow", "graph", "etl-1", "--ascii").Expect(t, 0, "w ok  waiting\n", "")
}
