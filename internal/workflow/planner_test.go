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

// story is a run of which a test plans one part after the other.
type story struct {
	t      *testing.T
	f      *Flow
	r      Run
	now    time.Time
	begin  int
	room   int
	params map[string]any
	tasks  map[string]Task
	last   Plan
	end    RunEnd // the newest
}

func tell(t *testing.T, d Definition) *story {
	t.Helper()
	f, err := Compile(d)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 29, 2, 0, 0, 0, time.UTC)
	return &story{t: t, f: f, r: NewRun(f), now: now, begin: 1, room: 100, tasks: map[string]Task{}}
}

// ends has tasks end: "a=failed" is how that of step a does.
func (s *story) ends(ends ...string) *story {
	for _, e := range ends {
		id, state, _ := strings.Cut(e, "=")
		s.tasks[id] = Task{
			Step: s.f.byID[id], State: task.State(state), Attempt: 1, Result: fmt.Sprintf("%q", "of "+id), Error: "as told",
		}
	}
	return s
}

// plan plans, with all that tasks have left.
func (s *story) plan(asks ...Ask) {
	s.t.Helper()
	in := Input{
		Now: s.now, Begin: s.begin, Asks: asks, Room: s.room,
		About: About{Ref: task.Ref{Namespace: "default", ID: "run"}, Revision: 3, Created: s.now, Params: s.params},
	}
	for _, t := range s.tasks {
		in.Tasks = append(in.Tasks, t)
	}
	s.last = Next(s.f, s.r, in)
	if len(s.last.Wants) > 0 {
		s.t.Fatalf("the plan wants %v", s.last.Wants)
	}
	for _, r := range s.last.Release { // what ended before says nothing from now on
		delete(s.tasks, s.f.StepID(r.Step))
	}
	decoded, err := s.f.DecodeRun(s.last.Run.Encode())
	if err != nil {
		s.t.Fatalf("%v:\n%s", err, s.last.Run.Encode())
	}
	s.r, s.begin = decoded, 0
	if s.last.End != nil {
		s.end = *s.last.End
	}
}

// states returns the states of all steps, as "a=active b=blocked".
func (s *story) states() string {
	var states []string
	for i, step := range s.r.Steps {
		states = append(states, s.f.StepID(i)+"="+string(step.State))
	}
	return strings.Join(states, " ")
}

// next plans, and checks the states of all steps.
func (s *story) next(want string, asks ...Ask) *story {
	s.t.Helper()
	s.plan(asks...)
	if got := s.states(); got != want {
		s.t.Errorf("the steps are\n%s, want\n%s", got, want)
	}
	return s
}

// why checks why the first steps are where they are.
func (s *story) why(want ...string) {
	s.t.Helper()
	for i, text := range want {
		if got := s.f.Why(s.r, i, false); got != text {
			s.t.Errorf("step %s: %s, want %s", s.f.StepID(i), got, text)
		}
	}
}

// overdue checks what is said of a run that has not ended though its deadline is over.
func (s *story) overdue(want string) {
	s.t.Helper()
	if got := s.f.Overdue(s.r, s.now); got != want {
		s.t.Errorf("it is overdue: %q, want %q", got, want)
	}
}

// ended checks how the run has ended.
func (s *story) ended(state task.State, why string) {
	s.t.Helper()
	switch {
	case s.last.End == nil:
		s.t.Errorf("the run is in phase %s, want %s", s.r.Phase, state)
	case s.last.End.State != state || s.last.End.Error != why:
		s.t.Errorf("the run %s: %q, want %s: %q", s.last.End.State, s.last.End.Error, state, why)
	case !s.last.Look.IsZero():
		s.t.Errorf("it is looked at again at %s", s.last.Look)
	}
}

