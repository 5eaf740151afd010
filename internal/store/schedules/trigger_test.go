package schedules_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/schedules"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestTrigger_IsRefusedWhileTooManyTasksAreLive(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	w.Put(storetest.Daily(func(d *schedule.Definition) { d.Overlap = schedule.OverlapAllow }))
	var live []redis.Z
	for i := range schedule.LiveLimit {
		live = append(live, redis.Z{Score: float64(i), Member: fmt.Sprint("earlier", i)})
	}
	testkit.Must(t, w.DB.ZAdd(w.Ctx, string(w.KeysOf(nightly).Live(nightly)), live...).Err())
	if _, err := w.Trigger(nightly); task.CodeOf(err) != schedule.CodeBusy {
		t.Errorf("got %v, want CodeScheduleBusy", err)
	}
	if got := w.Recorded(nightly); len(got) > 0 {
		t.Errorf("recorded %v", got)
	}
}

func TestTrigger_OfAPausedScheduleDoesNotWait(t *testing.T) {
	t.Parallel()
	for _, overlap := range []schedule.Overlap{schedule.OverlapQueue, schedule.OverlapReplace} {
		t.Run(string(overlap), func(t *testing.T) {
			t.Parallel()
			w := storetest.New(t)
			ticks := w.Hourly(3, func(d *schedule.Definition) { d.Overlap = overlap })
			w.Fire(nightly)
			w.Pause(nightly)
			if _, err := w.Trigger(nightly); task.CodeOf(err) != schedule.CodeBusy {
				t.Errorf("while a task is live: %v, want CodeScheduleBusy", err)
			}
			live := map[schedule.Overlap]string{schedule.OverlapQueue: ticks[0], schedule.OverlapReplace: ticks[2]}[overlap]
			w.EndTick(nightly, live, task.Succeeded)
			if e, err := w.Trigger(nightly); err != nil || e.Outcome != schedule.Triggered {
				t.Errorf("when none is live: %+v, %v", e, err)
			}
		})
	}
}

// The record of a run says to the end who asked for it, also when the run had to wait or another one took its place.
func TestTrigger_KeepsWhoAskedForARunThatWaits(t *testing.T) {
	t.Parallel()
	for overlap, want := range map[schedule.Overlap][]string{
		schedule.OverlapQueue:   {"asked for by ann", "waited for the task before it, asked for by bob"},
		schedule.OverlapReplace: {"cancelled for ", "waited for the task before it, asked for by bob"},
	} {
		t.Run(string(overlap), func(t *testing.T) {
			t.Parallel()
			w := storetest.New(t)
			w.Put(storetest.Daily(func(d *schedule.Definition) { d.Overlap = overlap }))
			var runs []schedule.Entry
			for _, by := range []string{"ann", "bob"} {
				now, err := w.Now(w.Ctx, 0)
				testkit.Must(t, err)
				run, err := w.Schedules.Trigger(w.Ctx, nightly, now, schedules.Asker{By: by})
				testkit.Must(t, err)
				runs = append(runs, run.Entry)
				if by == "ann" {
					w.BeginTick(nightly, run.Name)
				}
			}
			w.EndTick(nightly, runs[0].Name, task.Succeeded)
			w.MakeDue(nightly)
			w.Fire(nightly)
			for i, run := range runs {
				entries, err := w.Schedules.LedgerEntries(w.Ctx, nightly, run.Tick.Add(-time.Millisecond), run.Tick)
				testkit.Must(t, err)
				who := []string{"asked for by ann", "asked for by bob"}[i]
				if len(entries) != 1 || !strings.HasPrefix(entries[0].Reason, want[i]) || !strings.HasSuffix(entries[0].Reason, who) {
					t.Errorf("run %d: %+v, want %q", i, entries, want[i])
				}
			}
		})
	}
}

// Redis may have lost that a task has ended, or the task, or somebody deleted it by hand.
func TestTrigger_IsNotRefusedForTasksThatAreNotLive(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	tick := w.Hourly(1, nil)[0]
	w.Fire(nightly)
	live := redis.Z{Score: w.DB.ZScore(w.Ctx, string(w.KeysOf(nightly).Live(nightly)), tick).Val(), Member: tick}
	w.EndTick(nightly, tick, task.Succeeded)
	testkit.Must(t, w.DB.ZAdd(w.Ctx, string(w.KeysOf(nightly).Live(nightly)), live, redis.Z{Score: 1, Member: "deleted"}).Err())
	if e, err := w.Trigger(nightly); err != nil || e.Outcome != schedule.Triggered {
		t.Fatalf("got %+v, %v", e, err)
	}
	if _, err := w.Trigger(nightly); task.CodeOf(err) != schedule.CodeBusy {
		t.Errorf("while the task of the first one is live: %v, want CodeScheduleBusy", err)
	}
}
