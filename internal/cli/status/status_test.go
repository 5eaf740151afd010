package status_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/clitest"
	"github.com/dts-sched/dts/internal/cli/printer"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

var well = wire.Status{
	At: new(wire.At(clitest.Now)), Level: wire.StatusOK, Sentence: "All well.", Reasons: []wire.StatusReason{},
	Figures: wire.StatusFigures{Nodes: 1, Capacity: 10, Waiting: new(0)},
}

// trouble has a reason of each severity.
var trouble = wire.Status{
	At: new(wire.At(clitest.Now)), Level: wire.StatusBad, Sentence: "One thing needs somebody now.",
	Reasons: []wire.StatusReason{
		{
			Code: wire.StatusQueueUnserved, Severity: wire.SeverityBad, Since: new(wire.At(clitest.Now.Add(-3 * time.Minute))),
			About: wire.AboutQueue, ID: new("mails"), Detail: "Nobody takes any.", ToDo: "Start a worker.", More: new(7),
		},
		{Code: wire.StatusRedisDisk, Severity: wire.SeverityWarn, About: wire.AboutRedis, Detail: "No disk.", ToDo: "Look."},
	},
	Figures: wire.StatusFigures{
		Nodes: 2, Running: 3, Capacity: 20, Waiting: new(1), OverMs: new(int64(300_000)), BegunPerSecond: new(float32(2.5)),
		EndedPerSecond: new(float32(2.25)), LateP50Ms: new(int64(2)), LateP99Ms: new(int64(14)), LateMaxMs: new(int64(1500)),
		RedisMemory: new(int64(3 << 20)), RedisMaxMemory: new(int64(1 << 30)), RedisRoundTripMs: new(float32(0.25)),
	},
}

func TestStatus_PrintsSentencesAndLines(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/status", 200, trouble)
	s.Terminal().Run(t, "status").Expect(t, 1, `One thing needs somebody now.

`+printer.Red+`bad`+printer.Reset+`  queue_unserved  queue mails  for 3 minutes
  Nobody takes any.
  Start a worker.
  The same holds for 7 more.

`+printer.Yellow+`warn`+printer.Reset+`  redis_disk
  No disk.
  Look.

Now: 2 nodes, 3 of 20 slots taken, 1 task waiting
Last 5 minutes: 2.5 begun, 2.2 ended, 0 failed a second
Lateness: median 2ms, 99 % below 14ms, at most 1.5s
Redis: 3 MiB of 1.0 GiB, answers in 0.2 ms
`, "")
	s.Pipe().Run(t, "status").Expect(t, 1,
		"queue_unserved\tbad\t2026-01-02T15:01:05.000Z\tqueue\t\tmails\tNobody takes any.\tStart a worker.\t7\n"+
			"redis_disk\twarn\t\tredis\t\t\tNo disk.\tLook.\t0\n", "")
}

func TestStatus_SaysHowManyWaitUnderLimits(t *testing.T) {
	s := clitest.Start(t)
	limited := well
	limited.Figures.Waiting, limited.Figures.WaitingUnderLimits = new(5), new(3)
	s.On("GET /v1/status", 200, limited)
	s.Terminal().Run(t, "status").Expect(t, 0,
		"All well.\n\nNow: 1 node, 0 of 10 slots taken, 5 tasks waiting, 3 of them under limits\n", "")
}

func TestStatus_SucceedsIfNothingIsBad(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/status", 200, well)
	s.Terminal().Run(t, "status").Expect(t, 0, "All well.\n\nNow: 1 node, 0 of 10 slots taken, 0 tasks waiting\n", "")
	s.Pipe().Run(t, "status").Expect(t, 0, "", "")
	warned := well
	warned.Level, warned.Reasons = wire.StatusWarn, trouble.Reasons[1:]
	s = clitest.Start(t)
	s.On("GET /v1/status", 200, warned)
	s.Pipe().Run(t, "status").Expect(t, 0, "redis_disk\twarn\t\tredis\t\t\tNo disk.\tLook.\t0\n", "")
}

// A pipe gets a line for each change, also after the server was away; a terminal the present status.
func TestStatus_WatchesUntilInterrupted(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	shell := clitest.Serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch asked.Add(1) {
		case 1, 2:
			_, _ = w.Write([]byte(clitest.JSON(t, well)))
		case 3:
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			_, _ = w.Write([]byte(clitest.JSON(t, trouble)))
		}
	})
	j := shell.Start(t, "status", "--watch")
	j.Out.Await(t, "needs somebody")
	j.Interrupt()
	got := j.Wait()
	const want = "2026-01-02T15:04:05.000Z\tok\tAll well.\n2026-01-02T15:04:05.000Z\tbad\tOne thing needs somebody now.\n"
	if got.Out != want || got.Code != 0 || strings.Count(got.Err, "trying again") != 1 {
		t.Errorf("code %d, %q, %q", got.Code, got.Out, got.Err)
	}
	shell.IsTerminal = true
	j = shell.Start(t, "status", "--watch")
	j.Out.Await(t, "answers in")
	j.Interrupt()
	if got := j.Wait(); got.Code != 0 || !strings.HasPrefix(got.Out, "\x1b[H\x1b[2JOne thing") {
		t.Errorf("code %d, %q, %q", got.Code, got.Out, got.Err)
	}
}
