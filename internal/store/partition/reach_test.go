package partition_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/handover"
	"github.com/dts-sched/dts/internal/limit"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
)

const inEurope = "gpu,zone~in~(eu,us);;round"

// european is the lane of tasks that may run there only.
var european = handover.Lane{Queue: task.DefaultQueue, Type: "report", Reach: inEurope}

// claimTo claims tasks of the partition of a task. The next ones of a lane go to nodes.
func claimTo(t *testing.T, w *storetest.World, in task.Ref, lane handover.Lane, nodes ...string) partition.Claimed {
	t.Helper()
	grant := storetest.Quotas
	grant.Lanes = handover.Quotas{lane: {Number: len(nodes), Nodes: nodes}}
	claimed, err := w.Leader(in).Claim(w.Ctx, 100, grant, time.Second)
	testkit.Must(t, err)
	return claimed
}

// nodesOf are the nodes to which claimed tasks go, by id.
func nodesOf(c partition.Claimed) map[string]string {
	nodes := make(map[string]string)
	for _, d := range c.Deliveries {
		nodes[d.Ref.ID] = d.Node
	}
	return nodes
}

// Tasks that say where they may run wait until the leader says to which nodes they go, and hold up nobody.
func TestClaim_HandsTasksOverToNodes(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	create := func(id, reach string) task.Ref {
		return w.Create(task.Definition{Ref: w.NameIn(0, task.DefaultNamespace, id), Type: "report", Reach: reach}).Ref
	}
	kept := w.Create(task.Definition{
		Ref: w.NameIn(0, task.DefaultNamespace, "0"), Type: "report", Retention: time.Hour, // its record begins alike
	}).Ref
	a, b, c, free := create("a", inEurope), create("b", inEurope), create("c", inEurope), create("d", "")
	claimed := claimTo(t, w, a, handover.Lane{Queue: "other"}, "n1")
	if diff := cmp.Diff(map[string]string{free.ID: "", kept.ID: ""}, nodesOf(claimed)); diff != "" {
		t.Error(diff)
	}
	if _, waits := claimed.Backlog[european]; !waits {
		t.Errorf("%v wait, want the lane of the reach", claimed.Backlog)
	}
	claimed = claimTo(t, w, a, european, "n2", "n1")
	if diff := cmp.Diff(map[string]string{a.ID: "n2", b.ID: "n1"}, nodesOf(claimed)); diff != "" {
		t.Error(diff)
	}
	if got := w.Get(a); got.Placed != "n2" || got.State != task.Queued {
		t.Errorf("it is %s, and goes to %q", got.State, got.Placed)
	}
	if got := w.Get(c); got.State != task.Scheduled || got.Placed != "" {
		t.Errorf("the third one is %s, and goes to %q", got.State, got.Placed)
	}
	w.CheckSets()
}

// What a node leaves comes back into the lane, and goes to another one.
func TestTakeBack_OfWhatWentToOneNode(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	a := w.Create(task.Definition{
		Ref: w.NameIn(0, task.DefaultNamespace, "a"), Type: "report", Reach: inEurope, FairKey: "k",
	}).Ref
	lane := european
	lane.Fair = handover.Fair{Key: "k", Weight: 1}
	claimTo(t, w, a, handover.Lane{Queue: "other"})
	claimed := claimTo(t, w, a, lane, "n1")
	if diff := cmp.Diff(map[string]string{a.ID: "n1"}, nodesOf(claimed)); diff != "" {
		t.Fatal(diff)
	}
	testkit.Must(t, w.Leader(a).TakeBack(w.Ctx, claimed.Deliveries, true))
	w.CheckSets()
	again := claimTo(t, w, a, lane, "n2")
	if diff := cmp.Diff(map[string]string{a.ID: "n2"}, nodesOf(again)); diff != "" {
		t.Fatal(diff)
	}
	if got := again.Deliveries[0].Attempt; got != 1 {
		t.Errorf("it is attempt %d, want the first one", got)
	}
	if _, err := w.Tasks.Begin(w.Ctx, a, 1, "n1#1"); !errors.Is(err, tasks.ErrLeftover) {
		t.Errorf("it begins on another node: %v", err)
	}
	run, err := w.Tasks.Begin(w.Ctx, a, 1, "n2#1")
	testkit.Must(t, err)
	end := tasks.End{Run: run, State: task.Succeeded, Outcome: task.OutcomeSucceeded}
	testkit.Must(t, w.Tasks.FinishEach(w.Ctx, []tasks.End{end})[0])
	if got := w.Get(a); got.State != task.Succeeded {
		t.Errorf("it is %s", got.State)
	}
	w.CheckSets()
}

