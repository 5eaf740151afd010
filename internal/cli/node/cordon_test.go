package node_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/clitest"
)

// cordoned is the node n1, called vm, that has so many tasks of two slots, and is cordoned. obeyed says that it has
// confirmed that.
func cordoned(tasks int, obeyed bool) wire.Node {
	return wire.Node{
		ID: "n1", Name: new("vm"), Host: "h", Roles: []string{"worker"}, State: wire.Alive, Capacity: 4,
		Running: 2 * tasks, Tasks: &tasks, Partitions: []int{}, Queues: map[string]int{}, StartedAt: wire.At(clitest.Now),
		LastBeat: wire.At(clitest.Now),
		Cordon: &wire.NodeCordon{
			Of: "vm", Since: wire.At(clitest.Now), By: new("ann"), Note: new("a new kernel"), Obeyed: obeyed,
		},
	}
}

// busy is another node, which runs tasks.
func busy() wire.Node {
	n := cordoned(3, true)
	n.ID, n.Name, n.Cordon = "n2", new("other"), nil
	return n
}

func listOf(nodes ...wire.Node) wire.NodeList {
	return wire.NodeList{Nodes: append([]wire.Node{}, nodes...)}
}

func TestCordon_SaysWhatStillRuns(t *testing.T) {
	s := clitest.Start(t)
	other := cordoned(1, false)
	other.ID, other.Cordon.Until = "n2", new(wire.At(clitest.Now.Add(time.Hour)))
	nodes := listOf(cordoned(2, false), other)
	nodes.Warnings = []string{"vm was cordoned until then"}
	s.On("POST /v1/nodes/{node}/cordon", 200, nodes)
	s.Terminal().Run(t, "node", "cordon", "vm", "--note", "a new kernel", "--for", "1h").Expect(t, 0,
		"n1 is cordoned until somebody uncordons it; it runs 2 tasks\n"+
			"n2 is cordoned until 2026-01-02T16:04:05Z; it runs 1 task\n", "warning: vm was cordoned until then\n")
	if got := s.Last().Body; got != `{"for":"1h0m0s","note":"a new kernel"}` {
		t.Errorf("it sent %s", got)
	}
	got := s.Pipe().Run(t, "node", "cordon", "vm").Out
	if !strings.HasPrefix(got, "n1\tcordoned\th\t") {
		t.Errorf("a pipe gets %q", got)
	}
}

func TestUncordon_SaysWhetherAnotherCordonHolds(t *testing.T) {
	free := cordoned(2, false)
	free.ID, free.Cordon = "n2", nil
	for want, nodes := range map[string]wire.NodeList{
		"n1 is still cordoned by vm: dtsctl node uncordon vm\nn2 is not cordoned\n": listOf(cordoned(2, false), free),
		"n1 is not cordoned; no node has this id or name\n":                         listOf(),
	} {
		s := clitest.Start(t)
		s.On("POST /v1/nodes/{node}/uncordon", 200, nodes)
		s.Terminal().Run(t, "node", "uncordon", "n1").Expect(t, 0, want, "")
	}
}

// draining is a server that answers a cordon with a node that was cordoned, and each list of nodes as the next of
// answers says; the last of them again and again. A nil answer means that the server does not answer.
func draining(t *testing.T, cordoned wire.Node, answers ...[]wire.Node) *clitest.Stub {
	s := clitest.Start(t)
	s.On("POST /v1/nodes/{node}/cordon", 200, listOf(cordoned))
	s.Handle("GET /v1/nodes", func(w http.ResponseWriter, _ *http.Request) {
		answer := answers[0]
		answers = answers[min(1, len(answers)-1):]
		if answer == nil {
			s.Reply(w, 503, clitest.Problem(503, wire.Unavailable, "", "the server is shutting down"))
			return
		}
		s.Reply(w, 200, listOf(answer...))
	})
	return s
}

// What a node says before it has confirmed the cordon does not tell what it has begun since.
func TestDrain_WaitsUntilTheNodeHasConfirmed(t *testing.T) {
	older := cordoned(7, false) // another process that had the name
	older.ID, older.State = "n0", wire.Dead
	reporting := cordoned(1, true)
	reporting.Running = 0 // its slots are free, and Redis has not taken the end yet
	s := draining(t, cordoned(0, false), []wire.Node{reporting}, []wire.Node{older, cordoned(0, true), busy()})
	s.Terminal().Run(t, "node", "drain", "vm").Expect(t, 0, "n1 is drained: it runs nothing\n",
		"waiting for vm: 1 task left\n")
	if got := s.LastOf("POST").Body; got != `{"drain":true}` {
		t.Errorf("it sent %s", got)
	}
	if got := s.Last(); got.Line != "GET /v1/nodes" {
		t.Errorf("it did not wait: the last request is %s", got.Line)
	}
	got := s.Pipe().Run(t, "node", "drain", "vm", "-o", "json").Out
	if !strings.Contains(got, `"id":"n1"`) || strings.Contains(got, "n2") || strings.Contains(got, "n0") {
		t.Errorf("as JSON: %s", got)
	}
	s = draining(t, cordoned(1, false), []wire.Node{busy()})
	s.Terminal().Run(t, "node", "drain", "vm").Expect(t, 0, "vm has left\n", "")
}

func TestDrain_EndsWithTheTimeoutOrTheCordon(t *testing.T) {
	free := cordoned(1, true)
	free.Cordon = nil
	s := draining(t, cordoned(1, true), []wire.Node{free})
	s.Terminal().Run(t, "node", "drain", "vm", "--timeout", "500ms").Expect(t, 1, "",
		"waiting for vm: 1 task left\ndtsctl: vm is not drained within 500ms: 1 task left. It stays cordoned\n")
	s.Terminal().Run(t, "node", "drain", "vm").Expect(t, 1, "",
		"waiting for vm: 1 task left\ndtsctl: n1 is not cordoned any more, so it takes tasks: drain it again\n")
	s.Terminal().Run(t, "node", "drain", "vm", "--timeout", "-1s").Expect(t, 2, "",
		"dtsctl: --timeout: -1s is negative\nRun 'dtsctl node drain --help' for what it takes.\n")
	s = draining(t, cordoned(0, false))
	s.Terminal().Run(t, "node", "drain", "vm", "--timeout", "500ms").Expect(t, 1, "",
		"dtsctl: vm is not drained within 500ms: n1 has not confirmed the cordon yet. It stays cordoned\n")
}

// What ran on a node that has died may still run: its leases say until when.
func TestDrain_OfANodeThatDiesFails(t *testing.T) {
	dead := cordoned(2, true)
	dead.State = wire.Dead
	for _, first := range []wire.Node{cordoned(2, true), dead} {
		got := draining(t, first, []wire.Node{dead}).Terminal().Run(t, "node", "drain", "vm")
		if got.Code != 1 || !strings.Contains(got.Err, "counts as dead: what it ran may still run") {
			t.Errorf("%d %q", got.Code, got.Err)
		}
	}
}

// A server that goes away comes back: the node may be drained to restart it.
func TestDrain_OutlastsAServerThatIsAway(t *testing.T) {
	s := draining(t, cordoned(1, true), nil, nil, []wire.Node{cordoned(0, true)})
	got := s.Terminal().Run(t, "node", "drain", "vm")
	if got.Code != 0 || got.Out != "n1 is drained: it runs nothing\n" || strings.Count(got.Err, "shutting down") != 1 {
		t.Errorf("%d, %q, %q", got.Code, got.Out, got.Err)
	}
}
