package workflow

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/task"
)

func waitStep(id string, w Wait, needs ...string) Step { return Step{ID: id, Wait: &w, Needs: needs} }

func signalled(name, data, by string) Ask {
	return Ask{Do: DoSignal, Signal: &Signal{Name: name, Data: json.RawMessage(data), By: by}}
}

func answered(step, generation int, answer string) Ask {
	return Ask{Do: DoAnswer, Steps: []int{step}, Answer: &Told{generation, answer}}
}

// passes lets time pass.
func (s *story) passes(d time.Duration) *story {
	s.now = s.now.Add(d)
	return s
}

// looks checks when the run is planned in any case.
func (s *story) looks(in time.Duration) {
	s.t.Helper()
	if got := s.last.Look.Sub(s.now); got != in {
		s.t.Errorf("it is planned again in %s, want %s", got, in)
	}
}

func TestWait_ForATime(t *testing.T) {
	t.Parallel()
	s := tell(t, workflow(step("a"), waitStep("w", Wait{For: 10 * time.Minute}, "a"), step("b", "w")))
	s.next("a=active w=blocked b=blocked").looks(DefaultDeadline)
	s.ends("a=succeeded").next("a=succeeded w=waiting b=blocked").looks(10 * time.Minute)
	s.why("", "waits until 2026-11-29T02:10:00Z", "waits for w (rule success)")
	s.passes(10*time.Minute - time.Millisecond).next("a=succeeded w=waiting b=blocked").looks(time.Millisecond)
	s.passes(time.Millisecond).next("a=succeeded w=succeeded b=active")
	s.ends("b=succeeded").next("a=succeeded w=succeeded b=succeeded").ended(task.Succeeded, "")
}

// Times of a run are whole ms. A step never waits for less than it should, and its audit agrees.
func TestWait_ForAPartOfAMillisecond(t *testing.T) {
	t.Parallel()
	for _, w := range []Wait{
		{For: 1500 * time.Microsecond}, {Signal: "paid", Timeout: 1001 * time.Microsecond, OnTimeout: TimeoutContinue},
	} {
		s := tell(t, workflow(waitStep("w", w)))
		s.next("w=waiting").looks(2 * time.Millisecond)
		s.passes(time.Millisecond).next("w=waiting").passes(time.Millisecond).next("w=succeeded").ended(task.Succeeded, "")
		if found := Audit(s.f, s.r, task.Succeeded, nil); len(found) > 0 {
			t.Errorf("%+v: the audit says %q", w, found)
		}
	}
}

func TestWait_UntilAMoment(t *testing.T) {
	t.Parallel()
	d := workflow(waitStep("w", Wait{Until: "${{ params.at }}"}))
	d.Params = []Param{{Name: "at", Type: "string"}}
	for at, want := range map[string]string{
		"2026-11-29T02:00:00Z":      "w=succeeded",
		"2026-11-29T03:00:00+01:00": "w=succeeded",
		"2026-11-29T02:00:01Z":      "w=waiting",
		"1960-01-01T00:00:00Z":      "w=succeeded",
		"0001-01-01T00:00:00Z":      "w=succeeded",
		"tomorrow":                  "w=failed",
	} {
		s := tell(t, d)
		s.params = map[string]any{"at": at}
		s.next(want)
	}
	s := tell(t, d)
	s.params = map[string]any{"at": "noon"}
	s.next("w=failed").why(`wait.until: "noon" must be a moment such as 2026-11-30T18:00:00Z`)
}

// A signal that comes before its step waits is kept. One that comes again changes nothing.
func TestWait_ForASignal(t *testing.T) {
	t.Parallel()
	paid := signalled("paid", `{"amount":7}`, "ann")
	after := step("ship", "w")
	after.Task.Payload = json.RawMessage(`"${{ prev.output.amount }}"`)
	s := tell(t, workflow(step("a"), waitStep("w", Wait{Signal: "paid"}, "a"), after))
	s.next("a=active w=blocked ship=blocked")
	s.next("a=active w=blocked ship=blocked", paid, signalled("paid", `{"amount":9}`, "bob"), signalled("other", "1", ""))
	if got := len(s.r.Signals); got != 1 || s.r.Signals[0].By != "ann" || !s.r.Signals[0].At.Equal(s.now) {
		t.Errorf("the run has the signals %+v", s.r.Signals)
	}
	s.ends("a=succeeded").next("a=succeeded w=succeeded ship=active")
	if got := string(s.last.Release[0].Task.Payload); got != "7" {
		t.Errorf("the payload is %s", got)
	}
	s = tell(t, workflow(waitStep("w", Wait{Signal: "paid"}), after))
	s.next("w=waiting ship=blocked").looks(DefaultDeadline)
	s.why("waits for the signal paid")
	s.next("w=succeeded ship=active", paid)
}

