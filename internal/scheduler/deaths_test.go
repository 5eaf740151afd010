package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// bury puts a node on the list that has died: its last heartbeat was long enough ago for it, as one counts each ms.
func (w *world) bury(id string, now time.Time) {
	w.t.Helper()
	last := now.Add(-10 * time.Millisecond).UnixMilli()
	w.list(id, fmt.Sprintf(`%d {"sequence":1,"id":%q,"state":"alive","beat_ms":1}`, last, id))
}

func (w *world) list(id, entry string) {
	w.t.Helper()
	testkit.Must(w.t, w.db.HSet(w.t.Context(), string(w.store.Keys.Nodes()), id, entry).Err())
}

// die has a node begin the task's attempt of that number, and die.
func (w *world) die(ref task.Ref, attempt int, node string) {
	w.t.Helper()
	w.dispatched(ref, attempt)
	w.begin(ref, node)
	w.bury(node, w.db.Time(w.t.Context()).Val())
}

// hurry makes a task due that waits for its turn.
func (w *world) hurry(ref task.Ref) {
	w.t.Helper()
	k := w.store.KeysOf(ref)
	now := redis.Z{Score: float64(w.db.Time(w.t.Context()).Val().UnixMilli()), Member: ref.String()}
	testkit.Must(w.t, errors.Join(
		w.db.ZAddXX(w.t.Context(), string(k.Wheel()), now).Err(),
		w.db.Publish(w.t.Context(), string(w.store.WakeOf(ref)), "0").Err(),
	))
}

// logged makes a node write its log there.
func logged(log *testkit.Log) func(*node) {
	return func(n *node) {
		n.o.Log = slog.New(slog.NewJSONHandler(log, nil))
		n.o.Store.Layout.Log = n.o.Log
	}
}

func TestWatch_EndsATaskThatKillsItsWorkers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var log testkit.Log
	w.start("a", never, eager, logged(&log))
	poison := w.create(task.Definition{Retry: task.Retry{MaxAttempts: 10}})
	w.die(poison, 1, "x")
	w.die(poison, 2, "y")
	testkit.Eventually(t, "the second loss is recorded", func() bool { return w.get(poison).State != task.Running })
	second := w.get(poison)
	if wait := second.DueAt.UnixMilli() % task.TurnLength.Milliseconds(); wait != 0 ||
		!strings.HasPrefix(second.Error, "node y died while it ran the task, as did before it x: the next attempt waits") {
		t.Errorf("it is due at %s, %d ms after the begin of a turn: %s", second.DueAt, wait, second.Error)
	}
	w.hurry(poison)
	w.die(poison, 3, "z")
	w.reaches(poison, task.Failed)
	last, said := w.get(poison), "node z died while it ran the task, as did before it y and x: the task is not tried again"
	if last.Attempt != 3 || last.Outcome != task.OutcomeLost || !strings.HasPrefix(last.Error, said) {
		t.Errorf("it ended %s after attempt %d: %s", last.Outcome, last.Attempt, last.Error)
	}
	var told []map[string]any
	testkit.Eventually(t, "the log says that it has failed", func() bool {
		told = log.Find(t, "a task has failed, as its workers died again and again")
		return len(told) > 0
	})
	if e := told[0]; e["level"] != "WARN" || e["task"] != poison.String() || e["attempts"] != 3.0 || e["ran_on"] != "z" {
		t.Errorf("the log says %v", e)
	}
	testkit.Eventually(t, "the log names it with both nodes", func() bool {
		return strings.Contains(fmt.Sprint(log.Find(t, "tasks were running on several nodes in a row that died")),
			poison.String()+" (y, x)")
	})
}

// poison is how many tasks the node has ended as they kill their workers.
func (n *node) poison() float64 {
	n.t.Helper()
	var m dto.Metric
	testkit.Must(n.t, n.metrics.Poison.Write(&m))
	return m.GetCounter().GetValue()
}

