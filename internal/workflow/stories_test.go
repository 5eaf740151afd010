package workflow

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/task"
)

// These are stories of runs that hung, or went wrong, in other engines.

// Celery's chords and Sidekiq's batches counted the same end twice, and began the last step early or never.
func TestNext_AnEndCountsOnceHoweverOftenItIsTold(t *testing.T) {
	t.Parallel()
	s := tell(t, workflow(step("a"), step("b"), step("c"), step("join", "a", "b", "c")))
	s.next("a=active b=active c=active join=blocked")
	for range 3 {
		s.ends("b=succeeded").next("a=active b=succeeded c=active join=blocked")
	}
	s.ends("c=succeeded", "b=succeeded").next("a=active b=succeeded c=succeeded join=blocked")
	s.ends("a=succeeded").next("a=succeeded b=succeeded c=succeeded join=active")
	for range 3 {
		s.ends("a=succeeded", "c=succeeded").next("a=succeeded b=succeeded c=succeeded join=active")
		if len(s.last.Release) > 0 {
			t.Fatalf("%v are released again", s.last.Release)
		}
	}
	s.ends("join=succeeded").next("a=succeeded b=succeeded c=succeeded join=succeeded").ended(task.Succeeded, "")
}

// Sidekiq's shutdown counted a job as done, and gave it back to be run again.
func TestNext_AVerdictStaysWhateverIsToldAfterIt(t *testing.T) {
	t.Parallel()
	s := tell(t, workflow(step("a"), step("b", "a")))
	s.next("a=active b=blocked")
	s.ends("a=succeeded").next("a=succeeded b=active")
	for _, later := range []string{"a=failed", "a=running", "a=scheduled", "a=cancelled", "a="} {
		s.ends(later).next("a=succeeded b=active")
	}
	s.ends("b=succeeded").next("a=succeeded b=succeeded").ended(task.Succeeded, "")
}

// PowerJob showed a step as running for ever whose end was told before its begin.
func TestNext_AnEndNeedsNoBegin(t *testing.T) {
	t.Parallel()
	s := tell(t, workflow(step("a"), step("b", "a")))
	s.ends("b=succeeded").next("a=active b=blocked") // a release that Redis has lost
	s.ends("a=succeeded").next("a=succeeded b=active")
	s.ends("b=succeeded").next("a=succeeded b=succeeded").ended(task.Succeeded, "")
}

// DolphinScheduler's run hung if the failed branch came to the join in the wrong order, and held up all that followed.
func TestNext_AJoinTakesABranchThatFailedInAnyOrder(t *testing.T) {
	t.Parallel()
	const end = "sh1=succeeded sh3=failed sh2=succeeded sh4=succeeded sh5=upstream_failed"
	for _, order := range [][]string{
		{"sh1=succeeded", "sh3=failed", "sh2=succeeded", "sh4=succeeded"},
		{"sh1=succeeded", "sh2=succeeded", "sh3=failed", "sh4=succeeded"},
		{"sh2=succeeded", "sh4=succeeded", "sh1=succeeded", "sh3=failed"},
		{"sh2=succeeded", "sh1=succeeded", "sh4=succeeded", "sh3=failed"},
	} {
		s := tell(t, workflow(step("sh1"), step("sh3", "sh1"), step("sh2"), step("sh4", "sh2"), step("sh5", "sh3", "sh4")))
		s.plan()
		for _, e := range order {
			s.ends(e).plan()
		}
		if got := s.states(); got != end {
			t.Errorf("after %v the steps are %s", order, got)
		}
		s.ended(task.Failed, "step sh3 failed: as told")
	}
}

// BullMQ's parents waited for ever for a child that had failed for good, or that retention had removed. Here each rule
// has an outcome for each combination of ends, and the audit agrees with it.
func TestNext_EndsForEachRuleAndAllVerdicts(t *testing.T) {
	t.Parallel()
	ends := []string{"succeeded", "failed", "cancelled", "gone", "skipped", "allowed"}
	runs := 0
	for _, rule := range Rules {
		for i, a := range ends {
			for j, b := range ends[i:] {
				for _, c := range ends[i+j:] {
					if s := endsUnder(t, rule, []string{c, a, b}); s != nil {
						runs++
					}
				}
			}
		}
	}
	if most := len(Rules) * 56; runs < most/2 {
		t.Errorf("%d of %d combinations are valid workflows, too few to say something", runs, most)
	}
}

