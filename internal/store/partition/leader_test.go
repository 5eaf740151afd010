package partition_test

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/handover"
	"github.com/dts-sched/dts/internal/lease/leasetest"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
	"github.com/dts-sched/dts/lua/contract"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func TestLeader_WithAnOldFenceChangesNothing(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	w.Bring("waits", task.Scheduled)
	running := w.Bring("runs", task.Running)
	w.Bring("done", task.Succeeded)
	w.Bring("late", task.Scheduled)
	before := redistest.Dump(t, w.DB)
	for p := range w.Partitions.Count() {
		stale := w.Partitions.At(p).Lead("0:old")
		calls := map[string]error{}
		_, calls["claim"] = stale.Claim(w.Ctx, 10, storetest.Quotas, time.Second)
		_, calls["look after"] = stale.LookAfter(w.Ctx, partition.Look{Again: time.Minute, Limit: 10})
		calls["take back"] = stale.TakeBack(w.Ctx, []task.Delivery{{Ref: running, Attempt: 1}}, false)
		calls["reap"] = stale.Reap(w.Ctx, w.Get(running), time.Now(), time.Time{}, partition.Loss{Reason: "dead"})
		_, calls["sweep"] = stale.Sweep(w.Ctx, partition.Keep{}, 10)
		for name, err := range calls {
			if !errors.Is(err, partition.ErrFenced) {
				t.Errorf("%s: %v, want ErrFenced", name, err)
			}
		}
	}
	if diff := cmp.Diff(before, redistest.Dump(t, w.DB)); diff != "" {
		t.Errorf("Redis changed (-before +after):\n%s", diff)
	}
}

// All scripts of leaders share the check. A lease key that was deleted or restored can leave two leases that last.
func TestLeader_NeedsTheNewestFenceAndALeaseThatLasts(t *testing.T) {
	t.Parallel()
	const older, newest lua.Fence = "1:older", "2:newest"
	for _, c := range []struct {
		name   string
		fence  lua.Fence
		leases []lua.Fence // those that last
		want   error
	}{
		{"it leads", newest, []lua.Fence{newest}, nil},
		{"its lease is over", newest, nil, partition.ErrFenced},
		{"another one leads", older, []lua.Fence{older, newest}, partition.ErrFenced},
		{"the lease of the newest one is over", older, []lua.Fence{older}, partition.ErrFenced},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := storetest.New(t)
			ref := w.Bring("waits", task.Scheduled)
			p := w.PartitionOf(ref)
			key := w.Partitions.LeaseKey(p)
			leasetest.End(t, w.DB, key)
			testkit.Must(t, w.DB.Set(w.Ctx, string(key), string(newest), 0).Err())
			for _, fence := range c.leases {
				testkit.Must(t, w.DB.Set(w.Ctx, string(key)+":"+string(fence), "", 0).Err())
			}
			claimed, err := w.Partitions.At(p).Lead(c.fence).Claim(w.Ctx, 10, storetest.Quotas, time.Second)
			if !errors.Is(err, c.want) || (len(claimed.Deliveries) == 1) != (c.want == nil) {
				t.Errorf("claimed %v, %v; want %v", claimed.Deliveries, err, c.want)
			}
		})
	}
}

func TestReap_RecordsALostAttemptAndTheNextOneIsDueAtOnce(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	ref := w.Bring("a", task.Running)
	old := w.Tasks.RunOf(w.Get(ref))
	w.Lapse(ref)
	testkit.Must(t, w.Leader(ref).Reap(w.Ctx, w.Get(ref), time.Now(), time.Time{}, partition.Loss{Reason: "node died"}))
	w.CheckSets()
	if got := w.Get(ref); got.State != task.Scheduled || got.Error != "node died" {
		t.Errorf("after the first attempt: %s %q", got.State, got.Error)
	}
	if err := old.Finish(w.Ctx, task.Succeeded, task.OutcomeSucceeded, "late", ""); !errors.Is(err, tasks.ErrStale) {
		t.Errorf("a late report of the lost run: %v, want ErrStale", err)
	}
	w.Begin(ref)
	w.Lapse(ref)
	testkit.Must(t, w.Leader(ref).Reap(w.Ctx, w.Get(ref), time.Now(), time.Time{}, partition.Loss{Reason: "node died"}))
	w.CheckSets()
	if got := w.Get(ref); got.State != task.Failed {
		t.Errorf("after the last attempt: %s", got.State)
	}
	attempts, err := w.Tasks.Attempts(w.Ctx, ref)
	if err != nil || len(attempts) != 2 {
		t.Fatalf("%v, %v", attempts, err)
	}
	for i, a := range attempts {
		if a.Number != i+1 || a.Outcome != task.OutcomeLost || a.Node != "node-a" || a.StartedAt.IsZero() || a.FinishedAt.Before(a.StartedAt) {
			t.Errorf("attempt %+v", a)
		}
	}
}

