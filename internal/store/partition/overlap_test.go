package partition_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// Three ticks are due at once, and the misfire policy lets all of them run.
func TestFire_AppliesTheOverlapPolicy(t *testing.T) {
	t.Parallel()
	for policy, want := range map[schedule.Overlap][]schedule.Outcome{
		schedule.OverlapAllow:   {schedule.Fired, schedule.Fired, schedule.Fired},
		schedule.OverlapSkip:    {schedule.Fired, schedule.SkippedOverlap, schedule.SkippedOverlap},
		schedule.OverlapQueue:   {schedule.Fired, schedule.Queued, schedule.Queued},
		schedule.OverlapReplace: {schedule.Replaced, schedule.Replaced, schedule.Fired}, // none had begun
	} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			w := storetest.New(t)
			w.Hourly(3, func(d *schedule.Definition) { d.Overlap = policy })
			w.Fire(nightly)
			if diff := cmp.Diff(want, w.Recorded(nightly)); diff != "" {
				t.Errorf("ledger (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFire_RunsAQueuedTickWhenTheTaskBeforeItHasEnded(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	ticks := w.Hourly(3, func(d *schedule.Definition) { d.Overlap = schedule.OverlapQueue })
	w.Fire(nightly)
	for i, end := range []task.State{task.Succeeded, task.Failed, task.Succeeded} {
		w.EndTick(nightly, ticks[i], end)
		ticked := w.Fire(nightly)
		if i < 2 && (len(ticked) != 1 || ticked[0] != partition.Ticked{Name: ticks[i+1], Outcome: schedule.Fired}) {
			t.Fatalf("after the end of task %d: %v", i, ticked)
		}
	}
	if diff := cmp.Diff([]schedule.Outcome{schedule.Fired, schedule.Fired, schedule.Fired}, w.Recorded(nightly)); diff != "" {
		t.Errorf("ledger (-want +got):\n%s", diff)
	}
	if s := w.Schedule(nightly); s.Live != 0 || s.Waiting != 0 {
		t.Errorf("live %d, waiting %d", s.Live, s.Waiting)
	}
}

// A task that has ended is live no longer even if nobody told its schedule, as after a loss of writes or a deletion by hand.
func TestFire_IsNotHeldUpByATaskThatIsNotThere(t *testing.T) {
	t.Parallel()
	for _, policy := range []schedule.Overlap{schedule.OverlapSkip, schedule.OverlapQueue, schedule.OverlapReplace} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			w := storetest.New(t)
			ticks := w.Hourly(1, func(d *schedule.Definition) { d.Overlap = policy })
			w.Fire(nightly)
			k := w.KeysOf(nightly)
			testkit.Must(t, w.DB.HDel(w.Ctx, string(k.Defs()), nightly.String()+"@"+ticks[0]).Err())
			w.Rewind(nightly, time.Hour) // the same tick is decided again
			w.Fire(nightly)
			if diff := cmp.Diff([]schedule.Outcome{schedule.Fired}, w.Recorded(nightly)); diff != "" {
				t.Errorf("ledger (-want +got):\n%s", diff)
			}
		})
	}
}

// A failover can lose the record of a tick, whose task a worker restores.
func TestFire_LeavesATickAloneWhoseTaskIsThere(t *testing.T) {
	t.Parallel()
	for _, policy := range []schedule.Overlap{schedule.OverlapAllow, schedule.OverlapSkip, schedule.OverlapQueue, schedule.OverlapReplace} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			w := storetest.New(t)
			ticks := w.Hourly(1, func(d *schedule.Definition) { d.Overlap = policy })
			w.Fire(nightly)
			run := w.BeginTick(nightly, ticks[0])
			w.Rewind(nightly, time.Hour) // the same tick is decided again
			w.Fire(nightly)
			if diff := cmp.Diff([]schedule.Outcome{schedule.Fired}, w.Recorded(nightly)); diff != "" {
				t.Errorf("ledger (-want +got):\n%s", diff)
			}
			if !w.Get(run.Task.Ref).CancelRequested.IsZero() {
				t.Error("the task was asked to stop")
			}
			if s := w.Schedule(nightly); s.Live != 1 || s.Waiting != 0 {
				t.Errorf("live %d, waiting %d", s.Live, s.Waiting)
			}
		})
	}
}

func TestFire_QueuesNoMoreTicksThanTheLimit(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	const surplus = 4
	w.Hourly(1+schedule.WaitingLimit+surplus, func(d *schedule.Definition) {
		d.Overlap, d.Misfire.Max = schedule.OverlapQueue, 1000
	})
	w.Fire(nightly)
	count := map[schedule.Outcome]int{}
	for _, o := range w.Recorded(nightly) {
		count[o]++
	}
	want := map[schedule.Outcome]int{schedule.Fired: 1, schedule.Queued: schedule.WaitingLimit, schedule.SkippedOverlap: surplus}
	if diff := cmp.Diff(want, count); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
}

