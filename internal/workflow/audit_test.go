package workflow

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// A run that is cancelled while it waits to begin, also for another time, is cancelled, and its steps do not know it.
func TestAudit_KnowsHowARunMayEnd(t *testing.T) {
	t.Parallel()
	f, err := Compile(workflow(step("a")))
	testkit.Must(t, err)
	succeeded := Task{State: task.Succeeded, Attempt: 1}
	for name, test := range map[string]struct {
		phase Phase
		state task.State
		wrong bool
	}{
		"never begun":               {"", task.Cancelled, false},
		"never begun, and failed":   {"", task.Failed, true},
		"cancelled as it runs":      {PhaseMain, task.Cancelled, true},
		"it runs":                   {PhaseMain, task.Running, false},
		"ended":                     {PhaseEnded, task.Succeeded, false},
		"ended, and runs":           {PhaseEnded, task.Running, true},
		"ended otherwise":           {PhaseEnded, task.Failed, true},
		"cancelled before it reran": {PhaseEnded, task.Cancelled, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, tasks := NewRun(f), []Task(nil)
			if r.Phase = test.phase; r.Phase != "" {
				r.Plans = 2
				r.Steps[0] = StepRun{State: State(Succeeded), Generation: 1, Released: 1, Decided: 2}
				tasks = []Task{succeeded}
			}
			if findings := Audit(f, r, test.state, tasks); (len(findings) > 0) != test.wrong {
				t.Errorf("the audit finds %q", findings)
			}
		})
	}
}

// decided is a run that has succeeded: c decides for x and against y, z need not wait for x but reads it, and
// on_failure is skipped.
func decided(t *testing.T) (*story, []Task) {
	t.Helper()
	z := step("z", "a", "x")
	z.Rule = RuleOneSuccess
	z.Task.Payload = json.RawMessage(`{"of": "${{ steps.x.output }}"}`)
	branches := []Choice{{When: "true", Then: []string{"x"}}, {Then: []string{"y"}}}
	c := Step{ID: "c", Needs: []string{"a"}, Decide: branches}
	d := workflow(step("a"), c, step("x", "c"), step("y", "c"), z)
	d.Failure = FailureStop
	d.OnFailure, d.Finally = []Step{step("alert")}, []Step{step("tidy")}
	s := tell(t, d)
	s.next("a=active c=blocked x=blocked y=blocked z=blocked alert=blocked tidy=blocked")
	s.ends("a=succeeded").next("a=succeeded c=succeeded x=active y=skipped z=blocked alert=blocked tidy=blocked")
	s.ends("x=succeeded").next("a=succeeded c=succeeded x=succeeded y=skipped z=active alert=blocked tidy=blocked")
	s.ends("z=succeeded").next("a=succeeded c=succeeded x=succeeded y=skipped z=succeeded alert=skipped tidy=active")
	s.ends("tidy=succeeded").next("a=succeeded c=succeeded x=succeeded y=skipped z=succeeded alert=skipped tidy=succeeded")
	var tasks []Task
	for i, step := range s.r.Steps {
		if step.Released > 0 {
			tasks = append(tasks, Task{Step: i, State: task.Succeeded, Attempt: 1})
		}
	}
	return s, tasks
}

