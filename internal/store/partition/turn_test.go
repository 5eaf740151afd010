package partition_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/handover"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua/contract"
)

// full has no room in the queue default.
var full = handover.Grant{Lanes: handover.Quotas{{Queue: "default"}: {}}}

// room grants n tasks of each of some lanes of the queue default, and none of the rest of it.
func room(n int, fair ...handover.Fair) handover.Grant {
	g := handover.Grant{Lanes: handover.Quotas{{Queue: "default"}: {}}}
	for _, f := range fair {
		g.Lanes[handover.Lane{Queue: "default", Fair: f}] = handover.Quota{Number: n}
	}
	return g
}

// claimIDs claims what is granted, and returns the ids and what was found.
func claimIDs(w *storetest.World, t *testing.T, g handover.Grant) (ids []string, found handover.Backlog) {
	t.Helper()
	got, err := w.Leader(sibling(0)).Claim(w.Ctx, 100, g, time.Second)
	testkit.Must(t, err)
	w.CheckSets()
	for _, d := range got.Deliveries {
		ids = append(ids, d.Ref.ID)
	}
	return ids, got.Backlog
}

// wantIDs compares ids of siblings with their numbers.
func wantIDs(t *testing.T, what string, got []string, want ...int) {
	t.Helper()
	var ids []string
	for _, i := range want {
		ids = append(ids, sibling(i).ID)
	}
	if !cmp.Equal(got, ids) {
		t.Errorf("%s: claimed %v, want %v", what, got, ids)
	}
}

// waitingTasks creates tasks that were due a second after each other, and lets them wait, as there is no room.
func waitingTasks(w *storetest.World, t *testing.T, defs ...task.Definition) (since time.Time) {
	t.Helper()
	now, err := w.Now(w.Ctx, 0)
	testkit.Must(t, err)
	since = now.Add(-time.Minute).Truncate(time.Millisecond)
	for i, d := range defs {
		d.Ref = sibling(i)
		w.Create(d)
		due := float64(since.Add(time.Duration(i) * time.Second).UnixMilli())
		testkit.Must(t, w.DB.ZAdd(w.Ctx, string(w.KeysOf(d.Ref).Wheel()), redis.Z{Score: due, Member: d.Ref.String()}).Err())
	}
	if ids, _ := claimIDs(w, t, full); len(ids) > 0 {
		t.Fatalf("without room, it claimed %v", ids)
	}
	return since
}

func TestClaim_APriorityCountsAsTimeThatATaskHasWaited(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	since := waitingTasks(w, t, task.Definition{}, task.Definition{Priority: 1}, task.Definition{Priority: 9},
		task.Definition{Queue: "default", Priority: 1, Type: "other"})
	for i, want := range []int{2, 1, 3, 0} {
		if got := w.Get(sibling(i)); !got.DueAt.Equal(since.Add(time.Duration(i) * time.Second)) {
			t.Errorf("task %d is due at %s, want %s", i, got.DueAt, since.Add(time.Duration(i)*time.Second))
		}
		ids, found := claimIDs(w, t, room(1, handover.Fair{}))
		wantIDs(t, fmt.Sprint("turn ", i), ids, want)
		if i == 0 && !found[handover.Lane{Queue: "default"}].Equal(since.Add(-29*time.Second)) {
			t.Errorf("the next one counts from %s, want 29 s before %s", found[handover.Lane{Queue: "default"}], since)
		}
	}
	for i := range 4 {
		if got := w.Get(sibling(i)); !got.DueAt.Equal(since.Add(time.Duration(i) * time.Second)) {
			t.Errorf("claimed, task %d was due at %s", i, got.DueAt)
		}
	}
}

// One that has just become due overtakes those that wait, if its priority says so.
func TestClaim_AnUrgentTaskOvertakesThoseThatWait(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	waitingTasks(w, t, task.Definition{}, task.Definition{})
	w.Create(task.Definition{Ref: sibling(2), Priority: 1}) // 30 s are less than the minute that the others have waited
	w.Create(task.Definition{Ref: sibling(3), Priority: 3})
	ids, _ := claimIDs(w, t, room(1, handover.Fair{}))
	wantIDs(t, "with room for one", ids, 3)
	w.Create(task.Definition{Ref: sibling(4), Priority: 3})
	_, found := claimIDs(w, t, full)
	now, err := w.Now(w.Ctx, 0)
	testkit.Must(t, err)
	first := found[handover.Lane{Queue: "default"}]
	if ahead := now.Sub(first); ahead < 89*time.Second || ahead > 95*time.Second {
		t.Errorf("the first one counts from %s before now, want 90 s", ahead)
	}
	ids, _ = claimIDs(w, t, room(10, handover.Fair{}))
	wantIDs(t, "with room for all", ids, 4, 0, 1, 2)
}

