package test

import (
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/testkit"
)

// yard is three nodes, each with four slots. Nodes a and b are in zone eu and c is in zone us; a has the weight 3.
type yard struct {
	t     *testing.T
	redis *redistest.Server
	nodes map[string]*node // by name
	far   *recorder
}

func newYard(t *testing.T) *yard {
	t.Helper()
	y := &yard{t: t, redis: redistest.Start(t), nodes: make(map[string]*node), far: newRecorder(t)}
	for name, labels := range map[string]string{"a": "zone=eu,weight=3", "b": "zone=eu", "c": "zone=us"} {
		y.nodes[name] = startNode(t, y.redis.URL(), "--concurrency", "4", "--node-name", name, "--labels", labels)
	}
	await(t, 30*time.Second, "all nodes lead", func() bool { return len(y.nodes["a"].partitions(y.nodes["c"].id)) > 0 })
	return y
}

// submit hands in n tasks of a route, which call a path of a recorder.
func (y *yard) submit(far *recorder, id, path string, n int, change func(i int, s *wire.Submission)) {
	y.t.Helper()
	all := make([]wire.Submission, n)
	for i := range all {
		all[i] = far.task(fmt.Sprintf("%s-%d", id, i), path)
		change(i, &all[i])
	}
	y.nodes["b"].submit(all...)
}

// by has tasks go by a route.
func by(route wire.RouteBy, order ...string) func(int, *wire.Submission) {
	return func(_ int, s *wire.Submission) { s.Route = &wire.Route{By: &route, Order: order} }
}

// ran returns the names of the nodes on which the tasks of a route are or were, by id.
func (y *yard) ran(id string, states ...wire.State) map[string]string {
	y.t.Helper()
	names := make(map[string]string)
	for _, t := range y.nodes["b"].all(states...) {
		if strings.HasPrefix(t.ID, id+"-") {
			names[t.ID] = y.nameOf(*t.Node)
		}
	}
	return names
}

func (y *yard) nameOf(id string) string {
	for name, n := range y.nodes {
		if n.id == id {
			return name
		}
	}
	return id
}

// counts waits until n tasks of a route are in a state, and returns on how many of them are on each node.
func (y *yard) counts(id string, n int, state wire.State) map[string]int {
	y.t.Helper()
	var names map[string]string
	await(y.t, 30*time.Second, fmt.Sprintf("%d of %s are %s", n, id, state), func() bool {
		names = y.ran(id, state)
		return len(names) == n
	})
	counts := make(map[string]int)
	for _, name := range names {
		counts[name]++
	}
	return counts
}

// expect fails unless each node has as many tasks as it should.
func (y *yard) expect(what string, got map[string]int, a, b, c int) {
	y.t.Helper()
	if got["a"] != a || got["b"] != b || got["c"] != c {
		y.t.Errorf("%s: %v, want %d on a, %d on b, %d on c", what, got, a, b, c)
	}
}

// Each rule that XXL-Job has for the choice of a node, on three real nodes. There, a node is chosen when the task is
// due, whether it is busy or not. Here, no node gets a task for which it has no free slot. It runs several programs for
// some seconds.
func TestRoutes_OfThreeNodes(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	t.Run("Turns", y.testTurns) // the first one, as a route counts what nodes got before
	t.Run("FirstAndLast", y.testFirst)
	t.Run("BusyOver", y.testBusyOver)
	t.Run("Hash", y.testHash)
	t.Run("Selector", y.testSelector)
	t.Run("Slots", y.testSlots)
	t.Run("LeastRunning", y.testLeastRunning)
	t.Run("Elsewhere", y.testElsewhere)
	t.Run("Failover", y.testFailover) // ends b
}

// The first node in the order of the names gets all that it has slots for, and then the next one.
func (y *yard) testFirst(t *testing.T) {
	y.t = t
	for route, want := range map[wire.RouteBy][3]int{"first": {4, 2, 0}, "last": {0, 2, 4}} {
		far := newRecorder(t)
		y.submit(far, string(route), "/block", 6, by(route))
		y.expect(string(route), y.counts(string(route), 6, wire.StateRunning), want[0], want[1], want[2])
		close(far.block)
		y.counts(string(route), 6, wire.StateSucceeded)
	}
}