// endsUnder runs a step with a rule whose three needs end so. It returns nil if the workflow is refused, since the rule
// can never hold.
func endsUnder(t *testing.T, rule Rule, of []string) *story {
	t.Helper()
	last := step("last", "a", "b", "c")
	last.Rule = rule
	var steps []Step
	for i, end := range of {
		s := step([]string{"a", "b", "c"}[i])
		if end == "skipped" {
			s.When = "false"
		}
		s.AllowFailure = end == "allowed"
		steps = append(steps, s)
	}
	d := workflow(append(steps, last)...)
	if _, err := Compile(d); err != nil {
		if !strings.Contains(err.Error(), "can never hold") {
			t.Fatal(err)
		}
		return nil
	}
	s := tell(t, d)
	s.plan()
	states := map[string]string{"gone": "", "allowed": "failed"}
	for i, end := range of {
		if state, other := states[end]; other {
			end = state
		}
		if end != "skipped" {
			s.ends(steps[i].ID + "=" + end)
		}
		s.plan()
	}
	if s.r.Steps[3].State == Active {
		s.ends("last=succeeded").plan()
	}
	if s.r.Phase != PhaseEnded {
		t.Errorf("%s of %v hangs: %s", rule, of, s.states())
		return s
	}
	var tasks []Task
	for _, t := range s.tasks {
		tasks = append(tasks, t)
	}
	if found := Audit(s.f, s.r, s.end.State, tasks); len(found) > 0 {
		t.Errorf("%s of %v: %v", rule, of, found)
	}
	return s
}

// BullMQ forgot, state by state, that a child had failed while its parent was not waiting.
func TestNext_AnEndComesToAStepInAnyState(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"succeeded", "failed", "cancelled", ""} {
		is := end
		if end == "" {
			is = "failed" // its task is gone
		}
		for name, c := range map[string]struct {
			rule   Rule
			before []string // ends
			until  string   // the state of c before b ends
			asks   []Ask
		}{
			"blocked": {RuleAllDone, []string{"a=succeeded"}, "blocked", nil},
			"held":    {RuleAllDone, []string{"a=succeeded"}, "blocked", []Ask{{Do: DoPause}}},
			"active":  {RuleOneDone, []string{"a=failed"}, "active", nil},
			"ended":   {RuleOneDone, []string{"a=failed", "c=succeeded"}, "succeeded", nil},
			"skipped": {RuleAllFailed, []string{"a=succeeded"}, "skipped", nil},
			"above":   {RuleSuccess, []string{"a=failed"}, "upstream_failed", nil},
			"stopped": {RuleAllDone, []string{"a=succeeded"}, "cancelled", []Ask{{Do: DoCancel}}},
		} {
			last := step("c", "a", "b")
			last.Rule = c.rule
			s := tell(t, workflow(step("a"), step("b"), last))
			s.plan()
			for _, e := range c.before {
				s.ends(e).plan()
			}
			s.plan(c.asks...)
			if got := string(s.r.Steps[2].State); got != c.until {
				t.Errorf("%s: c is %s, want %s", name, got, c.until)
			}
			s.ends("b=" + end).plan(Ask{Do: DoResume})
			if got := string(s.r.Steps[1].State); got != is {
				t.Errorf("%s: b is %s, want %s", name, got, is)
			}
			s.ends("c=succeeded").plan()
			if s.r.Phase != PhaseEnded {
				t.Errorf("%s, and b %q: the run hangs: %s", name, end, s.states())
			}
		}
	}
}

// Celery left half of a fan-out behind if it crashed meanwhile.
func TestNext_AFanOutGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	var steps []Step
	for i := range 20 {
		steps = append(steps, step(fmt.Sprint("s", i)))
	}
	s := tell(t, workflow(steps...))
	s.room = 3
	released := map[int]int{}
	for round := 0; round == 0 || s.last.More; round++ {
		before, begin := s.r, s.begin
		s.plan()
		s.r, s.begin = before, begin // this plan had no effect
		s.plan()
		for _, r := range s.last.Release {
			released[r.Step]++
		}
	}
	for i := range steps {
		if released[i] != 1 {
			t.Errorf("step %d was released %d times", i, released[i])
		}
	}
}

