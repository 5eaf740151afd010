package schedule_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/clitest"
	"github.com/dts-sched/dts/internal/cli/printer"
)

func TestPause_TriesAllSchedules(t *testing.T) {
	s := clitest.Start(t)
	s.Handle("POST /v1/schedules/{id}/pause", func(w http.ResponseWriter, r *http.Request) {
		id := r.PathValue("id")
		if id == "none" {
			s.Reply(w, 404, clitest.Problem(404, wire.ScheduleNotFound, "", "no such schedule"))
			return
		}
		s.Reply(w, 200, aSchedule(id, func(c *wire.Schedule) { c.Paused, c.PauseNote, c.Live = true, new("why"), 2 }))
	})
	args := []string{"schedule", "pause", "a", "none", "b"}
	s.Pipe().Run(t, append(args, "--note", "why")...).Expect(t, 1, "a\tpaused\nb\tpaused\n", "dtsctl: none: no such schedule (schedule_not_found)\n")
	if got := s.Last().Body; got != `{"note":"why"}` {
		t.Errorf("sent %s", got)
	}
	s.Terminal().Run(t, "schedule", "pause", "a").Expect(t, 0, "a "+printer.Yellow+"paused"+printer.Reset+" until it is resumed (why); 2 tasks that it created can go on\n", "")
	if got := s.Last().Body; got != `{}` {
		t.Errorf("sent %s", got)
	}
}

func TestResume_SaysWhichTicksOfThePauseRun(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/schedules/{id}", 200, aSchedule("a", func(c *wire.Schedule) {
		c.Paused, c.PausedAt, c.AfterPause = true, new(wire.At(clitest.Now.Add(-time.Hour))), new("None of them runs.")
	}))
	s.On("POST /v1/schedules/{id}/resume", 200, aSchedule("a"))
	s.Terminal().Run(t, "schedule", "resume", "a").Expect(t, 0,
		"a active again, after a pause of 1 hour. None of them runs.\n  next 2026-01-02 15:07:05Z, in 3 minutes\n", "")
	s.Pipe().Run(t, "schedule", "resume", "a").Expect(t, 0, "a\tactive\n", "")
}

func TestResume_AcceptsAScheduleThatIsNotPaused(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/schedules/{id}", 200, aSchedule("a"))
	s.On("POST /v1/schedules/{id}/resume", 200, aSchedule("a"))
	s.Terminal().Run(t, "schedule", "resume", "a").Expect(t, 0, "a active, as it was\n  next 2026-01-02 15:07:05Z, in 3 minutes\n", "")
}

// byHand is the record of a run by hand.
func byHand(outcome wire.TickOutcome, task string) wire.LedgerEntry {
	e := wire.LedgerEntry{Tick: wire.At(clitest.Now), Outcome: outcome, DecidedAt: wire.At(clitest.Now), Revision: 1}
	if task != "" {
		e.Task = &task
	} else {
		e.Reason = new("waits for its turn")
	}
	return e
}

func TestTrigger_TellsTheTask(t *testing.T) {
	s := clitest.Start(t)
	s.On("POST /v1/schedules/{id}/trigger", 200, byHand(wire.TickOutcomeTriggered, "a@1-manual"))
	s.Pipe().Run(t, "schedule", "trigger", "a").Expect(t, 0, "a@1-manual\ttriggered\n", "")
	s.Terminal().Run(t, "schedule", "trigger", "a").Expect(t, 0, "a@1-manual triggered\n", "")
	s.Pipe().Run(t, "schedule", "trigger", "a", "--idempotency-key", "k").Expect(t, 0, "a@1-manual\ttriggered\n", "")
	if key := s.Last().Header.Get("Idempotency-Key"); key != "k" {
		t.Errorf("the key is %q", key)
	}
	s.On("GET /v1/tasks/{id}", 200, clitest.Task("a@1-manual", wire.StateFailed, clitest.Ran))
	s.Pipe().Run(t, "schedule", "trigger", "a", "--wait").Expect(t, 1, "a@1-manual\tfailed\n", "runs as a@1-manual\ndtsctl: a@1-manual failed\n")
}

func TestTrigger_TellsThatTheScheduleIsBusy(t *testing.T) {
	s := clitest.Start(t)
	s.On("POST /v1/schedules/{id}/trigger", 409, clitest.Problem(409, wire.ScheduleBusy, "", "a task has not ended"))
	s.Pipe().Run(t, "schedule", "trigger", "a").Expect(t, 1, "", "dtsctl: a task has not ended (schedule_busy)\n")
}

