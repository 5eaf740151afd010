package control

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/redisx"
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

func TestGetNode_TakesANameThatOneNodeHas(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.nodes = fleet{
		{ID: "vm-1", Name: "vm", State: "dead"}, {ID: "vm-2", Name: "vm", State: "draining"},
		{ID: "b-1", Name: "b", State: "dead"}, {ID: "c-1", Name: "c"}, {ID: "c-2", Name: "c"}, {ID: "c", Name: "vm-1"},
		{ID: "d-1", Name: "d"}, {ID: "d-2", Name: "d"},
	}
	for node, want := range map[string]string{"vm": "vm-2", "b": "b-1", "c": "c", "vm-1": "vm-1"} {
		if d, err := w.GetNode(w.ctx, me, node); err != nil || d.ID != want || d.Node == nil || d.Node.ID != want {
			t.Errorf("%s: %+v, %v; want %s", node, d, err, want)
		}
	}
	const want = `node: 2 nodes have the name "d": give the id of one of them, d-1, d-2`
	if _, err := w.GetNode(w.ctx, me, "d"); task.CodeOf(err) != task.CodeInvalid || err.Error() != want {
		t.Errorf("a name of two nodes: %v", err)
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

// barred is what somebody asked of the list of nodes.
type barred map[string]cluster.Cordon

func (b barred) Cordon(_ context.Context, node string, c cluster.Cordon, lasts time.Duration) error {
	c.Until = time.Time{}.Add(lasts)
	b[node] = c
	return nil
}

func (b barred) Uncordon(_ context.Context, node string) (bool, error) {
	_, was := b[node]
	delete(b, node)
	return was, nil
}

func TestCordonNode_TakesAnIDOrAName(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cordons := barred{}
	w.cordons = cordons
	w.nodes = fleet{{ID: "vm-1", Name: "vm"}, {ID: "vm-2", Name: "vm"}, {ID: "other", Name: "other"}}
	how := Cordoning{Note: "a new kernel", For: time.Hour}
	for name, want := range map[string]int{"vm": 2, "vm-2": 1} {
		nodes, err := w.CordonNode(w.ctx, me, name, how)
		if err != nil || len(nodes) != want {
			t.Errorf("%s: %d nodes, %v; want %d", name, len(nodes), err, want)
		}
		got := cordons[name]
		if got.By != me.By() || got.Note != how.Note || got.Until.Sub(time.Time{}) != how.For {
			t.Errorf("%s is cordoned as %+v", name, got)
		}
	}
	until := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	w.nodes = fleet{{ID: "vm-1", Name: "vm", Cordon: &cluster.Cordon{Of: "vm", Until: until, Drain: true}}}
	for _, c := range []struct {
		node string
		how  Cordoning
		want string
	}{
		{"vm", how, "[vm was drained: now it is only cordoned, and what runs there is asked to move no more]"},
		{"vm", Cordoning{Drain: true}, "[vm was cordoned until 2026-01-02T03:04:05Z: now it is cordoned until somebody " +
			"uncordons it]"},
		{"vm", Cordoning{For: time.Hour, Drain: true}, "[]"},
		{"vm-1", Cordoning{}, "[]"}, // the cordon of the name goes on
	} {
		ctx, left := redisx.LeavingOut(w.ctx)
		_, err := w.CordonNode(ctx, me, c.node, c.how)
		if got := fmt.Sprint(left.Texts()); err != nil || got != c.want {
			t.Errorf("%+v: %v, %s; want %s", c, err, got, c.want)
		}
	}
	if _, err := w.CordonNode(w.ctx, me, "nobody", how); task.CodeOf(err) != CodeNodeNotFound {
		t.Errorf("a node that nobody knows: %v", err)
	}
	if _, err := w.CordonNode(w.ctx, me, "vm", Cordoning{Note: "a\nb"}); task.CodeOf(err) != task.CodeInvalid {
		t.Errorf("a note of two lines: %v", err)
	}
	for _, lasts := range []time.Duration{-1, time.Millisecond, 366 * 24 * time.Hour} {
		if _, err := w.CordonNode(w.ctx, me, "vm", Cordoning{For: lasts}); task.CodeOf(err) != task.CodeInvalid {
			t.Errorf("for %s: %v", lasts, err)
		}
	}
	if len(cordons) != 3 {
		t.Errorf("cordoned are %v", cordons)
	}
}

// What was cordoned by a name can be uncordoned, also if no node has the name any more.
func TestUncordonNode_EndsWhatIsNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cordons = barred{"gone": {}, "vm-1": {}}
	w.nodes = fleet{{ID: "vm-1", Name: "vm"}}
	for name, want := range map[string]int{"gone": 0, "vm-1": 1, "vm": 1} {
		nodes, err := w.UncordonNode(w.ctx, me, name)
		if err != nil || len(nodes) != want {
			t.Errorf("%s: %d nodes, %v; want %d", name, len(nodes), err, want)
		}
	}
	if _, err := w.UncordonNode(w.ctx, me, "gone"); task.CodeOf(err) != CodeNodeNotFound {
		t.Errorf("a node that nobody knows: %v", err)
	}
}
