package control

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/schedules"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// foretold previews something and then does it. It fails the test if the preview has changed anything, or if it says
// anything else than what is done returns. It returns that.
func foretold[T any](w *world, preview, do func() (T, error), options ...cmp.Option) T {
	w.t.Helper()
	before := redistest.Dump(w.t, w.db)
	dry, dryErr := preview()
	after := redistest.Dump(w.t, w.db)
	maps.DeleteFunc(before, func(key string, value any) bool { // it has expired meanwhile
		_, left := after[key]
		entry, ok := value.(redistest.Entry)
		return ok && entry.TTL && !left
	})
	if diff := cmp.Diff(before, after); diff != "" {
		w.t.Errorf("the preview changed something:\n%s", diff)
	}
	wet, err := do()
	if fmt.Sprint(err) != fmt.Sprint(dryErr) {
		w.t.Errorf("the preview said %v, and not %v", dryErr, err)
	}
	options = append(options, cmpopts.EquateApproxTime(10*time.Second), cmpopts.EquateEmpty(),
		cmpopts.IgnoreFields(schedule.Entry{}, "Late"))
	if diff := cmp.Diff(wet, dry, options...); diff != "" {
		w.t.Errorf("the preview differs (-done +foretold):\n%s", diff)
	}
	return wet
}

func TestPreviewBackfill_ForetellsTheBackfill(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.hourly(6, func(d *schedule.Definition) {
		d.Overlap = schedule.OverlapQueue
		d.Misfire = schedule.Misfire{Policy: schedule.MisfireAll, Window: 24 * time.Hour, Max: 2}
	})
	w.fire(nightly)
	s := w.schedule(nightly)
	r := BackfillRange{From: s.CreatedAt.Add(-90 * time.Minute), Until: s.Cursor, Pace: time.Minute}
	backfill := func() Backfilled {
		return foretold(w, func() (Backfilled, error) { return w.PreviewBackfill(w.ctx, me, nightly.ID, r) },
			func() (Backfilled, error) { return w.BackfillSchedule(w.ctx, me, nightly.ID, r) })
	}
	first := backfill()
	if len(first.Entries) != 6 || len(first.Left) != 2 || first.Left[0].Waits || !first.Left[1].Waits {
		t.Errorf("%+v", first)
	}
	if due := first.LastDue.Sub(w.now()); due < 4*time.Minute || due > 5*time.Minute {
		t.Errorf("the last one is due in %s", due)
	}
	if again := backfill(); len(again.Entries) != 0 || len(again.Left) != 8 || !again.LastDue.IsZero() {
		t.Errorf("the second time: %+v", again)
	}
	r.Until = s.Cursor.Add(time.Hour)
	backfill() // is refused
}

// triggerBoth previews a trigger and does it. The name of the run has its time, and is not compared.
func (w *world) triggerBoth(ref task.Ref) Triggered {
	w.t.Helper()
	return foretold(w, func() (Triggered, error) { return w.PreviewTrigger(w.ctx, me, ref.ID) },
		func() (Triggered, error) { return w.TriggerSchedule(w.ctx, me, ref.ID) },
		cmpopts.IgnoreFields(schedule.Entry{}, "Name"))
}

func TestPreviewTrigger_ForetellsTheRun(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		overlap schedule.Overlap
		tasks   string // of earlier runs, the oldest first: w waits, r runs, e has ended and counts as live
		ticks   int    // that wait for their turn
		paused  bool
		want    schedule.Outcome // "" if it is refused
		replace schedules.Replaced
	}{
		{schedule.OverlapSkip, "", 0, false, schedule.Triggered, schedules.Replaced{}},
		{schedule.OverlapSkip, "e", 0, false, schedule.Triggered, schedules.Replaced{}},
		{schedule.OverlapSkip, "ew", 0, false, "", schedules.Replaced{}},
		{schedule.OverlapAllow, "rw", 0, true, schedule.Triggered, schedules.Replaced{}},
		{schedule.OverlapQueue, "e", 0, false, schedule.Triggered, schedules.Replaced{}},
		{schedule.OverlapQueue, "r", 2, false, schedule.Queued, schedules.Replaced{}},
		{schedule.OverlapQueue, "r", schedule.WaitingLimit, false, "", schedules.Replaced{}},
		{schedule.OverlapQueue, "r", 0, true, "", schedules.Replaced{}},
		{schedule.OverlapReplace, "", 1, false, schedule.Triggered, schedules.Replaced{Ticks: 1}},
		{schedule.OverlapReplace, "wew", 0, false, schedule.Triggered, schedules.Replaced{Tasks: 2}},
		{schedule.OverlapReplace, "wr", 3, false, schedule.Queued, schedules.Replaced{Tasks: 2, Ticks: 3}},
		{schedule.OverlapReplace, "eeww", 0, true, "", schedules.Replaced{}},
	} {
		t.Run(fmt.Sprint(c.overlap, c.tasks, c.ticks, c.paused), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			names := w.runs(nightly, c.overlap, c.tasks, c.ticks, c.paused)
			run := w.triggerBoth(nightly)
			for _, i := range names {
				if run.Replaces.Tasks > 0 {
					c.replace.Examples = append(c.replace.Examples, i)
				}
			}
			if diff := cmp.Diff(c.replace, run.Replaces, cmpopts.EquateEmpty()); run.Outcome != c.want || diff != "" {
				t.Errorf("%q (-want +got):\n%s", run.Outcome, diff)
			}
			states := w.tasksOf(nightly)
			for _, name := range run.Replaces.Examples {
				if s := states["nightly@"+name]; s != task.Cancelled && s != task.Running {
					t.Errorf("%s is %s", name, s)
				}
			}
		})
	}
}

