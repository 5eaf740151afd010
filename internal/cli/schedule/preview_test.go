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

func TestTrigger_DryRunSaysWhatItWouldReplace(t *testing.T) {
	s := clitest.Start(t)
	run := byHand(wire.TickOutcomeQueued, "")
	run.Replaces = &wire.Replaced{Tasks: 3, Ticks: 1, Examples: []string{"a@1", "a@2"}}
	s.On("POST /v1/schedules/{id}/trigger", 200, run)
	s.Pipe().Run(t, "schedule", "trigger", "a", "--dry-run").Expect(t, 0, "\tqueued\n", "")
	if got := s.Last().Line; got != "POST /v1/schedules/a/trigger?dry_run=true" {
		t.Error(got)
	}
	queued := printer.Cyan + "queued" + printer.Reset + ": waits for its turn; it "
	const what = " 3 tasks (a@1, a@2, and 1 more) and 1 tick that waited\n"
	dry := s.Terminal().Run(t, "schedule", "trigger", "a", "--dry-run")
	dry.Expect(t, 0, "a would be "+queued+"would replace"+what, "")
	s.Terminal().Run(t, "schedule", "trigger", "a").Expect(t, 0, "a "+queued+"replaces"+what, "")
	if got := s.Last().Line; got != "POST /v1/schedules/a/trigger" {
		t.Error(got)
	}
}

func TestBackfill_DryRunSaysWhatWouldRun(t *testing.T) {
	s := clitest.Start(t)
	answer := wire.BackfillAnswer{
		Entries: ledger().Entries[:1], Left: 7, LastDueAt: new(wire.At(clitest.Now.Add(5 * time.Minute))),
		LeftAlone: []wire.LeftTick{{Tick: wire.At(clitest.Now), Task: new("a@1")}, {Tick: wire.At(clitest.Now)}},
	}
	s.On("POST /v1/schedules/{id}/backfill", 200, answer)
	args := []string{"schedule", "backfill", "a", "--from", "1h", "--to", "2026-01-02T15:04:05Z", "--dry-run"}
	got := s.Pipe().Run(t, args...)
	const notes = "This would run 1 tick, the last one in 5 minutes.\n" +
		"It leaves alone 7 ticks that ran before or will run: a@1, 2026-01-02T15:04:05Z (waits for its turn), and 5 more.\n"
	if got.Code != 0 || strings.Count(got.Out, "\n") != 1 || got.Err != notes {
		t.Errorf("got %+v", got)
	}
	if line := s.Last().Line; line != "POST /v1/schedules/a/backfill?dry_run=true" {
		t.Error(line)
	}
	empty := clitest.Start(t)
	empty.On("POST /v1/schedules/{id}/backfill", 200, wire.BackfillAnswer{Entries: []wire.LedgerEntry{}})
	empty.Terminal().Run(t, args...).Expect(t, 0, "", "This would run 0 ticks.\n")
}

func TestDelete_DryRunShowsTheTasks(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/schedules", 200, wire.ScheduleList{Schedules: []wire.Schedule{aSchedule("a"), aSchedule("b")}})
	s.On("DELETE /v1/schedules/{id}", 200, wire.ScheduleDeletion{
		Cancelled: 1, Stopping: 1, WaitingTicks: new(2), Examples: []wire.DeletedTask{
			{ID: "a@1", State: wire.StateScheduled, Fate: wire.TaskFateCancelled},
			{ID: "a@2", State: wire.StateRunning, Fate: wire.TaskFateStopping},
		},
	})
	args := []string{"schedule", "delete", "--tasks", "all", "--dry-run"}
	s.Pipe().Run(t, append(args, "--label", "x=1")...).Expect(t, 0, "a\t1\t1\t0\nb\t1\t1\t0\n", "")
	if got := s.Last().Line; got != "DELETE /v1/schedules/b?dry_run=true&tasks=all" {
		t.Error(got)
	}
	got := s.Terminal().Run(t, append(args, "a")...)
	want := "a would be deleted; 1 task cancelled, 1 task asked to stop, 2 ticks that waited dropped\n"
	if got.Code != 0 || !strings.HasPrefix(got.Out, want) || !strings.Contains(got.Out, "asked to stop\n") {
		t.Errorf("got %d\n%s", got.Code, got.Out)
	}
}

