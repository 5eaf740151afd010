package web

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/workflow"
)

// refund is a workflow with a step that waits for each of the four.
const refund = `{"params": {"day": {"type": "string", "default": "2026-01-02"}}, "steps": [
	{"id": "check", "wait": {"approval": {"by": ["ops", "lead"], "form": {
		"amount": {"type": "integer", "required": true, "min": 1, "max": 100},
		"rate": {"type": "number", "default": 0.5},
		"reason": {"type": "string", "pattern": "[a-z ]+"},
		"urgent": {"type": "boolean", "default": true},
		"how": {"type": "string", "enum": ["card", "cash"], "required": true},
		"size": {"type": "integer", "enum": [1, 2], "default": 2},
		"items": {"type": "list"}, "more": {"type": "object"}}},
		"timeout": "48h", "on_timeout": "skip"}},
	{"id": "sure", "wait": {"approval": {}}},
	{"id": "paid", "wait": {"signal": "paid", "timeout": "2h"}},
	{"id": "rest", "wait": {"for": "30m"}},
	{"id": "noon", "wait": {"until": "${{ params.day }}T18:00:00Z"}},
	{"id": "late", "needs": ["rest"], "wait": {"signal": "shipped", "timeout": "1h", "on_timeout": "continue"}},
	{"id": "pay", "needs": ["check", "paid"], "task": {"type": "http"}}]}`

const refundPage = "/runs/default/refund-1"

// waitingRun is a run of which each step waits that needs nothing.
func (w *world) waitingRun() task.Ref {
	w.t.Helper()
	w.putFlow("refund", refund)
	return w.startWorkflow("refund-1", "refund", "{}")
}

// stepOf is a step of the run of these tests.
func (w *world) stepOf(id string) control.RunStep {
	w.t.Helper()
	r, err := w.control.GetRun(w.ctx, me, "refund-1")
	testkit.Must(w.t, err)
	i, _ := r.Flow.Index(id)
	return r.Steps[i]
}

// asSeen is a form of the page of the run, as somebody fills it in who has seen the first question of each step.
func (w *world) asSeen(fields ...string) url.Values {
	w.t.Helper()
	form := w.typed(refundPage, fields...)
	form.Set("seen", "1")
	return form
}

func TestGolden_Waits(t *testing.T) {
	inWorld(t, func(w *world) {
		run := w.waitingRun()
		_, err := w.control.SignalRun(w.ctx, me, "refund-1", "shipped", []byte(`{"by": "<van>"}`))
		testkit.Must(t, err)
		w.plan(run, false)
		w.pass(70 * time.Second)
		w.pack()
		w.page("run-waits", refundPage, http.StatusOK)
		w.page("workflow-waits", "/workflows/default/refund", http.StatusOK)
		w.expect("/runs", ", 5 waiting")
		form := w.asSeen("steps.check.note", "as agreed", "steps.check.data.amount", "7", "steps.check.data.how", `"cash"`)
		w.expectDone(refundPage+"/steps/check/approve", form, refundPage+"?said=step-approved")
		w.plan(run, false)
		w.get("/prefer/language/zh")
		w.page("run-waits-zh", refundPage, http.StatusOK)
		w.page("workflow-waits-zh", "/workflows/default/refund", http.StatusOK)
	})
}

