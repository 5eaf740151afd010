package node_test

import (
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/clitest"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func TestGet_ShowsWhatANodeHasLost(t *testing.T) {
	s := clitest.Start(t)
	n := wire.Node{
		ID: "n1", Host: "h", Roles: []string{"worker"}, State: "dead", Partitions: []int{}, Queues: map[string]int{},
		StartedAt: wire.At(clitest.Now), LastBeat: wire.At(clitest.Now), Pid: new(4711), Address: new("0.0.0.0:7080"),
	}
	lost := []wire.LostAttempt{
		{
			Task: "a", Namespace: "default", Attempt: 1, LostAt: wire.At(clitest.Now), State: new(wire.StateRunning),
			Node: new("n2"),
		},
		{Task: "b", Namespace: "other", Attempt: 3, LostAt: wire.At(clitest.Now)},
	}
	s.On("GET /v1/nodes/{node}", 200, wire.NodeDetail{ID: "n1", Node: &n, Lost: lost})
	s.Pipe().Run(t, "node", "get", "n1").Expect(t, 0,
		"a\tdefault\t1\t2026-01-02T15:04:05.000Z\trunning\tn2\nb\tother\t3\t2026-01-02T15:04:05.000Z\t\t\n", "")
	got := s.Terminal().Run(t, "node", "get", "n1").Out
	for _, want := range []string{
		"n1\n", "dead", "0.0.0.0:7080", "4711", "2 attempts of it ended as lost:", "a     default    1",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	s = clitest.Start(t)
	s.On("GET /v1/nodes/{node}", 200, wire.NodeDetail{ID: "n1", Lost: []wire.LostAttempt{}})
	got = s.Terminal().Run(t, "node", "get", "n1").Out
	if !strings.Contains(got, "no more") || !strings.Contains(got, "No leader") {
		t.Errorf("got\n%s", got)
	}
}

func TestList_PrintsNodes(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/nodes", 200, wire.NodeList{Nodes: []wire.Node{{
		ID: "n1", Host: "h", IP: "10.0.0.1", Version: "v1", Roles: []string{"api", "worker"}, State: "alive",
		Capacity: 10, Running: 3, Partitions: []int{0, 1, 2, 7}, Queues: map[string]int{"low": 1, "default": 3}, CPU: 0.125,
		Memory: 20 << 20, StartedAt: wire.At(clitest.Now.Add(-50 * time.Hour)),
		LastBeat: wire.At(clitest.Now.Add(-time.Second)), Via: new("n0"),
	}}})
	s.Pipe().Run(t, "node", "list").Expect(t, 0,
		"n1\talive\th\t10.0.0.1\tv1\tapi,worker\t3\t10\t0,1,2,7\tdefault=3,low=1\t0.125\t20971520\t"+
			"2025-12-31T13:04:05.000Z\t2026-01-02T15:04:04.000Z\tn0\n", "")
	const row = "0-2, 7      default=3, low=1  12 %  20 MiB  2 days ago  1 second ago  n0\n"
	if got := s.Terminal().Run(t, "node", "list").Out; !strings.Contains(got, row) {
		t.Errorf("got\n%s", got)
	}
}
