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

func TestGet_ShowsDefinitionAndState(t *testing.T) {
	s := clitest.Start(t)
	c := aSchedule("a", func(c *wire.Schedule) {
		c.Cron, c.Specs, c.Timezone = nil, []wire.ScheduleRule{{Cron: new("7 * * * *")}, {Every: new("1h")}}, new("UTC")
		c.Misfire = &wire.Misfire{Policy: new(wire.MisfirePolicyAll)}
		c.Paused, c.PausedAt, c.PauseNote, c.NextAt = true, new(wire.At(clitest.Now)), new("why\nnot"), nil
		c.Warnings = []string{"the queue is at its capacity", "and paused"}
	})
	s.On("GET /v1/schedules/{id}", 200, c)
	s.Pipe().Run(t, "schedule", "get", "a").Expect(t, 0, strings.Join([]string{
		"id\ta", "namespace\tdefault", "state\tpaused", "misfire.policy\tall", `specs	[{"cron":"7 * * * *"},{"every":"1h"}]`,
		`task.payload.command	["true"]`, "task.queue\tdefault", "task.type\tshell", "timezone\tUTC", "revision\t1",
		"created_at\t2026-01-02T15:04:05.000Z", "updated_at\t2026-01-02T15:04:05.000Z", "cursor\t2026-01-02T15:04:05.000Z",
		"paused_at\t2026-01-02T15:04:05.000Z", "pause_note\twhy not", "runs\t0", "failures\t0", "live\t0", "waiting\t0",
		"warnings\tthe queue is at its capacity,and paused", "",
	}, "\n"), "")
	if got := s.Terminal().Run(t, "schedule", "get", "a").Out; !strings.Contains(got, "\nstate                 "+printer.Yellow+"paused"+printer.Reset+"\n") {
		t.Errorf("got\n%s", got)
	}
	s.Pipe().Run(t, "schedule", "get", "a", "-o", "json").Expect(t, 0, clitest.JSON(t, c)+"\n", "")
}

func TestList_PrintsSchedules(t *testing.T) {
	s := clitest.Start(t)
	list := []wire.Schedule{
		aSchedule("a", func(c *wire.Schedule) { c.Owner, c.Timezone, c.Runs = new("me"), new("Asia/Tokyo"), 7 }, ran),
		aSchedule("b", func(c *wire.Schedule) {
			c.Cron, c.Specs, c.NextAt, c.EndedAt = nil, []wire.ScheduleRule{{Cron: new("1,2 * * * *")}, {Every: new("1h")}}, nil, new(wire.At(clitest.Now))
		}),
	}
	s.On("GET /v1/schedules", 200, wire.ScheduleList{Schedules: list})
	args := []string{"schedule", "list", "--paused=false", "--owner", "me", "--label", "a=b", "--label", "c=d"}
	s.Pipe().Run(t, args...).Expect(t, 0,
		"a\tactive\t7 * * * *\tAsia/Tokyo\t2026-01-02T15:07:05.000Z\t7\t0\t0\t0\tshell\tme\t\t"+
			"failed\t2026-01-02T15:02:05.000Z\t1.5s\t..F>\tfailing,stale\tdefault\t\t\t\t\n"+
			"b\tended\t1,2 * * * *; every 1h\t\t\t0\t0\t0\t0\tshell\t\t\t\t\t\t\t\tdefault\t\t\t\t\n", "")
	if got := s.Last().Line; got != "GET /v1/schedules?paused=false&owner=me&label=a%3Db&label=c%3Dd&limit=50" {
		t.Error(got)
	}
	s.Terminal().Run(t, "schedule", "list").Expect(t, 0,
		"ID  STATE   WHEN                   NEXT          LAST    ENDED          TOOK  RECENT  CONDITIONS      NOTE\n"+
			"a   active  7 * * * *              in 3 minutes  "+printer.Red+"failed"+printer.Reset+"  2 minutes ago  1.5s  "+
			printer.Green+"."+printer.Reset+printer.Green+"."+printer.Reset+printer.Red+"F"+printer.Reset+printer.Cyan+">"+printer.Reset+
			"    failing, stale\n"+
			"b   "+printer.Grey+"ended"+printer.Reset+"   1,2 * * * *; every 1h\n", "")
	s.Pipe().Run(t, "schedule", "list", "-o", "json").Expect(t, 0, clitest.JSON(t, wire.ScheduleList{Schedules: list})+"\n", "")
}