// A history that cannot be is found, whatever of it is wrong.
func TestAudit_FindsWhatCannotHaveBeen(t *testing.T) {
	t.Parallel()
	s, tasks := decided(t)
	if found := Audit(s.f, s.r, task.Succeeded, tasks); len(found) > 0 {
		t.Fatal(found)
	}
	const a, c, x, z, alert, tidy = 0, 1, 2, 4, 5, 6
	end, early := s.r.Plans, s.r.Begun.Add(time.Second)
	cancelled := func(reason string) StepRun {
		return StepRun{State: State(Cancelled), Decided: end, At: early, Reason: reason}
	}
	for name, test := range map[string]struct {
		change func(r *Run, tasks []Task)
		says   string
	}{
		"on_failure ran": {func(r *Run, _ []Task) {
			r.Steps[alert] = StepRun{State: State(Succeeded), Generation: 1, Released: end, Decided: end}
		}, "step alert is succeeded, and nothing has failed"},
		"finally ran first": {func(r *Run, _ []Task) {
			r.Steps[tidy].Released = 2
		}, "step x, which comes before, had not"},
		"stopped for nothing": {func(r *Run, _ []Task) {
			r.Stopped = true
		}, "the run was stopped, and no failure"},
		"late for nothing": {func(r *Run, _ []Task) {
			r.Late = true
		}, "the run is late, and its steps had ended"},
		"finally cancelled": {func(r *Run, _ []Task) {
			r.Steps[tidy] = cancelled("")
		}, "step tidy was cancelled before"},
		"finally closed early": {func(r *Run, _ []Task) {
			r.Steps[tidy] = cancelled("closing")
		}, "for closing was not over"},
		"on_failure cancelled": {func(r *Run, _ []Task) {
			r.Steps[alert] = cancelled("")
		}, "step alert was cancelled before"},
		"stopped without a mark": {func(r *Run, _ []Task) {
			r.Steps[a] = cancelled("")
		}, "step a was cancelled before"},
		"no condition": {func(r *Run, _ []Task) {
			r.Steps[x] = StepRun{State: State(Skipped), Decided: 2, Reason: "its condition is false"}
		}, "step x is skipped, as its condition is false, and has no"},
		"skipped without needs": {func(r *Run, _ []Task) {
			r.Steps[a] = StepRun{State: State(Skipped), Decided: 2}
		}, "step a is skipped, and needs nothing"},
		"read before it ended": {func(r *Run, _ []Task) {
			r.Steps[z].Released = 2
		}, "step x, which it reads, had not ended"},
		"another branch": {func(r *Run, _ []Task) {
			r.Steps[c].Choice = 1
		}, `step x is succeeded, its rule success said "skipped"`},
		"no such branch": {func(r *Run, _ []Task) {
			r.Steps[c].Choice = 2
		}, "step c took branch 3, and has 2"},
		"a task that decides": {func(r *Run, _ []Task) {
			r.Steps[x].Choice = 1
		}, "step x took branch 2, and has 0"},
		"a decision with a task": {func(r *Run, _ []Task) {
			r.Steps[c].Released = 2
		}, "step c was released, and is of no"},
		"no release": {func(r *Run, _ []Task) {
			r.Steps[x].Released = 0
		}, "step x is succeeded, and was not released"},
		"a plan that was not": {func(r *Run, _ []Task) {
			r.Steps[tidy].Decided = end + 1
		}, "step tidy was released in plan"},
		"decided before released": {func(r *Run, _ []Task) {
			r.Steps[x].Decided = 1
		}, "step x was released in plan"},
		"released without an order": {func(r *Run, _ []Task) {
			r.Steps[x].Generation = 0
		}, "step x was released, and is of no"},
		"failed for nothing": {func(r *Run, _ []Task) {
			r.Steps[x] = StepRun{State: State(Failed), Decided: 2}
		}, "step x is failed, and nothing says why"},
		"ended early": {func(r *Run, _ []Task) {
			r.Steps[z] = StepRun{State: Active, Generation: 1, Released: 3}
		}, "step z is active, and the run has ended"},
		"ran twice":  {func(_ *Run, tasks []Task) { tasks[1].Successes = 1 }, "step x ran again after it had succeeded"},
		"no attempt": {func(_ *Run, tasks []Task) { tasks[1].Attempt = 0 }, "step x is succeeded, and its task has made no"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, tasks := s.r, slices.Clone(tasks)
			r.Steps = slices.Clone(r.Steps)
			test.change(&r, tasks)
			if found := strings.Join(Audit(s.f, r, task.Succeeded, tasks), "\n"); !strings.Contains(found, test.says) {
				t.Errorf("found %q, want %q", found, test.says)
			}
		})
	}
}