func TestWatch_CountsATaskThatKillsItsWorkers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("a", never, eager)
	poison := w.create(task.Definition{Retry: task.Retry{MaxAttempts: 3}})
	for i, node := range []string{"x", "y", "z"} {
		if i == 2 {
			w.hurry(poison)
		}
		w.die(poison, i+1, node)
		testkit.Eventually(t, node+" is found dead", func() bool { return w.get(poison).State != task.Running })
	}
	// the leader counts what the script has told it
	testkit.Eventually(t, "one task is counted", func() bool { return a.poison() >= 1 })
	if n := a.poison(); n != 1 {
		t.Errorf("%v tasks are counted, want 1", n)
	}
}

func TestWatch_RepeatsATaskWhoseNodesLive(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start("a", never, eager)
	for _, node := range []string{"b", "c", "d"} {
		w.start(node, never, eager)
	}
	ref := w.create(task.Definition{Retry: task.Retry{MaxAttempts: 5}})
	for i, node := range []string{"b", "c", "d"} { // each lives, and has lost the attempt
		w.dispatched(ref, i+1)
		w.begin(ref, node)
	}
	w.dispatched(ref, 4)
}

// blind is a registry that cannot read the list of nodes.
type blind struct{ *registry }

func (blind) Nodes(context.Context) ([]cluster.Node, error) { return nil, errors.New("cannot read it") }

func TestWatch_EndsARunThoughNodesCannotBeRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var log testkit.Log
	w.start("a", never, eager, logged(&log), func(n *node) { n.o.Members = blind{n.members} })
	ref := w.create(task.Definition{Retry: task.Retry{MaxAttempts: 5}})
	w.die(ref, 1, "x")
	w.die(ref, 2, "y")
	w.dispatched(ref, 3)
	if len(log.Find(t, "cannot tell whether a task kills its workers")) == 0 {
		t.Error("the log does not say that the list of nodes cannot be read")
	}
}

func TestWatch_EndsARunThoughItsHistoryIsDamaged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start("a", never, eager)
	ref := w.create(task.Definition{Retry: task.Retry{MaxAttempts: 5}})
	w.die(ref, 1, "x")
	w.dispatched(ref, 2)
	testkit.Must(t, w.db.RPush(t.Context(), string(w.store.KeysOf(ref).Attempts(ref)), "garbage").Err())
	w.begin(ref, "y")
	w.dispatched(ref, 3)
}

func TestWatch_GivesNoTurnThatWouldEndTheTask(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("a", never, eager)
	ref := w.create(task.Definition{Retry: task.Retry{MaxAttempts: 10, MaxElapsed: time.Minute}})
	w.die(ref, 1, "x")
	testkit.Eventually(t, "the turns of a minute are given", func() bool {
		turn, _ := a.takeTurn(w.now())
		return turn.After(w.now().Add(time.Minute))
	})
	w.die(ref, 2, "y")
	w.dispatched(ref, 3)
	if got := w.get(ref).Error; got != "node y died while it ran the task, as did before it x" {
		t.Errorf("its second attempt was lost: %s", got)
	}
}

func TestWatch_CountsNoTaskThatWasAskedToStop(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("a", never, eager)
	ref := w.create(task.Definition{Retry: task.Retry{MaxAttempts: 10}})
	w.die(ref, 1, "x")
	w.die(ref, 2, "y")
	testkit.Eventually(t, "the second loss is recorded", func() bool { return w.get(ref).State != task.Running })
	w.hurry(ref)
	w.dispatched(ref, 3)
	w.begin(ref, "z")
	_, err := w.store.Tasks.Cancel(t.Context(), ref, "")
	testkit.Must(t, err)
	w.bury("z", w.now())
	w.reaches(ref, task.Cancelled)
	if n := a.poison(); n != 0 {
		t.Errorf("%v tasks are counted, want none", n)
	}
}

func TestWatch_SaysOfNoTurnThatWillNotCome(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start("a", never, eager)
	ref := w.create(task.Definition{Retry: task.Retry{MaxAttempts: 2}})
	w.die(ref, 1, "x")
	w.die(ref, 2, "y")
	w.reaches(ref, task.Failed)
	if got := w.get(ref).Error; got != "node y died while it ran the task, as did before it x" {
		t.Errorf("it failed: %s", got)
	}
}

