package partition_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/lease/leasetest"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
)

// fireMany fires n ticks of the nightly schedule, which must be due, one ms after another.
func fireMany(t *testing.T, w *storetest.World, n int) {
	t.Helper()
	a := w.Agenda(nightly)
	plan := schedule.Plan{Upto: a.Now, Next: a.Now.Add(time.Hour)}
	for i := range n {
		tick := a.Cursor.Add(time.Duration(i+1) * time.Millisecond)
		plan.Decisions = append(plan.Decisions, schedule.Decision{Tick: tick, Action: schedule.ActFire, Due: a.Now})
	}
	fired := w.Leader(nightly).Fire(w.Ctx, []partition.Planned{{Agenda: a, Plan: plan}})[0]
	testkit.Must(t, fired.Err)
	if len(fired.Ticked) != n {
		t.Fatalf("%d ticks were decided, want %d", len(fired.Ticked), n)
	}
}

// replaceMany puts a schedule of which n tasks are live, and one tick is due that replaces them, as when a schedule without a worker had
// overlap "allow" and gets "replace" to start over.
func replaceMany(t *testing.T, w *storetest.World, n int) {
	t.Helper()
	w.Hourly(1, func(d *schedule.Definition) { d.Overlap = schedule.OverlapAllow })
	fireMany(t, w, n)
	w.Hourly(1, func(d *schedule.Definition) { d.Overlap = schedule.OverlapReplace })
}

// count counts the ticks of an outcome.
func count(ticked []partition.Ticked, o schedule.Outcome) int {
	n := 0
	for _, t := range ticked {
		if t.Outcome == o {
			n++
		}
	}
	return n
}

func TestFire_ReplacesAsManyTasksAsMayBeLiveInPieces(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := storetest.New(t)
	replaceMany(t, w, schedule.LiveLimit)
	var all []partition.Ticked
	pieces := 0
	for {
		due, err := w.Leader(nightly).Due(w.Ctx, 10, false)
		testkit.Must(t, err)
		if len(due.Agendas) == 0 {
			break
		}
		fired := w.FireOnce(storetest.Fence, due.Agendas[0])
		testkit.Must(t, fired.Err)
		if n := count(fired.Ticked, schedule.Replaced); n > schedule.StopLimit {
			t.Fatalf("one run of the script stopped %d tasks, at most %d are allowed", n, schedule.StopLimit)
		}
		all = append(all, fired.Ticked...)
		pieces++
	}
	if want := schedule.LiveLimit / schedule.StopLimit; pieces != want {
		t.Errorf("%d runs of the script, want %d", pieces, want)
	}
	if n := count(all, schedule.Replaced); n != schedule.LiveLimit {
		t.Errorf("%d ticks were replaced, want %d", n, schedule.LiveLimit)
	}
	if last := all[len(all)-1]; last.Outcome != schedule.Fired {
		t.Errorf("the last outcome is %v, want fired", last)
	}
	if s := w.Schedule(nightly); s.Live != 1 || s.Waiting != 0 || s.Runs != schedule.LiveLimit+1 {
		t.Errorf("live %d, waiting %d, %d runs", s.Live, s.Waiting, s.Runs)
	}
}

// After each piece, its leader dies, and its call arrives once more when another node leads.
func TestFire_GoesOnReplacingWhateverHappensBetweenThePieces(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	const live = 3*schedule.StopLimit + 50
	replaceMany(t, w, live)
	fence := lua.Fence(storetest.Fence)
	var all []partition.Ticked
	for pieces := 0; ; pieces++ {
		due, err := w.Partitions.At(w.PartitionOf(nightly)).Lead(fence).Due(w.Ctx, 10, false)
		testkit.Must(t, err)
		if len(due.Agendas) == 0 {
			break
		}
		piece := w.FireOnce(fence, due.Agendas[0])
		testkit.Must(t, piece.Err)
		all = append(all, piece.Ticked...)
		before := w.Recorded(nightly)
		stale := fence
		fence = lua.Fence(fmt.Sprintf("%d:next", pieces+2))
		leasetest.Grant(t, w.DB, w.Partitions.LeaseKey(w.PartitionOf(nightly)), fence, 0)
		if late := w.FireOnce(stale, due.Agendas[0]); !errors.Is(late.Err, partition.ErrFenced) {
			t.Fatalf("a late call of piece %d: %v, want ErrFenced", pieces, late.Err)
		}
		if diff := cmp.Diff(before, w.Recorded(nightly)); diff != "" {
			t.Fatalf("the late call changed the ledger (-before +after):\n%s", diff)
		}
	}
	want := append(slices.Repeat([]schedule.Outcome{schedule.Replaced}, live), schedule.Fired)
	if diff := cmp.Diff(want, w.Recorded(nightly)); diff != "" {
		t.Errorf("ledger (-want +got):\n%s", diff)
	}
	if n, last := count(all, schedule.Fired), all[len(all)-1]; n != 1 || last.Outcome != schedule.Fired {
		t.Errorf("%d ticks fired, and the last outcome is %v; want one, the last", n, last)
	}
	if s := w.Schedule(nightly); s.Live != 1 || s.Waiting != 0 {
		t.Errorf("live %d, waiting %d", s.Live, s.Waiting)
	}
}

