package task_test

import (
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/clitest"
)

func TestFailures_PrintsCauses(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/failures", 200, wire.FailureList{
		From: wire.At(clitest.Now.Add(-time.Hour)), Until: wire.At(clitest.Now), Untold: 7,
		Failures: []wire.Failure{{
			Error: "order # is not there", Namespace: "default", Count: 500, Dead: 100,
			Queues: []string{"default", "mail"}, Schedules: []string{"nightly"},
			Types: []string{"http"}, Example: wire.FailureExample{Task: "nightly@20260102T150405Z", Attempt: 4},
			First: wire.At(clitest.Now.Add(-time.Hour)), Last: wire.At(clitest.Now),
		}},
	})
	s.Pipe().Run(t, "task", "failures").Expect(t, 0,
		"500\t100\torder # is not there\tdefault,mail\tnightly\thttp\tnightly@20260102T150405Z"+
			"\t2026-01-02T14:04:05.000Z\t2026-01-02T15:04:05.000Z\tdefault\n",
		"7 further failures in all namespaces, of rare causes, of which only the number is known\n")
	for command, want := range map[string]string{"task failures": "COUNT ", "task failures -A": "NAMESPACE "} {
		if got := s.Terminal().Run(t, strings.Fields(command)...); !strings.HasPrefix(got.Out, want) {
			t.Errorf("%s prints %s", command, got.Out)
		}
	}
	s.Pipe().Run(t, "task", "failures", "--since", "24h", "--queue", "mail", "--schedule", "nightly", "-A")
	if got := s.Last().Line; got != "GET /v1/failures?namespace=%2A&since=24h&queue=mail&schedule=nightly" {
		t.Errorf("asked for %s", got)
	}
}

func TestFailures_SaysThatNothingFailed(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/failures", 200, wire.FailureList{From: wire.At(clitest.Now), Until: wire.At(clitest.Now),
		Failures: []wire.Failure{}})
	s.Pipe().Run(t, "task", "failures").Expect(t, 0, "", "")
	s.Terminal().Run(t, "task", "failures").Expect(t, 0,
		"Nothing failed in the last 1h in the namespace \"default\".\n", "")
}