// A signal is a fact about the run: it outlasts a rerun, and the time in which it could be given.
func TestWait_ForASignalThatIsGivenInTime(t *testing.T) {
	t.Parallel()
	for on, want := range map[OnTimeout]string{
		"": "w=failed b=upstream_failed", TimeoutFail: "w=failed b=upstream_failed", TimeoutSkip: "w=skipped b=skipped",
		TimeoutContinue: "w=succeeded b=active",
	} {
		s := tell(t, workflow(waitStep("w", Wait{Signal: "paid", Timeout: time.Hour, OnTimeout: on}), step("b", "w")))
		s.next("w=waiting b=blocked").looks(time.Hour)
		s.passes(time.Hour).next(want)
		if got := s.f.Why(s.r, 0, false); !strings.HasSuffix(got, "nobody gave the signal paid within 1h") {
			t.Errorf("with %q it says %q", on, got)
		}
	}
	s := tell(t, workflow(waitStep("w", Wait{Signal: "paid", Timeout: time.Hour}), step("b", "w")))
	s.next("w=waiting b=blocked").why("waits for the signal paid; it fails at 2026-11-29T03:00:00Z")
	s.passes(time.Hour).next("w=succeeded b=active", signalled("paid", "1", "")) // at the same moment
	s.ends("b=failed").next("w=succeeded b=failed")
	s.begin = 2
	s.next("w=succeeded b=active", Ask{Do: DoRerun})
	s.ends("b=succeeded").next("w=succeeded b=succeeded")
	s.begin = 3
	s.next("w=succeeded b=active", Ask{Do: DoRerun, Steps: []int{0}})
}

// A step that went on without its signal has no output, also when the signal comes later.
func TestWait_ALateSignalIsNoOutput(t *testing.T) {
	t.Parallel()
	reads := step("b", "w", "a")
	reads.Task.Payload = json.RawMessage(`{"is": "${{ steps.w.output }}"}`)
	late := Wait{Signal: "paid", Timeout: time.Second, OnTimeout: TimeoutContinue}
	s := tell(t, workflow(waitStep("w", late), step("a"), reads))
	s.next("w=waiting a=active b=blocked")
	s.passes(time.Second).next("w=succeeded a=active b=blocked")
	s.next("w=succeeded a=active b=blocked", signalled("paid", "7", ""))
	s.ends("a=succeeded").next("w=succeeded a=succeeded b=active")
	if got := string(s.last.Release[0].Task.Payload); got != `{"is":null}` {
		t.Errorf("the payload is %s", got)
	}
}