// Retention of BullMQ and Celery removed results before they were read. A step never gets null for them.
func TestNext_AnOutputThatIsGoneFailsWhoReadsIt(t *testing.T) {
	t.Parallel()
	c := step("c", "a", "b")
	c.Task.Payload = json.RawMessage(`{"of":"${{ steps.a.output }}"}`)
	s := tell(t, workflow(step("a"), step("b"), c, step("d", "b")))
	s.next("a=active b=active c=blocked d=blocked")
	s.ends("a=succeeded").next("a=succeeded b=active c=blocked d=blocked")
	s.ends("a=", "b=succeeded").next("a=succeeded b=succeeded c=failed d=active")
	s.ends("b=", "d=succeeded").next("a=succeeded b=succeeded c=failed d=succeeded")
	s.ended(task.Failed, "step c failed: the task of step a, which succeeded, is gone with its output: "+
		"dtsctl flow rerun run --from a runs it again")
}

// BullMQ did not attach a child to its parent again when it was tried again after the join.
func TestNext_ARerunComesToAJoinThatHasDecided(t *testing.T) {
	t.Parallel()
	early := step("early", "a", "b")
	early.Rule = RuleOneSuccess
	s := tell(t, workflow(step("a"), step("b"), step("join", "a", "b"), early))
	s.next("a=active b=active join=blocked early=blocked")
	s.ends("a=succeeded").next("a=succeeded b=active join=blocked early=active")
	s.ends("b=failed", "early=succeeded").next("a=succeeded b=failed join=upstream_failed early=succeeded")
	s.ended(task.Failed, "step b failed: as told")

	s.begin = 2
	s.next("a=succeeded b=active join=blocked early=active", Ask{Do: DoRerun})
	for _, r := range s.last.Release {
		if !r.Again {
			t.Errorf("the task of %s is created, and is there", s.f.StepID(r.Step))
		}
	}
	s.ends("b=scheduled").next("a=succeeded b=active join=blocked early=active") // the end of attempt 1, told late
	s.ends("b=running").next("a=succeeded b=active join=blocked early=active")
	s.ends("b=succeeded").next("a=succeeded b=succeeded join=active early=active")
	s.ends("join=succeeded", "early=failed").next("a=succeeded b=succeeded join=succeeded early=failed")
	s.ended(task.Failed, "step early failed: as told")
}

// A failure has cancelled b, which does not depend on a.
func TestNext_ARerunBeginsWhatAFailureHasStopped(t *testing.T) {
	t.Parallel()
	d := workflow(step("a"), step("b"), step("c", "b"))
	d.Failure = FailureStop
	s := tell(t, d)
	s.next("a=active b=active c=blocked")
	s.ends("a=failed").next("a=failed b=active c=cancelled")
	s.ends("b=cancelled").next("a=failed b=cancelled c=cancelled").ended(task.Failed, "step a failed: as told")
	s.begin = 2
	s.next("a=active b=active c=blocked", Ask{Do: DoRerun, Steps: []int{0}})
	s.ends("a=succeeded", "b=succeeded").next("a=succeeded b=succeeded c=active")
	s.ends("c=succeeded").next("a=succeeded b=succeeded c=succeeded").ended(task.Succeeded, "")
}

// An expression fails in the plan that has released others: these are taken back.
func TestNext_AStopTakesReleasesOfThePlanBack(t *testing.T) {
	t.Parallel()
	b := step("b")
	b.When = "1 / 0 == 1"
	d := workflow(step("a"), b, step("c"))
	d.Failure = FailureStop
	s := tell(t, d)
	s.next("a=cancelled b=failed c=cancelled")
	if len(s.last.Release)+len(s.last.Stop) > 0 || s.r.Steps[0].Generation != 0 {
		t.Errorf("%v are released, %v told to stop; a is %+v", s.last.Release, s.last.Stop, s.r.Steps[0])
	}
	if s.last.End == nil || !strings.HasPrefix(s.last.End.Error, "step b failed: when: ") {
		t.Errorf("the run ended so: %+v", s.last.End)
	}
	if found := Audit(s.f, s.r, task.Failed, nil); len(found) > 0 {
		t.Error(found)
	}
}

