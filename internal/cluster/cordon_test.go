package cluster_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

const cordonsKey = "dts:cordons"

// serving is a worker node of that name, which beats only when it is told to.
func serving(t *testing.T, db *redisx.DB, id, name string) *node {
	t.Helper()
	self := func() cluster.Node {
		n := worker()
		n.Name, n.Queues, n.Capacity = name, map[string]int{"default": 1}, 4
		return n
	}
	return run(t, cluster.Options{DB: db, ID: id, Beat: never, Self: self, Cordons: cordonsKey}).awaitReady()
}

// cordoned returns the ids of the nodes that are cordoned in a view.
func cordoned(v cluster.View) (ids []string) {
	for _, n := range v.Nodes {
		if n.Cordon != nil {
			ids = append(ids, n.ID)
		}
	}
	return ids
}

// seesCordons waits until a node knows that these are cordoned.
func (n *node) seesCordons(ids ...string) {
	n.t.Helper()
	testkit.Eventually(n.t, n.View().At.String()+": cordoned are "+strings.Join(ids, ", "), func() bool {
		return cmp.Equal(ids, cordoned(n.View()))
	})
}

// All nodes hear of a cordon at once, also the one that it is about, and serve no queue while it lasts.
func TestCordon_ReachesAllNodesAtOnce(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	a, b := serving(t, db, "a", "vm"), serving(t, db, "b", "vm")
	testkit.Eventually(t, "a knows b", func() bool { return len(a.View().Nodes) == 2 })
	changed, stop := a.Watch()
	defer stop()
	testkit.Must(t, a.Cordon(t.Context(), "b", cluster.Cordon{By: "ann", Note: "a new kernel"}, 0))
	testkit.Receive(t, changed, "the signal of the cordon")
	a.seesCordons("b")
	b.seesCordons("b")
	nodes, err := a.Nodes(t.Context())
	testkit.Must(t, err)
	if c := nodes[1].Cordon; c == nil || c.By != "ann" || c.Note != "a new kernel" || !c.Until.IsZero() ||
		redisTime(t, db).Sub(c.Since).Abs() > time.Minute {
		t.Errorf("the cordon is %+v", c)
	}
	if len(nodes[1].Queues) > 0 || len(nodes[1].Cordon.Queues) != 1 || len(nodes[0].Queues) == 0 {
		t.Errorf("a serves %v, and b, which is cordoned, %v", nodes[0].Queues, nodes[1].Queues)
	}
	if a.View().CordonOf("b", "vm") == nil || a.View().CordonOf("a", "vm") != nil {
		t.Error("the view of a says something else")
	}
	was, err := b.Uncordon(t.Context(), "b")
	testkit.Must(t, err)
	testkit.Receive(t, changed, "the signal of its end")
	a.seesCordons()
	b.seesCordons()
	again, err := b.Uncordon(t.Context(), "b")
	if err != nil || !was || again {
		t.Errorf("there was a cordon: %t, and once more: %t, %v", was, again, err)
	}
}

// A name is that of several nodes, also of one that starts later.
func TestCordon_HoldsForAllOfAName(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	a := serving(t, db, "a", "vm")
	testkit.Must(t, a.Cordon(t.Context(), "vm", cluster.Cordon{}, 0))
	serving(t, db, "b", "other")
	var seen []string
	self := func() cluster.Node { return cluster.Node{Roles: []string{"worker"}, Name: "vm"} }
	late := run(t, cluster.Options{
		DB: db, ID: "c", Beat: never, Self: self, Cordons: cordonsKey,
		Seen: func(v cluster.View) { seen = append(seen, strings.Join(cordoned(v), " ")) },
	}).awaitReady()
	late.leave()
	if len(seen) == 0 || seen[0] != "a c" {
		t.Errorf("at its first heartbeat it saw the cordons of %v", seen)
	}
	a.seesCordons("a")
}

