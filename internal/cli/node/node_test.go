package node_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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
		Labels: &wire.NodeLabels{"zone": "eu"}, Machine: &wire.Machine{
			CPU: new(0.25), Load: new(1.5), Memory: &wire.MachineSpace{Used: 3 << 30, Total: 8 << 30},
			Disk:    &wire.MachineSpace{Used: 20 << 30, Total: 50 << 30},
			Network: &wire.MachineTraffic{Received: 2048, Sent: 10},
		},
	}
	lost := []wire.LostAttempt{
		{
			Task: "a", Namespace: "default", Attempt: 1, LostAt: wire.At(clitest.Now), State: new(wire.StateRunning),
			Node: new("n2"),
		},
		{Task: "b", Namespace: "other", Attempt: 3, LostAt: wire.At(clitest.Now)},
	}
	s.On("GET /v1/nodes/{node}", 200, wire.NodeDetail{ID: "n1", Node: &n, Lost: lost})
	s.Pipe().Run(t, "node", "get", "n1").Expect(t, 0, "id\tn1\nstate\tdead\nhost\th\nroles\tworker\nrunning\t0\n"+
		"capacity\t0\ncpu\t0\nmemory\t0\nstarted\t2026-01-02T15:04:05.000Z\nbeat\t2026-01-02T15:04:05.000Z\n"+
		"labels\tzone=eu\nmachine_cpu\t0.25\nmachine_memory\t0.375\ntasks\t0\n"+
		"machine_memory_used\t3221225472 of 8589934592\n"+
		"machine_disk_used\t21474836480 of 53687091200\nmachine_load\t1.50\n"+
		"machine_network\t2048 received and 10 sent a second\naddress\t0.0.0.0:7080\npid\t4711\n"+
		"lost_attempt\ta\tdefault\t1\t2026-01-02T15:04:05.000Z\trunning\tn2\n"+
		"lost_attempt\tb\tother\t3\t2026-01-02T15:04:05.000Z\t\t\n", "")
	got := s.Terminal().Run(t, "node", "get", "n1").Out
	for _, want := range []string{
		"zone=eu", "machine cpu          25 %", "machine memory       38 %", "machine memory used  3.0 GiB of 8.0 GiB",
		"machine load         1.50",
		"machine disk used    20.0 GiB of 50.0 GiB", "machine network      2 KiB received and 10 B sent a second",
		"n1\n", "dead", "0.0.0.0:7080", "4711", "2 attempts of it ended as lost:", "a     default    1",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	s = clitest.Start(t)
	s.On("GET /v1/nodes/{node}", 200, wire.NodeDetail{ID: "n1", Lost: []wire.LostAttempt{}})
	s.Pipe().Run(t, "node", "get", "vm").Expect(t, 0, "id\tn1\n", "")
	got = s.Terminal().Run(t, "node", "get", "n1").Out
	if !strings.Contains(got, "no more") || !strings.Contains(got, "No leader") {
		t.Errorf("got\n%s", got)
	}
}

func TestList_PrintsNodes(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/nodes", 200, wire.NodeList{Nodes: []wire.Node{{
		ID: "n1", Host: "h", IP: "10.0.0.1", Version: "v1", Roles: []string{"api", "worker"}, State: "alive",
		Capacity: 10, Running: 3, Tasks: new(2), CPU: 0.125,
		Partitions: []int{0, 1, 2, 7}, Queues: map[string]int{"low": 1, "default": 3},
		Memory: 20 << 20, StartedAt: wire.At(clitest.Now.Add(-50 * time.Hour)),
		LastBeat: wire.At(clitest.Now.Add(-time.Second)), Via: new("n0"), Name: new("web-1"),
		Labels:  &wire.NodeLabels{"zone": "eu", "spot": "", "gpu": "2"},
		Machine: &wire.Machine{CPU: new(0.5), Memory: &wire.MachineSpace{Used: 1, Total: 3}},
	}, {
		ID: "n2", State: "alive", Running: 1, CPU: 0.125, Partitions: []int{}, Roles: []string{}, Queues: map[string]int{},
		Machine:   &wire.Machine{Memory: &wire.MachineSpace{}},
		StartedAt: wire.At(clitest.Now), LastBeat: wire.At(clitest.Now),
	}}})
	s.Pipe().Run(t, "node", "list").Expect(t, 0,
		"n1\talive\th\t10.0.0.1\tv1\tapi,worker\t3\t10\t0,1,2,7\tdefault=3,low=1\t0.125\t20971520\t"+
			"2025-12-31T13:04:05.000Z\t2026-01-02T15:04:04.000Z\tn0\tweb-1\tgpu=2,spot,zone=eu\t0.5\t0.333\t2\n"+
			"n2\talive\t\t\t\t\t1\t0\t\t\t0.125\t0\t2026-01-02T15:04:05.000Z\t2026-01-02T15:04:05.000Z\t\t\t\t\t\t1\n", "")
}

