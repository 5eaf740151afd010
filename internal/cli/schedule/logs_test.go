package schedule_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/clitest"
)

func scheduleLine(tick, stream, text string) wire.ScheduleLogLine {
	return wire.ScheduleLogLine{
		Task: "a@" + tick, Cursor: "1-1", Attempt: 1, Stream: stream, At: wire.At(clitest.Now), Text: text,
	}
}

func TestLogs_PrintsPagesInTheOrderOfTicks(t *testing.T) {
	s := clitest.Start(t)
	first, second := scheduleLine("t1", "stdout", "one"), scheduleLine("t2", "stderr", "two")
	s.Handle("GET /v1/schedules/{id}/logs", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("before") == "" {
			s.Reply(w, 200, wire.ScheduleLogPage{Lines: []wire.ScheduleLogLine{second}, PreviousCursor: new("p")})
			return
		}
		s.Reply(w, 200, wire.ScheduleLogPage{Lines: []wire.ScheduleLogLine{first}, Forgotten: []string{"a@t0"}})
	})
	s.Pipe().Run(t, "schedule", "logs", "a", "--ticks", "3", "--grep", "o", "--attempt", "1").
		Expect(t, 0, "a@t1 1: one\n", "dtsctl: the log of a@t0 is gone: the task is forgotten\na@t2 1: two\n")
	want := "GET /v1/schedules/a/logs?ticks=3&attempt=1&grep=o&limit=1000\n" +
		"GET /v1/schedules/a/logs?ticks=3&before=p&attempt=1&grep=o&limit=1000"
	if got := strings.Join(s.Lines(), "\n"); got != want {
		t.Errorf("asked %s", got)
	}
	s.Pipe().Run(t, "schedule", "logs", "a", "--tail", "1", "-o", "json").Expect(t, 0, clitest.JSON(t, second)+"\n", "")
	s.Pipe().Run(t, "schedule", "logs", "a", "--tail", "0").
		Expect(t, 2, "", "dtsctl: --tail: want at least one line\nRun 'dtsctl schedule logs --help' for what it takes.\n")
}