// ran has a schedule run four times; the third run failed, and the last one runs.
func ran(c *wire.Schedule) {
	for _, result := range []wire.RunResult{"succeeded", "succeeded", "failed", "running"} {
		c.Recent = append(c.Recent, wire.TickResult{Tick: wire.At(clitest.Now), Result: result})
	}
	c.LastRun = &wire.LastRun{
		Task: "a@20260102T150000Z", Tick: wire.At(clitest.Now), Outcome: wire.LastRunOutcomeFailed, Attempts: 4,
		EndedAt: wire.At(clitest.Now.Add(-2 * time.Minute)), DurationMs: new(int64(1500)),
	}
	c.LastSuccessAt = new(wire.At(clitest.Now.Add(-48 * time.Hour)))
	c.Conditions = []wire.ScheduleCondition{wire.ScheduleConditionFailing, wire.ScheduleConditionStale}
}

func TestList_AsksForACondition(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/schedules", 200, wire.ScheduleList{Schedules: []wire.Schedule{}})
	for flag, want := range map[string]string{
		"--failing": "condition=failing&", "--missed": "condition=missed&", "--stale": "condition=stale&stale_after=24h0m0s&",
		"--stale=90m": "condition=stale&stale_after=1h30m0s&",
	} {
		s.Pipe().Run(t, "schedule", "list", flag).Expect(t, 0, "", "")
		if got := s.Last().Line; got != "GET /v1/schedules?"+want+"limit=50" {
			t.Errorf("%s: %s", flag, got)
		}
	}
	for _, args := range [][]string{{"--failing", "--missed"}, {"--stale=0s"}, {"--stale=-1h"}} {
		if got := s.Pipe().Run(t, append([]string{"schedule", "list"}, args...)...); got.Code != 2 {
			t.Errorf("%v: exit code %d, want 2", args, got.Code)
		}
	}
}

func TestList_ShowsMissedTicksOfAllNamespaces(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/schedules", 200, wire.ScheduleList{Schedules: []wire.Schedule{aSchedule("a", func(c *wire.Schedule) {
		c.Namespace = "shop"
		c.Recent = []wire.TickResult{{Tick: wire.At(clitest.Now), Result: "missed"}}
		c.LastMissed = &wire.MissedTick{Tick: wire.At(clitest.Now), Reason: new("paused; misfires do not run")}
	})}})
	s.Terminal().Run(t, "schedule", "list", "-A", "--missed").Expect(t, 0,
		"NAMESPACE  ID  STATE   WHEN       MISSED                RECENT  WHY\n"+
			"shop       a   active  7 * * * *  2026-01-02 15:04:05Z  "+printer.Red+"M"+printer.Reset+"       paused; misfires do not run\n", "")
	if got := s.Last().Line; got != "GET /v1/schedules?namespace=%2A&condition=missed&limit=50" {
		t.Error(got)
	}
	const end = "shop\t2026-01-02T15:04:05.000Z\tpaused; misfires do not run\t\t\n"
	if got := s.Pipe().Run(t, "schedule", "list", "-A", "--missed").Out; !strings.HasSuffix(got, end) {
		t.Errorf("%q does not end with %q", got, end)
	}
}

// again has a task of a schedule tried again.
func again(c *wire.Schedule) {
	c.Retry = &wire.ScheduleRetry{
		Task: "a@20260102T150000Z", Attempts: 9, EndedAt: wire.At(clitest.Now), Error: "connection refused",
		DueAt: new(wire.At(clitest.Now.Add(3 * time.Minute))),
	}
}