func TestRollback_DryRunShowsTheChangesAndTheTicks(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/schedules/{id}", 200, aSchedule("a", func(c *wire.Schedule) { c.Revision, c.Jitter = 4, new("1s") }))
	after := 5
	s.Handle("POST /v1/schedules/{id}/rollback", func(w http.ResponseWriter, _ *http.Request) {
		s.Reply(w, 200, aSchedule("a", func(c *wire.Schedule) { c.Revision = after }))
	})
	s.Handle("GET /v1/schedules/{id}/next", func(w http.ResponseWriter, r *http.Request) {
		tick := clitest.Now.Add(time.Minute)
		if r.URL.Query().Get("revision") == "3" {
			tick = clitest.Now.Add(time.Hour)
		}
		local := tick.Format("2006-01-02T15:04:05.000-07:00")
		ticks := []wire.UpcomingTick{{Tick: wire.At(tick), Local: local}}
		s.Reply(w, 200, wire.SchedulePreview{Timezone: "UTC", Ticks: ticks})
	})
	args := []string{"schedule", "rollback", "a", "3", "--dry-run"}
	s.Pipe().Run(t, args...).Expect(t, 0, "a\tchanged\t5\t2026-01-02T15:07:05.000Z\n", "")
	if got := s.Last().Line; got != "POST /v1/schedules/a/rollback?dry_run=true" {
		t.Error(got)
	}
	s.Terminal().Run(t, args...).Expect(t, 0, strings.Join([]string{
		"a would change, to revision 5",
		"  jitter  1s  ->  -",
		"next ticks now, in UTC:",
		"  Fri 2026-01-02 15:05:05 +00:00  in 1 minute",
		"next ticks then, in UTC:",
		"  Fri 2026-01-02 16:04:05 +00:00  in 1 hour",
		"",
	}, "\n"), "")
	after = 4
	s.Terminal().Run(t, args...).Expect(t, 0, "a would not change: it has the definition of revision 3\n", "")
}

func TestForecast_ListsTheNextTicks(t *testing.T) {
	s := clitest.Start(t)
	list := wire.NextTickList{Ticks: []wire.NextTick{{
		Tick: wire.At(clitest.Now.Add(time.Minute)), Local: "2026-01-02T16:05:05.000+01:00", Namespace: "shop", Schedule: "a",
		Queue: "mail", Type: "http", Note: new("16:05 comes twice"),
	}}}
	s.Handle("GET /v1/forecast/next", func(w http.ResponseWriter, _ *http.Request) { s.Reply(w, 200, list) })
	args := []string{"schedule", "forecast", "--next", "20", "-A"}
	const line = "2026-01-02T15:05:05.000Z\t2026-01-02T16:05:05.000+01:00\tshop\ta\tmail\thttp\t16:05 comes twice\n"
	s.Pipe().Run(t, args...).Expect(t, 0, line, "")
	if got := s.Last().Line; got != "GET /v1/forecast/next?namespace=%2A&count=20" {
		t.Error(got)
	}
	list.KnownUntil = new(wire.At(clitest.Now.Add(time.Hour)))
	s.Terminal().Run(t, args...).Expect(t, 0,
		"TICK                  LOCAL                           IN           NAMESPACE  SCHEDULE  QUEUE  TYPE  NOTE\n"+
			"2026-01-02 15:05:05Z  Fri 2026-01-02 16:05:05 +01:00  in 1 minute  shop       a         mail   http  "+
			"16:05 comes twice\n",
		"Nobody has looked for ticks from 2026-01-02 16:04:05Z on: there are too many schedules.\n")
}

func TestForecast_SaysUpToWhenItCountsDelayedTasks(t *testing.T) {
	for want, minutes := range map[string]int{
		"; 60 delayed tasks. The fullest": 60,
		"; 2 delayed tasks until 2026-01-02 15:06:00Z (later ones are not counted). The fullest": 2,
	} {
		s := clitest.Start(t)
		f := aForecast(func(int) int { return 1 })
		f.DelayedPerMinute = f.PerMinute[:minutes]
		s.On("GET /v1/forecast", 200, f)
		if got := s.Terminal().Run(t, "schedule", "forecast"); got.Code != 0 || !strings.Contains(got.Out, want) {
			t.Errorf("%d minutes: got %d\n%s", minutes, got.Code, got.Out)
		}
	}
}

func TestForecast_SaysThatItCannotListAllTasks(t *testing.T) {
	s := clitest.Start(t)
	f := aForecast(func(int) int { return 0 })
	f.DelayedPerMinute = []int{9, 9}
	s.On("GET /v1/forecast", 200, f)
	s.Pipe().Run(t, "schedule", "forecast", "--within", "15m").Expect(t, 0, "",
		"Tasks that are due from 2026-01-02T15:06:00.000Z on are not listed: there are too many.\n")
}