// A task of a node can be under limits, too.
func TestClaim_HandsLimitedTasksOverToNodes(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	first := w.NameIn(0, task.DefaultNamespace, "first")
	for i := range 4 {
		w.Create(task.Definition{
			Ref: w.NameIn(0, task.DefaultNamespace, fmt.Sprint("a", i)), Type: "report", LimitKey: "a", Reach: inEurope,
		})
	}
	d := newDesk(t, w, first, map[string]limit.Rule{"key:*": {Slots: 2}})
	lane := european
	lane.Limits = "key:a"
	claimed := d.takeOf(lane, 4, "n1", "n2", "n1", "n2")
	nodes := nodesOf(claimed)
	if len(nodes) != 2 || len(d.holders(first, "key:a")) != 2 {
		t.Errorf("%v were claimed, and %v hold slots", nodes, d.holders(first, "key:a"))
	}
	for id, node := range nodes {
		if !strings.HasPrefix(node, "n") {
			t.Errorf("%s goes to %q", id, node)
		}
	}
	if n := claimed.Numbers[lane]; n != 2 {
		t.Errorf("%d tasks wait in the lane, want 2: %v", n, claimed.Backlog)
	}
	w.CheckSets()
}

// A task that waits where it may run can be changed and cancelled.
func TestReach_ItsTasksCanBeCancelled(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	a := w.Create(task.Definition{Ref: w.NameIn(0, task.DefaultNamespace, "a"), Type: "report", Reach: inEurope}).Ref
	claimTo(t, w, a, handover.Lane{Queue: "other"})
	if _, err := w.Tasks.Cancel(w.Ctx, a, ""); err != nil {
		t.Fatal(err)
	}
	if got := claimTo(t, w, a, european, "n1"); len(got.Deliveries) != 0 {
		t.Errorf("%v were claimed", got.Deliveries)
	}
	w.CheckSets()
}

// A task that a node has given up waits apart from others, and the next claim says where it goes.
func TestClaim_KnowsWhatWasGivenUp(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	testkit.Must(t, w.Store.Advance(w.Ctx, func(context.Context) ([]cluster.Node, error) { return nil, nil }))
	for _, reach := range []string{"", inEurope} {
		ref := w.Create(task.Definition{
			Ref: w.NameIn(0, task.DefaultNamespace, "a"+fmt.Sprint(len(reach))), Type: "report", Reach: reach,
		}).Ref
		own := handover.Lane{Queue: task.DefaultQueue, Type: "report", Reach: reach}
		claim := func() partition.Claimed {
			if reach == "" {
				return claimTo(t, w, ref, handover.Lane{Queue: "other"})
			}
			return claimTo(t, w, ref, own, "n1")
		}
		claim()
		claimed := claim()
		run, err := w.Tasks.Begin(w.Ctx, ref, 1, "n1#1")
		testkit.Must(t, err)
		_, err = w.Tasks.Move(w.Ctx, run, tasks.Asked{To: "n-2", By: "ops at 1:2"})
		testkit.Must(t, err)
		end := tasks.End{Run: run, State: task.Scheduled, Outcome: task.OutcomeMoved, Last: 26}
		testkit.Must(t, w.Tasks.FinishEach(w.Ctx, []tasks.End{end})[0])
		got := w.Get(ref)
		if got.MovedFrom != "n1" || got.MoveTo != "n-2" || got.MoveBy != "ops at 1:2" || got.MoveRequested.IsZero() {
			t.Errorf("it is %+v", got)
		}
		moved := own
		moved.Reach = "^n1^n-2^" + reach
		claimed = claim()
		if _, waits := claimed.Backlog[moved]; !waits || len(claimed.Deliveries) != 0 {
			t.Errorf("%v wait, and %v were claimed; want it in the lane %v", claimed.Backlog, claimed.Deliveries, moved)
		}
		w.CheckSets()
		name := lua.Lane{Queue: moved.Queue, Type: moved.Type, Reach: moved.Reach}.Name()
		ready := string(w.KeysOf(ref).Ready(name))
		testkit.Must(t, w.DB.ZAdd(w.Ctx, ready, redis.Z{Score: 1, Member: "default:first"}).Err())
		if before, err := w.CountReadyBefore(w.Ctx, got); err != nil || before.Tasks != 1 {
			t.Errorf("%+v come before it, %v; want the task in its lane", before, err)
		}
		testkit.Must(t, w.DB.ZRem(w.Ctx, ready, "default:first").Err())
		ended, err := w.Tasks.Attempts(w.Ctx, ref)
		testkit.Must(t, err)
		if got := w.Get(ref); !got.DueAt.Equal(ended[0].FinishedAt) {
			t.Errorf("it is due at %s, want when it was given up, at %s", got.DueAt, ended[0].FinishedAt)
		}
		claimed = claimTo(t, w, ref, moved, "n2")
		all := claimed.Deliveries
		if len(all) != 1 || all[0].Node != "n2" || handover.LaneOf(all[0]) != moved {
			t.Fatalf("%+v were claimed", all)
		}
		w.CheckSets()
		if got := w.Get(ref); got.Placed != "n2" || got.MovedFrom != "" || !got.MoveRequested.IsZero() {
			t.Errorf("then it is %+v", got)
		}
		testkit.Must(t, w.Leader(ref).TakeBack(w.Ctx, claimed.Deliveries, true))
		w.CheckSets()
		if again := claimTo(t, w, ref, own, "n1"); len(again.Deliveries) != 1 {
			t.Errorf("what the node has not taken waits in %v", again.Backlog)
		}
	}
}

