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

// expectQueue checks what the queue "reports" waits for, and returns the first reason.
func (w *world) expectQueue(want ...why.Code) why.Reason {
	w.t.Helper()
	const name = "reports"
	answer, err := w.WhyQueue(w.ctx, me, name)
	testkit.Must(w.t, err)
	got, first := codes(answer)
	if !slices.Equal(got, want) {
		w.t.Errorf("%s waits for %v, want %v: %+v", name, got, want, first)
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
	if r := w.expectSchedule(why.QueueFull); !strings.Contains(r.Detail, "limit of 5") || r.Since.IsZero() {
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

func TestWhyQueue_TellsWhatItsTasksWaitFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.types = task.Types{"http": {}, "shell": {Setting: "enable-shell"}}
	a := w.due("a", "reports")
	w.nodes = fleet{worker("node", 0, []string{"shell"}, "reports")}
	w.apart(a)
	if r := w.expectQueue(why.TypeUnserved); !strings.Contains(r.Detail,
		"1 task is waiting") || *r.Ahead != 1 {
		t.Errorf("%+v, want the type and its task", r)
	}
	w.nodes = fleet{}
	w.expectQueue(why.QueueUnserved)
	w.nodes = fleet{worker("node", 1, []string{"http"}, "reports")}
	testkit.Must(t, w.PauseQueue(w.ctx, me, "reports", ""))
	testkit.Must(t, w.LimitQueue(w.ctx, me, "reports", 1))
	w.expectQueue(why.QueuePaused, why.SlotsTaken, why.QueueFull)
	testkit.Must(t, w.ResumeQueue(w.ctx, me, "reports"))
	testkit.Must(t, w.LimitQueue(w.ctx, me, "reports", 0))
	w.nodes = fleet{worker("node", 0, []string{"http"}, "reports")}
	w.expectQueue(why.Delivery)
	testkit.Must(t, w.db.Del(w.ctx, string(w.store.KeysOf(a).Term(fence))).Err())
	w.expectQueue(why.NoLeader)
	w.expectQueue(why.NoLeader)
	_, err := w.CancelTask(w.ctx, me, "a", "")
	testkit.Must(t, err)
	w.expectQueue()
}

// apart lets a due task wait in the lane of its type, as a leader does if nobody runs that.
func (w *world) apart(ref task.Ref) {
	w.t.Helper()
	testkit.Must(w.t, w.db.ZRem(w.ctx, w.partitionKey(ref, "wheel"), ref.String()).Err())
	testkit.Must(w.t, w.db.SAdd(w.ctx, w.partitionKey(ref, "backlog"), "reports http").Err())
	testkit.Must(w.t, w.db.ZAdd(w.ctx, w.partitionKey(ref, "ready:reports http"), z(1000, ref.String())).Err())
}