func TestNext_CancelsWhatTakesTooLongAfterAll(t *testing.T) {
	t.Parallel()
	d := workflow(step("a"))
	d.Closing = time.Minute
	d.Finally = []Step{step("clean"), step("tell", "clean")}
	s := tell(t, d)
	s.next("a=active clean=blocked tell=blocked")
	s.ends("a=succeeded").next("a=succeeded clean=active tell=blocked")
	s.now = s.now.Add(time.Minute)
	s.next("a=succeeded clean=active tell=cancelled")
	if fmt.Sprint(s.last.Stop) != "[1]" || !s.last.Look.IsZero() {
		t.Errorf("%v are told to stop, and the run is planned again at %s", s.last.Stop, s.last.Look)
	}
	s.why("", "was told to stop: finally took more than 1m, as closing allows")
	s.ends("clean=cancelled").next("a=succeeded clean=cancelled tell=cancelled")
	s.ended(task.Failed, "step tell cancelled: finally took more than 1m, as closing allows")
}

// All had ended before the deadline. No leader was there until it was over.
func TestNext_ARunIsNotLateOnceAllHasEnded(t *testing.T) {
	t.Parallel()
	d := workflow(step("a"))
	d.Deadline = time.Hour
	s := tell(t, d)
	s.next("a=active")
	s.now = s.now.Add(2 * time.Hour)
	s.ends("a=succeeded").next("a=succeeded").ended(task.Succeeded, "")
}

// What users wrote takes the time of the leader, so a plan evaluates as much as there is room for.
func TestNext_EvaluatesAsMuchAsThereIsRoomFor(t *testing.T) {
	t.Parallel()
	var steps []Step
	for i := range 10 {
		s := step(fmt.Sprint("s", i))
		s.When = "false"
		steps = append(steps, s)
	}
	s := tell(t, workflow(steps...))
	s.room = 4
	var skipped []int
	for round := 0; round == 0 || s.last.More; round++ {
		s.plan()
		skipped = append(skipped, strings.Count(s.states(), "skipped"))
	}
	if fmt.Sprint(skipped) != "[4 8 10]" {
		t.Errorf("%v steps are skipped after each plan, want 4, 8 and all", skipped)
	}
	s.ended(task.Succeeded, "")
}

// What a plan reads and writes is bounded in bytes, too: a step with 32 KiB of payload takes the room of five.
func TestNext_LargePayloadsTakeMoreRoom(t *testing.T) {
	t.Parallel()
	var steps []Step
	for i := range 5 {
		s := step(fmt.Sprint("s", i))
		s.Task.Payload = json.RawMessage(fmt.Sprintf("%q", strings.Repeat("x", 4*RoomBytes-2)))
		steps = append(steps, s)
	}
	s := tell(t, workflow(steps...))
	s.room = 8
	var active []int
	for round := 0; round == 0 || s.last.More; round++ {
		s.plan()
		active = append(active, strings.Count(s.states(), "active"))
	}
	if fmt.Sprint(active) != "[2 4 5]" {
		t.Errorf("%v steps are active after each plan, want 2, 4 and all", active)
	}
}

// A plan that wants more is made again, and evaluates nothing twice.
func TestNext_TellsWhatItEvaluatedToThePlanAfterIt(t *testing.T) {
	t.Parallel()
	a, b := step("a"), step("b", "a")
	b.When = `steps.a.output == "of a"`
	s := tell(t, workflow(a, b))
	s.next("a=active b=blocked")
	s.ends("a=succeeded")
	in := Input{Now: s.now, Room: 10, Tasks: []Task{s.tasks["a"]}}
	in.Memo = &Memo{outcomes: map[int]outcome{1: {skips: true}}}
	if r := Next(s.f, s.r, in).Run; r.Steps[1].State != State(Skipped) {
		t.Errorf("b is %s: it was evaluated", r.Steps[1].State)
	}
	in.Memo = new(Memo)
	if r := Next(s.f, s.r, in).Run; r.Steps[1].State != Active || len(in.Memo.outcomes) != 1 {
		t.Errorf("b is %s, and %v is kept", r.Steps[1].State, in.Memo.outcomes)
	}
}

