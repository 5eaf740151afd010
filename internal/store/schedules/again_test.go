package schedules_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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
	asked := string(w.KeysOf(nightly).Asked(nightly))
	if ttl := w.DB.PTTL(w.Ctx, asked).Val(); ttl <= 0 || ttl > schedule.AskedFor {
		t.Errorf("the keys expire in %s", ttl)
	}
	before := first.Tick.Add(-schedule.AskedFor - time.Second)
	testkit.Must(t, w.DB.HSet(w.Ctx, asked, "trigger a", fmt.Sprint(before.UnixMilli(), " ", first.Name)).Err())
	if again := triggerWith(t, w, "a"); again.Name == first.Name {
		t.Errorf("the repeat says %+v", again)
	}
}

// A schedule that ticks often forgets records within the hour.
func TestTrigger_KnowsAKeyWithoutItsRecord(t *testing.T) {
	t.Parallel()
	for overlap, want := range map[schedule.Overlap]schedule.Outcome{
		schedule.OverlapAllow: schedule.Triggered, schedule.OverlapQueue: schedule.Queued,
	} {
		t.Run(string(overlap), func(t *testing.T) {
			t.Parallel()
			w := storetest.New(t)
			w.Put(storetest.Daily(func(d *schedule.Definition) { d.Overlap = overlap }))
			triggerWith(t, w, "a")
			second := triggerWith(t, w, "b")
			testkit.Must(t, w.DB.Del(w.Ctx, string(w.KeysOf(nightly).Ledger(nightly))).Err())
			again := triggerWith(t, w, "b")
			again.DecidedAt, second.DecidedAt, second.Reason = time.Time{}, time.Time{}, again.Reason
			if !cmp.Equal(again, second) || again.Outcome != want || again.Reason != "asked for by ann, key b" {
				t.Errorf("the repeat says %+v, the first request %+v", again, second)
			}
		})
	}
}

func TestTrigger_KeepsTheNewestKeys(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	w.Put(storetest.Daily(func(d *schedule.Definition) { d.Overlap = schedule.OverlapAllow }))
	old, first := triggerWith(t, w, "old"), triggerWith(t, w, "a")
	asked := string(w.KeysOf(nightly).Asked(nightly))
	long := first.Tick.Add(-time.Minute).UnixMilli()
	keys := map[string]any{"trigger old": fmt.Sprint(long-1, " ", old.Name)}
	for i := range schedule.AskedLimit {
		keys[fmt.Sprint("trigger ", i)] = fmt.Sprint(long, " none")
	}
	testkit.Must(t, w.DB.HSet(w.Ctx, asked, keys).Err())
	newest := triggerWith(t, w, "b")
	if n := w.DB.HLen(w.Ctx, asked).Val(); n > schedule.AskedLimit || n < schedule.AskedLimit/2 {
		t.Errorf("%d keys are kept", n)
	}
	for key, run := range map[string]schedule.Entry{"a": first, "b": newest} {
		if again := triggerWith(t, w, key); again.Name != run.Name {
			t.Errorf("key %s ran again", key)
		}
	}
	if again := triggerWith(t, w, "old"); again.Name == old.Name {
		t.Error("the oldest key is still there")
	}
}

func TestDelete_ForgetsKeys(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	w.Put(storetest.Daily(nil))
	triggerWith(t, w, "a")
	w.Pause(nightly)
	testkit.Must(t, w.Schedules.Delete(w.Ctx, nightly, ""))
	if asked := string(w.KeysOf(nightly).Asked(nightly)); w.DB.Exists(w.Ctx, asked).Val() != 0 {
		t.Errorf("%s is left", asked)
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