func TestList_AsksForNodesThatMatch(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/nodes", 200, wire.NodeList{Nodes: []wire.Node{}})
	s.Pipe().Run(t, "node", "list", "-l", "zone in (eu,us),gpu").Expect(t, 0, "", "")
	if got := s.Last().Line; got != "GET /v1/nodes?select=zone+in+%28eu%2Cus%29%2Cgpu" {
		t.Errorf("asked %s", got)
	}
}

// A person who drains a node sees how many tasks are left there.
func TestList_SaysWhatIsLeftOnANodeThatDrains(t *testing.T) {
	t.Parallel()
	s := clitest.Start(t)
	node := func(id string, state wire.NodeState, drain *bool) wire.Node {
		n := wire.Node{
			ID: id, State: state, Roles: []string{"worker"}, Capacity: 4, Running: 3, Tasks: new(2),
			Partitions: []int{}, Queues: map[string]int{}, StartedAt: wire.At(clitest.Now), LastBeat: wire.At(clitest.Now),
		}
		if drain != nil {
			n.Cordon = &wire.NodeCordon{Of: id, Drain: drain, Since: wire.At(clitest.Now)}
		}
		return n
	}
	older := node("older", wire.Draining, nil)
	older.Tasks = nil
	s.On("GET /v1/nodes", 200, wire.NodeList{Nodes: []wire.Node{
		older, node("stops", wire.Draining, nil), node("drains", wire.Alive, new(true)),
		node("cordoned", wire.Alive, new(false)),
		node("gone", wire.Dead, new(true)), node("works", wire.Alive, nil),
	}})
	out := s.Terminal().Run(t, "node", "list").Out
	for id, want := range map[string]string{
		"stops": "2 left", "drains": "2 left", "older": "3 left", "cordoned": "3 of 4", "gone": "3 of 4", "works": "3 of 4",
	} {
		for line := range strings.Lines(out) {
			if strings.HasPrefix(line, id) && !strings.Contains(line, " "+want+" ") {
				t.Errorf("want %s: %s", want, line)
			}
		}
	}
}

func TestList_FitsATerminal(t *testing.T) {
	t.Parallel()
	s := clitest.Start(t)
	at := func(ago time.Duration) wire.Time { return wire.At(clitest.Now.Add(-ago)) }
	queues := map[string]int{"critical": 6, "default": 3, "low": 1}
	s.On("GET /v1/nodes", 200, wire.NodeList{Nodes: []wire.Node{{
		ID: "web-1-iuj2nh2d", Host: "web-1", IP: "10.0.0.1", Version: "v1.12.0", State: "alive",
		Roles: []string{"scheduler", "worker", "api"}, Capacity: 20, Running: 11, Partitions: []int{0, 2, 4, 6, 8, 15},
		Queues: queues, CPU: 0.024, Memory: 200 << 20, StartedAt: at(50 * time.Hour), LastBeat: at(2 * time.Second),
		Name: new("web-1"), Labels: &wire.NodeLabels{"zone": "eu"},
		Machine: &wire.Machine{CPU: new(0.45), Memory: &wire.MachineSpace{Used: 6 << 30, Total: 8 << 30}},
	}, {
		ID: "web-2-y5aebfor", Version: "v1.11.0", State: "dead", Roles: []string{"scheduler"},
		Partitions: []int{}, CPU: 0.5, Memory: 20 << 20,
		Queues: map[string]int{}, StartedAt: at(time.Hour), LastBeat: at(50 * time.Minute),
	}, {
		ID: "py-1", State: "alive", Roles: []string{"worker"}, Capacity: 4, Queues: map[string]int{"pdf": 1},
		Partitions: []int{},
		Via:        new("web-1-iuj2nh2d"), Machine: &wire.Machine{CPU: new(0.9)}, StartedAt: at(0), LastBeat: at(0),
	}}})
	colours := strings.NewReplacer("\x1b[32m", "", "\x1b[31m", "", "\x1b[0m", "")
	got := colours.Replace(s.Terminal().Run(t, "node", "list").Out)
	want := strings.Join([]string{
		"ID              STATE  VERSION  ROLES        RUNNING   LEADS  QUEUES     CP" +
			"U         MEMORY      BEAT            LABELS",
		"web-1-iuj2nh2d  alive  v1.12.0  all          11 of 20  6      critical…  2 " +
			"% (45 %)  2 % (75 %)  2 seconds ago   zone=eu",
		"web-2-y5aebfor  dead   v1.11.0  scheduler              0                 50" +
			" %        20 MiB      50 minutes ago",
		"py-1            alive           HTTP worker  0 of 4           pdf        (9" +
			"0 %)                  now", "",
	}, "\n")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
