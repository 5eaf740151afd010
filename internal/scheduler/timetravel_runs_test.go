package scheduler

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/workflow"
	"github.com/dts-sched/dts/internal/workflow/text"
)

// keeps puts a workflow of which so many runs may run at once, and returns its name.
func (v *voyage) keeps(id string, most int, definition string) task.Ref {
	v.t.Helper()
	testkit.Must(v.t, v.store.Advance(v.t.Context(), func(context.Context) ([]cluster.Node, error) { return nil, nil }))
	d, err := text.Parse("default", definition)
	testkit.Must(v.t, err)
	d.Ref, d.MaxRuns = task.Ref{Namespace: "default", ID: id}, most
	_, err = v.store.Workflows.Put(v.t.Context(), d, 0, "")
	testkit.Must(v.t, err)
	return d.Ref
}

// loads puts a workflow of one step, which gets the tick, and returns its name.
func (v *voyage) loads() task.Ref {
	v.t.Helper()
	return v.keeps("loads", 0, `{"steps": [{"id": "load", "task": {
		"type": "echo", "payload": "${{ run.tick }}", "timeout": "24h", "retry": {"max_attempts": 1}}}]}`)
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
	for name, c := range map[string]struct{ ofRun, ofFlow, until time.Duration }{
		"the run says how long":      {48 * time.Hour, 0, 48 * time.Hour},
		"the workflow says how long": {0, 72 * time.Hour, 72 * time.Hour},
		"the run is gone":            {time.Minute, 0, 28 * time.Hour}, // a day after the end of the step
	} {
		t.Run(name, func(t *testing.T) {
			travel(t, time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC), slow, func(v *voyage) {
				v.start()
				v.worker.does(func(task.Task) (time.Duration, error) { return time.Minute, nil })
				run := v.begin("once", fmt.Sprintf(`"retention": %q,`, max(time.Second, c.ofFlow)), c.ofRun)
				v.pass(3 * time.Hour)
				late := task.Definition{Ref: run.Step("lost"), Type: "echo", Retention: task.RetentionLimit}
				for _, created := range v.store.Tasks.Create(v.t.Context(), []task.Definition{late.Normalize()}) {
					testkit.Must(v.t, created.Err)
				}
				state := func() string {
					read, err := v.store.Partitions.At(0).ReadSteps(v.t.Context(), []task.Ref{late.Ref})
					testkit.Must(v.t, err)
					return read[0].Seen.Text
				}
				v.pass(time.Hour)
				if got := state(); !strings.HasPrefix(got, "succeeded") || strings.Contains(got, ">") {
					v.t.Errorf("its end is %q, which is kept for the run", got)
				}
				v.pass(c.until - 5*time.Hour)
				if state() == "" {
					v.t.Error("it is gone before its time")
				}
				v.pass(4 * time.Hour)
				if got := state(); got != "" {
					v.t.Errorf("it is still there: %q", got)
				}
			})
		})
	}
}

// begin submits a run of a workflow of one step, with further fields of the workflow.
func (v *voyage) begin(id, fields string, retention time.Duration) task.Ref {
	v.t.Helper()
	d := task.Definition{
		Ref: task.Ref{Namespace: "default", ID: id}, Type: task.WorkflowType, Queue: task.WorkflowQueue,
		Retention: retention, Payload: []byte(`{"definition": {` + fields +
			`"steps": [{"id": "load", "task": {"type": "echo", "timeout": "24h", "retry": {"max_attempts": 1}}}]}}`),
	}
	for _, created := range v.store.Tasks.Create(v.t.Context(), []task.Definition{d.Normalize()}) {
		testkit.Must(v.t, created.Err)
	}
	return d.Ref
}

// A leader forgets what it knows of runs when it knows too much. It reads them again, and no run fails for that.
func TestTravel_ALeaderKnowsAFewRunsOfMany(t *testing.T) {
	few, small := cacheSize{runs: 2, flows: 1 << 20}, cacheSize{runs: 100, flows: 300}
	for name, cache := range map[string]cacheSize{"runs": few, "definitions": small} {
		t.Run(name, func(t *testing.T) {
			travel(t, time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC), slow, func(v *voyage) {
				v.cache = cache
				v.start()
				v.worker.does(func(task.Task) (time.Duration, error) { return time.Minute, nil })
				var refs []task.Ref
				for i := range 12 {
					refs = append(refs, v.begin(fmt.Sprint("run-", i), fmt.Sprintf(`"description": "number %d",`, i), 24*time.Hour))
				}
				v.pass(time.Hour)
				for _, ref := range refs {
					if own, _, _, _ := v.runOf(ref); own.Task.State != task.Succeeded {
						v.t.Errorf("%s is %s: %s", ref.ID, own.Task.State, own.Task.Error)
					}
				}
			})
		})
	}
}

