package cli

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/client"
)

func TestScheduleGetShowsDefinitionAndState(t *testing.T) {
	s := startStub(t)
	c := aSchedule("a", func(c *client.Schedule) {
		c.Cron, c.Specs, c.Timezone = nil, []client.ScheduleRule{{Cron: new("7 * * * *")}, {Every: new("1h")}}, new("UTC")
		c.Misfire = &client.Misfire{Policy: new(client.MisfirePolicyAll)}
		c.Paused, c.PausedAt, c.PauseNote, c.NextAt = true, &now, new("why\nnot"), nil
	})
	s.on("GET /v1/schedules/{id}", 200, c)
	s.pipe().run(t, "schedule", "get", "a").expect(t, 0, strings.Join([]string{
		"id\ta", "namespace\tdefault", "state\tpaused", "misfire.policy\tall", `specs	[{"cron":"7 * * * *"},{"every":"1h"}]`,
		`task.payload.command	["true"]`, "task.queue\tdefault", "task.type\tshell", "timezone\tUTC", "revision\t1",
		"created_at\t2026-01-02T15:04:05.000Z", "updated_at\t2026-01-02T15:04:05.000Z", "cursor\t2026-01-02T15:04:05.000Z",
		"paused_at\t2026-01-02T15:04:05.000Z", "pause_note\twhy not", "runs\t0", "failures\t0", "live\t0", "waiting\t0", "",
	}, "\n"), "")
	if got := s.terminal().run(t, "schedule", "get", "a").out; !strings.Contains(got, "\nstate                 "+yellow+"paused"+reset+"\n") {
		t.Errorf("got\n%s", got)
	}
	s.pipe().run(t, "schedule", "get", "a", "-o", "json").expect(t, 0, jsonOf(t, c)+"\n", "")
}

func TestScheduleListPrintsSchedules(t *testing.T) {
	s := startStub(t)
	list := []client.Schedule{
		aSchedule("a", func(c *client.Schedule) { c.Owner, c.Timezone, c.Runs = new("me"), new("Asia/Tokyo"), 7 }),
		aSchedule("b", func(c *client.Schedule) {
			c.Cron, c.Specs, c.NextAt, c.EndedAt = nil, []client.ScheduleRule{{Cron: new("1,2 * * * *")}, {Every: new("1h")}}, nil, &now
		}),
	}
	s.on("GET /v1/schedules", 200, client.ScheduleList{Schedules: list})
	args := []string{"schedule", "list", "--paused=false", "--owner", "me", "--label", "a=b", "--label", "c=d"}
	s.pipe().run(t, args...).expect(t, 0,
		"a\tactive\t7 * * * *\tAsia/Tokyo\t2026-01-02T15:07:05.000Z\t7\t0\t0\t0\tshell\tme\t\n"+
			"b\tended\t1,2 * * * *; every 1h\t\t\t0\t0\t0\t0\tshell\t\t\n", "")
	if got := s.last().line; got != "GET /v1/schedules?paused=false&owner=me&label=a%3Db&label=c%3Dd&limit=50" {
		t.Error(got)
	}
	s.terminal().run(t, "schedule", "list").expect(t, 0,
		"ID  STATE   WHEN                   TIMEZONE    NEXT          RUNS  FAILURES  LIVE  WAITING  TYPE   OWNER  NOTE\n"+
			"a   active  7 * * * *              Asia/Tokyo  in 3 minutes  7     0         0     0        shell  me\n"+
			"b   "+grey+"ended"+reset+"   1,2 * * * *; every 1h                            0     0         0     0        shell\n", "")
	s.pipe().run(t, "schedule", "list", "-o", "json").expect(t, 0, jsonOf(t, client.ScheduleList{Schedules: list})+"\n", "")
}

