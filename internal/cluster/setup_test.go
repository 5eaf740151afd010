package cluster_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/testkit"
)

const (
	key   = "dts:nodes"
	brief = 400 * time.Millisecond // a beat of which a test can see many
	never = time.Hour              // a beat that does not come again while a test runs
)

func TestMain(m *testing.M) { testkit.Main(m) }

// node is a registry that runs.
type node struct {
	*cluster.Registry
	t     *testing.T
	end   context.CancelFunc
	ended chan error
}

// run starts a node that ends with the test.
func run(t *testing.T, o cluster.Options) *node {
	t.Helper()
	o.Key = key
	ctx, cancel := context.WithCancel(context.Background())
	n := &node{Registry: cluster.New(o), t: t, end: cancel, ended: make(chan error, 1)}
	go func() {
		defer close(n.ended)
		n.ended <- n.Run(ctx)
	}()
	t.Cleanup(n.leave)
	return n
}

// leave ends the node and waits for its end; it can be called again.
func (n *node) leave() {
	n.end()
	select {
	case err := <-n.ended:
		if err != nil {
			n.t.Errorf("Run returned %v", err)
		}
	case <-time.After(testkit.Limit):
		n.t.Error("Run did not return")
	}
}

func (n *node) awaitReady() *node {
	n.t.Helper()
	testkit.Receive(n.t, n.Ready(), "the node is ready")
	return n
}

// awaitView waits, by Watch alone, until the view fulfils the condition, and returns it.
func (n *node) awaitView(what string, condition func(cluster.View) bool) cluster.View {
	n.t.Helper()
	changed, stop := n.Watch()
	defer stop()
	for {
		if v := n.View(); condition(v) {
			return v
		}
		testkit.Receive(n.t, changed, "a change of the view after which "+what)
	}
}

func sees(id, state string) func(cluster.View) bool {
	return func(v cluster.View) bool { return stateOf(v.Nodes, id) == state }
}

// stateOf is "" for a node that is not on the list.
func stateOf(nodes []cluster.Node, id string) string {
	for _, n := range nodes {
		if n.ID == id {
			return n.State
		}
	}
	return ""
}

func worker() cluster.Node { return cluster.Node{Roles: []string{"worker"}} }

// write puts an entry on the list whose last beat was some time ago by Redis's clock.
func write(t *testing.T, db *redisx.DB, id string, ago time.Duration, text string) {
	t.Helper()
	beat := redisTime(t, db).Add(-ago).UnixMilli()
	if err := db.HSet(t.Context(), key, id, fmt.Sprintf("%d %s", beat, text)).Err(); err != nil {
		t.Fatal(err)
	}
}

func redisTime(t *testing.T, db *redisx.DB) time.Time {
	t.Helper()
	now, err := db.Time(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	return now
}

// behindProxy is a client whose way to srv can be broken.
func behindProxy(t *testing.T, srv *redistest.Server) (*redisx.DB, *redistest.Proxy) {
	t.Helper()
	proxy := redistest.NewProxy(t, srv.Addr())
	return redistest.Open(t, proxy.URL()), proxy
}