func TestNext_AFailureStopsWhatDependsOnIt(t *testing.T) {
	t.Parallel()
	d := workflow(step("a"), step("b", "a"), step("c"), step("d", "c", "b"))
	d.OnFailure, d.Finally = []Step{step("alarm")}, []Step{step("clean")}
	s := tell(t, d)
	s.next("a=active b=blocked c=active d=blocked alarm=blocked clean=blocked")
	s.ends("a=failed").next("a=failed b=upstream_failed c=active d=upstream_failed alarm=blocked clean=blocked")
	s.ends("c=succeeded").next("a=failed b=upstream_failed c=succeeded d=upstream_failed alarm=active clean=blocked")
	s.ends("alarm=succeeded").next("a=failed b=upstream_failed c=succeeded d=upstream_failed alarm=succeeded clean=active")
	s.ends("clean=succeeded").next(
		"a=failed b=upstream_failed c=succeeded d=upstream_failed alarm=succeeded clean=succeeded")
	s.ended(task.Failed, "step a failed: as told")
}

func TestNext_WithFailureStopTheOthersAreCancelled(t *testing.T) {
	t.Parallel()
	d := workflow(step("a"), step("b"), step("c", "b"))
	d.Failure = FailureStop
	s := tell(t, d)
	s.next("a=active b=active c=blocked")
	s.ends("a=failed").next("a=failed b=active c=cancelled")
	if fmt.Sprint(s.last.Stop) != "[1]" || !s.r.Steps[1].Stopping {
		t.Errorf("the tasks of %v are told to stop, want that of b", s.last.Stop)
	}
	s.next("a=failed b=active c=cancelled")
	if len(s.last.Stop) > 0 {
		t.Errorf("%v are told twice", s.last.Stop)
	}
	s.ends("b=cancelled").next("a=failed b=cancelled c=cancelled").ended(task.Failed, "step a failed: as told")
}

func TestNext_AFailureThatIsAllowedCountsAsASuccess(t *testing.T) {
	t.Parallel()
	a := step("a")
	a.AllowFailure = true
	s := tell(t, workflow(a, step("b", "a")))
	s.next("a=active b=blocked")
	s.ends("a=failed").next("a=failed b=active")
	s.ends("b=succeeded").next("a=failed b=succeeded").ended(task.Succeeded, "")
}

func TestNext_ACancelStopsAllButFinally(t *testing.T) {
	t.Parallel()
	d := workflow(step("a"), step("b", "a"))
	d.OnFailure, d.Finally = []Step{step("alarm")}, []Step{step("clean")}
	s := tell(t, d)
	s.next("a=active b=blocked alarm=blocked clean=blocked")
	s.next("a=active b=cancelled alarm=blocked clean=blocked", Ask{Do: DoCancel})
	s.why("was told to stop: the run was cancelled", "was not released: the run was cancelled")
	s.ends("a=cancelled").next("a=cancelled b=cancelled alarm=skipped clean=active")
	s.next("a=cancelled b=cancelled alarm=skipped clean=active", Ask{Do: DoCancel})
	s.ends("clean=succeeded").next("a=cancelled b=cancelled alarm=skipped clean=succeeded").ended(task.Cancelled, "")
}

// Somebody cancels the task of a step, and nothing else.
func TestNext_ACancelledStepHasTheRunFail(t *testing.T) {
	t.Parallel()
	s := tell(t, workflow(step("a"), step("b", "a")))
	s.next("a=active b=blocked")
	s.ends("a=cancelled").next("a=cancelled b=upstream_failed").ended(task.Failed, "step a cancelled: as told")
}