func TestNextShowsTheChangeOfTheClock(t *testing.T) {
	s := startStub(t)
	p := aPreview(
		upcoming("2026-01-02T15:07:00Z", "2026-01-02T16:07:00.000+01:00"),
		upcoming("2026-01-03T15:07:00Z", "2026-01-03T16:07:00.000+01:00", func(u *client.UpcomingTick) { u.Excluded, u.Note = new(true), new("excluded by 2026-01-03") }),
	)
	p.Transition = &client.ClockChange{
		At: time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC), Local: "2026-03-29T03:00:00.000+02:00", OffsetBefore: "+01:00", OffsetAfter: "+02:00",
		Note:  new("the clock jumps"),
		Ticks: []client.UpcomingTick{upcoming("2026-03-29T01:00:00Z", "2026-03-29T03:00:00.000+02:00", func(u *client.UpcomingTick) { u.Note = new("02:30 does not exist") })},
	}
	s.on("GET /v1/schedules/{id}/next", 200, p)
	args := []string{"schedule", "next", "a", "--count", "2", "--after", "2026-01-02 16:00"}
	s.pipe().run(t, args...).expect(t, 0,
		"2026-01-02T15:07:00.000Z\t2026-01-02T16:07:00.000+01:00\truns\t\n"+
			"2026-01-03T15:07:00.000Z\t2026-01-03T16:07:00.000+01:00\texcluded\texcluded by 2026-01-03\n", "")
	if got := s.last().line; got != "GET /v1/schedules/a/next?count=2&after=2026-01-02T15%3A00%3A00Z" {
		t.Error(got)
	}
	s.terminal().run(t, args...).expect(t, 0,
		"TICK                  EUROPE/BERLIN                   IN            NOTE\n"+
			"2026-01-02 15:07:00Z  Fri 2026-01-02 16:07:00 +01:00  in 3 minutes\n"+
			"2026-01-03 15:07:00Z  Sat 2026-01-03 16:07:00 +01:00  in 24 hours   excluded by 2026-01-03\n"+
			"\nThe clock changes in 3 months, Sun 2026-03-29 03:00:00 +02:00, from +01:00 to +02:00:\nthe clock jumps\n\n"+
			"TICK                  EUROPE/BERLIN                   IN           NOTE\n"+
			"2026-03-29 01:00:00Z  Sun 2026-03-29 03:00:00 +02:00  in 3 months  02:30 does not exist\n", "")
	s.pipe().run(t, append(args, "-o", "json")...).expect(t, 0, jsonOf(t, p)+"\n", "")
}

func TestNextOfAScheduleThatHasEnded(t *testing.T) {
	s := startStub(t)
	s.on("GET /v1/schedules/{id}/next", 200, aPreview())
	s.terminal().run(t, "schedule", "next", "a").expect(t, 0, "It ticks no more.\n", "")
	s.pipe().run(t, "schedule", "next", "a").expect(t, 0, "", "")
}

// ledger is a page of a ledger: a tick that fired, one that was missed.
func ledger() client.LedgerPage {
	return client.LedgerPage{Entries: []client.LedgerEntry{
		{Tick: now.Add(-time.Minute), Outcome: client.TickOutcomeFired, Task: new("a@20260102T150305Z"), LateMs: 12, DecidedAt: now.Add(-time.Minute), Revision: 2},
		{Tick: now.Add(-time.Hour), Outcome: client.TickOutcomeMissed, Reason: new("too late"), LateMs: 3540000, DecidedAt: now.Add(-time.Minute), Revision: 2},
	}}
}

func TestLedgerShowsWhatBecameOfTicks(t *testing.T) {
	s := startStub(t)
	page := ledger()
	page.KnownFrom = new(now.Add(-2 * time.Hour))
	s.on("GET /v1/schedules/{id}/ledger", 200, page)
	s.pipe().run(t, "schedule", "ledger", "a").expect(t, 0,
		"2026-01-02T15:03:05.000Z\tfired\t12ms\ta@20260102T150305Z\t\t2026-01-02T15:03:05.000Z\t2\n"+
			"2026-01-02T14:04:05.000Z\tmissed\t59m0s\t\ttoo late\t2026-01-02T15:03:05.000Z\t2\n", "")
	s.terminal().run(t, "schedule", "ledger", "a").expect(t, 0,
		"TICK                  OUTCOME  LATE   TASK                REASON    DECIDED       REVISION\n"+
			"2026-01-02 15:03:05Z  fired    12ms   a@20260102T150305Z            1 minute ago  2\n"+
			"2026-01-02 14:04:05Z  "+red+"missed"+reset+"   59m0s                      too late  1 minute ago  2\n",
		"What was before 2026-01-02 13:04:05Z is forgotten.\n")
	if got := s.terminal().run(t, "schedule", "ledger", "a", "--since", "1h"); got.err != "" {
		t.Errorf("what nobody asked for is told: %q", got.err)
	}
	s.pipe().run(t, "schedule", "ledger", "a", "-o", "json").expect(t, 0, jsonOf(t, page)+"\n", "")
}