func TestRead_TellsOfATaskThatTriesAgain(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/schedules/{id}", 200, aSchedule("a", again))
	want := "retry.task\ta@20260102T150000Z\nretry.attempts\t9\nretry.due_at\t2026-01-02T15:07:05.000Z\n" +
		"retry.error\tconnection refused\n"
	if got := s.Pipe().Run(t, "schedule", "get", "a").Out; !strings.Contains(got, want) {
		t.Errorf("got\n%s\nwant in it\n%s", got, want)
	}
	s.On("GET /v1/schedules", 200, wire.ScheduleList{Schedules: []wire.Schedule{aSchedule("a", again)}})
	const end = "\t2026-01-02T15:07:05.000Z\tconnection refused\n"
	if got := s.Pipe().Run(t, "schedule", "list").Out; !strings.HasSuffix(got, end) {
		t.Errorf("%q does not end with %q", got, end)
	}
	if got := s.Terminal().Run(t, "schedule", "list").Out; !strings.Contains(got, "tries again in 3 minutes: connection refused\n") {
		t.Errorf("got\n%s", got)
	}
	now := aSchedule("a", again, func(c *wire.Schedule) { c.Retry.DueAt = nil })
	s = clitest.Start(t)
	s.On("GET /v1/schedules", 200, wire.ScheduleList{Schedules: []wire.Schedule{now}})
	if got := s.Terminal().Run(t, "schedule", "list").Out; !strings.Contains(got, "tries again now: connection refused\n") {
		t.Errorf("got\n%s", got)
	}
}

func TestGet_ShowsWhatBecameOfRuns(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/schedules/{id}", 200, aSchedule("a", ran))
	want := strings.Join([]string{
		"conditions\tfailing,stale", "last_run.outcome\tfailed", "last_run.ended_at\t2026-01-02T15:02:05.000Z",
		"last_run.duration\t1.5s", "last_run.attempts\t4", "last_run.task\ta@20260102T150000Z",
		"last_success_at\t2025-12-31T15:04:05.000Z", "recent\t..F>", "",
	}, "\n")
	if got := s.Pipe().Run(t, "schedule", "get", "a").Out; !strings.HasSuffix(got, want) {
		t.Errorf("got\n%s\nwant at its end\n%s", got, want)
	}
	got := s.Terminal().Run(t, "schedule", "get", "a").Out
	if !strings.Contains(got, ". succeeded, F failed, > running\n") {
		t.Errorf("there is no legend:\n%s", got)
	}
}

func TestNext_ShowsTheChangeOfTheClock(t *testing.T) {
	s := clitest.Start(t)
	p := aPreview(
		upcoming("2026-01-02T15:07:00Z", "2026-01-02T16:07:00.000+01:00"),
		upcoming("2026-01-03T15:07:00Z", "2026-01-03T16:07:00.000+01:00", func(u *wire.UpcomingTick) { u.Excluded, u.Note = new(true), new("excluded by 2026-01-03") }),
	)
	p.Transition = &wire.ClockChange{
		At: wire.At(time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC)), Local: "2026-03-29T03:00:00.000+02:00", OffsetBefore: "+01:00", OffsetAfter: "+02:00",
		Note:  new("the clock jumps"),
		Ticks: []wire.UpcomingTick{upcoming("2026-03-29T01:00:00Z", "2026-03-29T03:00:00.000+02:00", func(u *wire.UpcomingTick) { u.Note = new("02:30 does not exist") })},
	}
	s.On("GET /v1/schedules/{id}/next", 200, p)
	args := []string{"schedule", "next", "a", "--count", "2", "--after", "2026-01-02 16:00"}
	s.Pipe().Run(t, args...).Expect(t, 0,
		"2026-01-02T15:07:00.000Z\t2026-01-02T16:07:00.000+01:00\truns\t\n"+
			"2026-01-03T15:07:00.000Z\t2026-01-03T16:07:00.000+01:00\texcluded\texcluded by 2026-01-03\n", "")
	if got := s.Last().Line; got != "GET /v1/schedules/a/next?count=2&after=2026-01-02T15%3A00%3A00Z" {
		t.Error(got)
	}
	s.Terminal().Run(t, args...).Expect(t, 0,
		"TICK                  EUROPE/BERLIN                   IN            NOTE\n"+
			"2026-01-02 15:07:00Z  Fri 2026-01-02 16:07:00 +01:00  in 3 minutes\n"+
			"2026-01-03 15:07:00Z  Sat 2026-01-03 16:07:00 +01:00  in 24 hours   excluded by 2026-01-03\n"+
			"\nThe clock changes in 3 months, Sun 2026-03-29 03:00:00 +02:00, from +01:00 to +02:00:\nthe clock jumps\n\n"+
			"TICK                  EUROPE/BERLIN                   IN           NOTE\n"+
			"2026-03-29 01:00:00Z  Sun 2026-03-29 03:00:00 +02:00  in 3 months  02:30 does not exist\n", "")
	s.Pipe().Run(t, append(args, "-o", "json")...).Expect(t, 0, clitest.JSON(t, p)+"\n", "")
}