// If all nodes of the order are busy, a task waits for one of them, and holds up nobody.
func (y *yard) testBusyOver(t *testing.T) {
	y.t = t
	far := newRecorder(t)
	y.submit(far, "busy", "/block", 10, by("busy_over", "c", "a"))
	y.expect("busy_over", y.counts("busy", 8, wire.StateRunning), 4, 0, 4)
	y.submit(y.far, "other", "/ok", 5, func(int, *wire.Submission) {})
	y.expect("tasks without a route", y.counts("other", 5, wire.StateSucceeded), 0, 5, 0)
	if n := len(y.ran("busy", wire.StateRunning)); n != 8 {
		t.Errorf("%d run, want 8", n)
	}
	close(far.block)
	y.counts("busy", 10, wire.StateSucceeded)
}

// Tasks that come a few at a time go to all nodes alike, or as their weights say.
func (y *yard) testTurns(t *testing.T) {
	y.t = t
	const n, wave = 30, 3
	for _, c := range []struct {
		by    wire.RouteBy
		least [3]int // of n tasks, on a, b and c: each leader takes turns by itself
	}{
		{"least_used", [3]int{6, 6, 6}},
		{"round", [3]int{6, 6, 6}},
		{"random", [3]int{1, 1, 1}},
		{"least_running", [3]int{1, 1, 1}},
		{"longest_idle", [3]int{6, 6, 6}},
		{"weighted_round", [3]int{13, 2, 2}},
		{"weighted", [3]int{20, 0, 0}},
	} {
		got := make(map[string]int)
		for i := range n / wave {
			id := fmt.Sprint(c.by, "-", i)
			y.submit(y.far, id, "/ok", wave, by(c.by))
			for name, k := range y.counts(id, wave, wire.StateSucceeded) {
				got[name] += k
			}
		}
		t.Logf("%s: %v", c.by, got)
		if got["a"] < c.least[0] || got["b"] < c.least[1] || got["c"] < c.least[2] {
			t.Errorf("%s: %v, want at least %v on a, b and c", c.by, got, c.least)
		}
	}
}

// Each key has its node.
func (y *yard) testHash(t *testing.T) {
	y.t = t
	hash, sticky := wire.RouteBy("hash"), wire.StickyRequire
	y.submit(y.far, "hash", "/ok", 40, func(i int, s *wire.Submission) {
		s.Route = &wire.Route{By: &hash, Key: ptr(fmt.Sprint("key", i%10)), Sticky: &sticky}
	})
	y.counts("hash", 40, wire.StateSucceeded)
	nodes, used := make(map[string]string), make(map[string]bool)
	for id, name := range y.ran("hash", wire.StateSucceeded) {
		key := id[len(id)-1:] // its last digit
		used[name] = true
		if before, known := nodes[key]; known && before != name {
			t.Errorf("tasks of key %s ran on %s and %s", key, before, name)
		}
		nodes[key] = name
	}
	if len(used) < 2 {
		t.Errorf("all keys have the node %v", used)
	}
}

// A task waits for a node that its selector demands, and its preferences say which is better.
func (y *yard) testSelector(t *testing.T) {
	y.t = t
	y.submit(y.far, "us", "/ok", 6, func(_ int, s *wire.Submission) { s.Select = ptr("zone in (us, ap)") })
	y.expect("a selector", y.counts("us", 6, wire.StateSucceeded), 0, 0, 6)
	y.submit(y.far, "better", "/ok", 4, func(_ int, s *wire.Submission) {
		s.Prefer = wire.Preferences{{Select: "zone=us", Weight: ptr(10)}, {Select: "weight>2", Weight: ptr(5)}}
	})
	y.expect("preferences", y.counts("better", 4, wire.StateSucceeded), 0, 0, 4)
	y.submit(y.far, "nowhere", "/ok", 1, func(_ int, s *wire.Submission) { s.Select = ptr("zone=ap,weight") })
	if w := y.nodes["b"].awaitTask("nowhere-0", "no_node"); !strings.Contains(w.Detail, "0 satisfy zone=ap") {
		t.Errorf("it waits: %s", w.Detail)
	}
	fresh := startNode(t, y.redis.URL(), "--node-name", "d", "--labels", "zone=ap,weight=1", "--concurrency", "1")
	await(t, 30*time.Second, "it runs on a node that comes", y.nodes["b"].is("nowhere-0", wire.StateSucceeded))
	fresh.stop()
}