func TestReap_ATaskThatWasAskedToStopEndsCancelled(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	ref := w.Bring("reaped", task.Running)
	_, err := w.Tasks.Cancel(w.Ctx, ref, "")
	testkit.Must(t, err)
	w.Lapse(ref)
	testkit.Must(t, w.Leader(ref).Reap(w.Ctx, w.Get(ref), time.Now(), time.Time{}, partition.Loss{Reason: "node died"}))
	if got := w.Get(ref).State; got != task.Cancelled {
		t.Errorf("state is %s, want cancelled", got)
	}
	w.CheckSets()
}

// createDue creates a task that was due at a time in the past, as after an outage.
func createDue(t *testing.T, w *storetest.World, id, queue string, due time.Time) task.Ref {
	t.Helper()
	ref := task.Ref{Namespace: "default", ID: id}
	d := task.Definition{Ref: ref, Type: "http", Queue: queue, RunAt: due}
	def, err := codec.EncodeDefinition(d.Normalize())
	testkit.Must(t, err)
	k := w.KeysOf(ref)
	_, err = redisx.Run(w.Ctx, w.DB, lua.Create{
		Defs: k.Defs(), Events: w.Keys.Events(), Wake: w.Layout.WakeOf(ref), Tasks: []lua.CreateTask{{Member: ref, Def: def, RunAt: due, Delay: 0}},
	})
	testkit.Must(t, err)
	late := redis.Z{Score: float64(due.UnixMilli()), Member: ref.String()}
	testkit.Must(t, w.DB.ZAdd(w.Ctx, string(k.Wheel()), late).Err())
	return ref
}