func TestNext_ShowsTheTicksOfAnExpression(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/schedules/{id}/next", 200, aPreview(upcoming("2026-01-02T15:07:00Z", "2026-01-02T16:07:00.000+01:00")))
	args := []string{"schedule", "next", "a", "--cron", "7 * * * *", "--cron", "@daily", "--timezone", "Europe/Berlin"}
	s.Pipe().Run(t, args...).Expect(t, 0, "2026-01-02T15:07:00.000Z\t2026-01-02T16:07:00.000+01:00\truns\t\n", "")
	const want = "GET /v1/schedules/a/next?cron=7+%2A+%2A+%2A+%2A&cron=%40daily&timezone=Europe%2FBerlin"
	if got := s.Last().Line; got != want {
		t.Errorf("it asks for %s, want %s", got, want)
	}
}

func TestNext_TellsThatTheScheduleHasEnded(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/schedules/{id}/next", 200, aPreview())
	s.Terminal().Run(t, "schedule", "next", "a").Expect(t, 0, "No further ticks.\n", "")
	s.Pipe().Run(t, "schedule", "next", "a").Expect(t, 0, "", "")
}

// ledger is a page of a ledger: a tick that fired, one that was missed.
func ledger() wire.LedgerPage {
	return wire.LedgerPage{Entries: []wire.LedgerEntry{
		{Tick: wire.At(clitest.Now.Add(-time.Minute)), Outcome: wire.TickOutcomeFired, Task: new("a@20260102T150305Z"), LateMs: 12, DecidedAt: wire.At(clitest.Now.Add(-time.Minute)), Revision: 2},
		{Tick: wire.At(clitest.Now.Add(-time.Hour)), Outcome: wire.TickOutcomeMissed, Reason: new("too late"), LateMs: 3540000, DecidedAt: wire.At(clitest.Now.Add(-time.Minute)), Revision: 2},
	}}
}

func TestLedger_ShowsWhatBecameOfTicks(t *testing.T) {
	s := clitest.Start(t)
	page := ledger()
	page.KnownFrom = new(wire.At(clitest.Now.Add(-2 * time.Hour)))
	s.On("GET /v1/schedules/{id}/ledger", 200, page)
	s.Pipe().Run(t, "schedule", "ledger", "a").Expect(t, 0,
		"2026-01-02T15:03:05.000Z\tfired\t12ms\ta@20260102T150305Z\t\t2026-01-02T15:03:05.000Z\t2\n"+
			"2026-01-02T14:04:05.000Z\tmissed\t59m0s\t\ttoo late\t2026-01-02T15:03:05.000Z\t2\n", "")
	s.Terminal().Run(t, "schedule", "ledger", "a").Expect(t, 0,
		"TICK                  OUTCOME  LATE   TASK                REASON    DECIDED       REVISION\n"+
			"2026-01-02 15:03:05Z  fired    12ms   a@20260102T150305Z            1 minute ago  2\n"+
			"2026-01-02 14:04:05Z  "+printer.Red+"missed"+printer.Reset+"   59m0s                      too late  1 minute ago  2\n",
		"The records before 2026-01-02 13:04:05Z are forgotten.\n")
	if got := s.Terminal().Run(t, "schedule", "ledger", "a", "--since", "1h"); got.Err != "" {
		t.Errorf("what nobody asked for is told: %q", got.Err)
	}
	s.Pipe().Run(t, "schedule", "ledger", "a", "-o", "json").Expect(t, 0, clitest.JSON(t, page)+"\n", "")
}

func TestLedger_SendsTheTimesOfTheFlags(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/schedules/{id}/ledger", 200, wire.LedgerPage{Entries: []wire.LedgerEntry{}})
	for want, args := range map[string][]string{
		"limit=50": nil,
		"since=2026-01-02T13%3A04%3A05Z&limit=50":          {"--since", "2h"},
		"since=2025-12-31T23%3A00%3A00Z&limit=50":          {"--since", "2026-01-01"},
		"until=2026-01-02T15%3A04%3A05Z&limit=50":          {"--until", "0s"},
		"until=2026-01-02T03%3A04%3A05.123Z&limit=50":      {"--until", "2026-01-02T03:04:05.1239Z"},
		"since=2026-01-02T03%3A04%3A05Z&gaps=true&limit=3": {"--since", "2026-01-02T03:04:05Z", "--gaps", "--limit", "3"},
	} {
		s.Pipe().Run(t, append([]string{"schedule", "ledger", "a"}, args...)...).Expect(t, 0, "", "")
		if got := s.Last().Line; got != "GET /v1/schedules/a/ledger?"+want {
			t.Errorf("asked %s, want %s", got, want)
		}
	}
}