func TestLedgerAsksForTheTimeThatWasSaid(t *testing.T) {
	s := startStub(t)
	s.on("GET /v1/schedules/{id}/ledger", 200, client.LedgerPage{Entries: []client.LedgerEntry{}})
	for want, args := range map[string][]string{
		"limit=50": nil,
		"since=2026-01-02T13%3A04%3A05Z&limit=50":          {"--since", "2h"},
		"since=2025-12-31T23%3A00%3A00Z&limit=50":          {"--since", "2026-01-01"},
		"until=2026-01-02T15%3A04%3A05Z&limit=50":          {"--until", "0s"},
		"until=2026-01-02T03%3A04%3A05.123Z&limit=50":      {"--until", "2026-01-02T03:04:05.1239Z"},
		"since=2026-01-02T03%3A04%3A05Z&gaps=true&limit=3": {"--since", "2026-01-02T03:04:05Z", "--gaps", "--limit", "3"},
	} {
		s.pipe().run(t, append([]string{"schedule", "ledger", "a"}, args...)...).expect(t, 0, "", "")
		if got := s.last().line; got != "GET /v1/schedules/a/ledger?"+want {
			t.Errorf("asked %s, want %s", got, want)
		}
	}
}

func TestLedgerJoinsPagesEvenIfOneIsEmpty(t *testing.T) {
	s := startStub(t)
	s.mux.HandleFunc("GET /v1/schedules/{id}/ledger", func(w http.ResponseWriter, r *http.Request) {
		page := ledger()
		switch r.URL.Query().Get("cursor") {
		case "":
			page.Entries, page.NextCursor = page.Entries[:1], new("empty")
		case "empty":
			page.Entries, page.NextCursor = page.Entries[:0], new("last")
		default:
			page.Entries, page.KnownFrom = page.Entries[1:], &now
		}
		s.reply(w, 200, page)
	})
	want := ledger()
	want.KnownFrom = &now
	s.pipe().run(t, "schedule", "ledger", "a", "--all", "-o", "json").expect(t, 0, jsonOf(t, want)+"\n", "")
	if got := s.lines(); len(got) != 3 || got[2] != "GET /v1/schedules/a/ledger?limit=500&cursor=last" {
		t.Errorf("asked %q", got)
	}
}

func TestAuditProves(t *testing.T) {
	s := startStub(t)
	r := client.AuditReport{
		From: now.Add(-time.Hour), To: now, Expected: 60, Accounted: 60, Outcomes: map[string]int{"missed": 1, "fired": 59},
		Gaps: []time.Time{}, Strays: []client.LedgerEntry{}, Pending: 1, Proved: true,
	}
	s.on("GET /v1/schedules/{id}/audit", 200, r)
	s.pipe().run(t, "schedule", "audit", "a", "--from", "1h", "--to", "2026-01-02T15:04:05Z").expect(t, 0,
		"from\t2026-01-02T14:04:05.000Z\nto\t2026-01-02T15:04:05.000Z\nexpected\t60\naccounted\t60\n"+
			"outcome.fired\t59\noutcome.missed\t1\npending\t1\nproved\ttrue\n", "")
	if got := s.last().line; got != "GET /v1/schedules/a/audit?from=2026-01-02T14%3A04%3A05Z&to=2026-01-02T15%3A04%3A05Z" {
		t.Error(got)
	}
	got := s.terminal().run(t, "schedule", "audit", "a")
	want := "\n" + green + "Proved" + reset + ": every tick is accounted for, and nothing else is recorded. 1 tick has not been decided about yet.\n"
	if got.code != 0 || !strings.HasSuffix(got.out, want) {
		t.Errorf("%d\n%s", got.code, got.out)
	}
}

func TestAuditOfATimeWithoutTicks(t *testing.T) {
	s := startStub(t)
	s.on("GET /v1/schedules/{id}/audit", 200, client.AuditReport{
		From: now, To: now, Outcomes: map[string]int{}, Gaps: []time.Time{}, Strays: []client.LedgerEntry{}, Proved: true,
	})
	got := s.terminal().run(t, "schedule", "audit", "a")
	if got.code != 0 || !strings.HasSuffix(got.out, "\nThere was no tick to account for, and none is recorded.\n") {
		t.Errorf("%d\n%s", got.code, got.out)
	}
}

