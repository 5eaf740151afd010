package partition_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/handover"
	"github.com/dts-sched/dts/internal/limit"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua/contract"
)

// inLane creates tasks of the type shell and has a leader put them into their lane; they are in one partition.
func inLane(w *storetest.World, t *testing.T, n int) []task.Ref {
	t.Helper()
	refs := make([]task.Ref, n)
	for i := range refs {
		refs[i] = sibling(i)
		w.Create(task.Definition{Ref: refs[i], Type: "shell"})
	}
	testkit.Must(t, w.Leader(refs[0]).TakeBack(w.Ctx, w.Claim(refs[0]), true))
	w.CheckSets()
	return refs
}

// sibling names tasks that share a partition, as a schedule's do.
func sibling(i int) task.Ref { return task.Ref{Namespace: "default", ID: fmt.Sprint("s@", i)} }

func TestClaim_LeavesALaneAloneUntilItHasAQuota(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	refs := inLane(w, t, 3)
	later, other := sibling(3), sibling(4)
	w.Create(task.Definition{Ref: later, Type: "shell"})
	w.Create(task.Definition{Ref: other})
	claim := func(q handover.Grant) []string {
		claimed, err := w.Leader(refs[0]).Claim(w.Ctx, 100, q, time.Second)
		testkit.Must(t, err)
		w.CheckSets()
		var ids []string
		for _, d := range claimed.Deliveries {
			if d.Attempt != 1 {
				t.Errorf("%s is attempt %d", d.Ref, d.Attempt)
			}
			ids = append(ids, d.Ref.ID)
		}
		return ids
	}
	if got := claim(storetest.Quotas); !cmp.Equal(got, []string{other.ID}) {
		t.Errorf("without a quota for the lane, it claimed %v", got)
	}
	if n, err := w.Backlog(w.Ctx); err != nil || n["default"] != 4 || len(n) != 1 {
		t.Errorf("the backlog is %v, %v: a lane counts for its queue", n, err)
	}
	quotas := handover.Grant{Default: 1000, Lanes: handover.Quotas{{Queue: "default", Type: "shell"}: {Number: 2}}}
	if got := claim(quotas); !cmp.Equal(got, []string{"s@0", "s@1"}) {
		t.Errorf("with a quota of 2, it claimed %v", got)
	}
	quotas.Lanes[handover.Lane{Queue: "default", Type: "shell"}] = handover.Quota{Number: 1000}
	if got := claim(quotas); !cmp.Equal(got, []string{"s@2", "s@3"}) {
		t.Errorf("with any quota, it claimed %v", got)
	}
	if n := w.DB.SCard(w.Ctx, string(w.KeysOf(refs[0]).Backlog())).Val(); n != 0 {
		t.Errorf("%d sets with a backlog are listed", n)
	}
}

// Tasks of the type may wait in the set of their queue, as nobody knew of the lane before.
func TestClaim_MovesWaitingTasksIntoTheirLane(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	for i := range 6 {
		w.Create(task.Definition{Ref: sibling(i), Type: []string{"shell", "http"}[i%2]})
	}
	none := handover.Grant{Lanes: handover.Quotas{{Queue: "default"}: {}}}
	_, err := w.Leader(sibling(0)).Claim(w.Ctx, 100, none, time.Second)
	testkit.Must(t, err)
	quotas := handover.Grant{Lanes: handover.Quotas{{Queue: "default"}: {Number: 4}, {Queue: "default", Type: "shell"}: {}}}
	claimed, err := w.Leader(sibling(0)).Claim(w.Ctx, 100, quotas, time.Second)
	testkit.Must(t, err)
	w.CheckSets()
	if len(claimed.Deliveries) != 2 || claimed.Deliveries[0].Ref != sibling(1) || claimed.Deliveries[1].Ref != sibling(3) {
		t.Errorf("claimed %v, want those of the other type among the first four", claimed.Deliveries)
	}
	if len(claimed.Backlog) != 2 {
		t.Errorf("the backlog is %v, want the queue and the lane", claimed.Backlog)
	}
}

