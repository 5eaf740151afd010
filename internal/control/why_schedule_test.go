package control

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/why"
)

func (w *world) expectSchedule(want ...why.Code) why.Reason {
	w.t.Helper()
	answer, err := w.WhySchedule(w.ctx, me, nightly.ID)
	testkit.Must(w.t, err)
	got, first := codes(answer)
	if !slices.Equal(got, want) {
		w.t.Errorf("the schedule waits for %v, want %v: %+v", got, want, first)
	}
	return first
}

func TestWhySchedule_TellsOfPauses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.nodes = fleet{worker("node", 0, nil, "default")}
	w.put(daily(func(d *schedule.Definition) { d.PauseOnFailure = 1 }))
	if r := w.expectSchedule(why.NotDue); !r.NextAttemptAt.After(w.now()) {
		t.Errorf("%+v, want the next tick", r)
	}
	_, err := w.PauseSchedule(w.ctx, Caller{Namespace: "default", Name: "ann"}, nightly.ID, "the disk is full")
	testkit.Must(t, err)
	if r := w.expectSchedule(why.SchedulePaused); !strings.Contains(r.Detail, "ann") || !strings.Contains(r.Detail,
		"the disk is full") {
		t.Errorf("%+v, want who paused it, and the note", r)
	}
	_, err = w.ResumeSchedule(w.ctx, me, nightly.ID)
	testkit.Must(t, err)
	w.rewind(nightly, 24*time.Hour+time.Second)
	w.fire(nightly)
	for id := range w.tasksOf(nightly) {
		_, tick, _ := strings.Cut(id, "@")
		w.end(nightly, tick, task.Failed)
	}
	if r := w.expectSchedule(why.PausedByFailures); !strings.Contains(r.LastError, "in a row failed") {
		t.Errorf("%+v, want the failures", r)
	}
}

func TestWhySchedule_TellsForWhichTaskATickWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.nodes = fleet{worker("node", 0, nil, "default")}
	ticks := w.hourly(2, func(d *schedule.Definition) { d.Overlap = schedule.OverlapQueue })
	w.fire(nightly)
	r := w.expectSchedule(why.Overlap)
	if !strings.Contains(r.Do, fmt.Sprintf("task why nightly@%s.", ticks[0])) || r.Since.IsZero() || *r.Ahead != 1 {
		t.Errorf("%+v, want the task of %s", r, ticks[0])
	}
	w.end(nightly, ticks[0], task.Succeeded)
	w.lookNow(nightly)
	w.expectSchedule(why.NotDue)
}

func TestWhySchedule_TellsThatItHasEnded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.nodes = fleet{}
	w.hourly(1, func(d *schedule.Definition) { d.MaxRuns = 1 })
	w.fire(nightly)
	if r := w.expectSchedule(why.Ended); !strings.Contains(r.Detail, "max_runs is 1") {
		t.Errorf("%+v, want max_runs", r)
	}
}

func TestWhySchedule_TellsWhyADueTickIsHeldBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.nodes = fleet{worker("node", 0, nil, "small")}
	testkit.Must(t, w.LimitQueue(w.ctx, me, "small", 5))
	d := daily(func(d *schedule.Definition) {
		d.Rules, d.Task.Queue = []schedule.Rule{{Every: time.Hour}}, "small"
	})
	w.holdBack(d)
	r := w.expectSchedule(why.QueueFull)
	if !strings.Contains(r.Detail, "limit of waiting tasks (5)") || r.Since.IsZero() {
		t.Errorf("%+v, want the limit, and the tick", r)
	}
	k := w.store.KeysOf(nightly)
	testkit.Must(t, w.db.Del(w.ctx, string(k.Term(fence))).Err())
	w.expectSchedule(why.NoLeader, why.QueueFull)
	testkit.Must(t, w.db.Set(w.ctx, string(k.Term(fence)), "1", 0).Err())
	w.lookNow(nightly)
	w.expectSchedule(why.NotDue)
}

func TestWhySchedule_TellsThatRedisIsAlmostFull(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.nodes = fleet{worker("node", 0, nil, "default")}
	w.hourly(1, nil)
	w.expectSchedule(why.Delivery)
	testkit.Must(t, w.db.ConfigSet(w.ctx, "maxmemory", "1").Err())
	w.Control = w.open(w.db) // which has read the memory of Redis at no time
	w.nodes = fleet{worker("node", 0, nil, "default")}
	w.expectSchedule(why.RedisFull)
}
