package cli

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/client"
)

func TestPauseTriesAllSchedules(t *testing.T) {
	s := startStub(t)
	s.mux.HandleFunc("POST /v1/schedules/{id}/pause", func(w http.ResponseWriter, r *http.Request) {
		id := r.PathValue("id")
		if id == "none" {
			s.reply(w, 404, problem(404, client.ScheduleNotFound, "", "no such schedule"))
			return
		}
		s.reply(w, 200, aSchedule(id, func(c *client.Schedule) { c.Paused, c.PauseNote, c.Live = true, new("why"), 2 }))
	})
	args := []string{"schedule", "pause", "a", "none", "b"}
	s.pipe().run(t, append(args, "--note", "why")...).expect(t, 1, "a\tpaused\nb\tpaused\n", "dtsctl: none: no such schedule (schedule_not_found)\n")
	if got := s.last().body; got != `{"note":"why"}` {
		t.Errorf("sent %s", got)
	}
	s.terminal().run(t, "schedule", "pause", "a").expect(t, 0, "a "+yellow+"paused"+reset+" until it is resumed (why); 2 tasks that it created can go on\n", "")
	if got := s.last().body; got != `{}` {
		t.Errorf("sent %s", got)
	}
}

func TestResumeSaysWhatBecomesOfTheTicksOfThePause(t *testing.T) {
	policies := map[string]*client.Misfire{
		"the newest one runs, if it is of the last 1 hour (misfire policy once).":                                     nil,
		"the newest one runs, if it is of the last 6h (misfire policy once).":                                         {Window: new("6h")},
		"those of the last 1 hour run, at most 100, a second apart and as their overlap allows (misfire policy all).": {Policy: new(client.MisfirePolicyAll)},
		"those of the last 2h run, at most 7, a second apart and as their overlap allows (misfire policy all).":       {Policy: new(client.MisfirePolicyAll), Window: new("2h"), Max: new(7)},
		"None of the ticks of the pause runs (misfire policy skip).":                                                  {Policy: new(client.MisfirePolicySkip)},
	}
	for want, misfire := range policies {
		s := startStub(t)
		s.on("GET /v1/schedules/{id}", 200, aSchedule("a", func(c *client.Schedule) { c.Paused, c.PausedAt = true, new(now.Add(-time.Hour)) }))
		s.on("POST /v1/schedules/{id}/resume", 200, aSchedule("a", func(c *client.Schedule) { c.Misfire = misfire }))
		if !strings.HasPrefix(want, "None") {
			want = "Of the ticks of the pause, " + want
		}
		s.terminal().run(t, "schedule", "resume", "a").expect(t, 0,
			"a active again, after a pause of 1 hour. "+want+"\n  next 2026-01-02 15:07:05Z, in 3 minutes\n", "")
		s.pipe().run(t, "schedule", "resume", "a").expect(t, 0, "a\tactive\n", "")
	}
}

func TestResumeOfWhatWasNotPaused(t *testing.T) {
	s := startStub(t)
	s.on("GET /v1/schedules/{id}", 200, aSchedule("a"))
	s.on("POST /v1/schedules/{id}/resume", 200, aSchedule("a"))
	s.terminal().run(t, "schedule", "resume", "a").expect(t, 0, "a active, as it was\n  next 2026-01-02 15:07:05Z, in 3 minutes\n", "")
}

// byHand is the record of a run by hand.
func byHand(outcome client.TickOutcome, task string) client.LedgerEntry {
	e := client.LedgerEntry{Tick: now, Outcome: outcome, DecidedAt: now, Revision: 1}
	if task != "" {
		e.Task = &task
	} else {
		e.Reason = new("waits for its turn")
	}
	return e
}

func TestTriggerTellsTheTask(t *testing.T) {
	s := startStub(t)
	s.on("POST /v1/schedules/{id}/trigger", 200, byHand(client.TickOutcomeTriggered, "a@1-manual"))
	s.pipe().run(t, "schedule", "trigger", "a").expect(t, 0, "a@1-manual\ttriggered\n", "")
	s.terminal().run(t, "schedule", "trigger", "a").expect(t, 0, "a@1-manual triggered\n", "")
	s.on("GET /v1/tasks/{id}", 200, aTask("a@1-manual", client.StateFailed, ran))
	s.pipe().run(t, "schedule", "trigger", "a", "--wait").expect(t, 1, "a@1-manual\tfailed\n", "runs as a@1-manual\n")
}

