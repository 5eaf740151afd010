package store

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

func (w *world) pause(ref task.Ref) {
	w.t.Helper()
	if _, err := w.Schedules.Pause(w.ctx, ref, "maintenance"); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) schedule(ref task.Ref) schedule.Schedule {
	w.t.Helper()
	is, err := w.Schedules.Get(w.ctx, ref)
	if err != nil {
		w.t.Fatal(err)
	}
	return is
}

func TestTrigger_IsRefusedIfItsTaskCannotBeCreated(t *testing.T) {
	w := newWorld(t)
	w.put(daily(func(d *schedule.Definition) { d.Overlap = schedule.OverlapAllow }))
	var others []redis.Z
	for i := range schedule.LiveLimit {
		others = append(others, z(float64(i), fmt.Sprint("earlier", i)))
	}
	w.db.ZAdd(w.ctx, string(w.KeysOf(nightly).Live(nightly)), others...)
	if _, err := w.trigger(nightly); task.CodeOf(err) != task.CodeScheduleBusy {
		t.Errorf("%v", err)
	}
	if got := w.recorded(nightly); len(got) > 0 {
		t.Errorf("recorded is %v", got)
	}
}

func TestTrigger_DoesNotWaitWhileTheScheduleIsPaused(t *testing.T) {
	for _, overlap := range []schedule.Overlap{schedule.OverlapQueue, schedule.OverlapReplace} {
		w := newWorld(t)
		ticks := w.hourly(3, func(d *schedule.Definition) { d.Overlap = overlap })
		w.fire(nightly)
		if _, err := w.Schedules.Pause(w.ctx, nightly, ""); err != nil {
			t.Fatal(err)
		}
		if _, err := w.trigger(nightly); task.CodeOf(err) != task.CodeScheduleBusy {
			t.Errorf("%s: while one runs: %v", overlap, err)
		}
		runs := map[schedule.Overlap]string{schedule.OverlapQueue: ticks[0], schedule.OverlapReplace: ticks[2]}[overlap]
		w.end(nightly, runs, task.Succeeded)
		if e, err := w.trigger(nightly); err != nil || e.Outcome != schedule.Triggered {
			t.Errorf("%s: when none does: %+v, %v", overlap, e, err)
		}
	}
}

func TestOverlap_StartsWhatWaitsWhenItIsAllowed(t *testing.T) {
	w := newWorld(t)
	w.hourly(4, func(d *schedule.Definition) { d.Overlap = schedule.OverlapQueue })
	w.fire(nightly)
	w.put(daily(func(d *schedule.Definition) { d.Overlap = schedule.OverlapAllow }))
	want := []schedule.Outcome{schedule.Fired, schedule.Fired, schedule.Fired}
	if got := outcomes(w.fire(nightly)); !slices.Equal(got, want) {
		t.Errorf("there happened %v", got)
	}
}

func TestPause_KeepsItsNoteUntilThereIsAnother(t *testing.T) {
	w := newWorld(t)
	w.put(daily(nil))
	for _, note := range []string{"for the upgrade", ""} {
		if is, err := w.Schedules.Pause(w.ctx, nightly, note); err != nil || is.PauseNote != "for the upgrade" {
			t.Errorf("the note is %q, %v", is.PauseNote, err)
		}
	}
}

// What can be read goes first: data of which nothing can be made is put off, a Redis that fails is asked again.
func TestPostpone_OfAStaleLeaderIsRefused(t *testing.T) {
	w := newWorld(t)
	p := w.PartitionOf(nightly)
	w.db.ZAdd(w.ctx, string(w.Keys.Partition(p).Ticks()), z(0, "default:nightly"))
	w.db.HSet(w.ctx, string(w.Keys.Partition(p).Schedule(nightly)), "def", "{", "revision", 1)
	if _, err := w.Partitions.At(p).Lead(fence).Due(w.ctx, 10); err != nil {
		t.Fatal(err)
	}
	put := w.db.ZScore(w.ctx, string(w.Keys.Partition(p).Ticks()), "default:nightly").Val()
	if put == 0 {
		t.Error("it was not put off")
	}
	k := w.Keys.Partition(p)
	_, err := redisx.Run(w.ctx, w.db, lua.PostponeSchedule{
		Lease: k.Lease(), Ticks: k.Ticks(), Fence: "0:stale", Member: "default:nightly", Delay: time.Second,
	})
	if !redisx.RefusedWith(err, lua.CodeFenced) || w.db.ZScore(w.ctx, string(w.Keys.Partition(p).Ticks()), "default:nightly").Val() != put {
		t.Errorf("a stale leader's word counted: %v", err)
	}
}