// A cordon that ends by itself is none any more, and goes with the next one.
func TestCordon_EndsByItself(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	a := serving(t, db, "a", "vm")
	testkit.Must(t, a.Cordon(t.Context(), "a", cluster.Cordon{}, time.Hour))
	a.seesCordons("a")
	nodes, err := a.Nodes(t.Context())
	testkit.Must(t, err)
	if c := nodes[0].Cordon; c.Until.Sub(c.Since) != time.Hour {
		t.Errorf("it lasts from %s until %s", c.Since, c.Until)
	}
	testkit.Must(t, db.HSet(t.Context(), cordonsKey, "a", "1 2 {}").Err())
	a.BeatNow()
	a.seesCordons()
	testkit.Must(t, a.Cordon(t.Context(), "b", cluster.Cordon{}, 0))
	if left := db.HKeys(t.Context(), cordonsKey).Val(); !cmp.Equal(left, []string{"b"}) {
		t.Errorf("Redis has the cordons of %v", left)
	}
}

// Every node reads all cordons at each heartbeat, so there is a bound of them. One that is there can be replaced.
func TestCordon_HasALimit(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	o := cluster.NewObserver(cluster.Options{DB: db, Key: key, Channel: key, Cordons: cordonsKey})
	defer o.Close()
	for i := range cluster.CordonsLimit {
		testkit.Must(t, o.Cordon(t.Context(), strings.Repeat("n", i+1), cluster.Cordon{}, 0))
	}
	testkit.Must(t, o.Cordon(t.Context(), "n", cluster.Cordon{Note: "again"}, 0))
	if err := o.Cordon(t.Context(), "more", cluster.Cordon{}, 0); task.CodeOf(err) != cluster.CodeTooManyCordons {
		t.Errorf("one more: %v", err)
	}
	_, err := o.Uncordon(t.Context(), "n")
	testkit.Must(t, err)
	testkit.Must(t, o.Cordon(t.Context(), "more", cluster.Cordon{}, 0))
}

// What somebody has written by hand keeps no node from being read, and no other cordon.
func TestCordon_LeavesOutWhatNobodyCanRead(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	a := serving(t, db, "a", "vm")
	for name, text := range map[string]string{"x": "", "y": "1 x {}", "z": "1 0 {"} {
		testkit.Must(t, db.HSet(t.Context(), cordonsKey, name, text).Err())
	}
	testkit.Must(t, a.Cordon(t.Context(), "a", cluster.Cordon{}, 0))
	a.seesCordons("a")
	ctx, left := redisx.LeavingOut(context.WithoutCancel(t.Context()))
	if nodes, err := a.Nodes(ctx); err != nil || len(nodes) != 1 || len(left.Texts()) != 3 {
		t.Errorf("%d nodes, %v, and left out: %q", len(nodes), err, left.Texts())
	}
}

// While the cordons cannot be read, those that are known stay in force.
func TestCordon_HoldsOnWhileItCannotBeRead(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	a := serving(t, db, "a", "vm")
	testkit.Must(t, a.Cordon(t.Context(), "a", cluster.Cordon{}, 0))
	a.seesCordons("a")
	testkit.Must(t, db.Del(t.Context(), cordonsKey).Err())
	testkit.Must(t, db.Set(t.Context(), cordonsKey, "no hash", 0).Err())
	before := a.View().At
	a.BeatNow()
	testkit.Eventually(t, "another heartbeat", func() bool { return a.View().At.After(before) })
	a.seesCordons("a")
	ctx, left := redisx.LeavingOut(context.WithoutCancel(t.Context()))
	nodes, err := a.Nodes(ctx)
	if err != nil || len(nodes) != 1 || nodes[0].Cordon == nil {
		t.Errorf("the list of nodes: %+v, %v", nodes, err)
	}
	const want = "it is not known which nodes are cordoned: "
	if texts := left.Texts(); len(texts) != 1 || !strings.HasPrefix(texts[0], want) {
		t.Errorf("left out: %q", texts)
	}
}