// The ids share a root, as those of ticks do, so that all tasks are in one partition.
func TestClaim_TakesOfEachQueueItsQuotaInOrder(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	now := w.DB.Time(w.Ctx).Val()
	var ref task.Ref
	for i := range 30 {
		for _, queue := range []string{"default", "full", "low"} {
			ref = createDue(t, w, fmt.Sprintf("s@%s%02d", queue, i), queue, now.Add(-time.Hour+time.Duration(i)*time.Second))
		}
	}
	hour := now.Add(-time.Hour)
	claim := func(limit int, quotas handover.Grant) ([]string, handover.Backlog) {
		claimed, err := w.Leader(ref).Claim(w.Ctx, limit, quotas, time.Second)
		testkit.Must(t, err)
		var got []string
		for _, d := range claimed.Deliveries {
			got = append(got, strings.TrimPrefix(d.Ref.ID, "s@"))
		}
		w.CheckSets()
		return got, claimed.Backlog
	}
	got, backlog := claim(100, handover.Grant{Default: 2, Lanes: handover.Quotas{{Queue: "full"}: {Number: 0}}})
	if diff := cmp.Diff([]string{"default00", "low00", "default01", "low01"}, got); diff != "" {
		t.Errorf("first claim (-want +got):\n%s", diff)
	}
	second := hour.Add(2 * time.Second).UTC().Truncate(time.Millisecond)
	first := handover.Backlog{{Queue: "default"}: second, {Queue: "full"}: hour.UTC().Truncate(time.Millisecond), {Queue: "low"}: second}
	if diff := cmp.Diff(first, backlog); diff != "" {
		t.Errorf("backlog (-want +got):\n%s", diff)
	}
	createDue(t, w, "s@low-late", "low", now) // waits behind the others
	createDue(t, w, "s@other", "other", now)  // has room
	got, _ = claim(100, handover.Grant{Default: 2, Lanes: handover.Quotas{{Queue: "low"}: {Number: 28}, {Queue: "full"}: {Number: 1}, {Queue: "default"}: {Number: 0}}})
	want := []string{"full00", "other"}
	for i := range 28 {
		want = append(want, fmt.Sprintf("low%02d", i+2))
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("second claim (-want +got):\n%s", diff)
	}
	got, backlog = claim(100, handover.Grant{Default: 0, Lanes: handover.Quotas{{Queue: "low"}: {Number: 5}}})
	if diff := cmp.Diff([]string{"low-late"}, got); diff != "" {
		t.Errorf("third claim (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(handover.Backlog{{Queue: "default"}: time.Time{}, {Queue: "full"}: time.Time{}}, backlog); diff != "" {
		t.Errorf("backlog at the end (-want +got):\n%s", diff)
	}
}

func TestClaim_TakesNoWaitingTaskThatWasDueLater(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	now := w.DB.Time(w.Ctx).Val().Add(-time.Hour)
	var ref task.Ref
	for i := range 6 {
		ref = createDue(t, w, fmt.Sprintf("s@%d", i), "full", now.Add(time.Duration(i)*time.Second))
	}
	claim := func(q handover.Quota) int {
		claimed, err := w.Leader(ref).Claim(w.Ctx, 100, handover.Grant{Lanes: handover.Quotas{{Queue: "full"}: q}}, time.Second)
		testkit.Must(t, err)
		w.CheckSets()
		return len(claimed.Deliveries)
	}
	for i, c := range []struct {
		quota handover.Quota
		want  int
	}{
		{handover.Quota{}, 0},
		{handover.Quota{Number: 5, UpTo: now.Add(2500 * time.Millisecond)}, 3},
		{handover.Quota{Number: 5, UpTo: now}, 1}, // the first one
		{handover.Quota{Number: 5}, 2},
	} {
		if got := claim(c.quota); got != c.want {
			t.Errorf("claim %d took %d tasks, want %d", i, got, c.want)
		}
	}
}

func TestBacklog_CanBeListedChangedCancelledAndCounted(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	for i := range 4 {
		w.Create(task.Definition{Ref: task.Ref{Namespace: "default", ID: fmt.Sprintf("s@%d", i)}, Queue: "full"})
	}
	ref := task.Ref{Namespace: "default", ID: "s@0"}
	none := handover.Grant{Lanes: handover.Quotas{{Queue: "full"}: {Number: 0}}}
	if claimed, err := w.Leader(ref).Claim(w.Ctx, 10, none, time.Second); err != nil || len(claimed.Deliveries) != 0 {
		t.Fatalf("claimed %v, %v", claimed.Deliveries, err)
	}
	page, err := w.Tasks.List(w.Ctx, tasks.Filter{Namespace: "default", States: []task.State{task.Scheduled}}, 10, "")
	if err != nil || len(page.Tasks) != 4 {
		t.Errorf("listed %d, %v", len(page.Tasks), err)
	}
	before := w.Get(ref)
	if before.State != task.Scheduled || !before.DueAt.Equal(before.CreatedAt) {
		t.Errorf("it is %s, due at %s, want at %s", before.State, before.DueAt, before.CreatedAt)
	}
	testkit.Must(t, w.Requeue(before.Definition, "other", 0))
	_, err = w.Tasks.Cancel(w.Ctx, task.Ref{Namespace: "default", ID: "s@1"}, "")
	testkit.Must(t, err)
	w.CheckSets()
	if counts, err := w.Backlog(w.Ctx); err != nil || !maps.Equal(counts, map[string]int{"full": 2}) {
		t.Errorf("backlog %v, %v", counts, err)
	}
	p := w.PartitionOf(ref)
	depths, err := w.Partitions.Depths(w.Ctx, []int{1 - p, p})
	if err != nil || depths[p].Scheduled != 3 || depths[p].Overdue != 3 || depths[1-p].Scheduled != 0 {
		t.Errorf("depths %+v, %v", depths, err)
	}
	claimed, err := w.Leader(ref).Claim(w.Ctx, 10, none, time.Second)
	if err != nil || len(claimed.Deliveries) != 0 { // the default is 0 too
		t.Errorf("claimed %v, %v", claimed.Deliveries, err)
	}
	claimed, err = w.Leader(ref).Claim(w.Ctx, 10, handover.Grant{Lanes: handover.Quotas{{Queue: "other"}: {Number: 5}}}, time.Second)
	if err != nil || len(claimed.Deliveries) != 1 || claimed.Deliveries[0].Ref != ref || claimed.Deliveries[0].Queue != "other" {
		t.Errorf("claimed %v, %v", claimed.Deliveries, err)
	}
}

// Whatever takes the last waiting task of a queue takes the queue off the list.
func TestBacklog_ForgetsAQueueThatHasNone(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	var refs []task.Ref
	for i := range 2 {
		refs = append(refs, task.Ref{Namespace: "default", ID: fmt.Sprintf("s@%d", i)})
		w.Create(task.Definition{Ref: refs[i], Queue: fmt.Sprintf("typo%d", i)})
	}
	_, err := w.Leader(refs[0]).Claim(w.Ctx, 10, handover.Grant{}, time.Second)
	testkit.Must(t, err)
	if counts, err := w.Backlog(w.Ctx); err != nil || !maps.Equal(counts, map[string]int{"typo0": 1, "typo1": 1}) {
		t.Errorf("backlog %v, %v", counts, err)
	}
	_, err = w.Tasks.Cancel(w.Ctx, refs[0], "")
	testkit.Must(t, err)
	testkit.Must(t, w.Requeue(w.Get(refs[1]).Definition, "right", 0))
	if n := w.DB.SCard(w.Ctx, string(w.KeysOf(refs[0]).Backlog())).Val(); n != 0 {
		t.Errorf("%d queues are listed", n)
	}
	w.CheckSets()
}

func TestTakeBack_LetsATaskWaitForTheSameAttempt(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	ref := w.Bring("a", task.Queued)
	due := w.Get(ref).DueAt
	d := task.Delivery{Ref: ref, Attempt: 1}
	for range 2 {
		testkit.Must(t, w.Leader(ref).TakeBack(w.Ctx, []task.Delivery{d, {Ref: ref, Attempt: 7}}, false))
		w.CheckSets()
		if got := w.Get(ref); got.State != task.Scheduled || got.Attempt != 0 || !got.DueAt.Equal(due) {
			t.Fatalf("it is %s, attempt %d, due at %s", got.State, got.Attempt, got.DueAt)
		}
	}
	claimed, err := w.Leader(ref).Claim(w.Ctx, 10, handover.Grant{Lanes: handover.Quotas{{Queue: "default"}: {Number: 1}}}, time.Second)
	if err != nil || len(claimed.Deliveries) != 1 || claimed.Deliveries[0].Attempt != 1 {
		t.Errorf("claimed %v, %v", claimed.Deliveries, err)
	}
}

func TestClaim_TakesNothingEarly(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	ref := task.Ref{Namespace: "default", ID: "later"}
	w.Create(task.Definition{Ref: ref, Delay: time.Hour})
	claimed, err := w.Leader(ref).Claim(w.Ctx, 10, storetest.Quotas, time.Second)
	if err != nil || len(claimed.Deliveries) != 0 {
		t.Fatalf("claimed %v, %v", claimed.Deliveries, err)
	}
	if wait := claimed.Next.Sub(claimed.Now); wait <= 59*time.Minute || wait > time.Hour {
		t.Errorf("the next task is due in %s, want 1h", wait)
	}
}

// The clock of Redis went back by an hour: whatever lasted until then lasts for an hour more.
func TestLookAfter_CutsWhatIsFartherAheadThanItCanBe(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	ref := w.Bring("s@queued", task.Queued)
	native, short := w.Bring("s@native", task.Running), w.Bring("s@short", task.Running)
	remote, former := w.Bring("s@remote", task.Running), w.Bring("s@former", task.Running)
	keys := w.KeysOf(ref)
	for ref, token := range map[task.Ref]string{remote: "far#ABC:60000", former: "far#2BC"} {
		state := w.DB.HGet(w.Ctx, string(keys.States()), ref.String()).Val()
		testkit.Must(t, w.DB.HSet(w.Ctx, string(keys.States()), ref.String(), regexp.MustCompile(`\S+#\S+`).ReplaceAllString(state, token)).Err())
	}
	now := w.DB.Time(w.Ctx).Val()
	set := func(set string, ref task.Ref, ahead time.Duration) {
		testkit.Must(t, w.DB.ZAdd(w.Ctx, set, redis.Z{Score: float64(now.Add(ahead).UnixMilli()), Member: ref.String()}).Err())
	}
	set(string(keys.Held()), native, time.Hour)
	set(string(keys.Held()), remote, time.Hour)
	set(string(keys.Held()), former, time.Hour)
	set(string(keys.Held()), short, time.Second)
	set(string(keys.Queued()), ref, time.Hour)
	look := func(cut bool) partition.Watched {
		watched, err := w.Leader(ref).LookAfter(w.Ctx, partition.Look{Again: time.Second, Limit: 10, Cut: cut})
		testkit.Must(t, err)
		return watched
	}
	if got := look(false); len(got.Waiting) != 0 {
		t.Errorf("without a cut: %+v", got)
	}
	if got := look(true); len(got.Waiting) != 1 || got.Waiting[0].Ref != ref {
		t.Errorf("with a cut: %+v", got)
	}
	for member, want := range map[task.Ref]time.Duration{native: tasks.DefaultRunLease, short: time.Second, remote: time.Minute, former: contract.WorkerLeaseLimit} {
		ends := time.UnixMilli(int64(w.DB.ZScore(w.Ctx, string(keys.Held()), member.String()).Val()))
		if left := ends.Sub(now); left < want-time.Second || left > want+testkit.Limit {
			t.Errorf("the lease of %s lasts for %s, want %s", member, left, want)
		}
	}
}

// The first look of a new leader cuts, though no clock has jumped. The token does not name the lease, as in the release before.
func TestLookAfter_LeavesALeaseThatTheReleaseBeforeGaveAsItIs(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	ref := task.Ref{Namespace: "default", ID: "a"}
	w.Create(task.Definition{Ref: ref})
	w.Claim(ref)
	run, err := w.Tasks.Begin(w.Ctx, ref, 1, "far#ABCDEFGH2345")
	testkit.Must(t, err)
	testkit.Must(t, w.Tasks.ExtendFor(w.Ctx, time.Minute, []*tasks.Run{run})[0].Err)
	ends := func() float64 { return w.DB.ZScore(w.Ctx, string(w.KeysOf(ref).Held()), ref.String()).Val() }
	before := ends()
	_, err = w.Leader(ref).LookAfter(w.Ctx, partition.Look{Again: time.Second, Limit: 100, Cut: true})
	testkit.Must(t, err)
	if after := ends(); after != before {
		t.Errorf("the lease ends %.0f ms sooner", before-after)
	}
}

func TestLookAfter_FindsWhatNoWorkerBeganAndWhatNoWorkerHolds(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	queued, running := w.Bring("s@queued", task.Queued), w.Bring("s@running", task.Running)
	look := func() partition.Watched {
		watched, err := w.Leader(queued).LookAfter(w.Ctx, partition.Look{Again: time.Minute, Limit: 10})
		testkit.Must(t, err)
		return watched
	}
	if got := look(); len(got.Waiting) != 0 || len(got.Lapsed) != 0 || got.Next.IsZero() || got.Next.Sub(got.Now) > tasks.DefaultRunLease {
		t.Errorf("at first: %+v", got)
	}
	w.Lapse(running)
	testkit.Must(t, w.DB.ZAdd(w.Ctx, string(w.KeysOf(queued).Queued()), redis.Z{Score: 1, Member: queued.String()}).Err())
	got := look()
	if len(got.Waiting) != 1 || got.Waiting[0].String() != "default:s@queued:1" || got.Waiting[0].Type != "http" {
		t.Errorf("waiting: %v", got.Waiting)
	}
	if len(got.Lapsed) != 1 || got.Lapsed[0].Ref != running || got.Lapsed[0].Run != "node-a#1" {
		t.Errorf("lapsed: %v", got.Lapsed)
	}
	if got := look(); len(got.Waiting) != 0 || len(got.Lapsed) != 0 || got.More {
		t.Errorf("at once again: waiting %v, lapsed %v, more %v", got.Waiting, got.Lapsed, got.More)
	}
	w.Tasks.ExtendEach(w.Ctx, []*tasks.Run{w.Tasks.RunOf(w.Get(running))})
	if err := w.Leader(running).Reap(w.Ctx, got.Lapsed[0], got.Now, got.Until, partition.Loss{Reason: "lost"}); !errors.Is(err, tasks.ErrStale) {
		t.Errorf("reaped after it was extended: %v, want ErrStale", err)
	}
	if state := w.Get(running).State; state != task.Running {
		t.Errorf("extended after the look, and then reaped, it is %s", state)
	}
	w.Lapse(running)
	got = look()
	testkit.Must(t, w.Leader(running).Reap(w.Ctx, got.Lapsed[0], got.Now, got.Until, partition.Loss{Reason: "lost"}))
	if state := w.Get(running).State; state != task.Scheduled {
		t.Errorf("reaped, it is %s", state)
	}
}

func TestLookAfter_SparesRunsAndFindsAllQueuedTasksIfToldTo(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	queued, running := w.Bring("s@queued", task.Queued), w.Bring("s@running", task.Running)
	w.Lapse(running)
	look := func(l partition.Look) (waiting, lapsed int) {
		l.Again, l.Limit = time.Minute, 10
		watched, err := w.Leader(queued).LookAfter(w.Ctx, l)
		testkit.Must(t, err)
		return len(watched.Waiting), len(watched.Lapsed)
	}
	for i, step := range []struct {
		look            partition.Look
		waiting, lapsed int
	}{
		{partition.Look{SpareRuns: true}, 0, 0},
		{partition.Look{SpareRuns: true, All: true}, 1, 0},
		{partition.Look{SpareRuns: true, All: true}, 1, 0},
		{partition.Look{}, 0, 1},
		{partition.Look{}, 0, 0},
	} {
		if waiting, lapsed := look(step.look); waiting != step.waiting || lapsed != step.lapsed {
			t.Errorf("look %d found %d queued and %d lapsed, want %d and %d", i, waiting, lapsed, step.waiting, step.lapsed)
		}
	}
}

func TestSweep_ForgetsFinishedTasksByAgeAndByNumber(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	finish := func(id string, retention time.Duration) task.Ref {
		ref := task.Ref{Namespace: "default", ID: id}
		w.Create(task.Definition{Ref: ref, Retention: retention})
		run := w.Begin(ref)
		testkit.Must(t, run.Log(w.Ctx, 1, []tasks.Line{{Stream: "stdout", Text: "x"}}))
		testkit.Must(t, run.Finish(w.Ctx, task.Succeeded, task.OutcomeSucceeded, "", ""))
		return ref
	}
	sweep := func(keep int) {
		for p := range w.Partitions.Count() {
			_, err := w.Partitions.At(p).Lead(storetest.Fence).Sweep(w.Ctx, partition.Keep{Tasks: keep}, 10)
			testkit.Must(t, err)
		}
	}
	keys := func() []string { // of what there is besides the counters of wake-ups, which stay, and what was deleted lately
		return slices.DeleteFunc(slices.Sorted(maps.Keys(redistest.Dump(t, w.DB))), func(key string) bool {
			return strings.HasSuffix(key, ":wakes") || strings.HasSuffix(key, ":deleted")
		})
	}
	empty := keys()
	short, long := finish("short", time.Millisecond), finish("long", time.Hour)
	finished := w.DB.Time(w.Ctx).Val()
	testkit.Eventually(t, "the short retention is over", func() bool {
		return w.DB.Time(w.Ctx).Val().Sub(finished) >= 2*time.Millisecond
	})
	sweep(1000)
	if w.Get(short).State != task.None || w.Get(long).State != task.Succeeded {
		t.Errorf("by age: short is %q, long is %q", w.Get(short).State, w.Get(long).State)
	}
	sweep(0)
	if diff := cmp.Diff(empty, keys()); diff != "" {
		t.Errorf("keys (-at first +left):\n%s", diff)
	}
	w.CheckSets()
}

// Else nothing would end while Redis is full, and so nothing could be deleted.
func TestScripts_ThatEndAttemptsWorkOnAFullRedis(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	queued := w.Bring("queued", task.Queued)
	runs := make(map[string]*tasks.Run)
	for _, id := range []string{"succeeds", "fails", "again", "lost", "goes-on"} {
		runs[id] = w.Tasks.RunOf(w.Get(w.Bring(id, task.Running)))
	}
	lost := runs["lost"].Task
	w.Lapse(lost.Ref)
	testkit.Must(t, w.DB.ConfigSet(w.Ctx, "maxmemory", "1").Err())
	if created := w.Tasks.Create(w.Ctx, []task.Definition{{Ref: task.Ref{Namespace: "default", ID: "new"}, Type: "http"}})[0]; created.Err == nil {
		t.Fatal("Redis is not full")
	}
	for _, e := range w.Tasks.ExtendEach(w.Ctx, []*tasks.Run{runs["goes-on"]}) {
		testkit.Must(t, e.Err)
	}
	if _, err := w.Tasks.Begin(w.Ctx, queued, 1, "node-a#9"); err != nil {
		t.Errorf("begin: %v", err)
	}
	for i, err := range w.Tasks.FinishEach(w.Ctx, []tasks.End{
		{Run: runs["again"], State: task.Scheduled, Outcome: task.OutcomeFailed, Reason: "boom", Delay: time.Hour},
		{Run: runs["succeeds"], State: task.Succeeded, Outcome: task.OutcomeSucceeded, Result: "done"},
		{Run: runs["fails"], State: task.Failed, Outcome: task.OutcomeFailed, Reason: "boom"},
	}) {
		if err != nil {
			t.Errorf("end %d: %v", i, err)
		}
	}
	testkit.Must(t, w.Leader(lost.Ref).Reap(w.Ctx, lost, time.Now(), time.Time{}, partition.Loss{Reason: "lost"}))
	for id, want := range map[string]task.State{
		"queued": task.Running, "again": task.Scheduled, "succeeds": task.Succeeded, "fails": task.Failed, "lost": task.Scheduled, "goes-on": task.Running,
	} {
		if got := w.Get(task.Ref{Namespace: "default", ID: id}).State; got != want {
			t.Errorf("%s is %s, want %s", id, got, want)
		}
	}
	w.CheckSets()
}

func TestClaim_AnUnreadableTaskHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	good, bad := task.Ref{Namespace: "default", ID: "s@good"}, task.Ref{Namespace: "default", ID: "s@bad"}
	w.Create(task.Definition{Ref: bad})
	w.Create(task.Definition{Ref: good})
	testkit.Must(t, w.DB.HSet(w.Ctx, string(w.KeysOf(bad).Defs()), bad.String(), "no line break").Err())
	if got := w.Claim(good); len(got) != 1 || got[0].Ref != good {
		t.Errorf("claimed %v", got)
	}
	testkit.Must(t, w.DB.ZAdd(w.Ctx, string(w.KeysOf(bad).Queued()), redis.Z{Member: bad.String()}, redis.Z{Member: good.String()}).Err())
	watched, err := w.Leader(good).LookAfter(w.Ctx, partition.Look{Again: time.Minute, Limit: 10})
	if err != nil || len(watched.Waiting) != 1 || watched.Waiting[0].Ref != good {
		t.Errorf("to look after: %+v, %v", watched, err)
	}
}

// A log may have megabytes, which take Redis a while to free.
func TestSweep_HasLogsFreedOutsideOfTheScript(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	ref := task.Ref{Namespace: "default", ID: "talks"}
	w.Create(task.Definition{Ref: ref})
	run := w.Begin(ref)
	lines := make([]tasks.Line, task.LogLimit)
	for i := range lines {
		lines[i] = tasks.Line{Stream: "stdout", Text: strings.Repeat("x", task.LogLineLimit)}
	}
	testkit.Must(t, run.Log(w.Ctx, 1, lines))
	testkit.Must(t, run.Finish(w.Ctx, task.Succeeded, task.OutcomeSucceeded, "", ""))
	freed := func() string {
		return regexp.MustCompile(`lazyfreed_objects:\d+`).FindString(w.DB.Info(w.Ctx, "memory").Val())
	}
	before := freed()
	swept, err := w.Leader(ref).Sweep(w.Ctx, partition.Keep{}, 10)
	if err != nil || swept.Deleted != 1 {
		t.Fatalf("%+v, %v", swept, err)
	}
	testkit.Eventually(t, "a thread of Redis has freed something", func() bool { return freed() != before })
}