func TestNext_BoundsEndWhatTakesTooLong(t *testing.T) {
	t.Parallel()
	d := workflow(step("a"), step("b", "a"))
	d.Deadline, d.Closing = time.Hour, time.Minute
	d.OnFailure, d.Finally = []Step{step("alarm")}, []Step{step("clean")}
	s := tell(t, d)
	begun := s.now
	s.next("a=active b=blocked alarm=blocked clean=blocked")
	if !s.last.Look.Equal(begun.Add(time.Hour)) {
		t.Errorf("the run is looked at again at %s, want at its deadline", s.last.Look)
	}
	s.now = begun.Add(time.Hour - time.Millisecond)
	s.next("a=active b=blocked alarm=blocked clean=blocked")
	s.overdue("")
	s.now = begun.Add(time.Hour + overdueGrace)
	const over = "Its deadline was over at 2026-11-29T03:00:00Z"
	s.overdue(over + ", and its leader has not cancelled its steps yet (dtsctl status).")
	s.now = begun.Add(time.Hour)
	s.next("a=active b=cancelled alarm=blocked clean=blocked")
	const late = "the deadline of the run, 1h, was over at 2026-11-29T03:00:00Z"
	s.why("was told to stop: "+late, "was not released: "+late)
	s.overdue(over + ". It ends when the tasks have ended that were told to stop.")
	s.ends("a=cancelled").next("a=cancelled b=cancelled alarm=active clean=blocked")
	s.r.Cancelled = true // later than the deadline
	s.why("was told to stop: "+late, "was not released: "+late)
	s.r.Cancelled = false
	s.overdue(over + ". Its steps of on_failure may take until 2026-11-29T03:01:00Z.")
	if !s.last.Look.Equal(s.now.Add(time.Minute)) {
		t.Errorf("the run is looked at again at %s, want when closing takes too long", s.last.Look)
	}
	s.now = s.now.Add(time.Minute)
	s.next("a=cancelled b=cancelled alarm=active clean=blocked")
	s.ends("alarm=cancelled").next("a=cancelled b=cancelled alarm=cancelled clean=active") // it has a bound of its own
	const long = "was told to stop: on_failure took more than 1m, as closing allows"
	s.why("was told to stop: "+late, "was not released: "+late, long)
	if !s.last.Look.Equal(s.now.Add(time.Minute)) {
		t.Errorf("the run is looked at again at %s, want when finally takes too long", s.last.Look)
	}
	s.now = s.now.Add(time.Minute)
	s.next("a=cancelled b=cancelled alarm=cancelled clean=active")
	s.ends("clean=cancelled").next("a=cancelled b=cancelled alarm=cancelled clean=cancelled")
	s.ended(task.Failed, "had not ended after 1h0m0s, its deadline")
}

func TestNext_APauseHoldsTheStepsBack(t *testing.T) {
	t.Parallel()
	s := tell(t, workflow(step("a"), step("b", "a"), step("c", "a")))
	s.next("a=active b=blocked c=blocked")
	s.ends("a=succeeded").next("a=succeeded b=blocked c=blocked", Ask{Do: DoPause})
	s.next("a=succeeded b=active c=active", Ask{Do: DoResume})
	s.ends("b=failed", "c=succeeded").next("a=succeeded b=failed c=succeeded", Ask{Do: DoPause})
	s.ended(task.Failed, "step b failed: as told")

	s.begin = 2 // somebody wants it again, and does not know of the pause
	s.next("a=succeeded b=active c=succeeded", Ask{Do: DoRerun})
}

// What cleans up runs also if somebody has paused the run.
func TestNext_APauseDoesNotHoldFinallyBack(t *testing.T) {
	t.Parallel()
	d := workflow(step("a"), step("b", "a"))
	d.Finally = []Step{step("clean")}
	s := tell(t, d)
	s.next("a=active b=blocked clean=blocked")
	s.ends("a=succeeded").next("a=succeeded b=blocked clean=blocked", Ask{Do: DoPause})
	s.next("a=succeeded b=cancelled clean=active", Ask{Do: DoCancel})
	s.ends("clean=succeeded").next("a=succeeded b=cancelled clean=succeeded").ended(task.Cancelled, "")
}