// fillLive adds n names of ticks to the live ones of the nightly schedule. Their tasks run, and nobody is told so.
func fillLive(t *testing.T, w *storetest.World, n int) {
	t.Helper()
	ref := w.Bring("runs", task.Running)
	k, of := w.KeysOf(nightly), w.KeysOf(ref)
	def, state := w.DB.HGet(w.Ctx, string(of.Defs()), ref.String()).Val(), w.DB.HGet(w.Ctx, string(of.States()), ref.String()).Val()
	live, defs, states := make([]redis.Z, n), make(map[string]string, n), make(map[string]string, n)
	for i := range live {
		name := fmt.Sprint("earlier", i)
		live[i] = redis.Z{Score: float64(i), Member: name}
		defs[nightly.String()+"@"+name], states[nightly.String()+"@"+name] = def, state
	}
	testkit.Must(t, w.DB.HSet(w.Ctx, string(k.Defs()), defs).Err())
	testkit.Must(t, w.DB.HSet(w.Ctx, string(k.States()), states).Err())
	testkit.Must(t, w.DB.ZAdd(w.Ctx, string(k.Live(nightly)), live...).Err())
}

// As when no worker runs and the schedule goes on.
func TestFire_CreatesNoMoreLiveTasksThanTheLimit(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	w.Hourly(2, func(d *schedule.Definition) { d.Overlap = schedule.OverlapAllow })
	fillLive(t, w, schedule.LiveLimit-1)
	want := []schedule.Outcome{schedule.Fired, schedule.SkippedOverlap}
	if got := storetest.Outcomes(w.Fire(nightly)); !slices.Equal(got, want) {
		t.Errorf("outcomes %v, want %v", got, want)
	}
}

// The tasks run, and do not stop.
func TestFire_WaitsForAsManyReplacedTasksAsMayBeLive(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := storetest.New(t)
	w.Hourly(2, func(d *schedule.Definition) { d.Overlap = schedule.OverlapReplace })
	fillLive(t, w, schedule.LiveLimit)
	w.Fire(nightly)
	if s := w.Schedule(nightly); s.Live != schedule.LiveLimit || s.Waiting != 1 || s.Runs != 1 {
		t.Errorf("live %d, waiting %d, %d runs; want the second tick to wait, and not to count the first", s.Live, s.Waiting, s.Runs)
	}
	e, err := w.Trigger(nightly)
	if err != nil || e.Outcome != schedule.Queued {
		t.Errorf("a run by hand: %+v, %v", e, err)
	}
	if s := w.Schedule(nightly); s.Waiting != 1 || s.Runs != 0 {
		t.Errorf("after the run by hand: waiting %d, %d runs; want it to wait, and no tick to count", s.Waiting, s.Runs)
	}
}

func TestFire_RunsWaitingTicksOnceOverlapIsAllowed(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	w.Hourly(4, func(d *schedule.Definition) { d.Overlap = schedule.OverlapQueue })
	w.Fire(nightly)
	w.Put(storetest.Daily(func(d *schedule.Definition) { d.Overlap = schedule.OverlapAllow }))
	want := []schedule.Outcome{schedule.Fired, schedule.Fired, schedule.Fired}
	if got := storetest.Outcomes(w.Fire(nightly)); !slices.Equal(got, want) {
		t.Errorf("outcomes %v, want %v", got, want)
	}
}

func TestFire_WaitsUntilAReplacedTaskHasStopped(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	ticks := w.Hourly(1, func(d *schedule.Definition) { d.Overlap = schedule.OverlapReplace })
	w.Fire(nightly)
	run := w.BeginTick(nightly, ticks[0])
	for range 2 {
		if e, err := w.Trigger(nightly); err != nil || e.Outcome != schedule.Queued {
			t.Fatalf("%+v, %v", e, err)
		}
	}
	if w.Get(run.Task.Ref).CancelRequested.IsZero() {
		t.Fatal("the running task was not asked to stop")
	}
	if got := w.Fire(nightly); len(got) != 0 {
		t.Fatalf("before it had stopped: %v", got)
	}
	want := []schedule.Outcome{schedule.Replaced, schedule.Replaced, schedule.Queued}
	if diff := cmp.Diff(want, w.Recorded(nightly)); diff != "" {
		t.Fatalf("ledger (-want +got):\n%s", diff)
	}
	testkit.Must(t, run.Finish(w.Ctx, task.Cancelled, task.OutcomeCancelled, "", ""))
	// A run by hand before the leader's next plan takes the place of the waiting one.
	if e, err := w.Trigger(nightly); err != nil || e.Outcome != schedule.Triggered {
		t.Fatalf("%+v, %v", e, err)
	}
	if runs := w.Schedule(nightly).Runs; runs != 1 {
		t.Errorf("%d runs, want 1: runs by hand do not count", runs)
	}
	if got := w.Recorded(nightly); !slices.Equal(got, append(want[:2:2], schedule.Replaced, schedule.Triggered)) {
		t.Errorf("the ledger is %v", got)
	}
	if got := w.Fire(nightly); len(got) > 0 {
		t.Errorf("after the run by hand: %v", got)
	}
}

func TestFire_RunsAReplacingTickWhenTheTaskBeforeItHasStopped(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	ticks := w.Hourly(1, func(d *schedule.Definition) { d.Overlap = schedule.OverlapReplace })
	w.Fire(nightly)
	run := w.BeginTick(nightly, ticks[0])
	if e, err := w.Trigger(nightly); err != nil || e.Outcome != schedule.Queued {
		t.Fatalf("%+v, %v", e, err)
	}
	testkit.Must(t, run.Finish(w.Ctx, task.Cancelled, task.OutcomeCancelled, "", ""))
	if got := storetest.Outcomes(w.Fire(nightly)); !slices.Equal(got, []schedule.Outcome{schedule.Triggered}) {
		t.Errorf("after it had stopped: %v, want triggered", got)
	}
}