// Who approves fills in a form. What is wrong with a field stands beside it, and what was typed stays there.
func TestRun_IsApproved(t *testing.T) {
	inWorld(t, func(w *world) {
		run := w.waitingRun()
		const approve = refundPage + "/steps/check/approve"
		const of = "steps.check.data."
		w.expect(refundPage+"?namespace=default", `formaction="`+refundPage+`/steps/check/reject?namespace=default"`)
		form := w.asSeen("steps.check.note", "as agreed", of+"amount", "777", of+"reason", "R2", of+"how", `"cash"`,
			of+"items", "[1,", of+"size", "1")
		w.expectRefused(approve, form, `value="777"`, `id="w-steps.check.data.amount" dir="auto">777 is more than 100<`,
			`value="R2"`, "does not match the pattern", "[1,</textarea>", "is not of type list", `value="as agreed"`,
			`<option value="&#34;cash&#34;" selected>cash</option>`, `<option value="1" selected>`,
			`name="steps.check.data.urgent" value="true"> urgent`)
		form.Set(of+"amount", "7")
		form.Set(of+"reason", "as agreed")
		form.Set(of+"items", `["a"]`)
		w.expectDone(approve, form, refundPage+"?said=step-approved")
		w.expect(refundPage, "Its leader has not done yet what was asked of it last.")
		w.plan(run, false)
		s := w.stepOf("check")
		want := map[string]any{
			"amount": 7., "rate": .5, "reason": "as agreed", "urgent": false, "how": "cash", "size": 1., "items": []any{"a"},
			"more": nil,
		}
		got := s.Answer()
		if got == nil || !got.Approved || got.Note != "as agreed" || fmt.Sprint(got.Data) != fmt.Sprint(want) {
			t.Errorf("the answer is %+v, want %v", got, want)
		}
		w.expect(refundPage, "Approved by ", ": <bdi>as agreed</bdi> <code", "&#34;amount&#34;:7")
		w.expectNot(refundPage, `/check/approve"`)
	})
}

// Only the first answer counts. Who comes later learns whose that was.
func TestRun_TellsTheSecondAnswer(t *testing.T) {
	inWorld(t, func(w *world) {
		run := w.waitingRun()
		late := w.asSeen("steps.sure.note", "too late")
		again := w.asSeen("steps.sure.note", "no money")
		w.expectDone(refundPage+"/steps/sure/reject", again, refundPage+"?said=step-rejected")
		w.plan(run, false)
		for range 2 {
			got := w.send(http.MethodPost, refundPage+"/steps/sure/approve", late, "Dts-Caller", "bob")
			for _, text := range []string{"Not approved.", "was rejected", "no money", "Your note was not kept."} {
				if got.status != http.StatusConflict || !strings.Contains(got.text, text) {
					t.Errorf("status %d, without %q:\n%s", got.status, text, got.text)
				}
			}
		}
		again.Set("key", w.form(refundPage).Get("key")) // as of another tab, by the same person
		w.expectDone(refundPage+"/steps/sure/reject", again, refundPage+"?said=step-rejected")
		if s := w.stepOf("sure"); s.State != workflow.State(workflow.Failed) {
			t.Errorf("it is %s", s.State)
		}
		w.expect(refundPage, "Rejected", "<bdi>no money</bdi>")
	})
}

// A page answers the question that it has shown, not one that was asked anew since.
func TestRun_AnswersWhatItsReaderHasSeen(t *testing.T) {
	inWorld(t, func(w *world) {
		w.waitingRun()
		old := w.typed(refundPage, "steps.sure.note", "ok")
		old.Set("seen", "7")
		got := w.send(http.MethodPost, refundPage+"/steps/sure/approve", old)
		if got.status != http.StatusConflict || !strings.Contains(got.text, "It has changed since this page was read.") ||
			!strings.Contains(got.text, `name="steps.sure.note" value="ok"`) {
			t.Errorf("status %d: %s", got.status, got.text)
		}
		if r, err := w.control.GetRun(w.ctx, me, "refund-1"); err != nil || len(r.Asked) != 0 {
			t.Errorf("it was asked for %v, %v", r.Asked, err)
		}
	})
}