func TestLedger_JoinsPagesEvenIfOneIsEmpty(t *testing.T) {
	s := clitest.Start(t)
	s.Handle("GET /v1/schedules/{id}/ledger", func(w http.ResponseWriter, r *http.Request) {
		page := ledger()
		switch r.URL.Query().Get("cursor") {
		case "":
			page.Entries, page.NextCursor = page.Entries[:1], new("empty")
		case "empty":
			page.Entries, page.NextCursor = page.Entries[:0], new("last")
		default:
			page.Entries, page.KnownFrom = page.Entries[1:], new(wire.At(clitest.Now))
		}
		s.Reply(w, 200, page)
	})
	want := ledger()
	want.KnownFrom = new(wire.At(clitest.Now))
	s.Pipe().Run(t, "schedule", "ledger", "a", "--all", "-o", "json").Expect(t, 0, clitest.JSON(t, want)+"\n", "")
	if got := s.Lines(); len(got) != 3 || got[2] != "GET /v1/schedules/a/ledger?limit=500&cursor=last" {
		t.Errorf("asked %q", got)
	}
}

func TestAudit_TellsThatAllIsProved(t *testing.T) {
	s := clitest.Start(t)
	r := wire.AuditReport{
		From: wire.At(clitest.Now.Add(-time.Hour)), To: wire.At(clitest.Now), Expected: 60, Accounted: 60, Outcomes: map[string]int{"missed": 1, "fired": 59},
		Gaps: []wire.Time{}, Strays: []wire.LedgerEntry{}, Pending: 1, Proved: true,
	}
	s.On("GET /v1/schedules/{id}/audit", 200, r)
	s.Pipe().Run(t, "schedule", "audit", "a", "--from", "1h", "--to", "2026-01-02T15:04:05Z").Expect(t, 0,
		"from\t2026-01-02T14:04:05.000Z\nto\t2026-01-02T15:04:05.000Z\nexpected\t60\naccounted\t60\n"+
			"outcome.fired\t59\noutcome.missed\t1\npending\t1\nproved\ttrue\n", "")
	if got := s.Last().Line; got != "GET /v1/schedules/a/audit?from=2026-01-02T14%3A04%3A05Z&to=2026-01-02T15%3A04%3A05Z" {
		t.Error(got)
	}
	got := s.Terminal().Run(t, "schedule", "audit", "a")
	want := "\n" + printer.Green + "Proved" + printer.Reset + ": every tick is accounted for, and nothing else is recorded. 1 tick has not been decided yet.\n"
	if got.Code != 0 || !strings.HasSuffix(got.Out, want) {
		t.Errorf("%d\n%s", got.Code, got.Out)
	}
}

func TestAudit_AcceptsATimeWithoutTicks(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/schedules/{id}/audit", 200, wire.AuditReport{
		From: wire.At(clitest.Now), To: wire.At(clitest.Now), Outcomes: map[string]int{}, Gaps: []wire.Time{}, Strays: []wire.LedgerEntry{}, Proved: true,
	})
	got := s.Terminal().Run(t, "schedule", "audit", "a")
	if got.Code != 0 || !strings.HasSuffix(got.Out, "\nThere was no tick to account for, and none is recorded.\n") {
		t.Errorf("%d\n%s", got.Code, got.Out)
	}
}

