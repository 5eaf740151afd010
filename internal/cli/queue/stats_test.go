package queue_test

import (
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/clitest"
)

// counts are 7,200 attempts, of which 6 did not succeed.
var counts = wire.Counts{
	Begun: 7201, Ended: 7200, Succeeded: 7194, Failed: 3, Timeout: 2, Lost: 1, Dead: 1, LateP50: new("10ms"),
	LateP99: new("80ms"), LateMax: new("1.2s"),
	Waiting: 91128, Oldest: "1m30s",
}

func TestStats_PrintsQueuesOrPeriods(t *testing.T) {
	s := clitest.Start(t)
	from := clitest.Now.Add(-time.Hour)
	s.On("GET /v1/stats", 200, wire.Stats{
		From: wire.At(from), Until: wire.At(clitest.Now), Length: "1m",
		Queues:  []wire.QueueStats{{Name: "mail", Counts: counts}},
		Periods: []wire.Period{{At: wire.At(from), Counts: counts}},
	})
	const figures = "\t80ms\t1.2s\t91128\t1m30s\t"
	s.Pipe().Run(t, "queue", "stats").Expect(t, 0, "mail\t7201\t7200\t6\t1\t2\t10ms"+figures+"2\t0.001667\n", "")
	s.Pipe().Run(t, "queue", "stats", "mail", "--since", "30m").Expect(t, 0,
		"2026-01-02T14:04:05.000Z\t7201\t7200\t6\t1\t120\t10ms"+figures+"120\t0.1\n", "")
	s.Terminal().Run(t, "queue", "stats").Expect(t, 0,
		"QUEUE  BEGUN  ENDED  FAILED  DEAD  BEGUN/S  ENDED/S  FAILED/S  LATE_P50  LATE_P99  LATE_MAX  WAITING  OLDEST\n"+
			"mail   7201   7200   6       1     2        2        0.0017    10ms      80ms      1.2s      91128    1m30s\n", "")
	s.Pipe().Run(t, "queue", "stats", "mail", "--since", "30m")
	if got := s.Last().Line; got != "GET /v1/stats?since=30m&queue=mail" {
		t.Errorf("asked for %s", got)
	}
	s.Pipe().Run(t, "queue", "stats", "a", "b").Expect(t, 2, "",
		"dtsctl: \"b\" is one argument too many\nRun 'dtsctl queue stats --help' for what it takes.\n")
}