// A task that was given up moves also if its definition changes meanwhile, or if it can wait in its lane only later.
func TestClaim_ForgetsNoMove(t *testing.T) {
	t.Parallel()
	other := handover.Lane{Queue: "other"}
	change := func(w *storetest.World, ref task.Ref) {
		after := w.Get(ref).Definition
		after.Owner = "me"
		_, err := w.Tasks.Change(w.Ctx, w.Get(ref).Definition, after, tasks.NewDue{}, 0)
		testkit.Must(t, err)
	}
	for name, do := range map[string]func(w *storetest.World, ref task.Ref, lane string){
		"changed on the wheel": func(w *storetest.World, ref task.Ref, _ string) { change(w, ref) },
		"changed in its lane": func(w *storetest.World, ref task.Ref, _ string) {
			claimTo(t, w, ref, other)
			change(w, ref)
		},
		"its lane is broken": func(w *storetest.World, ref task.Ref, lane string) {
			k := w.KeysOf(ref)
			testkit.Must(t, w.DB.Set(w.Ctx, string(k.Ready(lane)), "x", 0).Err())
			claimTo(t, w, ref, other)
			testkit.Must(t, w.DB.Del(w.Ctx, string(k.Ready(lane))).Err())
			testkit.Must(t, w.DB.ZIncrBy(w.Ctx, string(k.Wheel()), -10_000, ref.String()).Err()) // it is due again
		},
	} {
		w := storetest.New(t)
		testkit.Must(t, w.Store.Advance(w.Ctx, func(context.Context) ([]cluster.Node, error) { return nil, nil }))
		ref := w.Create(task.Definition{Ref: anyTask}).Ref
		end := tasks.End{Run: w.Begin(ref), State: task.Scheduled, Outcome: task.OutcomeMoved, Last: 26}
		testkit.Must(t, w.Tasks.FinishEach(w.Ctx, []tasks.End{end})[0])
		of := w.Get(ref)
		lane := handover.Lane{Queue: of.Queue, Type: of.Type, Reach: "^" + of.MovedFrom + "^^"}
		do(w, ref, lua.Lane{Queue: lane.Queue, Type: lane.Type, Reach: lane.Reach}.Name())
		claimed := claimTo(t, w, ref, other)
		if _, waits := claimed.Backlog[lane]; !waits || len(claimed.Deliveries) > 0 {
			t.Errorf("%s: %+v were claimed, and %v wait", name, claimed.Deliveries, claimed.Backlog)
		}
		w.CheckSets()
	}
}

// A task that was given up and waits can be cancelled, on the wheel and in its lane.
func TestCancel_OfWhatWasGivenUp(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	testkit.Must(t, w.Store.Advance(w.Ctx, func(context.Context) ([]cluster.Node, error) { return nil, nil }))
	for _, claims := range []int{0, 1} {
		ref := w.Create(task.Definition{Ref: w.NameIn(0, task.DefaultNamespace, fmt.Sprint(claims))}).Ref
		run := w.Begin(ref)
		end := tasks.End{Run: run, State: task.Scheduled, Outcome: task.OutcomeMoved, Last: 26}
		testkit.Must(t, w.Tasks.FinishEach(w.Ctx, []tasks.End{end})[0])
		for range claims {
			claimTo(t, w, ref, handover.Lane{Queue: "other"})
		}
		if got := w.Get(ref); got.State != task.Scheduled || got.MovedFrom == "" || got.DueAt.IsZero() {
			t.Errorf("it is %+v", got)
		}
		_, err := w.Tasks.Cancel(w.Ctx, ref, "")
		testkit.Must(t, err)
		w.CheckSets()
		if got := w.Get(ref); got.State != task.Cancelled {
			t.Errorf("it is %s", got.State)
		}
	}
}