// runs puts a schedule with tasks of runs by hand, and with ticks that wait; see TestPreviewTrigger_ForetellsTheRun. It
// returns the names of the tasks that have not ended.
func (w *world) runs(ref task.Ref, overlap schedule.Overlap, tasks string, ticks int, paused bool) (live []string) {
	w.t.Helper()
	put := func(overlap schedule.Overlap) {
		w.put(daily(func(d *schedule.Definition) { d.Ref, d.Overlap = ref, overlap }))
	}
	put(schedule.OverlapAllow)
	for _, kind := range tasks {
		run, err := w.TriggerSchedule(w.ctx, me, ref.ID)
		testkit.Must(w.t, err)
		switch kind {
		case 'e':
			w.end(ref, run.Name, task.Succeeded)
			at := z(float64(run.Tick.UnixMilli()), run.Name)
			testkit.Must(w.t, w.db.ZAdd(w.ctx, w.key(ref, "live"), at).Err())
			continue
		case 'r':
			w.begun(task.Ref{Namespace: ref.Namespace, ID: run.TaskID(ref.ID)})
		}
		live = append(live, run.Name)
	}
	put(overlap)
	for i := range ticks {
		at := w.now().Add(-time.Duration(ticks-i) * time.Minute).Truncate(time.Second)
		entry := fmt.Sprint(at.UnixMilli(), " ", schedule.TickName(at))
		testkit.Must(w.t, w.db.RPush(w.ctx, w.key(ref, "waiting"), entry).Err())
	}
	if paused {
		w.pause(ref)
	}
	return live
}

// The oracle of a preview is what is done then.
func TestPreviewTrigger_ForetellsRunsOfRandomSchedules(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same in each run
	outcomes := map[schedule.Outcome]int{}
	for i := range testkit.Amount(12, 40) {
		ref := task.Ref{Namespace: "default", ID: fmt.Sprint("s", i)}
		overlap := []schedule.Overlap{
			schedule.OverlapSkip, schedule.OverlapAllow, schedule.OverlapQueue, schedule.OverlapReplace,
		}[random.IntN(4)]
		tasks := ""
		for range random.IntN(5) {
			tasks += string("wre"[random.IntN(3)])
		}
		w.runs(ref, overlap, tasks, random.IntN(2)*random.IntN(3), random.IntN(4) == 0)
		outcomes[w.triggerBoth(ref).Outcome]++
		if t.Failed() {
			t.Fatalf("%s: %s with %q", ref.ID, overlap, tasks)
		}
	}
	if len(outcomes) != 3 {
		t.Errorf("only these outcomes: %v", outcomes)
	}
}

func TestPreviewDelete_CountsTheTicksThatWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.runs(nightly, schedule.OverlapQueue, "rwwwwwwwwwww", 2, false)
	d := foretold(w, func() (Deleted, error) { return w.PreviewDelete(w.ctx, me, nightly.ID, DeleteAll) },
		func() (Deleted, error) { return w.DeleteSchedule(w.ctx, me, nightly.ID, DeleteAll) })
	if d.Cancelled != 11 || d.Stopping != 1 || d.Waiting != 2 || len(d.Examples) != deletedExamples {
		t.Errorf("%+v", d)
	}
	foretold(w, func() (Deleted, error) { return w.PreviewDelete(w.ctx, me, nightly.ID, DeleteAll) },
		func() (Deleted, error) { return w.DeleteSchedule(w.ctx, me, nightly.ID, DeleteAll) }) // is refused
}

func TestPreviewRollback_ForetellsTheScheduleAndItsTicks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(daily(func(d *schedule.Definition) { d.Rules, d.MaxRuns = []schedule.Rule{{Every: time.Hour}}, 3 }))
	w.rewind(nightly, time.Hour+time.Minute)
	w.fire(nightly)
	w.put(daily(func(d *schedule.Definition) { d.Rules = []schedule.Rule{{Cron: "30 2 * * *"}} }))
	next := func(revision int) schedule.NextTicks {
		ticks, err := w.Next(w.ctx, me, NextRequest{ID: nightly.ID, Revision: revision, Count: 5})
		testkit.Must(t, err)
		return ticks
	}
	soon := next(1)
	put := foretold(w, func() (Put, error) { return w.PreviewRollback(w.ctx, me, nightly.ID, 1, 2) },
		func() (Put, error) { return w.RollbackSchedule(w.ctx, me, nightly.ID, 1, 2) })
	if !put.Changed || put.Schedule.Revision != 3 {
		t.Errorf("%+v", put)
	}
	sameZone := cmp.Comparer(func(a, b *time.Location) bool { return a.String() == b.String() })
	if diff := cmp.Diff(next(0), soon, sameZone); diff != "" || len(soon.Ticks) != 2 {
		t.Errorf("the ticks differ (-done +foretold):\n%s", diff)
	}
	for _, revision := range []int{3, 9} { // the present one, and none
		foretold(w, func() (Put, error) { return w.PreviewRollback(w.ctx, me, nightly.ID, revision, 0) },
			func() (Put, error) { return w.RollbackSchedule(w.ctx, me, nightly.ID, revision, 0) })
	}
	_, err := w.Next(w.ctx, me, NextRequest{ID: nightly.ID, Revision: 9})
	if task.CodeOf(err) != schedule.CodeRevisionNotFound {
		t.Errorf("the ticks of a revision that is none: %v", err)
	}
}
