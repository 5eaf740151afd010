package node_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/clitest"
)

// cordoned is the node n1, called vm, that runs so many tasks and is cordoned. Its last heartbeat came so long
// after the cordon began.
func cordoned(running int, after time.Duration) wire.Node {
	return wire.Node{
		ID: "n1", Name: new("vm"), Host: "h", Roles: []string{"worker"}, State: wire.Alive, Capacity: 4, Running: running,
		Partitions: []int{}, Queues: map[string]int{}, StartedAt: wire.At(clitest.Now),
		LastBeat: wire.At(clitest.Now.Add(after)),
		Cordon:   &wire.NodeCordon{Of: "vm", Since: wire.At(clitest.Now), By: new("ann"), Note: new("a new kernel")},
	}
}

// busy is another node, which runs tasks.
func busy() wire.Node {
	n := cordoned(3, time.Minute)
	n.ID, n.Name, n.Cordon = "n2", new("other"), nil
	return n
}

func listOf(nodes ...wire.Node) wire.NodeList {
	return wire.NodeList{Nodes: append([]wire.Node{}, nodes...)}
}

func TestCordon_SaysWhatStillRuns(t *testing.T) {
	s := clitest.Start(t)
	s.On("POST /v1/nodes/{node}/cordon", 200, listOf(cordoned(2, 0)))
	s.Terminal().Run(t, "node", "cordon", "vm", "--note", "a new kernel", "--for", "1h").Expect(t, 0,
		"n1 is cordoned; it runs 2 tasks\n", "")
	if got := s.Last().Body; got != `{"for":"1h0m0s","note":"a new kernel"}` {
		t.Errorf("it sent %s", got)
	}
	got := s.Pipe().Run(t, "node", "cordon", "vm").Out
	if !strings.HasPrefix(got, "n1\tcordoned\th\t") {
		t.Errorf("a pipe gets %q", got)
	}
}

func TestUncordon_SaysWhetherAnotherCordonHolds(t *testing.T) {
	free := cordoned(2, 0)
	free.ID, free.Cordon = "n2", nil
	for want, nodes := range map[string]wire.NodeList{
		"n1 is still cordoned by vm: dtsctl node uncordon vm\nn2 is not cordoned\n": listOf(cordoned(2, 0), free),
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

// A heartbeat from before the cordon does not tell what the node has begun since.
func TestDrain_WaitsForAHeartbeatAfterTheCordon(t *testing.T) {
	s := draining(t, cordoned(0, 0), []wire.Node{cordoned(0, 2*time.Second), busy()})
	s.Terminal().Run(t, "node", "drain", "vm").Expect(t, 0, "n1 is drained: it runs nothing\n", "")
	if got := s.Last(); got.Line != "GET /v1/nodes" {
		t.Errorf("it did not wait for a heartbeat: the last request is %s", got.Line)
	}
	got := s.Pipe().Run(t, "node", "drain", "vm", "-o", "json").Out
	if !strings.Contains(got, `"id":"n1"`) || strings.Contains(got, "n2") {
		t.Errorf("as JSON: %s", got)
	}
	s = draining(t, cordoned(1, 0), []wire.Node{busy()})
	s.Terminal().Run(t, "node", "drain", "vm").Expect(t, 0, "vm has left\n", "")
}

func TestDrain_EndsWithTheTimeoutOrTheCordon(t *testing.T) {
	free := cordoned(1, 2*time.Second)
	free.Cordon = nil
	s := draining(t, cordoned(1, 2*time.Second), []wire.Node{free})
	s.Terminal().Run(t, "node", "drain", "vm", "--timeout", "500ms").Expect(t, 1, "",
		"waiting for vm: 1 task runs\ndtsctl: vm is not drained within 500ms: 1 task runs. It stays cordoned\n")
	s.Terminal().Run(t, "node", "drain", "vm").Expect(t, 1, "",
		"waiting for vm: 1 task runs\ndtsctl: n1 is not cordoned any more, so it takes tasks: drain it again\n")
	s.Terminal().Run(t, "node", "drain", "vm", "--timeout", "-1s").Expect(t, 2, "",
		"dtsctl: --timeout: -1s is negative\nRun 'dtsctl node drain --help' for what it takes.\n")
}

// A server that goes away comes back: the node may be drained to restart it.
func TestDrain_OutlastsAServerThatIsAway(t *testing.T) {
	s := draining(t, cordoned(1, 2*time.Second), nil, nil, []wire.Node{cordoned(0, 2*time.Second)})
	got := s.Terminal().Run(t, "node", "drain", "vm")
	if got.Code != 0 || got.Out != "n1 is drained: it runs nothing\n" || strings.Count(got.Err, "shutting down") != 1 {
		t.Errorf("%d, %q, %q", got.Code, got.Out, got.Err)
	}
}
