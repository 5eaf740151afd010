package partition_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/handover"
	"github.com/dts-sched/dts/internal/limit"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

const inEurope = "gpu,zone~in~(eu,us);;round"

// european is the lane of tasks that may run there only.
var european = handover.Lane{Queue: task.DefaultQueue, Type: "report", Reach: inEurope}

// claimTo claims tasks of the partition of a task, of which the next of a lane go to nodes.
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