// slots has tasks hold several slots of their node.
func slots(n int, selector string) func(int, *wire.Submission) {
	return func(_ int, s *wire.Submission) { s.Slots, s.Select = &n, &selector }
}

// taken is how many slots of a node are taken, as its heartbeat says.
func (y *yard) taken(name string) int {
	y.t.Helper()
	answer, err := y.nodes["b"].ListNodesWithResponse(y.t.Context(), nil)
	if err != nil || answer.JSON200 == nil {
		y.t.Fatalf("nodes: %v, %s", err, answer.Body)
	}
	for _, n := range answer.JSON200.Nodes {
		if n.ID == y.nodes[name].id {
			return n.Running
		}
	}
	return 0
}

// The route least_running counts slots: node a has one task of three slots, and b two tasks of one slot.
func (y *yard) testLeastRunning(t *testing.T) {
	y.t = t
	far := newRecorder(t)
	y.submit(far, "wide", "/block", 1, slots(3, "name=a"))
	y.submit(far, "narrow", "/block", 2, slots(1, "name=b"))
	y.expect("three slots", y.counts("wide", 1, wire.StateRunning), 1, 0, 0)
	y.expect("one slot each", y.counts("narrow", 2, wire.StateRunning), 0, 2, 0)
	await(t, 10*time.Second, "both say so", func() bool { return y.taken("a") == 3 && y.taken("b") == 2 })
	y.submit(y.far, "least", "/ok", 1, func(i int, s *wire.Submission) {
		by("least_running")(i, s)
		s.Select = ptr("zone=eu")
	})
	y.expect("least_running", y.counts("least", 1, wire.StateSucceeded), 0, 1, 0)
	close(far.block)
	y.counts("wide", 1, wire.StateSucceeded)
	y.counts("narrow", 2, wire.StateSucceeded)
}

// Two tasks of two slots, or one beside two others, run on a node of four slots. One that waits for slots begins before
// many that came later. One that is larger than all nodes says so.
func (y *yard) testSlots(t *testing.T) {
	y.t = t
	far := newRecorder(t)
	y.submit(far, "two", "/block", 6, slots(2, "zone=eu"))
	y.expect("two slots", y.counts("two", 4, wire.StateRunning), 2, 2, 0)
	y.submit(far, "one", "/block", 6, func(int, *wire.Submission) {})
	y.expect("tasks of one slot", y.counts("one", 4, wire.StateRunning), 0, 0, 4)
	await(t, 10*time.Second, "all slots of a are taken", func() bool { return y.taken("a") == 4 })
	running := y.ran("two", wire.StateRunning)
	for i := range 6 {
		if id := fmt.Sprint("two-", i); running[id] == "" {
			if w := y.nodes["b"].awaitTask(id, "node_full"); !strings.Contains(w.Detail, "It needs 2 slots of") {
				t.Errorf("a task of two slots waits: %s", w.Detail)
			}
		}
	}
	close(far.block)
	y.counts("two", 6, wire.StateSucceeded)
	y.counts("one", 6, wire.StateSucceeded)

	y.submit(y.far, "large", "/ok", 1, slots(5, "zone=eu"))
	w := y.nodes["b"].awaitTask("large-0", "no_node")
	if !strings.Contains(w.Detail, "needs 5 slots of a node. Of the nodes that match,") {
		t.Errorf("a task of five slots waits: %s", w.Detail)
	}

	// Twelve slots have these for half a minute: whenever one is free, there is a task of one slot for it.
	y.submit(y.far, "small", "/slow", 330, func(int, *wire.Submission) {})
	await(t, 10*time.Second, "they run", func() bool { return len(y.ran("small", wire.StateRunning)) == 12 })
	y.submit(y.far, "four", "/ok", 1, slots(4, "zone=us"))
	y.counts("four", 1, wire.StateSucceeded)
	if left := 330 - len(y.ran("small", wire.StateSucceeded)); left < 12 {
		t.Errorf("%d tasks of one slot are left: the one of four has waited for all of them", left)
	}
	await(t, time.Minute, "all are done", func() bool { return len(y.ran("small", wire.StateSucceeded)) == 330 })
}

