package control_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/workflow"
)

// asking submits a run that waits for a signal and an approval.
func asking(t *testing.T, w *ward, id string) {
	t.Helper()
	payload := `{"definition": {"steps": [
		{"id": "paid", "wait": {"signal": "paid"}},
		{"id": "ok", "wait": {"approval": {"form": {"amount": {"type": "integer", "required": true}}}}}]}}`
	d := task.Definition{Ref: ref(id), Type: task.WorkflowType, Payload: []byte(payload)}
	w.Create(d.Normalize())
}

// What is asked is refused with the field and what would be right, or kept until the run begins.
func TestSignalRun_OfARunThatHasNotBegun(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	asking(t, w, "early")
	who := control.Caller{Namespace: "default"}
	for want, test := range map[string]struct{ id, name, data string }{
		"name: no step of the run waits for the signal \"pay\": it has paid": {"early", "pay", ""},
		"data: is not valid JSON":                     {"early", "paid", "{"},
		"data: is 4099 bytes long, at most 4096 are":  {"early", "paid", `"` + strings.Repeat("x", 4097) + `"`},
		"name: no step of the run waits for a signal": {etl.ID, "paid", ""},
		`no task "none" in namespace "default"`:       {"none", "paid", ""},
	} {
		_, err := w.control.SignalRun(w.Ctx, who, test.id, test.name, json.RawMessage(test.data))
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", test, err, want)
		}
	}
	run, err := w.control.SignalRun(w.Ctx, who, "early", "paid", json.RawMessage(` {"amount": 7} `))
	testkit.Must(t, err)
	if len(run.Asked) != 1 || run.Asked[0] != "signal paid" {
		t.Errorf("it was asked for %v", run.Asked)
	}
	_, err = w.control.SignalRun(w.Ctx, who, "early", "paid", json.RawMessage(`{"amount":8}`))
	const given = `run "early" was given the signal paid, with other data`
	if task.CodeOf(err) != workflow.CodeSignalGiven || err.Error() != given {
		t.Errorf("with other data: %v", err)
	}
	_, err = w.control.SignalRun(w.Ctx, who, "early", "paid", json.RawMessage(`{"amount":7}`))
	testkit.Must(t, err) // the same again
	for range 100 {      // what is refused is not noted
		_, _ = w.control.SignalRun(w.Ctx, who, "early", "paid", json.RawMessage(`"`+strings.Repeat("<", 600)+`"`))
	}
	asks, err := w.Partitions.At(w.PartitionOf(ref("early"))).AsksOf(w.Ctx, ref("early"))
	if err != nil || len(asks) > 100 {
		t.Errorf("%d bytes are asked: %v", len(asks), err)
	}
	_, err = w.control.ApproveStep(w.Ctx, who, "early", "ok", control.Reply{})
	if code := task.CodeOf(err); code != task.CodeInvalid {
		t.Errorf("without its form: %v", err)
	}
	_, err = w.control.ApproveStep(w.Ctx, who, "early", "paid", control.Reply{})
	if err == nil || err.Error() != `step: the run has no step "paid" that waits for an approval: it has ok` {
		t.Errorf("of another step: %v", err)
	}
	_, err = w.control.RejectStep(w.Ctx, who, "early", "ok", "no")
	if task.CodeOf(err) != workflow.CodeStepNotWaiting || err.Error() != "step ok waits for no answer: it is blocked" {
		t.Errorf("before it begins: %v", err)
	}
	_, err = w.control.RejectStep(w.Ctx, who, "early", "ok", strings.Repeat("x", 201))
	if err == nil || !strings.HasPrefix(err.Error(), "note: ") {
		t.Errorf("with a long note: %v", err)
	}
	_, err = w.Tasks.Cancel(w.Ctx, ref("early"), "")
	testkit.Must(t, err)
	_, err = w.control.SignalRun(w.Ctx, who, "early", "paid", nil)
	if task.CodeOf(err) != task.CodeNotRunning {
		t.Errorf("after its end: %v", err)
	}
}