func TestTriggerOfABusySchedule(t *testing.T) {
	s := startStub(t)
	s.on("POST /v1/schedules/{id}/trigger", 409, problem(409, client.ScheduleBusy, "", "a task has not ended"))
	s.pipe().run(t, "schedule", "trigger", "a").expect(t, 1, "", "dtsctl: a task has not ended (schedule_busy)\n")
}

func TestTriggerThatWaitsForItsTurn(t *testing.T) {
	s := startStub(t)
	s.on("POST /v1/schedules/{id}/trigger", 200, byHand(client.TickOutcomeQueued, ""))
	s.pipe().run(t, "schedule", "trigger", "a").expect(t, 0, "\tqueued\n", "")
	s.terminal().run(t, "schedule", "trigger", "a").expect(t, 0, "a "+cyan+"queued"+reset+": waits for its turn\n", "")

	tick := byHand(client.TickOutcomeFired, "a@1") // of the same time
	s.on("GET /v1/schedules/{id}/ledger", 200, client.LedgerPage{Entries: []client.LedgerEntry{tick, byHand(client.TickOutcomeTriggered, "a@1-manual")}})
	s.on("GET /v1/tasks/{id}", 200, aTask("a@1-manual", client.StateSucceeded, ran))
	s.pipe().run(t, "schedule", "trigger", "a", "--wait").expect(t, 0, "a@1-manual\tsucceeded\n", "a waits for its turn\nruns as a@1-manual\n")
}

func TestTriggerThatIsReplacedWhileItWaits(t *testing.T) {
	s := startStub(t)
	s.on("POST /v1/schedules/{id}/trigger", 200, byHand(client.TickOutcomeQueued, ""))
	s.on("GET /v1/schedules/{id}/ledger", 200, client.LedgerPage{Entries: []client.LedgerEntry{byHand(client.TickOutcomeReplaced, "")}})
	s.pipe().run(t, "schedule", "trigger", "a", "--wait").expect(t, 1, "", "a waits for its turn\ndtsctl: it did not run: waits for its turn (replaced)\n")
}

func TestBackfillListsWhatItCreated(t *testing.T) {
	s := startStub(t)
	entries := ledger().Entries[:1]
	entries[0].Outcome = client.TickOutcomeBackfilled
	s.on("POST /v1/schedules/{id}/backfill", 200, client.BackfillAnswer{Entries: entries, Left: 2})
	args := []string{"schedule", "backfill", "a", "--from", "1h", "--to", "2026-01-02T15:04:05Z"}
	const line = "2026-01-02T15:03:05.000Z\tbackfilled\t12ms\ta@20260102T150305Z\t\t2026-01-02T15:03:05.000Z\t2\n"
	s.pipe().run(t, args...).expect(t, 0, line, "")
	if got := s.last().body; got != `{"from":"2026-01-02T14:04:05Z","to":"2026-01-02T15:04:05Z"}` {
		t.Errorf("sent %s", got)
	}
	if got := s.terminal().run(t, append(args, "--pace", "0")...); !strings.HasSuffix(got.out, "\n1 tick will run; 2 ticks had run before.\n") {
		t.Errorf("got %s", got.out)
	}
	if got := s.last().body; got != `{"from":"2026-01-02T14:04:05Z","pace":"0s","to":"2026-01-02T15:04:05Z"}` {
		t.Errorf("sent %s", got)
	}
}

func TestBackfillGoesAsFarAsHasBeenDecided(t *testing.T) {
	s := startStub(t)
	s.on("GET /v1/schedules/{id}", 200, aSchedule("a", func(c *client.Schedule) { c.Cursor = now.Add(-time.Minute) }))
	s.on("POST /v1/schedules/{id}/backfill", 200, client.BackfillAnswer{Entries: []client.LedgerEntry{}})
	s.pipe().run(t, "schedule", "backfill", "a", "--from", "1h").expect(t, 0, "", "")
	if got := s.last().body; got != `{"from":"2026-01-02T14:04:05Z","to":"2026-01-02T15:03:05Z"}` {
		t.Errorf("sent %s", got)
	}
}