// elsewhere is how soon a task begins elsewhere that its node does not take: 2 s until the leader looks after it, and
// what this machine takes for the rest.
const elsewhere = 5 * time.Second

// What a node does not take goes elsewhere, long before it counts as dead.
func (y *yard) testElsewhere(t *testing.T) {
	y.t = t
	still := startNode(t, y.redis.URL(), "--roles", "worker", "--node-name", "e", "--labels", "zone=ap",
		"--concurrency", "4")
	y.nodes["e"] = still
	prefer := func(_ int, s *wire.Submission) { s.Prefer = wire.Preferences{{Select: "zone=ap"}} }
	round := 0
	await(t, 30*time.Second, "leaders know the node", func() bool {
		round++
		y.submit(y.far, fmt.Sprint("known", round), "/ok", 1, prefer)
		return y.counts(fmt.Sprint("known", round), 1, wire.StateSucceeded)["e"] == 1
	})
	still.signal(syscall.SIGSTOP)
	y.submit(y.far, "stranded", "/ok", 4, prefer)
	if got := y.counts("stranded", 4, wire.StateSucceeded); got["e"] > 0 {
		t.Errorf("%v ran on a node that stood still", got)
	}
	for _, task := range y.nodes["b"].all(wire.StateSucceeded) {
		if took := task.StartedAt.Sub(task.CreatedAt.Time); strings.HasPrefix(task.ID, "stranded-") && took > elsewhere {
			t.Errorf("%s began after %v, want at most %v", task.ID, took, elsewhere)
		}
	}
	still.signal(syscall.SIGCONT)
	still.stop()
}

// The first living node of an order gets all; when it dies, the next one does, also what ran and waited there.
func (y *yard) testFailover(t *testing.T) {
	y.t = t
	far := newRecorder(t)
	change := by("failover", "b", "c", "a")
	y.submit(far, "failover", "/block", 6, func(i int, s *wire.Submission) {
		change(i, s)
		s.Retry = &wire.Retry{MaxAttempts: ptr(3)}
	})
	y.expect("failover", y.counts("failover", 4, wire.StateRunning), 0, 4, 0)
	y.nodes["b"].kill()
	y.nodes["b"] = y.nodes["c"] // to ask
	await(t, time.Minute, "four run on c", func() bool {
		names := y.ran("failover", wire.StateRunning)
		return len(names) == 4 && !slices.Contains(slices.Collect(maps.Values(names)), "a")
	})
	close(far.block)
	y.counts("failover", 6, wire.StateSucceeded)
}

// waits submits tasks that wait for a busy node: failover names it first, and a sticky key has it.
func (y *yard) waits(far *recorder, name string, key string) (ids []string) {
	hash, sticky := wire.RouteBy("hash"), wire.StickyRequire
	y.submit(far, "failover-"+name, "/ok", 3, by("failover", name, "c"))
	y.submit(far, "sticky-"+name, "/ok", 3, func(_ int, s *wire.Submission) {
		s.Route = &wire.Route{By: &hash, Key: &key, Sticky: &sticky}
	})
	for i := range 3 {
		ids = append(ids, fmt.Sprint("failover-", name, "-", i), fmt.Sprint("sticky-", name, "-", i))
	}
	return ids
}