func TestTrigger_WaitsForItsTurn(t *testing.T) {
	s := clitest.Start(t)
	s.On("POST /v1/schedules/{id}/trigger", 200, byHand(wire.TickOutcomeQueued, ""))
	s.Pipe().Run(t, "schedule", "trigger", "a").Expect(t, 0, "\tqueued\n", "")
	s.Terminal().Run(t, "schedule", "trigger", "a").Expect(t, 0, "a "+printer.Cyan+"queued"+printer.Reset+": waits for its turn\n", "")

	tick := byHand(wire.TickOutcomeFired, "a@1") // of the same time
	s.On("GET /v1/schedules/{id}/ledger", 200, wire.LedgerPage{Entries: []wire.LedgerEntry{tick, byHand(wire.TickOutcomeTriggered, "a@1-manual")}})
	s.On("GET /v1/tasks/{id}", 200, clitest.Task("a@1-manual", wire.StateSucceeded, clitest.Ran))
	s.Pipe().Run(t, "schedule", "trigger", "a", "--wait").Expect(t, 0, "a@1-manual\tsucceeded\n", "a waits for its turn\nruns as a@1-manual\n")
}

func TestTrigger_TellsThatTheRunWasReplaced(t *testing.T) {
	s := clitest.Start(t)
	s.On("POST /v1/schedules/{id}/trigger", 200, byHand(wire.TickOutcomeQueued, ""))
	s.On("GET /v1/schedules/{id}/ledger", 200, wire.LedgerPage{Entries: []wire.LedgerEntry{byHand(wire.TickOutcomeReplaced, "")}})
	s.Pipe().Run(t, "schedule", "trigger", "a", "--wait").Expect(t, 1, "", "a waits for its turn\ndtsctl: it did not run: waits for its turn (replaced)\n")
}

func TestBackfill_ListsWhatItCreated(t *testing.T) {
	s := clitest.Start(t)
	entries := ledger().Entries[:1]
	entries[0].Outcome = wire.TickOutcomeBackfilled
	s.On("POST /v1/schedules/{id}/backfill", 200, wire.BackfillAnswer{Entries: entries, Left: 2})
	args := []string{"schedule", "backfill", "a", "--from", "1h", "--to", "2026-01-02T15:04:05Z"}
	const line = "2026-01-02T15:03:05.000Z\tbackfilled\t12ms\ta@20260102T150305Z\t\t2026-01-02T15:03:05.000Z\t2\n"
	s.Pipe().Run(t, args...).Expect(t, 0, line, "")
	if got := s.Last().Body; got != `{"from":"2026-01-02T14:04:05.000Z","to":"2026-01-02T15:04:05.000Z"}` {
		t.Errorf("sent %s", got)
	}
	if got := s.Terminal().Run(t, append(args, "--pace", "0")...); !strings.HasSuffix(got.Out, "\n1 tick will run; 2 ticks had run before.\n") {
		t.Errorf("got %s", got.Out)
	}
	if got := s.Last().Body; got != `{"from":"2026-01-02T14:04:05.000Z","pace":"0s","to":"2026-01-02T15:04:05.000Z"}` {
		t.Errorf("sent %s", got)
	}
}

func TestBackfill_EndsAtTheNewestDecidedTick(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/schedules/{id}", 200, aSchedule("a", func(c *wire.Schedule) { c.Cursor = wire.At(clitest.Now.Add(-time.Minute)) }))
	s.On("POST /v1/schedules/{id}/backfill", 200, wire.BackfillAnswer{Entries: []wire.LedgerEntry{}})
	s.Pipe().Run(t, "schedule", "backfill", "a", "--from", "1h").Expect(t, 0, "", "")
	if got := s.Last().Body; got != `{"from":"2026-01-02T14:04:05.000Z","to":"2026-01-02T15:03:05.000Z"}` {
		t.Errorf("sent %s", got)
	}
}

func TestDelete_SaysWhatBecameOfTheTasks(t *testing.T) {
	s := clitest.Start(t)
	answer := wire.ScheduleDeletion{Cancelled: 2, Stopping: 1}
	s.Handle("DELETE /v1/schedules/{id}", func(w http.ResponseWriter, _ *http.Request) { s.Reply(w, 200, answer) })
	s.Pipe().Run(t, "schedule", "delete", "a", "b", "--tasks", "all").Expect(t, 0, "a\t2\t1\t0\nb\t2\t1\t0\n", "")
	if got := s.Last().Line; got != "DELETE /v1/schedules/b?tasks=all" {
		t.Error(got)
	}
	s.Terminal().Run(t, "schedule", "delete", "a").Expect(t, 0, "a deleted; 2 tasks cancelled, 1 task asked to stop\n", "")
	if got := s.Last().Line; got != "DELETE /v1/schedules/a" {
		t.Error(got)
	}
	answer = wire.ScheduleDeletion{}
	s.Terminal().Run(t, "schedule", "delete", "a").Expect(t, 0, "a deleted; all of its tasks had ended\n", "")
}