func TestClaim_TakesOfEachFairKeyWhatItsLaneMay(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	a, b := handover.Fair{Key: "a", Weight: 1}, handover.Fair{Key: "b", Weight: 3}
	defs := []task.Definition{
		{FairKey: "a"}, {FairKey: "a"}, {FairKey: "b", FairWeight: 3}, {}, {FairKey: "a"}, {FairKey: "b", FairWeight: 3},
	}
	waitingTasks(w, t, defs...)
	ids, found := claimIDs(w, t, room(1, a, b))
	wantIDs(t, "one of each", slices.Sorted(slices.Values(ids)), 0, 2)
	for _, fair := range []handover.Fair{a, b} {
		if found[handover.Lane{Queue: "default", Fair: fair}].IsZero() {
			t.Errorf("found is %v, want also since when %v waits", found, fair)
		}
	}
	if n, err := w.Backlog(w.Ctx); err != nil || n["default"] != 4 {
		t.Errorf("the backlog is %v, %v, want 4 of the queue", n, err)
	}
	// One that comes new waits for its turn, as others wait.
	w.Create(task.Definition{Ref: sibling(6), FairKey: "c"})
	ids, _ = claimIDs(w, t, room(1, handover.Fair{}, a))
	wantIDs(t, "the one without a key, and one of a", slices.Sorted(slices.Values(ids)), 1, 3)
	ids, _ = claimIDs(w, t, room(5, a, b, handover.Fair{Key: "c", Weight: 1}))
	wantIDs(t, "all others", slices.Sorted(slices.Values(ids)), 4, 5, 6)
	if n := w.DB.SCard(w.Ctx, string(w.KeysOf(sibling(0)).Backlog())).Val(); n != 0 {
		t.Errorf("%d names are listed", n)
	}
}

// In a record, limit_key comes behind the fields that name the lane of a task: scripts find the lane as without it.
func TestClaim_DeliversLimitKeys(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	defs := []task.Definition{
		{LimitKey: "b,a"}, {FairKey: "k", LimitKey: "b"}, {FairKey: "k", FairWeight: 3, LimitKey: "b"}, {FairKey: "k"}, {},
		{FairKey: "k", FairWeight: 3, Priority: 1, LimitKey: "a,b,c", Labels: map[string]string{"a": "b"}},
	}
	waitingTasks(w, t, defs...)
	one, three := handover.Fair{Key: "k", Weight: 1}, handover.Fair{Key: "k", Weight: 3}
	for fair, want := range map[handover.Fair]map[string]string{
		{}:    {sibling(0).ID: "b,a", sibling(4).ID: ""},
		one:   {sibling(1).ID: "b", sibling(3).ID: ""},
		three: {sibling(2).ID: "b", sibling(5).ID: "a,b,c"},
	} {
		claimed, err := w.Leader(sibling(0)).Claim(w.Ctx, 100, room(10, fair), time.Second)
		testkit.Must(t, err)
		got := map[string]string{}
		for _, d := range claimed.Deliveries {
			got[d.Ref.ID] = d.LimitKey
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("of the lane %+v (-want +got):\n%s", fair, diff)
		}
	}
}

// While nothing waits, tasks of all keys share what the queue may get.
func TestClaim_FairKeysShareTheRoomOfTheirQueue(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	for i := range 6 {
		w.Create(task.Definition{Ref: sibling(i), FairKey: fmt.Sprint("k", i%3)})
	}
	ids, found := claimIDs(w, t, room(4, handover.Fair{}))
	if len(ids) != 4 || len(found) != 2 {
		t.Errorf("claimed %v, want 4; found %v, want two keys", ids, found)
	}
}

func TestFairLane_ItsTasksCanBeChangedAndCancelled(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	since := waitingTasks(w, t, task.Definition{FairKey: "a", Priority: 4}, task.Definition{FairKey: "a"},
		task.Definition{FairKey: "a", Type: "shell"})
	testkit.Must(t, w.Requeue(w.Get(sibling(0)).Definition, "other", 0))
	w.CheckSets()
	if got := w.Get(sibling(0)); got.Queue != "other" || !got.DueAt.Equal(since) {
		t.Errorf("moved, it is in %s and due at %s, want %s", got.Queue, got.DueAt, since)
	}
	for i := 1; i < 3; i++ {
		got, err := w.Tasks.Cancel(w.Ctx, sibling(i), "")
		if err != nil || got.State != task.Cancelled {
			t.Errorf("cancelled, it is %s, %v", got.State, err)
		}
		w.CheckSets()
	}
	if n := w.DB.SCard(w.Ctx, string(w.KeysOf(sibling(0)).Backlog())).Val(); n != 0 {
		t.Errorf("%d names are listed", n)
	}
}