func TestDeleteSaysWhatBecameOfTheTasks(t *testing.T) {
	s := startStub(t)
	answer := client.ScheduleDeletion{Cancelled: 2, Stopping: 1}
	s.mux.HandleFunc("DELETE /v1/schedules/{id}", func(w http.ResponseWriter, _ *http.Request) { s.reply(w, 200, answer) })
	s.pipe().run(t, "schedule", "delete", "a", "b", "--tasks", "all").expect(t, 0, "a\t2\t1\t0\nb\t2\t1\t0\n", "")
	if got := s.last().line; got != "DELETE /v1/schedules/b?tasks=all" {
		t.Error(got)
	}
	s.terminal().run(t, "schedule", "delete", "a").expect(t, 0, "a deleted; 2 tasks cancelled, 1 task asked to stop\n", "")
	if got := s.last().line; got != "DELETE /v1/schedules/a" {
		t.Error(got)
	}
	answer = client.ScheduleDeletion{}
	s.terminal().run(t, "schedule", "delete", "a").expect(t, 0, "a deleted; all of its tasks had ended\n", "")
}

func TestRollbackTellsWhatChanged(t *testing.T) {
	s := startStub(t)
	s.on("GET /v1/schedules/{id}", 200, aSchedule("a", func(c *client.Schedule) { c.Revision, c.Jitter = 4, new("1s") }))
	s.on("POST /v1/schedules/{id}/rollback", 200, aSchedule("a", func(c *client.Schedule) { c.Revision = 5 }))
	s.on("GET /v1/schedules/{id}/next", 200, aPreview())
	args := []string{"schedule", "rollback", "a", "3", "--if-match", "4"}
	s.pipe().run(t, args...).expect(t, 0, "a\tchanged\t5\t2026-01-02T15:07:05.000Z\n", "")
	if got := s.last(); got.body != `{"revision":3}` || got.head.Get("If-Match") != `"4"` {
		t.Errorf("sent %s with %v", got.body, got.head)
	}
	s.terminal().run(t, args...).expect(t, 0, "a changed, now revision 5\n  jitter  1s  ->  -\nIt ticks no more.\n", "")
}

func TestBadUsageOfSchedules(t *testing.T) {
	const times = `; write 2026-01-02T15:04:05Z, "2026-01-02 15:04" for local time, or 2h for two hours ago`
	for line, want := range map[string]string{
		"schedule nonsense":                                `dtsctl schedule has no command "nonsense"`,
		"schedule get":                                     "ID is missing",
		"schedule pause":                                   "ID is missing",
		"schedule delete .":                                `ID: "." cannot be a name`,
		"schedule rollback a":                              "REVISION is missing",
		"schedule rollback a x":                            `REVISION: "x" is not the number of a revision`,
		"schedule rollback a 1 --if-match 0":               "--if-match: 0 is less than 1",
		"schedule backfill a":                              "--from is missing",
		"schedule backfill a --from 1h --to 0s --pace -1s": "--pace: -1s is negative",
		"schedule ledger a --since -2h":                    `--since: "-2h" is not a time` + times,
		"schedule ledger a --until never":                  `--until: "never" is not a time` + times,
		"schedule ledger a --limit 0":                      "--limit: 0 is less than 1",
		"schedule audit a --from x":                        `--from: "x" is not a time` + times,
		"schedule audit a --to x":                          `--to: "x" is not a time` + times,
		"schedule list --label x":                          `--label: "x" must be NAME=VALUE`,
		"schedule next a --after 2h":                       `--after: "2h" is not a time; write 2026-01-02T15:04:05Z, or "2026-01-02 15:04" for local time`,
		"schedule forecast x":                              `"x" is one argument too many`,
	} {
		got := shell{server: "http://127.0.0.1:1"}.run(t, strings.Fields(line)...)
		if first, _, _ := strings.Cut(got.err, "\n"); got.code != 2 || got.out != "" || first != "dtsctl: "+want {
			t.Errorf("%s: code %d\n%s\nwant %s", line, got.code, got.err, want)
		}
	}
}

func TestSchedulesOfAServerThatCannotBeReached(t *testing.T) {
	for _, line := range []string{
		"put a --every 1s -- true", "get a", "list", "next a", "pause a", "resume a", "trigger a", "backfill a --from 1h", "delete a",
		"ledger a", "audit a", "history a", "rollback a 1", "forecast",
	} {
		if got := (shell{server: "http://127.0.0.1:1"}).run(t, strings.Fields("schedule "+line)...); got.code != 3 || got.out != "" {
			t.Errorf("schedule %s: %+v", line, got)
		}
	}
}