func TestNext_CutsWhatAnErrorQuotes(t *testing.T) {
	t.Parallel()
	a := step("a")
	a.When = `{"x": 1}["` + strings.Repeat("long", 200) + `"] == 1`
	s := tell(t, workflow(a))
	s.next("a=failed")
	if got := len(s.r.Steps[0].Reason); got > ReasonLimit || got < ReasonLimit/2 {
		t.Errorf("the reason has %d bytes: %s", got, s.r.Steps[0].Reason)
	}
}

func TestNext_APayloadOverItsLimitFailsTheStep(t *testing.T) {
	t.Parallel()
	a := step("a")
	long := strings.Repeat("x", 40<<10)
	a.Task.Payload = json.RawMessage(fmt.Sprintf(`{"a":"%s","b":"${{ params.p }}"}`, long))
	d := workflow(a)
	d.Params = []Param{{Name: "p", Type: "string"}}
	s := tell(t, d)
	s.params = map[string]any{"p": long}
	s.next("a=failed")
	if s.last.End == nil || !strings.Contains(s.last.End.Error, "longer than 64 KiB") {
		t.Errorf("the run ended so: %+v", s.last.End)
	}
}

// A cancel tells many steps to stop, some in each plan, also while there is no room to release any.
func TestNext_TellsSomeStepsToStopInEachPlan(t *testing.T) {
	t.Parallel()
	var steps []Step
	for i := range 2*StopsAtOnce + 10 {
		steps = append(steps, step(fmt.Sprint("s", i)))
	}
	s := tell(t, workflow(steps...))
	s.room = len(steps)
	s.plan()
	s.room = 0
	s.plan(Ask{Do: DoCancel})
	told := []int{len(s.last.Stop)}
	for s.last.More {
		s.plan()
		told = append(told, len(s.last.Stop))
	}
	if want := []int{StopsAtOnce, StopsAtOnce, 10}; !slices.Equal(told, want) {
		t.Errorf("the plans tell %v steps to stop, want %v", told, want)
	}
}

// A step was told to stop for one reason, and another one comes up before it ends.
func TestNext_KeepsWhyAStepWasToldToStop(t *testing.T) {
	t.Parallel()
	d := workflow(step("a"), step("b"))
	d.Failure, d.Deadline = FailureStop, time.Hour
	s := tell(t, d)
	s.next("a=active b=active")
	s.ends("a=failed").next("a=failed b=active")
	s.why("", "was told to stop: another step failed, and failure is stop")
	s.now = s.now.Add(2 * time.Hour)
	s.next("a=failed b=active", Ask{Do: DoCancel})
	s.why("", "was told to stop: another step failed, and failure is stop")
	s.ends("b=cancelled").next("a=failed b=cancelled")
	s.why("", "was told to stop: another step failed, and failure is stop")
}

// All expressions of a step may work as much as one alone, and what they did takes room.
func TestNext_BoundsTheWorkOfAllExpressionsOfAStep(t *testing.T) {
	t.Parallel()
	work := func(n int) string { return fmt.Sprintf("${{ size(range(%d).filter(i, i < 0)) }}", n) }
	payload := func(id string, texts ...string) Step {
		s := step(id)
		var err error
		if s.Task.Payload, err = json.Marshal(texts); err != nil {
			t.Fatal(err)
		}
		return s
	}
	d := workflow(payload("all", slices.Repeat([]string{work(9000)}, 40)...), payload("few", work(9000)), step("other"))
	s := tell(t, d)
	s.room = 33
	s.next("all=failed few=blocked other=blocked")
	if why := s.f.Why(s.r, 0, false); !strings.Contains(why, "take too much work together") {
		t.Error(why)
	}
	if !s.last.More {
		t.Error("there was no room for the other steps, and nobody plans the run again")
	}
	s.next("all=failed few=active other=active")
}

// A step that may fail can still be cancelled, which is a failure for those that need it.
func TestNext_ACancelledStepIsAFailureAlsoIfItMayFail(t *testing.T) {
	t.Parallel()
	a, b := step("a"), step("b", "a")
	a.AllowFailure, b.Rule = true, RuleFailure
	s := tell(t, workflow(a, b))
	s.next("a=active b=blocked")
	s.ends("a=cancelled").next("a=cancelled b=active")
}