func TestNext_KeepsWhatIsAskedBeforeTheBegin(t *testing.T) {
	t.Parallel()
	s := tell(t, workflow(step("a"), step("b")))
	s.begin = 0
	s.next("a=blocked b=blocked", Ask{Do: DoPause})
	s.begin = 1
	s.next("a=blocked b=blocked")
	s.next("a=active b=active", Ask{Do: DoResume})
}

func TestNext_ReleasesAsManyAsThereIsRoomFor(t *testing.T) {
	t.Parallel()
	d := workflow(step("a"), step("b"), step("c"), step("d"))
	d.AtOnce = 3
	s := tell(t, d)
	s.room = 2
	s.next("a=active b=active c=blocked d=blocked")
	if !s.last.More {
		t.Error("there is room for one more of the run, and nobody plans it")
	}
	s.next("a=active b=active c=active d=blocked")
	if s.last.More {
		t.Error("the run may not have more at once, and is planned again")
	}
	s.ends("b=succeeded").next("a=active b=succeeded c=active d=active")
}

func TestNext_AStepWhoseTaskIsGoneHasFailed(t *testing.T) {
	t.Parallel()
	s := tell(t, workflow(step("a"), step("b", "a")))
	s.next("a=active b=blocked")
	s.ends("a=").next("a=failed b=upstream_failed").ended(task.Failed, "step a failed: its task is gone")
}

func TestNext_DecidesWhichStepsGoOn(t *testing.T) {
	t.Parallel()
	fork := Step{ID: "fork", Needs: []string{"a"}, Decide: []Choice{
		{When: `steps.a.output == "of b"`, Then: []string{"left"}},
		{When: `prev.output == "of a"`, Then: []string{"right", "both"}},
		{Then: []string{"left", "both"}},
	}}
	s := tell(t, workflow(step("a"), fork, step("left", "fork"), step("right", "fork"), step("both", "fork"),
		step("after", "fork"), step("join", "left", "right")))
	s.next("a=active fork=blocked left=blocked right=blocked both=blocked after=blocked join=blocked")
	s.ends("a=succeeded").next(
		"a=succeeded fork=succeeded left=skipped right=active both=active after=active join=blocked")
	s.ends("right=succeeded").next(
		"a=succeeded fork=succeeded left=skipped right=succeeded both=active after=active join=active")
}

// A rule may release a step before all that it needs has ended. An expression waits for what it reads.
func TestNext_AnExpressionReadsVerdictsOnly(t *testing.T) {
	t.Parallel()
	c := step("c", "a", "b")
	c.Rule, c.When = RuleOneSuccess, `steps.b.state == "failed"`
	s := tell(t, workflow(step("a"), step("b"), c))
	s.next("a=active b=active c=blocked")
	s.ends("a=succeeded").next("a=succeeded b=active c=blocked")
	s.ends("b=failed").next("a=succeeded b=failed c=active")
}

func TestNext_AnErrorOfAnExpressionIsTheReason(t *testing.T) {
	t.Parallel()
	b := step("b", "a")
	b.Task.Payload = json.RawMessage(`{"to": "${{ steps.a.output.address }}"}`)
	s := tell(t, workflow(step("a"), b))
	s.next("a=active b=blocked")
	s.ends("a=succeeded").next("a=succeeded b=failed")
	if s.last.End == nil || !strings.HasPrefix(s.last.End.Error, "step b failed: task.payload.to: ") {
		t.Errorf("the run ended so: %+v", s.last.End)
	}
}