// Where nobody runs a type, its tasks wait apart, and begin to take turns when somebody does.
func TestFairLane_NobodyServesItsTasks(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	for i := range 4 {
		w.Create(task.Definition{Ref: sibling(i), Type: "rare", FairKey: fmt.Sprint("k", i%2), Priority: i})
	}
	g := room(10, handover.Fair{})
	g.Served = ",default, http \n"
	if ids, found := claimIDs(w, t, g); len(ids) > 0 || len(found) > 0 {
		t.Errorf("claimed %v, found %v", ids, found)
	}
	names := w.DB.SMembers(w.Ctx, string(w.KeysOf(sibling(0)).Backlog())).Val()
	slices.Sort(names)
	if !cmp.Equal(names, []string{"default rare k0 1", "default rare k1 1"}) {
		t.Errorf("they wait under %v", names)
	}
	g.Served = ",default, http rare \n"
	ids, found := claimIDs(w, t, g)
	wantIDs(t, "as somebody runs it", ids)
	if len(found) != 2 {
		t.Errorf("found %v, want two lanes", found)
	}
	for lane := range found {
		g.Lanes[lane] = handover.Quota{Number: 10}
	}
	ids, _ = claimIDs(w, t, g)
	wantIDs(t, "with quotas", slices.Sorted(slices.Values(ids)), 0, 1, 2, 3)
}

func TestFairLane_TooManyKeysWaitWithoutALane(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	k := w.KeysOf(sibling(0))
	names := make([]any, contract.LanesLimit-1)
	for i := range names {
		names[i] = fmt.Sprintf("default * k%d 1", i)
	}
	testkit.Must(t, w.DB.SAdd(w.Ctx, string(k.Backlog()), names...).Err())
	g := full
	g.Known = true
	for i := range 4 {
		w.Create(task.Definition{Ref: sibling(i), FairKey: fmt.Sprint("new", i%2)})
	}
	got, err := w.Leader(sibling(0)).Claim(w.Ctx, 100, g, time.Second)
	testkit.Must(t, err)
	if len(got.Deliveries) > 0 || len(got.Backlog) != 2 {
		t.Fatalf("claimed %v, found %v, want a lane and the queue", got.Deliveries, got.Backlog)
	}
	g.Lanes = handover.Quotas{{Queue: "default"}: {Number: 10}}
	got, err = w.Leader(sibling(0)).Claim(w.Ctx, 100, g, time.Second)
	testkit.Must(t, err)
	if len(got.Deliveries) != 2 {
		t.Errorf("claimed %v, want the two without a lane", got.Deliveries)
	}
}

// Tasks that were due at the same ms come in the order of their names, from the wheel and from where they wait.
func TestClaim_TakesTasksDueAtOnceByName(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	for _, i := range []int{3, 1, 4, 0, 2, 5} {
		w.Create(task.Definition{Ref: sibling(i)})
		at := redis.Z{Score: 1_700_000_000_000, Member: sibling(i).String()}
		testkit.Must(t, w.DB.ZAdd(w.Ctx, string(w.KeysOf(sibling(i)).Wheel()), at).Err())
	}
	ids, _ := claimIDs(w, t, room(2, handover.Fair{}))
	wantIDs(t, "from the wheel", ids, 0, 1)
	ids, _ = claimIDs(w, t, room(10, handover.Fair{}))
	wantIDs(t, "from where they wait", ids, 2, 3, 4, 5)
}

// An urgent task of a key that has just become due goes first within the turns of its key, while others wait.
func TestClaim_AnUrgentTaskOfAKeyGoesFirst(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	a := handover.Fair{Key: "a", Weight: 1}
	waitingTasks(w, t, task.Definition{FairKey: "a"}, task.Definition{FairKey: "a"}, task.Definition{})
	w.Create(task.Definition{Ref: sibling(3), FairKey: "a", Priority: 9})
	ids, _ := claimIDs(w, t, room(2, a, handover.Fair{}))
	wantIDs(t, "with two turns of each", slices.Sorted(slices.Values(ids)), 2, 3)
	ids, _ = claimIDs(w, t, room(2, a))
	wantIDs(t, "with two more", ids, 0, 1)
}