// Running tasks stop by themselves. Each is asked once, and further ticks leave it alone.
func TestFire_AsksRunningTasksOnceToStop(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	const live = schedule.StopLimit + 3
	replaceMany(t, w, live)
	running := w.TasksOf(nightly)
	for id := range running {
		w.BeginTick(nightly, strings.TrimPrefix(id, nightly.ID+"@"))
	}
	w.Fire(nightly)
	for id := range running {
		if w.Get(task.Ref{Namespace: nightly.Namespace, ID: id}).CancelRequested.IsZero() {
			t.Fatalf("%s was not asked to stop", id)
		}
	}
	testkit.Must(t, w.DB.ConfigResetStat(w.Ctx).Err())
	e, err := w.Trigger(nightly)
	if err != nil || e.Outcome != schedule.Queued {
		t.Fatalf("a further run: %+v, %v; want it to wait", e, err)
	}
	if stats := w.DB.Info(w.Ctx, "commandstats").Val(); strings.Contains(stats, "cmdstat_publish:") {
		t.Errorf("workers were asked again:\n%s", stats)
	}
	if s := w.Schedule(nightly); s.Live != live || s.Waiting != 1 {
		t.Errorf("live %d, waiting %d", s.Live, s.Waiting)
	}
}

// The caller does not wait for the end of all: the leader goes on.
func TestTrigger_LeavesMoreThanOnePieceToTheLeader(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	const live = 2*schedule.StopLimit + 50
	w.Hourly(1, func(d *schedule.Definition) { d.Overlap = schedule.OverlapAllow })
	fireMany(t, w, live)
	w.Put(storetest.Daily(func(d *schedule.Definition) { d.Overlap = schedule.OverlapReplace }))
	w.Fire(nightly)
	e, err := w.Trigger(nightly)
	if err != nil || e.Outcome != schedule.Queued {
		t.Fatalf("%+v, %v; want it to wait", e, err)
	}
	if s := w.Schedule(nightly); s.Live != live-schedule.StopLimit {
		t.Errorf("%d tasks are live after the call, want %d less than %d", s.Live, schedule.StopLimit, live)
	}
	ticked := w.Fire(nightly)
	if last := ticked[len(ticked)-1]; last != (partition.Ticked{Name: e.Name, Outcome: schedule.Triggered}) {
		t.Errorf("the last outcome is %v, want that %s was triggered", last, e.Name)
	}
	if n := count(ticked, schedule.Replaced); n != live-schedule.StopLimit {
		t.Errorf("the leader stopped %d tasks, want %d", n, live-schedule.StopLimit)
	}
}

// A pause stops the pieces, and another overlap policy ends them: the tasks that are left go on.
func TestFire_GoesOnReplacingOnlyWhileTheScheduleSaysSo(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	const live = 2*schedule.StopLimit + 50
	replaceMany(t, w, live)
	testkit.Must(t, w.FireOnce(storetest.Fence, w.Agenda(nightly)).Err)
	w.Pause(nightly)
	w.Fire(nightly)
	if s := w.Schedule(nightly); s.Live != live-schedule.StopLimit {
		t.Errorf("while it is paused, %d tasks are live, want %d", s.Live, live-schedule.StopLimit)
	}
	w.Put(storetest.Daily(func(d *schedule.Definition) { d.Overlap = schedule.OverlapQueue }))
	_, err := w.Schedules.Resume(w.Ctx, nightly, "")
	testkit.Must(t, err)
	w.Fire(nightly)
	if s := w.Schedule(nightly); s.Live != live-schedule.StopLimit || s.Waiting != 1 {
		t.Errorf("with another policy: live %d, waiting %d; want %d and 1", s.Live, s.Waiting, live-schedule.StopLimit)
	}
	w.Put(storetest.Daily(func(d *schedule.Definition) { d.Overlap = schedule.OverlapReplace }))
	w.Fire(nightly)
	if s := w.Schedule(nightly); s.Live != live-schedule.StopLimit || s.Waiting != 1 {
		t.Errorf("with the policy of before: live %d, waiting %d; want that no task is stopped before the next tick", s.Live, s.Waiting)
	}
}