func TestRun_IsSignalled(t *testing.T) {
	inWorld(t, func(w *world) {
		run := w.waitingRun()
		const signal = refundPage + "/signal"
		w.expect(refundPage, `<details class="box sec" id="signal" open>`, `name="name" value="paid"`,
			`<option value="shipped">`, "Waits for the signal <code dir=\"auto\">paid</code>. It fails at ")
		w.expectRefused(signal, w.typed(refundPage, "name", "sent", "data", "{"), `value="sent"`, `id="w-name"`,
			"no step of the run waits for the signal")
		w.expectRefused(signal, w.typed(refundPage, "name", "paid", "data", "{"), `id="w-data"`, "is not valid JSON",
			"\n{</textarea>")
		w.expectDone(signal, w.typed(refundPage, "name", "paid", "data", ` {"amount": 7} `), refundPage+"?said=run-signalled")
		w.plan(run, false)
		if s := w.stepOf("paid"); s.State != workflow.State(workflow.Succeeded) {
			t.Errorf("it is %s", s.State)
		}
		w.expect(refundPage, `{&#34;amount&#34;:7}</code>`, `name="name" value="shipped"`, `id="signal">`)
		got := w.send(http.MethodPost, signal, w.typed(refundPage, "name", "paid", "data", "8"))
		if got.status != http.StatusConflict || !strings.Contains(got.text, "Not given.") ||
			!strings.Contains(got.text, "with other data") {
			t.Errorf("status %d: %s", got.status, got.text)
		}
	})
}

// A run with as many open approvals and signals as there may be has a page of bounded size, and leads to all of them.
func TestRun_WithManyWaits(t *testing.T) {
	inWorld(t, func(w *world) {
		var form, steps []string
		for i := range workflow.FormLimit {
			values := strings.TrimSuffix(strings.Repeat(fmt.Sprintf("%q,", strings.Repeat("v", 30)), 10), ",")
			form = append(form, fmt.Sprintf(`"field%d": {"type": "string", "enum": [%s]}`, i, values))
		}
		by := strings.TrimSuffix(strings.Repeat(fmt.Sprintf("%q,", strings.Repeat("n", 100)), workflow.ByLimit), ",")
		for i := range 8 {
			steps = append(steps, fmt.Sprintf(`{"id": "ask%d", "wait": {"approval": {"by": [%s], "form": {%s}}}}`, i, by,
				strings.Join(form, ",")))
		}
		for i := range 40 {
			steps = append(steps, fmt.Sprintf(`{"id": "sure%02d", "wait": {"approval": {}}}`, i),
				fmt.Sprintf(`{"id": "signal%02d", "wait": {"signal": "s%02d"}}`, i, i))
		}
		w.putFlow("refund", `{"steps": [`+strings.Join(steps, ",")+`]}`)
		run := w.startWorkflow("refund-1", "refund", "{}")
		for i := range shownSignals + 5 {
			data := fmt.Appendf(nil, "%q", strings.Repeat("<", 600))
			_, err := w.control.SignalRun(w.ctx, me, "refund-1", fmt.Sprintf("s%02d", i), data)
			testkit.Must(t, err)
			w.plan(run, false)
		}
		for _, path := range []string{refundPage, refundPage + "?answer=ask3", refundPage + "?answer=sure39"} {
			got := w.get(path)
			if t.Logf("%s has %d bytes", path, len(got.text)); got.status != http.StatusOK || len(got.text) > sizeLimit {
				t.Errorf("%s: status %d, %d bytes", path, got.status, len(got.text))
			}
		}
		w.expect(refundPage, "Further approvals wait: 47.", "All 63 steps that wait", "Earlier ones: 5.")
		w.expect(refundPage+"?answer=sure39", `id="ask-sure39"`)
		late := w.asSeen("steps.sure39.note", "two\nlines")
		w.expectRefused(refundPage+"/steps/sure39/approve", late, `id="ask-sure39"`, `id="w-steps.sure39.note"`)
	})
}

// While Redis does not answer, nothing of an answer is lost.
func TestRun_KeepsAnAnswerWhileRedisIsAway(t *testing.T) {
	inWorld(t, func(w *world) {
		w.waitingRun()
		form := w.asSeen("steps.check.note", "as agreed", "steps.check.data.amount", "7")
		w.away.Store(unreachable)
		got := w.send(http.MethodPost, refundPage+"/steps/check/approve", form)
		if got.status != http.StatusServiceUnavailable || !strings.Contains(got.text, `value="as agreed"`) ||
			!strings.Contains(got.text, ">amount</label>") {
			t.Errorf("status %d: %s", got.status, got.text)
		}
	})
}
