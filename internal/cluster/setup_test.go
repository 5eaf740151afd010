package cluster_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
)

const (
	key   = "dts:nodes"
	brief = 200 * time.Millisecond // a beat of which a test can see many
	never = time.Hour              // a beat that does not come again while a test runs
	limit = 20 * time.Second       // for anything that must happen
)

func TestMain(m *testing.M) {
	logging.Disable() // Redis goes away on purpose here, and go-redis says so on stderr
	goleak.VerifyTestMain(m)
}

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
	case <-time.After(limit):
		n.t.Error("Run did not return")
	}
}

func (n *node) awaitReady() *node {
	n.t.Helper()
	select {
	case <-n.Ready():
	case <-time.After(limit):
		n.t.Fatal("the node did not become ready")
	}
	return n
}

// awaitView waits, by Watch alone, until the view is so.
func (n *node) awaitView(what string, so func(cluster.View) bool) cluster.View {
	n.t.Helper()
	changed, stop := n.Watch()
	defer stop()
	end := time.After(limit)
	for {
		if v := n.View(); so(v) {
			return v
		}
		select {
		case <-changed:
		case <-end:
			n.t.Fatalf("the view never showed that %s: %+v", what, n.View())
		}
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

// awaitEnd waits for the end of ctx and says why it ended.
func awaitEnd(ctx context.Context, t *testing.T) error {
	t.Helper()
	select {
	case <-ctx.Done():
	case <-time.After(limit):
		t.Fatal("the context did not end")
	}
	return context.Cause(ctx)
}

// eventually polls until it is so.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	again := time.NewTicker(3 * time.Millisecond)
	defer again.Stop()
	end := time.After(limit)
	for !so() {
		select {
		case <-again.C:
		case <-end:
			t.Fatalf("it never happened that %s", what)
		}
	}
}

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
