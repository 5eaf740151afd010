package control

import (
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// lapse ends the lease of a run.
func (w *world) lapse(ref task.Ref) {
	w.t.Helper()
	over := float64(w.now().Add(-time.Second).UnixMilli())
	testkit.Must(w.t, w.db.ZAdd(w.ctx, w.partitionKey(ref, "held"), z(over, ref.String())).Err())
}

// What a node took with it is known, and where it runs now, also when the node is on the list no more.
func TestGetNode_TellsWhatItHasLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.nodes = fleet{}
	if _, err := w.GetNode(w.ctx, me, "node"); task.CodeOf(err) != CodeNodeNotFound {
		t.Errorf("a node that nobody knows: %v, want %s", err, CodeNodeNotFound)
	}
	a := w.due("a", "default")
	lead := w.store.Partitions.At(w.store.PartitionOf(a)).Lead(fence)
	node := w.begun(a).Task.Node
	w.lapse(a)
	for range 2 { // the second one is refused, and not listed
		running, err := w.store.Tasks.Find(w.ctx, a)
		testkit.Must(t, err)
		_ = lead.Reap(w.ctx, running, time.Now(), time.Time{}, partition.Loss{Reason: "node died"})
	}
	d, err := w.GetNode(w.ctx, me, node)
	testkit.Must(t, err)
	if d.Node != nil || len(d.Lost) != 1 {
		t.Fatalf("got %+v", d)
	}
	if l := d.Lost[0]; l.Ref != a || l.Number != 1 || l.Task.State != task.Scheduled {
		t.Errorf("got %+v", l)
	}
	if time.Since(d.Lost[0].At).Abs() > time.Minute {
		t.Errorf("it was lost at %s", d.Lost[0].At)
	}
	w.nodes = leading(0, nil, "default")
	if d, err := w.GetNode(w.ctx, me, "node"); err != nil || d.Node == nil || d.Node.ID != "node" {
		t.Errorf("a node on the list: %+v, %v", d, err)
	}
}

// Of the attempts that were lost, a partition keeps the newest 100.
func TestGetNode_IsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.nodes = fleet{}
	a := w.due("a", "default")
	key := w.partitionKey(a, "lost")
	for range 150 {
		testkit.Must(t, w.db.LPush(w.ctx, key, "1767366240000 default:gone:1 n1").Err())
	}
	testkit.Must(t, w.db.LPush(w.ctx, key, "no attempt").Err())
	lead := w.store.Partitions.At(w.store.PartitionOf(a)).Lead(fence)
	w.begun(a)
	w.lapse(a)
	running, err := w.store.Tasks.Find(w.ctx, a)
	testkit.Must(t, err)
	testkit.Must(t, lead.Reap(w.ctx, running, time.Now(), time.Time{}, partition.Loss{Reason: "node died"}))
	if n := w.db.LLen(w.ctx, key).Val(); n != 100 {
		t.Errorf("%d are kept", n)
	}
	d, err := w.GetNode(w.ctx, me, "n1")
	if err != nil || len(d.Lost) != 98 || d.Lost[0].Task.State != "" {
		t.Errorf("%d of the node, %v", len(d.Lost), err)
	}
}