// keys returns a key of the route hash for each node.
func (y *yard) keys(far *recorder) map[string]string {
	hash, sticky := wire.RouteBy("hash"), wire.StickyRequire
	y.submit(far, "key", "/ok", 32, func(i int, s *wire.Submission) {
		s.Route = &wire.Route{By: &hash, Key: ptr(fmt.Sprint("key-", i)), Sticky: &sticky}
	})
	y.counts("key", 32, wire.StateSucceeded)
	keys := make(map[string]string)
	for key, name := range y.ran("key", wire.StateSucceeded) {
		keys[name] = key
	}
	return keys
}

// soonElsewhere is how soon a task runs elsewhere that waited for a node that drains.
const soonElsewhere = 3 * time.Second

// Two of three nodes drain while tasks run and wait: what waits for them runs on the third one soon, what runs there
// ends there, and nothing is lost or runs twice.
func TestRoutes_OfNodesThatDrain(t *testing.T) {
	if !testkit.Long() {
		t.Skip("it takes 10 s and more: TEST_LONG=1")
	}
	t.Parallel()
	y := newYard(t)
	far, busy := newRecorder(t), newRecorder(t)
	keys := y.keys(far)
	for _, name := range []string{"a", "b"} {
		y.submit(busy, "busy-"+name, "/block", 4, func(_ int, s *wire.Submission) { s.Select = ptr("name=" + name) })
	}
	y.submit(busy, "busy-c", "/block", 2, func(_ int, s *wire.Submission) { s.Select = ptr("name=c") })
	await(t, 30*time.Second, "a and b are full", func() bool { return busy.count() == 10 })
	waiting := append(y.waits(far, "a", keys["a"]), y.waits(far, "b", keys["b"])...)
	const flow = 60
	y.submit(far, "flow", "/ok", flow, func(i int, s *wire.Submission) { // before, while and after they drain
		by("round")(i, s)
		s.Select, s.Delay = ptr("zone in (eu,us)"), ptr(fmt.Sprint(i*40, "ms"))
	})
	await(t, 30*time.Second, "some of the flow have run", func() bool { return far.count() > 32+flow/6 })
	for _, id := range waiting {
		if got := y.nodes["c"].task(id); got.State != wire.StateScheduled {
			t.Errorf("%s is %s before its node drains", id, got.State)
		}
	}

	since := time.Now()
	y.nodes["a"].signal(syscall.SIGTERM)
	drained := make(chan error, 1)
	go func() {
		dtsctl := filepath.Join(binaries, "dtsctl")
		drained <- exec.CommandContext(t.Context(), dtsctl, "--server", y.nodes["c"].url, "node", "drain", "b").Run()
	}()
	a, b := y.nodes["a"], y.nodes["b"]
	y.nodes["b"] = y.nodes["c"] // to ask
	await(t, 30*time.Second, "all that waited has run", func() bool { return far.count() >= 32+flow+len(waiting) })
	for _, id := range waiting {
		calls := far.byTask()[id]
		if took := calls[0].at.Sub(since); took > soonElsewhere || len(calls) > 1 {
			t.Errorf("%s was called %d times, first after %s", id, len(calls), took)
		}
	}
	close(busy.block)
	testkit.Must(t, testkit.Receive(t, drained, "the end of dtsctl node drain"))
	testkit.Receive(t, a.Done(), "the end of the node")
	testkit.Must(t, a.Err())
	y.nodes["b"] = b
	await(t, 30*time.Second, "all have ended", y.nodes["c"].idle)
	y.once(far, busy)
}

// once demands that all tasks have succeeded, and that each was called once.
func (y *yard) once(all ...*recorder) {
	y.t.Helper()
	n := 0
	for _, far := range all {
		for id, calls := range far.byTask() {
			n++
			if got := y.nodes["c"].task(id); len(calls) != 1 || got.State != wire.StateSucceeded || got.Attempt != 1 {
				y.t.Errorf("%s is %s after %d attempts, and was called %d times", id, got.State, got.Attempt, len(calls))
			}
		}
	}
	if done := len(y.nodes["c"].all(wire.StateSucceeded)); done != n {
		y.t.Errorf("%d tasks have succeeded, and %d were called", done, n)
	}
}