func TestNext_GivesTasksWhatTheyNeed(t *testing.T) {
	t.Parallel()
	b := step("b", "a")
	payload := json.RawMessage(`{"url":"http://x/${{ run.id }}","of":"${{ prev.output }}"}`)
	b.Task = &task.Definition{Type: "http", Queue: "slow", Payload: payload}
	d := workflow(step("a"), b)
	d.Owner, d.Labels = "data", map[string]string{"team": "data"}
	d.Output = json.RawMessage(`{"b":"${{ steps.b.output }}"}`)
	s := tell(t, d)
	s.next("a=active b=blocked")
	s.ends("a=succeeded").next("a=succeeded b=active")
	got := s.last.Release[0].Task
	same := got.ID == "run@.b" && got.Queue == "slow" && got.Owner == "data" && got.Labels["team"] == "data"
	if !same || string(got.Payload) != `{"of":"of a","url":"http://x/run"}` {
		t.Errorf("the task is %+v, with payload %s", got, got.Payload)
	}
	s.ends("b=succeeded").next("a=succeeded b=succeeded").ended(task.Succeeded, "")
	if got := s.last.End.Result; got != `{"b":"of b"}` {
		t.Errorf("the result is %s", got)
	}
}

// Only what is read is wanted, and only once.
func TestNext_WantsTheTasksThatExpressionsRead(t *testing.T) {
	t.Parallel()
	c := step("c", "a", "b")
	c.When = `steps.a.output == "x"`
	f, err := Compile(workflow(step("a"), step("b"), c))
	if err != nil {
		t.Fatal(err)
	}
	about := About{Ref: task.Ref{Namespace: "default", ID: "run"}}
	in := Input{Now: time.UnixMilli(1000).UTC(), Begin: 1, Room: 10, About: about}
	r := Next(f, NewRun(f), in).Run
	in.Begin, in.Tasks = 0, []Task{{Step: 0, State: task.Succeeded, Result: `"x"`}}
	r = Next(f, r, in).Run
	in.Tasks = []Task{{Step: 1, State: task.Succeeded}}
	p := Next(f, r, in)
	if fmt.Sprint(p.Wants) != "[0]" {
		t.Fatalf("%v are wanted, want the task of a", p.Wants)
	}
	in.Tasks = append(in.Tasks, Task{Step: 0, State: task.Succeeded, Result: `"x"`})
	if p = Next(f, r, in); len(p.Wants) > 0 || len(p.Release) != 1 {
		t.Errorf("%v are wanted, %d released", p.Wants, len(p.Release))
	}
}

func TestNext_ARerunBeginsFromStepsOn(t *testing.T) {
	t.Parallel()
	d := workflow(step("a"), step("b", "a"), step("c", "b"), step("d"))
	d.Finally = []Step{step("clean")}
	s := tell(t, d)
	s.next("a=active b=blocked c=blocked d=active clean=blocked")
	s.ends("a=succeeded", "d=succeeded").next("a=succeeded b=active c=blocked d=succeeded clean=blocked")
	s.ends("b=failed").next("a=succeeded b=failed c=upstream_failed d=succeeded clean=active")
	s.ends("clean=succeeded").next("a=succeeded b=failed c=upstream_failed d=succeeded clean=succeeded")
	s.ended(task.Failed, "step b failed: as told")

	s.begin = 2 // from what failed
	s.next("a=succeeded b=active c=blocked d=succeeded clean=blocked", Ask{Do: DoRerun})
	if !s.last.Release[0].Again {
		t.Error("the task of b is created, and is there")
	}
	s.ends("b=succeeded").next("a=succeeded b=succeeded c=active d=succeeded clean=blocked")
	s.ends("c=succeeded").next("a=succeeded b=succeeded c=succeeded d=succeeded clean=active")
	s.ends("clean=succeeded").next("a=succeeded b=succeeded c=succeeded d=succeeded clean=succeeded")
	s.ended(task.Succeeded, "")

	s.begin = 3 // from a step on
	s.next("a=active b=blocked c=blocked d=succeeded clean=blocked", Ask{Do: DoRerun, Steps: []int{0}})
	s.next("a=active b=blocked c=blocked d=succeeded clean=blocked", Ask{Do: DoRerun, Steps: []int{0}})
}