func TestLane_ItsTasksCanBeSeenChangedAndCancelled(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	refs := inLane(w, t, 3)
	page, err := w.Tasks.List(w.Ctx, tasks.Filter{Namespace: "default", Queue: "default", States: []task.State{task.Scheduled}}, 10, "")
	if err != nil || len(page.Tasks) != 3 {
		t.Errorf("listed are %v, %v", page.Tasks, err)
	}
	due := w.Get(refs[0]).DueAt
	testkit.Must(t, w.Requeue(w.Get(refs[0]).Definition, "other", 0))
	w.CheckSets()
	if got := w.Get(refs[0]); got.Queue != "other" || !got.DueAt.Equal(due) {
		t.Errorf("moved, it is in %s and due at %s", got.Queue, got.DueAt)
	}
	for _, ref := range refs[1:] {
		got, err := w.Tasks.Cancel(w.Ctx, ref, "")
		if err != nil || got.State != task.Cancelled {
			t.Errorf("cancelled, it is %s, %v", got.State, err)
		}
		w.CheckSets()
	}
	if n, err := w.Backlog(w.Ctx); err != nil || len(n) != 0 {
		t.Errorf("the backlog is %v, %v", n, err)
	}
}

// fillLanes lists names of lanes in the partition of a task, until there is room for so many more.
func fillLanes(w *storetest.World, t *testing.T, in task.Ref, free int) (names []any) {
	t.Helper()
	for i := range contract.LanesLimit - free {
		names = append(names, fmt.Sprintf("default * k%d 1", i))
	}
	testkit.Must(t, w.DB.SAdd(w.Ctx, string(w.KeysOf(in).Backlog()), names...).Err())
	return names
}

// Beyond the lanes of a partition, a task that cannot wait with others is put off by a second, until there is a lane.
// It holds no slot, and others go on.
func TestClaim_PutsOffTasksWithoutALane(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		def  task.Definition
		lane handover.Lane
	}{
		"limits": {task.Definition{LimitKey: "new"}, laneUnder("key:new")},
		"reach":  {task.Definition{Type: "report", Reach: inEurope}, european},
		"both": {task.Definition{Type: "report", Reach: inEurope, LimitKey: "new"}, handover.Lane{
			Queue: task.DefaultQueue, Type: "report", Fair: handover.Fair{Limits: "key:new"}, Reach: inEurope,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := storetest.New(t)
			c.def.Ref = w.NameIn(0, task.DefaultNamespace, "beyond")
			wheel := string(w.KeysOf(c.def.Ref).Wheel())
			names := fillLanes(w, t, c.def.Ref, 0)
			d := newDesk(t, w, c.def.Ref, map[string]limit.Rule{"key:*": {Slots: 1}})
			d.known = true
			w.Create(c.def)
			for round := range 2 {
				free := w.Create(task.Definition{Ref: w.NameIn(0, task.DefaultNamespace, fmt.Sprint("free", round))}).Ref
				claimed := d.claim(handover.Lane{Queue: "other"}, 1, nil)
				if diff := cmp.Diff(map[string]string{free.ID: ""}, nodesOf(claimed)); diff != "" {
					t.Fatalf("round %d: claimed (-want +got):\n%s", round, diff)
				}
				got, want := w.Get(c.def.Ref), claimed.Now.Add(time.Second)
				if got.State != task.Scheduled || !got.DueAt.Equal(want) || !claimed.Next.Equal(want) {
					t.Errorf("round %d: it is %s, due at %s, and the next look is at %s; want it due at %s",
						round, got.State, got.DueAt, claimed.Next, want)
				}
				if held := d.holders(c.def.Ref, "key:new"); len(held) > 0 || len(claimed.Backlog) > 0 {
					t.Errorf("round %d: %v hold a slot, and %v wait", round, held, claimed.Backlog)
				}
				due := redis.Z{Score: float64(claimed.Now.UnixMilli()), Member: c.def.Ref.String()} // a second later
				testkit.Must(t, w.DB.ZAdd(w.Ctx, wheel, due).Err())
			}
			testkit.Must(t, w.DB.SRem(w.Ctx, string(w.KeysOf(c.def.Ref).Backlog()), names...).Err())
			claimed := d.claim(handover.Lane{Queue: "other"}, 1, nil)
			if _, waits := claimed.Backlog[c.lane]; !waits {
				t.Errorf("with a lane, %v wait, want %v", claimed.Backlog, c.lane)
			}
			w.CheckSets()
			if n := len(d.takeOf(c.lane, 1, "n1").Deliveries); n != 1 {
				t.Errorf("with a lane, %d were claimed", n)
			}
			w.CheckSets()
		})
	}
}