func TestAudit_EndsWithOneIfItProvesNothing(t *testing.T) {
	s := clitest.Start(t)
	r := wire.AuditReport{
		From: wire.At(clitest.Now.Add(-time.Hour)), To: wire.At(clitest.Now), Expected: 3, Accounted: 1, Outcomes: map[string]int{"fired": 2},
		Gaps: []wire.Time{wire.At(clitest.Now.Add(-time.Minute)), wire.At(clitest.Now)}, Strays: ledger().Entries[:1], ForgottenUntil: new(wire.At(clitest.Now.Add(-50 * time.Minute))),
		LostWrites: []wire.LostWrites{{From: wire.At(clitest.Now.Add(-9 * time.Second)), To: wire.At(clitest.Now.Add(-2 * time.Second))}},
		Warnings:   []string{"revision 2 is missing"},
	}
	s.On("GET /v1/schedules/{id}/audit", 200, r)
	s.Pipe().Run(t, "schedule", "audit", "a").Expect(t, 1,
		"from\t2026-01-02T14:04:05.000Z\nto\t2026-01-02T15:04:05.000Z\nexpected\t3\naccounted\t1\noutcome.fired\t2\npending\t0\n"+
			"forgotten_until\t2026-01-02T14:14:05.000Z\nlost_writes\t2026-01-02T15:03:56.000Z 2026-01-02T15:04:03.000Z\nwarning\trevision 2 is missing\ngap\t2026-01-02T15:03:05.000Z\ngap\t2026-01-02T15:04:05.000Z\n"+
			"stray\t2026-01-02T15:03:05.000Z fired\nproved\tfalse\n", "")
	got := s.Terminal().Run(t, "schedule", "audit", "a")
	want := "\n" + printer.Red + "Not proved" + printer.Reset + ": 2 ticks have no record; 1 record has no definition that explains it; " +
		"Redis lost writes between 2026-01-02 15:03:56Z and 2026-01-02 15:04:03Z, so ticks may have run twice; not all can be read, as the warnings above say; " +
		"nothing is known about the time up to 2026-01-02 14:14:05Z (audit the time after it with --from).\n"
	if got.Code != 1 || !strings.HasSuffix(got.Out, want) {
		t.Errorf("%d\n%s", got.Code, got.Out)
	}
	s.Pipe().Run(t, "schedule", "audit", "a", "-o", "json").Expect(t, 1, clitest.JSON(t, r)+"\n", "")
}

func TestHistory_ShowsWhatEachRevisionChanged(t *testing.T) {
	s := clitest.Start(t)
	task := wire.TaskTemplate{Type: "shell", Payload: []byte(`{"command":["true"]}`)}
	list := wire.RevisionList{Revisions: []wire.Revision{
		{Revision: 4, From: wire.At(clitest.Now.Add(-time.Hour)), By: new("ann@vm-a (not verified)"), Definition: wire.ScheduleDefinition{Every: new("1h"), Task: task}},
		{Revision: 3, From: wire.At(clitest.Now.Add(-2 * time.Hour)), Until: new(wire.At(clitest.Now.Add(-time.Hour))), Definition: wire.ScheduleDefinition{Cron: new("@daily"), Task: task}},
	}}
	s.On("GET /v1/schedules/{id}/history", 200, list)
	s.Pipe().Run(t, "schedule", "history", "a").Expect(t, 0,
		"4\t2026-01-02T14:04:05.000Z\t\tcron,every\tann@vm-a (not verified)\n3\t2026-01-02T13:04:05.000Z\t2026-01-02T14:04:05.000Z\t\t\n", "")
	s.Terminal().Run(t, "schedule", "history", "a").Expect(t, 0,
		"revision 4  in force since 2026-01-02 14:04:05Z, 1 hour ago, put by ann@vm-a (not verified)\n  cron   @daily  ->  -\n  every  -       ->  1h\n"+
			"revision 3  from 2026-01-02 13:04:05Z to 2026-01-02 14:04:05Z\n  its changes are unknown: the revision before it is forgotten\n", "")
	s.Pipe().Run(t, "schedule", "history", "a", "--revision", "3").Expect(t, 0,
		"revision\t3\nfrom\t2026-01-02T13:04:05.000Z\nuntil\t2026-01-02T14:04:05.000Z\ncron\t@daily\ntask.payload.command\t[\"true\"]\ntask.type\tshell\n", "")
	s.Pipe().Run(t, "schedule", "history", "a", "--revision", "3", "-o", "json").Expect(t, 0, clitest.JSON(t, list.Revisions[1])+"\n", "")
	s.Pipe().Run(t, "schedule", "history", "a", "--revision", "9").Expect(t, 1, "", "dtsctl: a has no revision 9, or no longer remembers it\n")
	s.Pipe().Run(t, "schedule", "history", "a", "-o", "json").Expect(t, 0, clitest.JSON(t, list)+"\n", "")
}