func TestAuditThatProvesNothingEndsWithOne(t *testing.T) {
	s := startStub(t)
	r := client.AuditReport{
		From: now.Add(-time.Hour), To: now, Expected: 3, Accounted: 1, Outcomes: map[string]int{"fired": 2},
		Gaps: []time.Time{now.Add(-time.Minute), now}, Strays: ledger().Entries[:1], ForgottenUntil: new(now.Add(-50 * time.Minute)),
	}
	s.on("GET /v1/schedules/{id}/audit", 200, r)
	s.pipe().run(t, "schedule", "audit", "a").expect(t, 1,
		"from\t2026-01-02T14:04:05.000Z\nto\t2026-01-02T15:04:05.000Z\nexpected\t3\naccounted\t1\noutcome.fired\t2\npending\t0\n"+
			"forgotten_until\t2026-01-02T14:14:05.000Z\ngap\t2026-01-02T15:03:05.000Z\ngap\t2026-01-02T15:04:05.000Z\n"+
			"stray\t2026-01-02T15:03:05.000Z fired\nproved\tfalse\n", "")
	got := s.terminal().run(t, "schedule", "audit", "a")
	want := "\n" + red + "Not proved" + reset + ": 2 ticks have no record; 1 record has no definition that explains it; " +
		"what was up to 2026-01-02 14:14:05Z is forgotten (audit what came after it with --from).\n"
	if got.code != 1 || !strings.HasSuffix(got.out, want) {
		t.Errorf("%d\n%s", got.code, got.out)
	}
	s.pipe().run(t, "schedule", "audit", "a", "-o", "json").expect(t, 1, jsonOf(t, r)+"\n", "")
}

func TestHistoryShowsWhatEachRevisionChanged(t *testing.T) {
	s := startStub(t)
	task := client.TaskTemplate{Type: "shell", Payload: []byte(`{"command":["true"]}`)}
	list := client.RevisionList{Revisions: []client.Revision{
		{Revision: 4, From: now.Add(-time.Hour), Definition: client.ScheduleDefinition{Every: new("1h"), Task: task}},
		{Revision: 3, From: now.Add(-2 * time.Hour), Until: new(now.Add(-time.Hour)), Definition: client.ScheduleDefinition{Cron: new("@daily"), Task: task}},
	}}
	s.on("GET /v1/schedules/{id}/history", 200, list)
	s.pipe().run(t, "schedule", "history", "a").expect(t, 0,
		"4\t2026-01-02T14:04:05.000Z\t\tcron,every\n3\t2026-01-02T13:04:05.000Z\t2026-01-02T14:04:05.000Z\t\n", "")
	s.terminal().run(t, "schedule", "history", "a").expect(t, 0,
		"revision 4  in force since 2026-01-02 14:04:05Z, 1 hour ago\n  cron   @daily  ->  -\n  every  -       ->  1h\n"+
			"revision 3  from 2026-01-02 13:04:05Z to 2026-01-02 14:04:05Z\n  what it changed is forgotten\n", "")
	s.pipe().run(t, "schedule", "history", "a", "--revision", "3").expect(t, 0,
		"revision\t3\nfrom\t2026-01-02T13:04:05.000Z\nuntil\t2026-01-02T14:04:05.000Z\ncron\t@daily\ntask.payload.command\t[\"true\"]\ntask.type\tshell\n", "")
	s.pipe().run(t, "schedule", "history", "a", "--revision", "3", "-o", "json").expect(t, 0, jsonOf(t, list.Revisions[1])+"\n", "")
	s.pipe().run(t, "schedule", "history", "a", "--revision", "9").expect(t, 1, "", "dtsctl: a has no revision 9, or no longer remembers it\n")
	s.pipe().run(t, "schedule", "history", "a", "-o", "json").expect(t, 0, jsonOf(t, list)+"\n", "")
}

func TestTaskListOfASchedule(t *testing.T) {
	s := startStub(t)
	tick := aTask("a@20260102T150705Z", client.StateScheduled, func(t *client.Task) { t.Schedule, t.Tick = new("a"), new(now.Add(3*time.Minute)) })
	s.on("GET /v1/tasks", 200, client.TaskList{Tasks: []client.Task{tick}})
	s.on("GET /v1/tasks/{id}", 200, tick)
	if got := s.pipe().run(t, "task", "list", "--schedule", "a"); got.code != 0 || s.last().line != "GET /v1/tasks?schedule=a&limit=50" {
		t.Errorf("%+v asked %s", got, s.last().line)
	}
	got := s.pipe().run(t, "task", "get", "a@20260102T150705Z").out
	if want := "\nschedule\ta\ntick\t2026-01-02T15:07:05.000Z\n"; !strings.Contains(got, want) {
		t.Errorf("no %q in %q", want, got)
	}
}