func TestWatch_WaitsUntilTheFateOfTheNodeIsKnown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var log testkit.Log
	w.start("a", never, eager, logged(&log))
	ref := w.create(task.Definition{Retry: task.Retry{MaxAttempts: 5}})
	w.die(ref, 1, "x")
	w.dispatched(ref, 2)
	begin := w.db.Time(t.Context()).Val()
	w.list("y", fmt.Sprintf(`%d {"sequence":1,"id":"y","state":"alive","beat_ms":600000}`, begin.UnixMilli()))
	w.begin(ref, "y")
	lapsed := func() float64 {
		return w.db.ZScore(t.Context(), string(w.store.KeysOf(ref).Held()), ref.String()).Val()
	}
	first := lapsed()
	testkit.Eventually(t, "the leader has looked after the run thrice", func() bool { return lapsed() > first+300 })
	if got := w.get(ref); got.State != task.Running || got.Attempt != 2 {
		t.Fatalf("it is %s, attempt %d, though its node may live", got.State, got.Attempt)
	}
	w.bury("y", w.db.Time(t.Context()).Val().Add(-runLease))
	testkit.Eventually(t, "the run is lost", func() bool { return w.get(ref).State != task.Running })
	testkit.Eventually(t, "the log names what was lost with the node", func() bool {
		for _, line := range log.Find(t, "attempts were lost: their node has died or was cut off") {
			if line["ran_on"] == "y" && line["count"] == 1.0 && fmt.Sprint(line["tasks"]) == "["+ref.String()+"]" {
				return true
			}
		}
		return false
	})
}

// memory is a registry whose view differs from the list of nodes.
type memory struct {
	still
	list cluster.Node
}

func (m memory) Nodes(context.Context) ([]cluster.Node, error) { return []cluster.Node{m.list}, nil }

func TestFates_TellDeathsFromCuts(t *testing.T) {
	t.Parallel()
	lost := time.UnixMilli(1e12)
	ago := func(d time.Duration) time.Time { return lost.Add(-d) }
	node := func(state string, last time.Time) cluster.Node {
		return cluster.Node{ID: "n", State: state, LastBeat: last, Beat: 2 * time.Second}
	}
	restarted, guest := node(cluster.StateAlive, ago(-time.Second)), node(cluster.StateDead, ago(4*time.Second))
	restarted.StartedAt, guest.Via = ago(-1), "b"
	for name, c := range map[string]struct {
		node    cluster.Node
		latest  time.Time // zero: it has not died
		decided bool
	}{
		"it is not listed":                 {cluster.Node{ID: "other"}, time.Time{}, true},
		"it has just beaten":               {node(cluster.StateAlive, ago(0)), time.Time{}, true},
		"it beat after its last extension": {node(cluster.StateAlive, ago(1900*time.Millisecond)), time.Time{}, true},
		"it has not beaten since":          {node(cluster.StateAlive, ago(2100*time.Millisecond)), time.Time{}, false},
		"it drains, and is silent":         {node(cluster.StateDraining, ago(4*time.Second)), time.Time{}, false},
		"it is dead":                       {node(cluster.StateDead, ago(4*time.Second)), ago(2 * time.Second), true},
		"it beats seldom":                  {node(cluster.StateDead, ago(time.Second)), lost, true},
		"it lived on, and died later":      {node(cluster.StateDead, ago(-time.Second)), time.Time{}, true},
		"its name has started again":       {restarted, lost, true},
		"it was a worker by HTTP":          {guest, lost, true},
		"it is spared, as after an outage": {
			cluster.Node{ID: "spared", State: cluster.StateDead, LastBeat: ago(4 * time.Second)}, time.Time{}, false,
		},
	} {
		alive := still{cluster.View{Nodes: []cluster.Node{{ID: "spared", State: cluster.StateAlive}}}}
		f := fates{members: memory{still: alive, list: c.node}, lease: 3 * time.Second, now: lost}
		testkit.Must(t, f.read(t.Context()))
		a := task.Attempt{Node: "n", FinishedAt: lost}
		if c.node.ID == "spared" {
			a.Node = c.node.ID
		}
		latest, ok := f.died(a)
		if !latest.Equal(c.latest) || ok == c.latest.IsZero() || f.decided(a) != c.decided {
			t.Errorf("%s: it died by %s (%v); decided: %v, want %v", name, latest, ok, f.decided(a), c.decided)
		}
	}
}