func TestRollback_TellsItsWarnings(t *testing.T) {
	s := clitest.Start(t)
	after := aSchedule("a", func(c *wire.Schedule) { c.Revision, c.Warnings = 5, []string{"a task is old"} })
	s.On("GET /v1/schedules/{id}", 200, aSchedule("a"))
	s.On("POST /v1/schedules/{id}/rollback", 200, after)
	if got := s.Pipe().Run(t, "schedule", "rollback", "a", "3"); got.Code != 0 || got.Err != "warning: a task is old\n" {
		t.Errorf("exit code %d, %q", got.Code, got.Err)
	}
}

func TestRollback_TellsWhatChanged(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/schedules/{id}", 200, aSchedule("a", func(c *wire.Schedule) { c.Revision, c.Jitter = 4, new("1s") }))
	s.On("POST /v1/schedules/{id}/rollback", 200, aSchedule("a", func(c *wire.Schedule) { c.Revision = 5 }))
	s.On("GET /v1/schedules/{id}/next", 200, aPreview())
	args := []string{"schedule", "rollback", "a", "3", "--if-match", "4"}
	s.Pipe().Run(t, args...).Expect(t, 0, "a\tchanged\t5\t2026-01-02T15:07:05.000Z\n", "")
	if got := s.Last(); got.Body != `{"revision":3}` || got.Header.Get("If-Match") != `"4"` {
		t.Errorf("sent %s with %v", got.Body, got.Header)
	}
	s.Terminal().Run(t, args...).Expect(t, 0, "a changed, now revision 5\n  jitter  1s  ->  -\nNo further ticks.\n", "")
}

func TestSchedule_RefusesBadUsage(t *testing.T) {
	const times = `; write how long ago it was, as 90s, 2h or 36h, or 2026-01-02T15:04:05Z, or 2026-01-02, ` +
		`"2026-01-02 15:04" or "2026-01-02 15:04:05" for local time`
	for line, want := range map[string]string{
		"schedule nonsense":                                `dtsctl schedule has no command "nonsense"`,
		"schedule get":                                     "ID is missing",
		"schedule pause":                                   "ID is missing",
		"schedule delete .":                                `ID: "." cannot be a name`,
		"schedule rollback a":                              "REVISION is missing",
		"schedule rollback a x":                            `REVISION: "x" is not the number of a revision`,
		"schedule rollback a 1 --if-match 0":               "--if-match: 0 is less than 1",
		"schedule backfill a":                              "--from is missing",
		"schedule trigger a --wait --dry-run":              "--wait and --dry-run: give one of them, not both",
		"schedule forecast --next 3 --hours 2":             "--next cannot be given together with --hours and --within",
		"schedule backfill a --from 1h --to 0s --pace -1s": "--pace: -1s is negative",
		"schedule ledger a --since -2h":                    `--since: "-2h" is not a time` + times,
		"schedule ledger a --until never":                  `--until: "never" is not a time` + times,
		"schedule ledger a --limit 0":                      "--limit: 0 is less than 1",
		"schedule audit a --from x":                        `--from: "x" is not a time` + times,
		"schedule audit a --to x":                          `--to: "x" is not a time` + times,
		"schedule list --label x":                          `--label: "x" must be NAME=VALUE`,
		"schedule next a --after 2h": `--after: "2h" is not a time; write 2026-01-02T15:04:05Z, or 2026-01-02, ` +
			`"2026-01-02 15:04" or "2026-01-02 15:04:05" for local time`,
		"schedule forecast x": `"x" is one argument too many`,
	} {
		got := clitest.Shell{Server: "http://127.0.0.1:1"}.Run(t, strings.Fields(line)...)
		if first, _, _ := strings.Cut(got.Err, "\n"); got.Code != 2 || got.Out != "" || first != "dtsctl: "+want {
			t.Errorf("%s: code %d\n%s\nwant %s", line, got.Code, got.Err, want)
		}
	}
}

func TestSchedule_EndsWithThreeIfTheServerIsUnreachable(t *testing.T) {
	for _, line := range []string{
		"put a --every 1s -- true", "get a", "list", "next a", "pause a", "resume a", "trigger a", "backfill a --from 1h", "delete a",
		"ledger a", "audit a", "history a", "rollback a 1", "forecast",
	} {
		if got := (clitest.Shell{Server: "http://127.0.0.1:1"}).Run(t, strings.Fields("schedule "+line)...); got.Code != 3 || got.Out != "" {
			t.Errorf("schedule %s: %+v", line, got)
		}
	}
}
