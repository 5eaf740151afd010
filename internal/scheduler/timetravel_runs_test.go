package scheduler

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/workflow"
	"github.com/dts-sched/dts/internal/workflow/text"
)

// loads puts a workflow of one step, and returns its name.
func (v *voyage) loads() task.Ref {
	v.t.Helper()
	testkit.Must(v.t, v.store.Advance(v.t.Context(), func(context.Context) ([]cluster.Node, error) { return nil, nil }))
	d, err := text.Parse("default", `{"steps": [{"id": "load", "task": {
		"type": "echo", "timeout": "24h", "retry": {"max_attempts": 1}}}]}`)
	testkit.Must(v.t, err)
	d.Ref = task.Ref{Namespace: "default", ID: "loads"}
	_, err = v.store.Workflows.Put(v.t.Context(), d, 0, "")
	testkit.Must(v.t, err)
	return d.Ref
}

// ofRuns is a schedule of runs of that workflow.
func ofRuns(d schedule.Definition) schedule.Definition {
	d.Task = task.Definition{
		Type: task.WorkflowType, Payload: []byte(`{"workflow": "loads"}`), Retention: task.RetentionLimit,
	}
	return d
}

// ended checks that the runs of the ticks of that day at these times have ended so, as their audit says.
func (s scheduled) ended(state task.State, clocks ...string) {
	s.v.t.Helper()
	for _, at := range clocks {
		tick, err := time.Parse("2006-01-02 15:04", "2026-03-10 "+at)
		testkit.Must(s.v.t, err)
		ref := task.Ref{Namespace: s.ref.Namespace, ID: s.ref.ID + "@" + schedule.TickName(tick)}
		own, flow, run, steps := s.v.runOf(ref)
		if own.Task.State != state {
			s.v.t.Errorf("the run of %s is %s, want %s", at, own.Task.State, state)
		}
		if findings := workflow.Audit(flow, run, own.Task.State, steps); len(findings) > 0 {
			s.v.t.Errorf("the run of %s: %q", at, findings)
		}
	}
}

// What overlap does to tasks it does to runs, which last as long as their steps.
func TestTravel_OverlapDecidesAboutLongRuns(t *testing.T) {
	testkit.NotQuick(t)
	all := []string{"08:10", "08:20", "08:30", "08:40", "08:50", "09:00", "09:10"}
	as := func(outcome string, clocks ...string) (ledger []string) {
		for _, at := range clocks {
			ledger = append(ledger, at+" "+outcome)
		}
		return ledger
	}
	for name, c := range map[schedule.Overlap]struct{ ledger, succeeded, cancelled []string }{
		schedule.OverlapSkip: {
			[]string{
				"08:10 fired", "08:20 skipped_overlap", "08:30 skipped_overlap", "08:40 fired", "08:50 skipped_overlap",
				"09:00 skipped_overlap", "09:10 fired",
			}, []string{"08:10", "08:40", "09:10"}, nil,
		},
		schedule.OverlapQueue:   {as("fired", all...), all, nil},
		schedule.OverlapReplace: {append(as("replaced", all[:6]...), "09:10 fired"), all[6:], all[:6]},
	} {
		t.Run(string(name), func(t *testing.T) {
			t.Parallel()
			travel(t, at("2026-03-10T08:05Z"), slow, func(v *voyage) {
				v.loads()
				v.start()
				v.takes(25 * time.Minute)
				s := v.put("s", ofRuns(tenMinutes(name)))
				v.until(at("2026-03-10T12:00Z"))
				s.recorded("15:04", c.ledger...)
				s.ended(task.Succeeded, c.succeeded...)
				s.ended(task.Cancelled, c.cancelled...)
				v.ranOnceEach()
			})
		})
	}
}

// Two runs that failed one after the other pause their schedule.
func TestTravel_FailedRunsPauseTheirSchedule(t *testing.T) {
	testkit.NotQuick(t)
	travel(t, at("2026-03-10T08:05Z"), slow, func(v *voyage) {
		v.loads()
		v.start()
		v.worker.does(func(task.Task) (time.Duration, error) { return time.Minute, errors.New("broken") })
		d := tenMinutes(schedule.OverlapSkip)
		d.PauseOnFailure = 2
		s := v.put("s", ofRuns(d))
		v.until(at("2026-03-10T08:35Z"))
		if s.read().PausedAt.IsZero() {
			t.Error("the schedule is not paused")
		}
		s.recorded("15:04", "08:10 fired", "08:20 fired")
		s.ended(task.Failed, "08:10", "08:20")
	})
}

// The runs of a paused workflow wait, and begin when it goes on.
func TestTravel_APausedWorkflowLetsItsRunsGo(t *testing.T) {
	testkit.NotQuick(t)
	travel(t, at("2026-03-10T08:05Z"), slow, func(v *voyage) {
		name := v.loads()
		_, err := v.store.Workflows.Pause(v.t.Context(), name, "", "")
		testkit.Must(t, err)
		v.start()
		v.takes(time.Minute)
		s := v.put("s", ofRuns(tenMinutes(schedule.OverlapAllow)))
		v.until(at("2026-03-10T08:35Z"))
		if ran := v.worker.saw(); len(ran) > 0 {
			t.Errorf("while the workflow was paused, these ran: %v", ran)
		}
		_, err = v.store.Workflows.Resume(v.t.Context(), name, "")
		testkit.Must(t, err)
		v.until(at("2026-03-10T08:46Z")) // a leader looks again after what waits
		s.ended(task.Succeeded, "08:10", "08:20", "08:30", "08:40")
		v.ranOnceEach()
	})
}

// A failover loses that a step was released, its run ends without it, and the worker restores the task. Nobody needs
// its end any more: it is kept as long as the run, and not for ever.
func TestTravel_AStepThatEndsAfterItsRunIsNotKept(t *testing.T) {
	from := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	travel(t, from, slow, func(v *voyage) {
		ctx := v.t.Context()
		v.loads()
		v.start()
		v.worker.does(func(task.Task) (time.Duration, error) { return time.Minute, nil })
		create := func(d task.Definition) {
			for _, c := range v.store.Tasks.Create(ctx, []task.Definition{d.Normalize()}) {
				testkit.Must(v.t, c.Err)
			}
		}
		run := task.Ref{Namespace: "default", ID: "once"}
		create(task.Definition{
			Ref: run, Type: task.WorkflowType, Queue: task.WorkflowQueue, Payload: []byte(`{"workflow": "loads"}`),
			Retention: 48 * time.Hour,
		})
		v.pass(time.Hour)
		create(task.Definition{Ref: run.Step("lost"), Type: "echo", Retention: task.RetentionLimit})
		v.pass(time.Hour)
		read, err := v.store.Partitions.At(0).ReadSteps(ctx, []task.Ref{run.Step("lost")})
		testkit.Must(v.t, err)
		if got := read[0]; got.Task.State != task.Succeeded || strings.Contains(got.Seen.Text, ">") {
			v.t.Errorf("its end is %q, which is kept for the run", got.Seen.Text)
		}
		v.pass(49 * time.Hour)
		read, err = v.store.Partitions.At(0).ReadSteps(ctx, []task.Ref{run.Step("lost")})
		testkit.Must(v.t, err)
		if read[0].Seen.Text != "" {
			v.t.Errorf("it is there after two days: %q", read[0].Seen.Text)
		}
	})
}
