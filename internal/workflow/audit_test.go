package workflow

import (
	"testing"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// A run that is cancelled while it waits to begin, also for another time, is cancelled, and its steps do not know it.
func TestAudit_KnowsHowARunMayEnd(t *testing.T) {
	t.Parallel()
	f, err := Compile(workflow(step("a")))
	testkit.Must(t, err)
	succeeded := Task{State: task.Succeeded}
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
				r.Steps[0] = StepRun{State: State(Succeeded), Generation: 1, Released: 1, Decided: 2}
				tasks = []Task{succeeded}
			}
			if findings := Audit(f, r, test.state, tasks); (len(findings) > 0) != test.wrong {
				t.Errorf("the audit finds %q", findings)
			}
		})
	}
}
