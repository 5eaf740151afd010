package api

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/testkit"
)

// order is a workflow that waits for a payment and an approval.
const order = `{"steps": [
	{"id": "paid", "wait": {"signal": "paid", "timeout": "24h"}},
	{"id": "ok", "needs": ["paid"], "wait": {"approval": {"by": ["ops"], "form": {
		"amount": {"type": "integer", "required": true, "max": 10}, "colour": {"type": "string"}}}}},
	{"id": "ship", "needs": ["ok"], "task": {"type": "http", "payload": {
		"url": "http://x/${{ steps.ok.output.data.amount }}"}}}]}`

// start starts a run of a workflow.
func (r *rig) start(id, definition string) {
	r.t.Helper()
	body := `{"id": "` + id + `", "definition": ` + definition + `}`
	if got := r.call("POST", "/v1/runs", body); got.status != http.StatusCreated {
		r.t.Fatalf("status %d: %s", got.status, got.body)
	}
}

// asked sends a request about a run as somebody, while its leader carries it on.
func (r *rig) asked(who, id, path, body string) answer {
	r.t.Helper()
	answered := make(chan answer, 1)
	go func() { answered <- r.call("POST", "/v1/runs/"+id+path, body, "Dts-Caller", who) }()
	testkit.Eventually(r.t, "somebody asks", func() bool {
		reads, err := r.store.Partitions.At(0).ReadRuns(r.ctx, partition.ReadRun{Ref: ref(id)})
		return err == nil && reads[0].Asks != ""
	})
	r.plan(id, false)
	return <-answered
}

// refused sends a request that is refused, and returns the code with the field.
func (r *rig) refused(who, path, body string) string {
	r.t.Helper()
	p := r.call("POST", path, body, "Dts-Caller", who).problem(r.t)
	return strings.TrimSpace(string(p.Code) + " " + wire.Value(p.Field))
}

func (r *rig) getRun(id string) wire.Run {
	r.t.Helper()
	return runIn(r.t, r.call("GET", "/v1/runs/"+id, ""))
}