// Each verdict that a rule has decided is found if it is changed.
func TestAudit_FindsAVerdictThatNoRuleGives(t *testing.T) {
	t.Parallel()
	alarm := step("d", "a")
	alarm.Rule = RuleOneFailed
	d := workflow(step("a"), step("b", "a"), step("c", "b"), alarm)
	s := tell(t, d)
	s.next("a=active b=blocked c=blocked d=blocked")
	s.ends("a=failed").next("a=failed b=upstream_failed c=upstream_failed d=active")
	s.ends("d=succeeded").next("a=failed b=upstream_failed c=upstream_failed d=succeeded")
	tasks := []Task{{Step: 0, State: task.Failed}, {Step: 3, State: task.Succeeded, Attempt: 1}}
	if found := Audit(s.f, s.r, task.Failed, tasks); len(found) > 0 {
		t.Fatal(found)
	}
	type end struct {
		Run
		tasks []Task
		state task.State
	}
	for name, c := range map[string]struct {
		change func(*end)
		says   string
	}{
		"skipped, not upstream_failed": {func(e *end) { e.Steps[1].State = State(Skipped) }, "step b is skipped"},
		"blocked":                      {func(e *end) { e.Steps[2].State = Blocked }, "step c is blocked"},
		"cancelled":                    {func(e *end) { e.Steps[2].State = State(Cancelled) }, "step c was cancelled"},
		"released before its need":     {func(e *end) { e.Steps[3].Released = 1 }, "step d is succeeded, its rule"},
		"another end of its task":      {func(e *end) { e.tasks[1].State = task.Failed }, "its task is failed"},
		"no task":                      {func(e *end) { e.tasks[1].State = task.None }, "step d was released, and has no"},
		"a task of its own":            {func(e *end) { e.tasks[1].Step = 2 }, "step c has a task, and was never released"},
		"another end of the run":       {func(e *end) { e.state = task.Succeeded }, "its steps say it failed"},
		"no end":                       {func(e *end) { e.state = task.Running }, "the run is running"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := end{s.r, slices.Clone(tasks), task.Failed}
			e.Steps = slices.Clone(e.Steps)
			c.change(&e)
			if found := strings.Join(Audit(s.f, e.Run, e.state, e.tasks), "\n"); !strings.Contains(found, c.says) {
				t.Errorf("found %q, want %q", found, c.says)
			}
		})
	}
}

func TestParseAsk_ReadsWhatEncodeWrites(t *testing.T) {
	t.Parallel()
	f, err := Compile(workflow(step("load"), step("send", "load")))
	if err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]Ask{
		"pause": {Do: DoPause}, "resume": {Do: DoResume}, "rerun": {Do: DoRerun},
		"rerun load send": {Do: DoRerun, Steps: []int{0, 1}},
	} {
		got, ok := f.ParseAsk(line)
		if !ok || got.Do != want.Do || !slices.Equal(got.Steps, want.Steps) || got.Encode(f) != line {
			t.Errorf("%q is read as %+v, and written as %q", line, got, got.Encode(f))
		}
	}
	for _, line := range []string{"", "dance", "cancel", "rerun unknown"} {
		if got, ok := f.ParseAsk(line); ok {
			t.Errorf("%q is read as %+v", line, got)
		}
	}
}

func TestWhy_SaysWhatKeepsAStepThatIsReady(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		atOnce         int
		paused, isFull bool
		want           string
	}{
		{0, false, false, "is released next"},
		{1, false, false, "waits for the end of another step: at_once is 1"},
		{1, false, true, "waits for memory: Redis is almost full, so leaders release no steps"},
		{1, true, true, "waits for the run to be resumed: it is paused"},
	} {
		d := workflow(step("a"), step("b", "a"))
		d.AtOnce = c.atOnce
		s := tell(t, d)
		s.room = 0
		s.next("a=blocked b=blocked")
		s.r.Paused = c.paused
		if got := s.f.Why(s.r, 0, c.isFull); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
		if got := s.f.Why(s.r, 1, c.isFull); got != "waits for a (rule success)" {
			t.Errorf("%+v: the step behind it %s", c, got)
		}
	}
}
