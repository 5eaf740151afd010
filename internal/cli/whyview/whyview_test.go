package whyview_test

import (
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/clitest"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// waits is a task of a paused queue that is due in an hour.
var waits = wire.Why{
	At: new(wire.At(clitest.Now)), State: new(wire.StateScheduled), Now: new("It waits for attempt 1 of 25."),
	WaitingFor: &wire.WaitingFor{
		Code: wire.WaitsForNotDue, Since: new(wire.At(clitest.Now.Add(-2 * time.Minute))),
		NextAttemptAt: new(wire.At(clitest.Now.Add(time.Hour))),
		Detail:        "It is due at 16:04.", ToDo: "Wait.",
	},
	Also: []wire.WaitingFor{
		{Code: wire.WaitsForQueuePaused, Ahead: new(1), Detail: "It is paused.", ToDo: "Resume it."},
	},
}

func TestWhy_PrintsSentencesAndLines(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/tasks/{id}/why", 200, waits)
	s.Terminal().Run(t, "task", "why", "a").Expect(t, 0, `a: It waits for attempt 1 of 25.

It waits for this:
  not_due, for 2 minutes, due in 1 hour
    It is due at 16:04.
    Wait.

Then this must change, too:
  queue_paused, 1 task ahead
    It is paused.
    Resume it.
`, "")
	s.Pipe().Run(t, "task", "why", "a").Expect(t, 0,
		"not_due\t2026-01-02T15:02:05.000Z\t\t2026-01-02T16:04:05.000Z\t\tIt is due at 16:04.\tWait.\t\n"+
			"queue_paused\t\t1\t\t\tIt is paused.\tResume it.\t\n", "")
}

func TestWhy_ShowsHowManyTasksWaitForEach(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/queues/{queue}/why", 200, wire.Why{
		At: new(wire.At(clitest.Now)), Now: new("8 tasks are waiting in it."),
		WaitingFor: &wire.WaitingFor{
			Code: wire.WaitsForTypeUnserved, Ahead: new(8), Tasks: new(5), Detail: "Nobody runs it.", ToDo: "Run it.",
		},
		Also: []wire.WaitingFor{{Code: wire.WaitsForQueueFull, Ahead: new(8), Detail: "It is full.", ToDo: "Wait."}},
	})
	s.Terminal().Run(t, "queue", "why", "low").Expect(t, 0, `low: 8 tasks are waiting in it.

It waits for this:
  type_unserved, 5 of 8 tasks
    Nobody runs it.
    Run it.

Then this must change, too:
  queue_full, 8 tasks ahead
    It is full.
    Wait.
`, "")
	s.Pipe().Run(t, "queue", "why", "low").Expect(t, 0,
		"type_unserved\t\t8\t\t\tNobody runs it.\tRun it.\t5\nqueue_full\t\t8\t\t\tIt is full.\tWait.\t\n", "")
}

func TestWhy_SaysWhatDoesNotHoldItUp(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/schedules/{id}/why", 200, wire.Why{
		Now: new("It ticks."), Also: []wire.WaitingFor{},
		WaitingFor: &wire.WaitingFor{Code: wire.WaitsForNotDue, Detail: "It is due at 16:04.", ToDo: "Wait."},
		Beside: []wire.WaitingFor{{
			Code: wire.WaitsForRetry, NextAttemptAt: new(wire.At(clitest.Now.Add(time.Hour))), LastError: new("refused"),
			Detail: "Its task fails.", ToDo: "See why.",
		}},
	})
	s.Terminal().Run(t, "schedule", "why", "a").Expect(t, 0, `a: It ticks.

It waits for this:
  not_due
    It is due at 16:04.
    Wait.

Beside that:
  retry, due in 1 hour
    Its task fails.
    See why.
`, "")
	s.Pipe().Run(t, "schedule", "why", "a").Expect(t, 0,
		"not_due\t\t\t\t\tIt is due at 16:04.\tWait.\t\n"+
			"retry\t\t\t2026-01-02T16:04:05.000Z\trefused\tIts task fails.\tSee why.\t\n", "")
}

func TestWhy_SaysThatNothingIsWaitedFor(t *testing.T) {
	s := clitest.Start(t)
	nothing := wire.Why{At: new(wire.At(clitest.Now)), Now: new("Nothing waits in it."), Also: []wire.WaitingFor{}}
	s.On("GET /v1/queues/{queue}/why", 200, nothing)
	s.On("GET /v1/schedules/{id}/why", 404, clitest.Problem(404, wire.ScheduleNotFound, "", "no schedule a"))
	s.Terminal().Run(t, "queue", "why", "low").Expect(t, 0, "low: Nothing waits in it.\n\nIt waits for nothing.\n", "")
	s.Pipe().Run(t, "queue", "why", "low").Expect(t, 0, "", "")
	s.Pipe().Run(t, "schedule", "why", "a").Expect(t, 1, "", "dtsctl: no schedule a (schedule_not_found)\n")
}

func TestWhy_SaysOnlyWhatIsKnownWithoutRedis(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/tasks/{id}/why", 200, wire.Why{
		WaitingFor: &wire.WaitingFor{Code: wire.WaitsForRedisSilent, Detail: "Redis is away.", ToDo: "Bring Redis back."},
		Also:       []wire.WaitingFor{}, Warnings: []string{"what else it waits for is not known"},
	})
	s.Terminal().Run(t, "task", "why", "a").Expect(t, 0,
		"a waits for this:\n  redis_silent\n    Redis is away.\n    Bring Redis back.\n",
		"warning: what else it waits for is not known\n")
}

// The three commands say the same of themselves, each of its own noun.
func TestWhy_HelpsInWholeSentences(t *testing.T) {
	s := clitest.Start(t)
	for noun, want := range map[string][]string{
		"task":     {"why says what a task waits for, and what to do", "none if the task waits for nothing."},
		"schedule": {"why says what the next tick of a schedule waits for,", "To ask why the task of a tick waits,"},
		"queue":    {"why says what the tasks of a queue wait for,", "none if nothing holds the queue up."},
	} {
		help := s.Terminal().Run(t, noun, "why", "--help").Out
		for _, text := range append(want, "dtsctl "+noun+" why ", "code, since, ahead") {
			if !strings.Contains(help, text) {
				t.Errorf("the help of %s why lacks %q: %s", noun, text, help)
			}
		}
	}
}