// What the text of a run says must be possible for the steps of its workflow.
func TestDecodeRun_FitsTheWorkflow(t *testing.T) {
	t.Parallel()
	f := tell(t, workflow(step("a"), waitStep("s", Wait{Signal: "x"}), waitStep("ok", Wait{Approval: &Approval{}}))).f
	good := NewRun(f)
	for want, change := range map[string]func(r *Run){
		"":                  func(*Run) {},
		"step a is waiting": func(r *Run) { r.Steps[0].State = Waiting },
		"step s is active":  func(r *Run) { r.Steps[1].State = Active },
		"an answer to step a that cannot": func(r *Run) {
			r.Steps[0] = StepRun{State: "failed", Output: `{"approved":true}`}
		},
		"an answer to step ok that cannot": func(r *Run) { r.Steps[2] = StepRun{State: "failed", Output: "yes"} },
	} {
		r := good
		r.Steps = slices.Clone(good.Steps)
		change(&r)
		_, err := f.DecodeRun(r.Encode())
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestWait_ForAnApproval(t *testing.T) {
	t.Parallel()
	d := workflow(waitStep("ok", Wait{Approval: &Approval{By: []string{"ops", "ann"}}}), step("b", "ok"))
	s := tell(t, d)
	s.next("ok=waiting b=blocked").why("waits for an answer of ops and ann")
	s.next("ok=waiting b=blocked", answered(0, 2, `{"approved":true}`)) // of a question that nobody has asked
	yes, no := `{"approved":true,"by":"ann","note":"fine"}`, `{"approved":false,"by":"bob"}`
	s.next("ok=succeeded b=active", answered(0, 1, yes), answered(0, 1, no)) // the first one counts
	s.why("approved by ann: fine")

	s = tell(t, d)
	s.next("ok=waiting b=blocked")
	s.next("ok=failed b=upstream_failed", answered(0, 1, no)).ended(task.Failed, "step ok failed: rejected by bob")
	s.begin = 2
	s.next("ok=waiting b=blocked", Ask{Do: DoRerun}, answered(0, 1, yes)) // the old question
	s.next("ok=succeeded b=active", answered(0, 2, yes))
}

func TestWait_EndsWithItsRun(t *testing.T) {
	t.Parallel()
	d := workflow(waitStep("w", Wait{Signal: "paid"}), waitStep("x", Wait{Signal: "paid"}, "w"))
	d.Deadline = time.Hour
	s := tell(t, d)
	s.next("w=waiting x=blocked").looks(time.Hour)
	s.passes(time.Hour).next("w=cancelled x=cancelled").ended(task.Failed, "had not ended after 1h0m0s, its deadline")
	s = tell(t, d)
	s.next("w=waiting x=blocked")
	s.next("w=cancelled x=cancelled", Ask{Do: DoCancel}).ended(task.Cancelled, "")
	d.Failure, d.Steps = FailureStop, append(d.Steps, step("a"))
	s = tell(t, d)
	s.next("w=waiting x=blocked a=active")
	s.ends("a=failed").next("w=cancelled x=cancelled a=failed").ended(task.Failed, "step a failed: as told")
	if found := Audit(s.f, s.r, task.Failed, []Task{{Step: 2, State: task.Failed, Attempt: 1}}); len(found) > 0 {
		t.Errorf("the audit says %q", found)
	}
}

// A paused run begins no wait, and one that goes on meanwhile gets its verdict.
func TestWait_GoesOnDuringAPause(t *testing.T) {
	t.Parallel()
	s := tell(t, workflow(waitStep("w", Wait{For: time.Hour}), waitStep("x", Wait{For: time.Hour}, "w")))
	s.next("w=waiting x=blocked")
	s.passes(time.Hour).next("w=succeeded x=blocked", Ask{Do: DoPause})
	s.passes(time.Hour).next("w=succeeded x=waiting", Ask{Do: DoResume}).looks(time.Hour)
}

func TestWait_IsChecked(t *testing.T) {
	t.Parallel()
	long, untyped := strings.Repeat("x", ByNameLimit+1), Param{Name: "n"}
	for want, w := range map[string]Wait{
		": a step waits for one of these: for, until, signal, approval": {},
		": a step waits for one of these: for":                          {For: 1, Signal: "a"},
		".for: 800h0m0s must be 1ms to 720h":                            {For: 800 * time.Hour},
		".for: 1µs must be":                                             {For: time.Microsecond},
		".until: \"noon\" must be a moment":                             {Until: "noon"},
		".until: ":                                                      {Until: "${{ params.none }}"},
		".signal: \"A b\" must be":                                      {Signal: "A b"},
		".timeout: is for a signal or an approval":                      {For: time.Hour, Timeout: time.Hour},
		".timeout: -1s must be":                                         {Signal: "a", Timeout: -time.Second},
		".on_timeout: \"stop\" must be fail, skip or continue":          {Signal: "a", Timeout: 1e9, OnTimeout: "stop"},
		".on_timeout: says what happens after a timeout":                {Signal: "a", OnTimeout: "skip"},
		".approval.by[0]: is empty":                                     {Approval: &Approval{By: []string{""}}},
		".approval.by[1]: ":                                             {Approval: &Approval{By: []string{"a", long}}},
		".approval.form.n.type: ":                                       {Approval: &Approval{Form: []Param{untyped}}},
	} {
		_, err := Compile(workflow(waitStep("w", w)))
		if task.CodeOf(err) != task.CodeInvalid || !strings.HasPrefix(err.Error(), "steps[0].wait"+want) {
			t.Errorf("%+v: %v, want %s", w, err, want)
		}
	}
	both := step("a")
	both.Wait = &Wait{For: 1}
	if _, err := Compile(workflow(both)); err == nil || !strings.HasPrefix(err.Error(), "steps[0].task: a step has") {
		t.Errorf("a task that waits: %v", err)
	}
	var many []Step
	for i := range WaitsLimit + 1 {
		many = append(many, waitStep("w"+strings.Repeat("x", i%50)+string(rune('a'+i/50)), Wait{For: time.Hour}))
	}
	_, err := Compile(workflow(many...))
	if err == nil || !strings.Contains(err.Error(), "101 of them wait, at most 100 may") {
		t.Errorf("too many: %v", err)
	}
}

func TestApproval_BindsItsForm(t *testing.T) {
	t.Parallel()
	a := Approval{Form: []Param{{Name: "amount", Type: "integer", Required: true}, {Name: "why", Type: "string"}}}
	values, err := a.Bind(map[string]json.RawMessage{"amount": json.RawMessage("7")})
	if err != nil || values["amount"] != json.Number("7") || values["why"] != nil {
		t.Errorf("%v, %v", values, err)
	}
	seven := json.RawMessage("7")
	for want, given := range map[string]map[string]json.RawMessage{
		"data.amount: is missing: the form needs it":            {},
		"data.amount: \"x\" is not of type integer":             {"amount": json.RawMessage(`"x"`)},
		"data.who: is no param of the form: it has amount, why": {"amount": seven, "who": seven},
		"data: has 5006 bytes, at most 4096 are allowed":        {"amount": json.RawMessage(strings.Repeat("7", 5000))},
	} {
		if _, err := a.Bind(given); err == nil || err.Error() != want {
			t.Errorf("%.100v: %v, want %s", given, err, want)
		}
	}
}

func TestWords_SayWhatWasAsked(t *testing.T) {
	t.Parallel()
	f := tell(t, workflow(step("a"), waitStep("ok", Wait{Approval: &Approval{}}))).f
	for want, ask := range map[string]Ask{
		"pause": {Do: DoPause}, "signal paid": signalled("paid", `{"a b":1}`, "ann"),
		"answer ok": answered(1, 1, `{"approved":true,"note":"a b"}`), "rerun a ok": {Do: DoRerun, Steps: []int{0, 1}},
	} {
		if got := Words(ask.Encode(f)); got != want {
			t.Errorf("of %s it says %q, want %q", ask.Encode(f), got, want)
		}
	}
}

// The audit finds verdicts that nothing gave.
func TestAudit_OfStepsThatWait(t *testing.T) {
	t.Parallel()
	d := workflow(
		waitStep("t", Wait{For: time.Minute}), waitStep("s", Wait{Signal: "paid", Timeout: time.Minute}),
		waitStep("a", Wait{Approval: &Approval{}}),
	)
	good := tell(t, d)
	good.next("t=waiting s=waiting a=waiting")
	good.passes(time.Minute)
	good.next("t=succeeded s=succeeded a=succeeded", signalled("paid", "", ""), answered(2, 1, `{"approved":true}`))
	good.ended(task.Succeeded, "")
	for want, change := range map[string]func(r *Run){
		"": func(*Run) {},
		"step t is succeeded, and what it waited for does not say so":  func(r *Run) { r.Steps[0].At = r.Steps[0].Since },
		"step t is succeeded, and what it waited for does not say so ": func(r *Run) { r.Steps[0].Until = r.Steps[0].Since },
		"step s is succeeded, and what it waited for does not say so":  func(r *Run) { r.Signals = nil },
		"step a is succeeded, and what it waited for does not say so":  func(r *Run) { r.Steps[2].Output = "" },
		"step a is succeeded, and what it waited for does not say so ": func(r *Run) {
			r.Steps[2].Output = `{"approved":false}`
		},
		"step a is skipped, and what it waited for does not say so": func(r *Run) {
			r.Steps[2].State, r.Steps[2].Reason = State(Skipped), "x"
		},
		"step a waits, and the run has ended":           func(r *Run) { r.Steps[2].State = Waiting },
		"step a is active, and has no task to wait for": func(r *Run) { r.Steps[2].State = Active },
		"step s is succeeded, and was not released":     func(r *Run) { r.Steps[1].Released, r.Steps[1].Generation = 0, 0 },
	} {
		r := good.r
		r.Steps = slices.Clone(r.Steps)
		change(&r)
		found := Audit(good.f, r, task.Succeeded, nil)
		if want = strings.TrimSpace(want); want == "" && len(found) > 0 || want != "" && !slices.Contains(found, want) {
			t.Errorf("it says %q, want %q", found, want)
		}
	}
	if found := Audit(good.f, good.r, task.Succeeded, []Task{{Step: 0, State: task.Succeeded}}); len(found) != 1 {
		t.Errorf("of a task of a step that waits it says %q", found)
	}
}
