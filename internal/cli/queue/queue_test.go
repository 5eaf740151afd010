package queue_test

import (
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/clitest"
	"github.com/dts-sched/dts/internal/cli/printer"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func TestQueue_PausesAndResumes(t *testing.T) {
	s := clitest.Start(t)
	s.On("POST /v1/queues/{queue}/pause", 204, nil)
	s.On("POST /v1/queues/{queue}/resume", 404, clitest.Problem(404, wire.QueueNotFound, "", "no queue low"))
	s.Pipe().Run(t, "queue", "pause", "low", "--note", "it moves").Expect(t, 0, "low\tpaused\n", "")
	if got := s.Last().Body; got != `{"note":"it moves"}` {
		t.Errorf("it sends %s", got)
	}
	s.Terminal().Run(t, "queue", "pause", "low").Expect(t, 0, "low paused\n", "")
	s.Terminal().Run(t, "queue", "pause", "low", "-o", "json").Expect(t, 0, "", "")
	s.Pipe().Run(t, "queue", "resume", "low").Expect(t, 1, "", "dtsctl: no queue low (queue_not_found)\n")
}

func TestCapacity_SetsTheCapacityOfAQueue(t *testing.T) {
	s := clitest.Start(t)
	s.On("PUT /v1/queues/{queue}/capacity", 204, nil)
	s.Pipe().Run(t, "queue", "capacity", "low", "100").Expect(t, 0, "low\tcapacity 100\n", "")
	if got := s.Last().Body; got != `{"capacity":100}` {
		t.Errorf("it sends %s", got)
	}
	s.Terminal().Run(t, "queue", "capacity", "low", "none").Expect(t, 0, "low capacity none\n", "")
	if got := s.Last().Body; got != `{"capacity":0}` {
		t.Errorf("it sends %s", got)
	}
	s.Terminal().Run(t, "queue", "capacity", "low", "0").Expect(t, 0, "low capacity 0\n", "")
	if got := s.Last().Body; got != `{"capacity":0}` {
		t.Errorf("it sends %s", got)
	}
	for _, n := range []string{"-1", "many"} {
		s.Pipe().Run(t, "queue", "capacity", "low", "--", n).Expect(t, 2, "", "dtsctl: N: \""+n+
			"\" must be a whole number, or none; 0 or none for any number of tasks\n"+
			"Run 'dtsctl queue capacity --help' for what it takes.\n")
	}
}

func TestLimit_NamesCapacity(t *testing.T) {
	const warning = "warning: queue limit is the old name of: dtsctl queue capacity\n"
	s := clitest.Start(t)
	s.On("PUT /v1/queues/{queue}/limit", 204, nil)
	s.Pipe().Run(t, "queue", "limit", "low", "100").Expect(t, 0, "low\tcapacity 100\n", warning)
	if got := s.Last().Body; got != `{"limit":100}` {
		t.Errorf("it sends %s", got)
	}
	s.Terminal().Run(t, "queue", "limit", "low", "none").Expect(t, 0, "low capacity none\n", warning)
	s.On("PUT /v1/queues/{queue}/capacity", 204, nil)
	if help := s.Pipe().Run(t, "queue", "--help").Out; strings.Contains(help, "limit") {
		t.Errorf("help shows it:\n%s", help)
	}
}

// Nodes of earlier releases answer limit only.
func TestList_ReadsTheOldNameOfCapacity(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/queues", 200, wire.QueueList{Queues: []wire.Queue{{Name: "low", Limit: new(7), Latency: "0s"}}})
	if got := s.Pipe().Run(t, "queue", "list"); strings.Split(got.Out, "\t")[10] != "7" {
		t.Errorf("%+v", got)
	}
}

func TestList_PrintsQueues(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/queues", 200, wire.QueueList{Queues: []wire.Queue{
		{Name: "default", Capacity: new(100), Waiting: 7, Size: 3, Pending: 2, Active: 1, Processed: 9, Failed: 4,
			Latency: "1.5s", Oldest: new("2m"), Pace: &wire.Pace{Begun: 60, Ended: 59.5, Bad: 2, LateP99: new("80ms")}},
		{
			Name: "low", Paused: true, PausedBy: new("ann@vm-a (not verified)"), Archived: 1, Latency: "0s",
			PausedAt: new(wire.At(clitest.Now.Add(-2 * time.Minute))), PauseNote: new("it moves"),
		},
	}})
	s.Pipe().Run(t, "queue", "list").Expect(t, 0,
		"default\topen\t7\t3\t2\t1\t0\t9\t4\t1.5s\t100\t\t2m\t60\t59.5\t2\t80ms\t\t\n"+
			"low\tpaused\t0\t0\t0\t0\t1\t0\t0\t0s\t\tann@vm-a (not verified)\t\t0\t0\t0\t\t"+
			"2026-01-02T15:02:05.000Z\tit moves\n", "")
	s.Terminal().Run(t, "queue", "list").Expect(t, 0,
		"NAME     STATE   WAITING  PENDING  ACTIVE  OLDEST  BEGUN/MIN  ENDED/MIN  BAD/MIN  LATE_P99  CAPACITY  "+
			"PAUSED         PAUSED_BY                NOTE\n"+
			"default  open    7        2        1       2m      60         60         2        80ms      100\n"+
			"low      "+printer.Yellow+"paused"+printer.Reset+"  0        0        0"+
			"               0          0          0                            2 minutes ago  "+
			"ann@vm-a (not verified)  it moves\n", "")
}
