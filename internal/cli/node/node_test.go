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

func TestList_PrintsNodes(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/nodes", 200, wire.NodeList{Nodes: []wire.Node{{
		ID: "n1", Host: "h", IP: "10.0.0.1", Version: "v1", Roles: []string{"api", "worker"}, State: "alive", Capacity: 10, Running: 3,
		Partitions: []int{0, 1, 2, 7}, Queues: map[string]int{"low": 1, "default": 3}, CPU: 0.125, Memory: 20 << 20, StartedAt: wire.At(clitest.Now.Add(-50 * time.Hour)), LastBeat: wire.At(clitest.Now.Add(-time.Second)), Via: new("n0"),
	}}})
	s.Pipe().Run(t, "node", "list").Expect(t, 0,
		"n1\talive\th\t10.0.0.1\tv1\tapi,worker\t3\t10\t0,1,2,7\tdefault=3,low=1\t0.125\t20971520\t2025-12-31T13:04:05.000Z\t2026-01-02T15:04:04.000Z\tn0\n", "")
	if got := s.Terminal().Run(t, "node", "list").Out; !strings.Contains(got, "0-2, 7      default=3, low=1  12 %  20.0 MiB  2 days ago  1 second ago  n0\n") {
		t.Errorf("got\n%s", got)
	}
}
