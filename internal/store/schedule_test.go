package store

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/store/schedules"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

var nightly = task.Ref{Namespace: "default", ID: "nightly"}

// daily is a schedule whose next tick is far away, whatever the time is.
func daily(change func(*schedule.Definition)) schedule.Definition {
	d := schedule.Definition{
		Ref: nightly, Spec: schedule.Spec{Rules: []schedule.Rule{{Every: 24 * time.Hour}}},
		Task: task.Definition{Type: "http"},
	}
	if change != nil {
		change(&d)
	}
	return d
}

// put writes a definition over whatever is there.
func (w *world) put(d schedule.Definition) {
	w.t.Helper()
	old, _, now, err := w.Schedules.LookUp(w.ctx, d.Ref)
	if err != nil {
		w.t.Fatal(err)
	}
	if now.Before(old.Cursor) {
		now = old.Cursor
	}
	if _, err := w.Schedules.Write(w.ctx, d.Normalize(), old.Revision, now, false); err != nil {
		w.t.Fatalf("put %s: %v", d.ID, err)
	}
}

// trigger runs a schedule by hand.
func (w *world) trigger(ref task.Ref) (schedule.Entry, error) {
	w.t.Helper()
	now, err := w.Now(w.ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.Schedules.Trigger(w.ctx, ref, now)
}

// rewind lets a schedule have been created that much earlier, and nobody have looked at it since.
func (w *world) rewind(ref task.Ref, by time.Duration) {
	w.t.Helper()
	p := w.PartitionOf(ref)
	is, _, err := w.Schedules.Read(w.ctx, ref)
	if err != nil {
		w.t.Fatal(err)
	}
	key := string(w.Keys.Partition(p).Schedule(ref))
	w.db.HSet(w.ctx, key, "created", is.CreatedAt.Add(-by).UnixMilli(), "from", is.UpdatedAt.Add(-by).UnixMilli(),
		"cursor", is.Cursor.Add(-by).UnixMilli())
	w.db.ZAdd(w.ctx, string(w.Keys.Partition(p).Ticks()), z(0, ref.String()))
}

// agenda is what the leader of a schedule's partition finds due; it must be that schedule alone.
func (w *world) agenda(ref task.Ref) partition.Agenda {
	w.t.Helper()
	due, err := w.Partitions.At(w.PartitionOf(ref)).Lead(fence).Due(w.ctx, 10)
	if err != nil {
		w.t.Fatal(err)
	}
	if len(due.Agendas) != 1 || due.Agendas[0].Ref != ref {
		w.t.Fatalf("due are %v, want %s alone", due.Agendas, ref)
	}
	return due.Agendas[0]
}

// fire does what the leader does when a schedule is due, until nothing is due any more.
func (w *world) fire(ref task.Ref) []partition.Ticked {
	w.t.Helper()
	leader := w.Partitions.At(w.PartitionOf(ref)).Lead(fence)
	var all []partition.Ticked
	for {
		due, err := leader.Due(w.ctx, 10)
		if err != nil {
			w.t.Fatal(err)
		}
		if len(due.Agendas) == 0 {
			return all
		}
		for _, a := range due.Agendas {
			fired := w.fireOnce(fence, a)
			if fired.Err != nil {
				w.t.Fatal(fired.Err)
			}
			all = append(all, fired.Ticked...)
		}
	}
}

// fireOnce does what the leader with that fence does about one schedule.
func (w *world) fireOnce(fence lua.Fence, a partition.Agenda) partition.Fired {
	w.t.Helper()
	return w.Partitions.At(w.PartitionOf(a.Ref)).Lead(fence).Fire(w.ctx, []partition.Planned{{Agenda: a, Plan: schedule.MakePlan(a.Agenda)}})[0]
}

func outcomes(ticked []partition.Ticked) []schedule.Outcome {
	var all []schedule.Outcome
	for _, t := range ticked {
		all = append(all, t.Outcome)
	}
	return all
}

// recorded is the outcomes in the ledger, the oldest tick first.
func (w *world) recorded(ref task.Ref) []schedule.Outcome {
	w.t.Helper()
	page, err := w.Schedules.Ledger(w.ctx, ref, schedules.LedgerFilter{}, 10_000, "")
	if err != nil {
		w.t.Fatal(err)
	}
	var all []schedule.Outcome
	for _, e := range slices.Backward(page.Entries) {
		all = append(all, e.Outcome)
	}
	return all
}

func (w *world) tasksOf(ref task.Ref) map[string]task.State {
	w.t.Helper()
	page, err := w.Tasks.List(w.ctx, tasks.Filter{Namespace: ref.Namespace, Schedule: ref.ID}, 500, "")
	if err != nil {
		w.t.Fatal(err)
	}
	states := make(map[string]task.State)
	for _, t := range page.Tasks {
		states[t.ID] = t.State
	}
	return states
}

// end runs a tick's task to its end.
func (w *world) end(ref task.Ref, tick string, final task.State) {
	w.t.Helper()
	its := task.Ref{Namespace: ref.Namespace, ID: ref.ID + "@" + tick}
	run := w.begun(its)
	outcome := map[task.State]task.Outcome{task.Succeeded: task.OutcomeSucceeded, task.Failed: task.OutcomeFailed, task.Cancelled: task.OutcomeCancelled}[final]
	if err := run.Finish(w.ctx, final, outcome, "", ""); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) begun(its task.Ref) *tasks.Run {
	w.t.Helper()
	w.db.ZAdd(w.ctx, string(w.KeysOf(its).Wheel()), z(0, its.String())) // those that run late are due one by one
	if _, err := w.Partitions.At(w.PartitionOf(its)).Lead(fence).Claim(w.ctx, 100); err != nil {
		w.t.Fatal(err)
	}
	run, err := w.Tasks.Begin(w.ctx, its, 1, "node", "run-"+its.ID)
	if err != nil {
		w.t.Fatal(err)
	}
	return run
}

func TestFire_CreatesTheTaskOfATickOnceAndRecordsIt(t *testing.T) {
	w := newWorld(t)
	w.put(daily(nil))
	w.fire(nightly) // the first look, with nothing due
	w.rewind(nightly, 24*time.Hour+time.Second)
	a := w.agenda(nightly)
	fired := w.fireOnce(fence, a)
	if fired.Err != nil || !slices.Equal(outcomes(fired.Ticked), []schedule.Outcome{schedule.Fired}) {
		t.Fatalf("%+v", fired)
	}
	before := redistest.Dump(t, w.db)
	if again := w.fireOnce(fence, a); !errors.Is(again.Err, schedules.ErrMoved) {
		t.Errorf("a repetition was answered %v, want ErrMoved", again.Err)
	}
	if diff := cmp.Diff(before, redistest.Dump(t, w.db)); diff != "" {
		t.Errorf("a repetition changed something:\n%s", diff)
	}
	tick, _, err := schedule.ParseTickName(fired.Ticked[0].Name)
	if err != nil {
		t.Fatal(err)
	}
	id := "nightly@" + schedule.TickName(tick)
	if diff := cmp.Diff(map[string]task.State{id: task.Scheduled}, w.tasksOf(nightly)); diff != "" {
		t.Errorf("tasks (-want +got):\n%s", diff)
	}
	page, err := w.Schedules.Ledger(w.ctx, nightly, schedules.LedgerFilter{}, 10, "")
	if err != nil {
		t.Fatal(err)
	}
	want := []schedule.Entry{{
		Name: schedule.TickName(tick), Tick: tick, Outcome: schedule.Fired, HasTask: true, Late: fired.At.Sub(tick), DecidedAt: fired.At, Revision: 1,
	}}
	if diff := cmp.Diff(want, page.Entries); diff != "" {
		t.Errorf("ledger (-want +got):\n%s", diff)
	}
	is, err := w.Schedules.Get(w.ctx, nightly)
	if err != nil || is.Live != 1 || is.Runs != 1 || is.Cursor.Before(tick) {
		t.Errorf("the schedule is %+v, %v", is, err)
	}
}

func TestFire_OfAStaleLeaderIsRefused(t *testing.T) {
	w := newWorld(t)
	w.put(daily(nil))
	w.rewind(nightly, 25*time.Hour)
	a := w.agenda(nightly)
	before := redistest.Dump(t, w.db)
	stale := w.Partitions.At(w.PartitionOf(nightly)).Lead("0:stale")
	if _, err := stale.Due(w.ctx, 10); !errors.Is(err, partition.ErrFenced) {
		t.Errorf("a look was answered %v", err)
	}
	if fired := w.fireOnce("0:stale", a); !errors.Is(fired.Err, partition.ErrFenced) {
		t.Errorf("firing was answered %v", fired.Err)
	}
	if diff := cmp.Diff(before, redistest.Dump(t, w.db)); diff != "" {
		t.Errorf("something changed:\n%s", diff)
	}
}

// Three ticks are due at once, and the policy for misfires lets all of them run.
func TestFire_FollowsTheOverlapPolicy(t *testing.T) {
	for policy, want := range map[schedule.Overlap][]schedule.Outcome{
		schedule.OverlapAllow:   {schedule.Fired, schedule.Fired, schedule.Fired},
		schedule.OverlapSkip:    {schedule.Fired, schedule.SkippedOverlap, schedule.SkippedOverlap},
		schedule.OverlapQueue:   {schedule.Fired, schedule.Queued, schedule.Queued},
		schedule.OverlapReplace: {schedule.Replaced, schedule.Replaced, schedule.Fired}, // none had begun
	} {
		t.Run(string(policy), func(t *testing.T) {
			w := newWorld(t)
			w.put(daily(func(d *schedule.Definition) {
				d.Rules, d.Overlap = []schedule.Rule{{Every: time.Hour}}, policy
				d.Misfire = schedule.Misfire{Policy: schedule.MisfireAll, Window: 24 * time.Hour}
			}))
			w.rewind(nightly, 3*time.Hour+time.Minute)
			w.fire(nightly)
			if diff := cmp.Diff(want, w.recorded(nightly)); diff != "" {
				t.Errorf("ledger (-want +got):\n%s", diff)
			}
		})
	}
}

// hourly lets n ticks of an hourly schedule be due; it answers their names.
func (w *world) hourly(n int, change func(*schedule.Definition)) []string {
	w.t.Helper()
	w.put(daily(func(d *schedule.Definition) {
		d.Rules = []schedule.Rule{{Every: time.Hour}}
		d.Misfire = schedule.Misfire{Policy: schedule.MisfireAll, Window: 1000 * time.Hour}
		if change != nil {
			change(d)
		}
	}))
	w.rewind(nightly, time.Duration(n)*time.Hour+time.Minute)
	is, _, err := w.Schedules.Read(w.ctx, nightly)
	if err != nil {
		w.t.Fatal(err)
	}
	var names []string
	for i := range n {
		names = append(names, schedule.TickName(is.CreatedAt.Add(time.Duration(i+1)*time.Hour)))
	}
	return names
}

func TestOverlap_QueuedTickRunsWhenTheOneBeforeHasEnded(t *testing.T) {
	w := newWorld(t)
	ticks := w.hourly(3, func(d *schedule.Definition) { d.Overlap = schedule.OverlapQueue })
	w.fire(nightly)
	for i, final := range []task.State{task.Succeeded, task.Failed, task.Succeeded} {
		w.end(nightly, ticks[i], final)
		ticked := w.fire(nightly)
		if i < 2 && (len(ticked) != 1 || ticked[0] != partition.Ticked{Name: ticks[i+1], Outcome: schedule.Fired}) {
			t.Fatalf("after the end of number %d, there happened %v", i, ticked)
		}
	}
	if diff := cmp.Diff([]schedule.Outcome{schedule.Fired, schedule.Fired, schedule.Fired}, w.recorded(nightly)); diff != "" {
		t.Errorf("ledger (-want +got):\n%s", diff)
	}
	is, _ := w.Schedules.Get(w.ctx, nightly)
	if is.Live != 0 || is.Waiting != 0 {
		t.Errorf("live %d, waiting %d", is.Live, is.Waiting)
	}
}

func TestOverlap_BoundsTheWaitingTicks(t *testing.T) {
	w := newWorld(t)
	w.hourly(schedule.WaitingLimit+5, func(d *schedule.Definition) { d.Overlap = schedule.OverlapQueue; d.Misfire.Max = 1000 })
	w.fire(nightly)
	count := map[schedule.Outcome]int{}
	for _, o := range w.recorded(nightly) {
		count[o]++
	}
	want := map[schedule.Outcome]int{schedule.Fired: 1, schedule.Queued: schedule.WaitingLimit, schedule.SkippedOverlap: 4}
	if diff := cmp.Diff(want, count); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
}

// As where nobody works any more, and the schedule goes on.
func TestFire_CreatesNoMoreTasksThanTheLimit(t *testing.T) {
	w := newWorld(t)
	w.hourly(2, func(d *schedule.Definition) { d.Overlap = schedule.OverlapAllow })
	var others []redis.Z
	for i := range schedule.LiveLimit - 1 {
		others = append(others, z(float64(i), fmt.Sprint("earlier", i)))
	}
	w.db.ZAdd(w.ctx, string(w.KeysOf(nightly).Live(nightly)), others...)
	if got := outcomes(w.fire(nightly)); !slices.Equal(got, []schedule.Outcome{schedule.Fired, schedule.SkippedOverlap}) {
		t.Errorf("there happened %v", got)
	}
}

func TestOverlap_ReplacedTaskStopsBeforeTheNextOneRuns(t *testing.T) {
	w := newWorld(t)
	ticks := w.hourly(1, func(d *schedule.Definition) { d.Overlap = schedule.OverlapReplace })
	w.fire(nightly)
	run := w.begun(task.Ref{Namespace: "default", ID: "nightly@" + ticks[0]})
	for range 2 {
		if e, err := w.trigger(nightly); err != nil || e.Outcome != schedule.Queued {
			t.Fatalf("%+v, %v", e, err)
		}
	}
	if cancel, err := run.CancelRequested(w.ctx); err != nil || !cancel {
		t.Fatalf("the running task was asked to stop: %v, %v", cancel, err)
	}
	if got := w.fire(nightly); len(got) != 0 {
		t.Fatalf("before it had stopped, there happened %v", got)
	}
	want := []schedule.Outcome{schedule.Replaced, schedule.Replaced, schedule.Queued}
	if diff := cmp.Diff(want, w.recorded(nightly)); diff != "" {
		t.Fatalf("ledger (-want +got):\n%s", diff)
	}
	if err := run.Finish(w.ctx, task.Cancelled, task.OutcomeCancelled, "", ""); err != nil {
		t.Fatal(err)
	}
	// One that comes before the leader has looked takes the place of the one that waits.
	if e, err := w.trigger(nightly); err != nil || e.Outcome != schedule.Triggered {
		t.Fatalf("%+v, %v", e, err)
	}
	if is, err := w.Schedules.Get(w.ctx, nightly); err != nil || is.Runs != 1 {
		t.Errorf("%d ticks ran, %v: what is run by hand does not count", is.Runs, err)
	}
	if got := w.recorded(nightly); !slices.Equal(got, append(want[:2:2], schedule.Replaced, schedule.Triggered)) {
		t.Errorf("the ledger is %v", got)
	}
	if got := w.fire(nightly); len(got) > 0 {
		t.Errorf("there happened %v", got)
	}
}

func TestOverlap_ReplacingTickRunsWhenTheOneBeforeHasStopped(t *testing.T) {
	w := newWorld(t)
	ticks := w.hourly(1, func(d *schedule.Definition) { d.Overlap = schedule.OverlapReplace })
	w.fire(nightly)
	run := w.begun(task.Ref{Namespace: "default", ID: "nightly@" + ticks[0]})
	if e, err := w.trigger(nightly); err != nil || e.Outcome != schedule.Queued {
		t.Fatalf("%+v, %v", e, err)
	}
	if err := run.Finish(w.ctx, task.Cancelled, task.OutcomeCancelled, "", ""); err != nil {
		t.Fatal(err)
	}
	if got := outcomes(w.fire(nightly)); !slices.Equal(got, []schedule.Outcome{schedule.Triggered}) {
		t.Errorf("after it had stopped, there happened %v", got)
	}
}

func TestPause_FollowsFailuresInARow(t *testing.T) {
	w := newWorld(t)
	ticks := w.hourly(4, func(d *schedule.Definition) { d.Overlap, d.PauseOnFailure = schedule.OverlapAllow, 2 })
	w.fire(nightly)
	paused := func() bool {
		is, err := w.Schedules.Get(w.ctx, nightly)
		if err != nil {
			t.Fatal(err)
		}
		return !is.PausedAt.IsZero()
	}
	for i, c := range []struct {
		final  task.State
		paused bool
	}{{task.Failed, false}, {task.Succeeded, false}, {task.Failed, false}, {task.Failed, true}} {
		w.end(nightly, ticks[i], c.final)
		if paused() != c.paused {
			t.Fatalf("after number %d, %s: paused is %v", i, c.final, paused())
		}
	}
	is, err := w.Schedules.Resume(w.ctx, nightly)
	if err != nil || !is.PausedAt.IsZero() || is.Failures != 0 {
		t.Errorf("resumed, it is %+v, %v", is, err)
	}
}

func TestFire_TreatsTicksOfAPauseAsMisfires(t *testing.T) {
	w := newWorld(t)
	w.hourly(3, func(d *schedule.Definition) { d.Misfire = schedule.Misfire{Policy: schedule.MisfireSkip} })
	if _, err := w.Schedules.Pause(w.ctx, nightly, "for the upgrade"); err != nil {
		t.Fatal(err)
	}
	if got := w.fire(nightly); len(got) != 0 {
		t.Fatalf("paused, it did %v", got)
	}
	is, err := w.Schedules.Resume(w.ctx, nightly)
	if err != nil || !is.PausedAt.IsZero() {
		t.Fatalf("%+v, %v", is, err)
	}
	w.fire(nightly)
	want := []schedule.Outcome{schedule.Missed, schedule.Missed, schedule.Missed}
	if diff := cmp.Diff(want, w.recorded(nightly)); diff != "" {
		t.Errorf("ledger (-want +got):\n%s", diff)
	}
}

func TestFire_IsRefusedAfterAChangeOfTheSchedule(t *testing.T) {
	w := newWorld(t)
	w.hourly(3, nil)
	a := w.agenda(nightly)
	w.put(daily(nil))
	before := redistest.Dump(t, w.db)
	if fired := w.fireOnce(fence, a); !errors.Is(fired.Err, schedules.ErrMoved) {
		t.Errorf("answered %v, want ErrMoved", fired.Err)
	}
	if diff := cmp.Diff(before, redistest.Dump(t, w.db)); diff != "" {
		t.Errorf("something changed:\n%s", diff)
	}
}

func TestListSchedules_LosesNoneBetweenPages(t *testing.T) {
	w := newWorld(t)
	var want []string
	for i := range 23 {
		id := fmt.Sprintf("s%02d", i)
		w.put(daily(func(d *schedule.Definition) {
			d.ID, d.Labels = id, map[string]string{"odd": fmt.Sprint(i % 2)}
		}))
		if i%3 == 0 {
			w.pause(task.Ref{Namespace: "default", ID: id})
		}
		want = append(want, id)
	}
	w.put(daily(func(d *schedule.Definition) { d.Namespace = "default2" }))
	list := func(f schedules.Filter, limit int) []string {
		f.Namespace = "default"
		var ids []string
		for cursor := ""; ; {
			page, err := w.Schedules.List(w.ctx, f, limit, cursor)
			if err != nil {
				t.Fatal(err)
			}
			for _, is := range page.Schedules {
				ids = append(ids, is.ID)
			}
			if cursor = page.NextCursor; cursor == "" {
				return ids
			}
		}
	}
	for _, limit := range []int{1, 4, 23, 100} {
		if diff := cmp.Diff(want, list(schedules.Filter{}, limit)); diff != "" {
			t.Errorf("limit %d (-want +got):\n%s", limit, diff)
		}
	}
	if got := list(schedules.Filter{Labels: map[string]string{"odd": "1"}, Paused: new(true)}, 2); !slices.Equal(got, []string{"s03", "s09", "s15", "s21"}) {
		t.Errorf("filtered: %v", got)
	}
}

func TestRetry_OfATickCountsAsNotEnded(t *testing.T) {
	w := newWorld(t)
	ticks := w.hourly(1, nil)
	w.fire(nightly)
	w.end(nightly, ticks[0], task.Failed)
	if _, err := w.Tasks.Retry(w.ctx, task.Ref{Namespace: "default", ID: "nightly@" + ticks[0]}); err != nil {
		t.Fatal(err)
	}
	if is, _ := w.Schedules.Get(w.ctx, nightly); is.Live != 1 {
		t.Errorf("%d live", is.Live)
	}
}

func TestDueSchedules_SkipWhatCannotBeRead(t *testing.T) {
	w := newWorld(t)
	w.hourly(1, nil)
	p := w.PartitionOf(nightly)
	w.db.ZAdd(w.ctx, string(w.Keys.Partition(p).Ticks()), z(0, "default:broken"))
	w.db.HSet(w.ctx, string(w.Keys.Partition(p).Schedule(task.Ref{Namespace: "default", ID: "broken"})), "def", "{", "revision", 1)
	if got := outcomes(w.fire(nightly)); !slices.Equal(got, []schedule.Outcome{schedule.Fired}) {
		t.Errorf("there happened %v", got)
	}
}

func z(score float64, member string) redis.Z { return redis.Z{Score: score, Member: member} }