// Nothing happens in the partition until the deadline of a run is over. It ends in time all the same.
func TestTravel_ADeadlineEndsARunInTime(t *testing.T) {
	from := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	travel(t, from, slow, func(v *voyage) {
		v.start()
		v.worker.does(func(task.Task) (time.Duration, error) { return 10 * time.Hour, nil })
		run := v.begin("once", `"deadline": "20m", "closing": "20m",
			"finally": [{"id": "clean", "task": {"type": "echo", "timeout": "24h"}}],`, 0)
		v.pass(21 * time.Minute)
		_, _, known, steps := v.runOf(run)
		if known.Phase != workflow.PhaseFinally || steps[0].State != task.Cancelled {
			v.t.Errorf("a minute after the deadline, the run is in phase %s, and the step %s", known.Phase, steps[0].State)
		}
		v.pass(20 * time.Minute)
		var own partition.Run
		if own, _, _, steps = v.runOf(run); own.Task.State != task.Failed || steps[1].State != task.Cancelled {
			v.t.Errorf("a minute after closing, the run is %s, and the last step %s", own.Task.State, steps[1].State)
		}
	})
}

// What Redis has of the definition of a run is damaged while it runs, and its next leader cannot read it. It ends the
// run, and the steps of it whose names are known. Once the definition is mended, the run can run again.
func TestTravel_ARunWithoutADefinitionEndsWithItsSteps(t *testing.T) {
	const flow = `{"steps": [{"id": "a", "task": {"type": "echo"}}, {"id": "b", "task": {"type": "echo"}},
		{"id": "c", "needs": ["a", "b"], "task": {"type": "echo"}}]}`
	const again = "a=succeeded/2 b=succeeded/2 c=succeeded/1"
	for name, c := range map[string]struct {
		damage     string // in place of the first character
		leaderless time.Duration
		says, b    string
	}{
		"a later word":            {`{"later":1,`, 0, `unknown field "later"`, "cancelled 1"},
		"no names":                {"", 0, "; steps that run go on, as nobody can", "succeeded 1"},
		"no names, after its end": {"", 10 * time.Minute, "; steps that run go on, as nobody can", "succeeded 1"},
	} {
		t.Run(name, func(t *testing.T) {
			travel(t, at("2026-03-01T00:00Z"), slow, func(v *voyage) {
				leader := v.start()
				v.worker.does(func(t task.Task) (time.Duration, error) {
					if _, step, _ := t.Ref.Run(); step == "b" {
						return 8 * time.Minute, nil
					}
					return time.Minute, nil
				})
				ref := v.submits("run", flow)
				v.pass(5 * time.Minute)
				ctx, plans := v.t.Context(), string(v.store.KeysOf(ref).Plans())
				plan := v.db.HGet(ctx, plans, ref.String()).Val()
				testkit.Must(t, v.db.HSet(ctx, plans, ref.String(), c.damage+plan[1:]).Err())
				leader.stop()
				v.pass(c.leaderless)
				testkit.Must(t, v.store.Tasks.AskRun(ctx, ref, workflow.NoAsk))
				v.start()
				v.pass(time.Hour)
				found, err := v.store.Partitions.At(0).ReadSteps(ctx, []task.Ref{ref, ref.Step("b")})
				testkit.Must(t, err)
				if own := found[0].Task; own.State != task.Failed || !strings.Contains(own.Error, c.says) {
					t.Errorf("the run is %s: %s", own.State, own.Error)
				}
				if got := found[1].Seen.Text; !strings.HasPrefix(got, c.b) || strings.Contains(got, ">") {
					t.Errorf("the task of its step is %q", got)
				}
				testkit.Must(t, v.db.HSet(ctx, plans, ref.String(), plan).Err())
				_, err = v.store.Tasks.RerunIn(ctx, ref, "rerun a", time.Time{})
				testkit.Must(t, err)
				v.pass(2 * time.Hour)
				if got := v.sound(ref, task.Succeeded); got != again {
					t.Errorf("afterwards: %s, want %s", got, again)
				}
			})
		})
	}
}
