package schedules_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/schedules"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// triggerWith triggers schedule nightly now, with a key.
func triggerWith(t *testing.T, w *storetest.World, key string) schedule.Entry {
	t.Helper()
	now, err := w.Now(w.Ctx, 0)
	testkit.Must(t, err)
	run, err := w.Schedules.Trigger(w.Ctx, nightly, now, schedules.Asker{By: "ann", Key: key})
	testkit.Must(t, err)
	return run.Entry
}

func TestTrigger_ReturnsTheRunOfTheSameKey(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	w.Put(storetest.Daily(func(d *schedule.Definition) { d.Overlap = schedule.OverlapAllow }))
	first, other := triggerWith(t, w, "release-42"), triggerWith(t, w, "42")
	if again := triggerWith(t, w, "release-42"); !cmp.Equal(again, first) {
		t.Errorf("the repeat says %+v, the first request %+v", again, first)
	}
	if first.Name == other.Name || first.Reason != "asked for by ann, key release-42" {
		t.Errorf("the runs %+v and %+v", first, other)
	}
	if live := w.DB.ZCard(w.Ctx, string(w.KeysOf(nightly).Live(nightly))).Val(); live != 2 {
		t.Errorf("%d runs live", live)
	}
}

// A run that waits has its key when it has begun, and when another one takes its place.
func TestTrigger_KnowsTheKeyOfARunThatWaited(t *testing.T) {
	t.Parallel()
	for overlap, want := range map[schedule.Overlap]schedule.Outcome{
		schedule.OverlapQueue: schedule.Triggered, schedule.OverlapReplace: schedule.Replaced,
	} {
		t.Run(string(overlap), func(t *testing.T) {
			t.Parallel()
			w := storetest.New(t)
			w.Put(storetest.Daily(func(d *schedule.Definition) { d.Overlap = overlap }))
			running := triggerWith(t, w, "a")
			w.BeginTick(nightly, running.Name)
			waits := triggerWith(t, w, "b")
			if waits.Outcome != schedule.Queued {
				t.Fatalf("the second run is %s", waits.Outcome)
			}
			if overlap == schedule.OverlapReplace {
				triggerWith(t, w, "c")
			}
			w.EndTick(nightly, running.Name, task.Succeeded)
			w.MakeDue(nightly)
			w.Fire(nightly)
			if again := triggerWith(t, w, "b"); again.Name != waits.Name || again.Outcome != want {
				t.Errorf("the repeat says %+v, want %s of %s", again, want, waits.Name)
			}
		})
	}
}

func TestTrigger_ForgetsAKeyAfterAnHour(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	w.Put(storetest.Daily(func(d *schedule.Definition) { d.Overlap = schedule.OverlapAllow }))
	first := triggerWith(t, w, "a")
	ledger := string(w.KeysOf(nightly).Ledger(nightly))
	for _, record := range w.DB.ZRange(w.Ctx, ledger, 0, -1).Val() {
		before := first.Tick.Add(-schedule.AskedFor - time.Second)
		testkit.Must(t, w.DB.ZAdd(w.Ctx, ledger, redis.Z{Score: float64(before.UnixMilli()), Member: record}).Err())
	}
	if again := triggerWith(t, w, "a"); again.Name == first.Name {
		t.Errorf("the repeat says %+v", again)
	}
}

func TestBackfill_ReturnsWhatTheSameKeyHasStarted(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	w.Put(storetest.Daily(nil))
	var ticks []schedule.Tick
	past := w.Schedule(nightly).CreatedAt.Truncate(time.Hour).Add(-30 * time.Hour)
	for i := range 3 {
		ticks = append(ticks, schedule.Tick{At: past.Add(time.Duration(i) * time.Hour)})
	}
	backfill := func(ticks []schedule.Tick, key string) schedules.Backfilled {
		done, err := w.Schedules.Backfill(w.Ctx, nightly, ticks, time.Minute, schedules.Asker{By: "ann", Key: key})
		testkit.Must(t, err)
		return done
	}
	one := backfill(ticks[:1], "a")
	rest := backfill(ticks, "b")
	if len(one.Entries) != 1 || len(rest.Entries) != 2 || len(rest.Left) != 1 {
		t.Fatalf("backfilled %+v, then %+v", one, rest)
	}
	if again := backfill(ticks, "b"); !cmp.Equal(again, rest) {
		t.Errorf("the repeat says %+v, the first request %+v", again, rest)
	}
	if again := backfill(ticks, "c"); len(again.Entries) != 0 || len(again.Left) != 3 {
		t.Errorf("another key: %+v", again)
	}
	if reason := rest.Entries[0].Reason; !strings.HasSuffix(reason, "by ann, key b") {
		t.Errorf("the reason is %q", reason)
	}
}