func TestSignalRun_GivesASignalToARunThatWaits(t *testing.T) {
	t.Parallel()
	r := startFlowRig(t)
	r.start("late", order)
	r.plan("late", true)
	paid := r.getRun("late").Steps[0]
	if paid.State != wire.StepWaiting || paid.WaitingSince == nil || paid.FinishedAt != nil ||
		paid.WaitsUntil.Sub(paid.WaitingSince.Time) != 24*time.Hour ||
		string(paid.Wait) != `{"signal":"paid","timeout":"24h"}` ||
		!strings.HasPrefix(wire.Value(paid.Reason), "waits for the signal paid; it fails at ") {
		t.Errorf("it is %+v", paid)
	}
	run := runIn(t, r.asked("ann", "late", "/signals/paid", `{"data": {"n": 12345678901234567}}`))
	if len(run.Signals) != 1 || run.Signals[0].Name != "paid" ||
		string(run.Signals[0].Data) != `{"n":12345678901234567}` ||
		wire.Value(run.Signals[0].By) != "ann (not verified)" || run.Signals[0].At.IsZero() {
		t.Errorf("it was given %+v", run.Signals)
	}
	if paid := run.Steps[0]; paid.State != wire.StepSucceeded || paid.FinishedAt == nil || paid.WaitingSince != nil {
		t.Errorf("then it is %+v", paid)
	}
	again := r.call("POST", "/v1/runs/late/signals/paid", `{"data": {"n": 12345678901234567}}`, "Dts-Caller", "bob")
	if again.status != http.StatusOK {
		t.Errorf("the same again: %d %s", again.status, again.body)
	}
	for path, want := range map[string]string{
		"/v1/runs/late/signals/paid": "signal_given", "/v1/runs/late/signals/pay": "invalid name",
		"/v1/runs/none/signals/paid": "task_not_found",
	} {
		if got := r.refused("bob", path, `{"data": 7}`); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

// A signal that comes before the run has begun is kept, and there is none twice.
func TestSignalRun_KeepsAnEarlySignal(t *testing.T) {
	t.Parallel()
	r := startFlowRig(t)
	r.start("early", order)
	run := runIn(t, r.call("POST", "/v1/runs/early/signals/paid", ""))
	if len(run.Signals) != 0 || len(run.Asked) != 1 || run.Asked[0] != "signal" {
		t.Errorf("before it begins: %+v, asked %v", run.Signals, run.Asked)
	}
	r.plan("early", true)
	run = r.getRun("early")
	if len(run.Signals) != 1 || run.Signals[0].Data != nil || run.Steps[0].State != wire.StepSucceeded ||
		run.Steps[1].State != wire.StepWaiting {
		t.Errorf("it is %+v", run)
	}
	if got := r.call("POST", "/v1/runs/early/signals/paid", `{"data": null}`); got.status != http.StatusOK {
		t.Errorf("null is no other data: %d %s", got.status, got.body)
	}
}

func TestApproveStep_TheFirstAnswerCounts(t *testing.T) {
	t.Parallel()
	r := startFlowRig(t)
	r.start("o", order)
	const approve, reject = "/v1/runs/o/steps/ok/approve", "/v1/runs/o/steps/ok/reject"
	r.plan("o", true)
	good := `{"note": "fine", "data": {"amount": 7}}`
	if got := r.refused("ann", approve, good); got != "step_not_waiting" {
		t.Errorf("before the step waits: %s", got)
	}
	r.asked("ann", "o", "/signals/paid", "")
	for body, want := range map[string]string{
		``: "invalid data.amount", `{"data": {"amount": "7"}}`: "invalid data.amount",
		`{"data": {"amount": 11}}`:                                            "invalid data.amount",
		`{"data": {"amount": 7, "size": 1}}`:                                  "invalid data.size",
		`{"data": {"amount": 7}, "by": "me"}`:                                 "invalid by",
		`{"note": "` + strings.Repeat("x", 201) + `", "data": {"amount": 7}}`: "invalid note",
	} {
		if got := r.refused("ann", approve, body); got != want {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
	if got := r.refused("ann", "/v1/runs/o/steps/paid/approve", ""); got != "invalid step" {
		t.Errorf("a step that asks nothing: %s", got)
	}
	run := runIn(t, r.asked("ann", "o", "/steps/ok/approve", good))
	ok := run.Steps[1]
	if ok.State != wire.StepSucceeded || ok.Answer == nil || !ok.Answer.Approved || wire.Value(ok.Answer.Note) != "fine" ||
		wire.Value(ok.Answer.By) != "ann (not verified)" || string(ok.Answer.Data["amount"]) != "7" {
		t.Errorf("it is %+v, %+v", ok, ok.Answer)
	}
	if ship := run.Steps[2]; ship.State != wire.StepActive {
		t.Errorf("ship is %s", ship.State)
	}
	if got := r.call("POST", approve, good, "Dts-Caller", "ann"); got.status != http.StatusOK {
		t.Errorf("the same again: %d %s", got.status, got.body)
	}
	p := r.call("POST", approve, good, "Dts-Caller", "bob").problem(t)
	if p.Code != "step_not_waiting" || !strings.Contains(p.Detail, "approved by ann (not verified): fine") {
		t.Errorf("by another one: %+v", p)
	}
	if got := r.refused("ann", reject, ""); got != "step_not_waiting" {
		t.Errorf("another answer: %s", got)
	}
}

// A rejection fails the step. A rerun asks anew, keeps its signals, and takes another answer.
func TestRejectStep_ARerunAsksAnew(t *testing.T) {
	t.Parallel()
	r := startFlowRig(t)
	r.start("o", order)
	r.plan("o", true)
	r.asked("ann", "o", "/signals/paid", "")
	run := runIn(t, r.asked("ann", "o", "/steps/ok/reject", `{"note": "too dear"}`))
	ok := run.Steps[1]
	if run.State != wire.StateFailed || ok.State != wire.StepFailed || ok.Answer == nil || ok.Answer.Approved ||
		!strings.Contains(wire.Value(ok.Reason), "rejected by ann (not verified): too dear") {
		t.Errorf("it is %s, %+v", run.State, ok)
	}
	if got := r.refused("bob", "/v1/runs/o/signals/paid", `{"data": 1}`); got != "signal_given" {
		t.Errorf("a signal after the end: %s", got)
	}
	runIn(t, r.call("POST", "/v1/runs/o/rerun", ""))
	r.plan("o", true)
	ok = r.getRun("o").Steps[1]
	if ok.State != wire.StepWaiting || ok.Answer != nil || wire.Value(ok.Generation) != 2 {
		t.Errorf("after the rerun it is %+v", ok)
	}
	run = runIn(t, r.asked("bob", "o", "/steps/ok/approve", `{"data": {"amount": 3}}`))
	if ok := run.Steps[1]; ok.State != wire.StepSucceeded || wire.Value(ok.Answer.By) != "bob (not verified)" {
		t.Errorf("the second answer: %+v", ok)
	}
	if audit := string(r.call("GET", "/v1/runs/o/audit", "").body); !strings.Contains(audit, `"sound":true`) {
		t.Errorf("audit: %s", audit)
	}
}

// A step that has waited too long is skipped, if its definition says so. A run that is cancelled waits no more.
func TestRun_WaitsEndByTimeAndByCancel(t *testing.T) {
	t.Parallel()
	r := startFlowRig(t)
	r.start("short", `{"steps": [{"id": "ok", "wait": {"approval": {}, "timeout": "1ms", "on_timeout": "skip"}},
		{"id": "nap", "wait": {"for": "1ms"}}]}`)
	r.plan("short", true)
	testkit.Must(t, clock.Sleep(r.ctx, 2*time.Millisecond))
	r.plan("short", false)
	run := r.getRun("short")
	if run.Steps[0].State != wire.StepSkipped || run.Steps[1].State != wire.StepSucceeded ||
		wire.Value(run.Steps[0].Reason) != "was skipped: nobody answered within 1ms" {
		t.Errorf("it is %v", statesOfSteps(run))
	}
	r.start("o", order)
	r.plan("o", true)
	graph := string(r.call("GET", "/v1/runs/o/graph?format=text", "").body)
	if !strings.Contains(graph, "◷ paid  waiting") {
		t.Errorf("it is drawn as\n%s", graph)
	}
	runIn(t, r.call("POST", "/v1/runs/o/cancel", ""))
	r.plan("o", false)
	if got := statesOfSteps(r.getRun("o"))["paid"]; !strings.HasPrefix(got, "cancelled") {
		t.Errorf("after the cancel it is %s", got)
	}
	if got := r.refused("ann", "/v1/runs/o/signals/paid", ""); got != "task_not_running" {
		t.Errorf("a signal then: %s", got)
	}
}

// What waits is kept as it was written, and its wrong fields are named.
func TestPutWorkflow_ReadsStepsThatWait(t *testing.T) {
	t.Parallel()
	r := startFlowRig(t)
	if got := r.call("PUT", "/v1/workflows/order", order); got.status != http.StatusCreated {
		t.Fatalf("status %d: %s", got.status, got.body)
	}
	var kept struct {
		Definition struct {
			Steps []struct{ Wait json.RawMessage }
		}
	}
	testkit.Must(t, json.Unmarshal(r.call("GET", "/v1/workflows/order", "").body, &kept))
	const wait = `{"approval":{"by":["ops"],"form":{"amount":{"type":"integer","required":true,"max":10},` +
		`"colour":{"type":"string"}}}}`
	if got := string(kept.Definition.Steps[1].Wait); got != wait {
		t.Errorf("it is %s", got)
	}
	for wait, want := range map[string]string{
		`{"fore": "1s"}`:                               "steps[0].wait.fore",
		`{"for": "soon"}`:                              "steps[0].wait.for",
		`{"signal": "Paid"}`:                           "steps[0].wait.signal",
		`{"signal": "paid", "on_timeout": "stop"}`:     "steps[0].wait.on_timeout",
		`{"approval": {"form": {"n": {"type": "x"}}}}`: "steps[0].wait.approval.form.n.type",
		`{"for": "1s", "signal": "paid"}`:              "steps[0].wait",
		`{}`:                                           "steps[0].wait",
	} {
		p := r.call("PUT", "/v1/workflows/other", `{"steps": [{"id": "a", "wait": `+wait+`}]}`).problem(t)
		if p.Code != "invalid" || wire.Value(p.Field) != want {
			t.Errorf("%s: %s %q (%s), want %q", wait, p.Code, wire.Value(p.Field), p.Detail, want)
		}
	}
}
