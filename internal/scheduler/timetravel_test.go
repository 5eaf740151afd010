package scheduler

import (
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// delayed creates a task for each time.
func (v *voyage) delayed(at []time.Time) {
	v.t.Helper()
	defs := make([]task.Definition, len(at))
	for i, due := range at {
		defs[i] = task.Definition{
			Ref: task.Ref{ID: schedule.TickName(due)}, Type: "echo", RunAt: due, Retention: time.Hour,
		}
	}
	for _, c := range v.store.Tasks.Create(v.t.Context(), defs) {
		testkit.Must(v.t, c.Err)
	}
}

// ranOnTime says what is wrong with the runs of the tasks that were due at those times.
func (v *voyage) ranOnTime(at []time.Time) {
	v.t.Helper()
	ran := make(map[string][]run)
	for _, r := range v.worker.saw() {
		ran[r.ref.ID] = append(ran[r.ref.ID], r)
	}
	for _, due := range at {
		runs := ran[schedule.TickName(due)]
		delete(ran, schedule.TickName(due))
		if len(runs) != 1 {
			v.t.Errorf("the task due at %s ran %d times", due, len(runs))
			continue
		}
		if r := runs[0]; r.begun.Before(due) || r.begun.After(v.latest(due)) {
			v.t.Errorf("the task due at %s began %s later, want %s at most", due, r.begun.Sub(due), v.latest(due).Sub(due))
		}
	}
	for id, runs := range ran {
		v.t.Errorf("task %s, which nobody made, ran %d times", id, len(runs))
	}
}

func every(from, until time.Time, step time.Duration) []time.Time {
	var at []time.Time
	for t := from; t.Before(until); t = t.Add(step) {
		at = append(at, t)
	}
	return at
}

// Two weeks with a task every half hour, and a trouble each day. In the short form, each trouble comes once, a third of a
// day after the one before it, and a task is due every hour.
func TestTravel_DelayedTasksEachRunOnceForDays(t *testing.T) {
	testkit.NotQuick(t)
	troubles, apart := testkit.Amount(5, 14), testkit.Amount(day/3, day)
	from := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	travel(t, from, slow, func(v *voyage) {
		v.start()
		v.start()
		var all []time.Time
		for i := range troubles {
			start := from.Add(time.Duration(i) * apart)
			next := every(start.Add(5*time.Minute), start.Add(apart), testkit.Amount(time.Hour, 30*time.Minute))
			v.delayed(next)
			all = append(all, next...)
			v.until(start.Add(7 * time.Minute))
			switch leader := v.leads(); i % 5 {
			case 0:
				leader.stop()
			case 1:
				v.killed(leader)
			case 2: // what it claimed is in flight, and it does not learn of it
				v.trapped(leader, "claim", answerLost)
			case 3: // what it claimed is in asynq, and it does not learn of it
				v.trapped(leader, "enqueue", answerLost)
			case 4:
				v.outage(time.Hour)
				continue
			}
			v.start()
		}
		v.until(from.Add(time.Duration(troubles)*apart + time.Hour))
		v.ranOnTime(all)
	})
}

// With leases and heartbeats as dtsd has them by default.
func TestTravel_AKilledLeaderDelaysTasksByALeaseAtMost(t *testing.T) {
	testkit.NotQuick(t)
	from := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	travel(t, from, quick, func(v *voyage) {
		minutes := testkit.Amount(7*time.Minute, 30*time.Minute)
		at := every(from.Add(time.Minute), from.Add(minutes), 10*time.Second)
		v.delayed(at)
		first := v.start()
		v.start()
		v.until(at[12].Add(3 * time.Second))
		v.killed(first)
		v.start()
		for i := 30; i < len(at); i += 30 {
			v.until(at[i].Add(time.Duration(i) * 50 * time.Millisecond))
			v.killed(v.leads())
			v.start()
		}
		v.until(from.Add(minutes + time.Minute))
		v.ranOnTime(at)
	})
}
