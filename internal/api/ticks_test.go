package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// entryAt is a record of a tick that ran 250 ms late.
func entryAt(tick time.Time) schedule.Entry {
	return schedule.Entry{
		Name: schedule.TickName(tick), Tick: tick, Outcome: schedule.Fired, HasTask: true, Late: 250 * time.Millisecond,
		DecidedAt: tick.Add(250 * time.Millisecond), Revision: 2,
	}
}

const firedEntry = `{"tick":"2026-01-02T15:04:05.120Z","outcome":"fired","task":"a@20260102T150405.120Z","late_ms":250,
	"decided_at":"2026-01-02T15:04:05.370Z","revision":2}`

// asJSON is what an answer with that value would be.
func asJSON(t *testing.T, v any) map[string]any {
	t.Helper()
	raw, err := json.Marshal(v)
	testkit.Must(t, err)
	return asMap(t, string(raw))
}

func TestTriggerSchedule_AnswersItsRecord(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	r.call("PUT", "/v1/schedules/a", hourly)
	got := r.call("POST", "/v1/schedules/a/trigger", "", "Dts-Caller", "ann@vm-a")
	id, _ := asMap(t, string(got.body))["task"].(string)
	tick, manual, err := schedule.ParseTickName(strings.TrimPrefix(id, "a@"))
	testkit.Must(t, err)
	want := fmt.Sprintf(`{"tick":%q,"outcome":"triggered","task":%q,"late_ms":0,"decided_at":%q,"revision":1,
		"reason":"asked for by ann@vm-a (not verified)"}`, formatTime(tick), id, formatTime(timeIn(t, got.body, "decided_at")))
	if diff := cmp.Diff(asMap(t, want), asMap(t, string(got.body))); diff != "" || got.status != http.StatusOK || !manual {
		t.Errorf("status %d (-want +got):\n%s", got.status, diff)
	}
	if p := r.call("POST", "/v1/schedules/a/trigger", "").problem(t); p.Code != "schedule_busy" || p.Status != http.StatusConflict {
		t.Errorf("while its task has not ended: %+v", p)
	}
}

// A range reaches back before the schedule existed: at its creation, and an hour and two hours before.
func TestBackfillSchedule_RunsARangeAtAPace(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	for field, pace := range map[string]time.Duration{"": time.Second, `,"pace":"0s"`: 0, `,"pace":"1m30s"`: 90 * time.Second, `,"pace":"24h"`: 24 * time.Hour} {
		id := "s" + pace.String()
		created := timeIn(t, r.call("PUT", "/v1/schedules/"+id, hourly).body, "created_at")
		east := created.In(time.FixedZone("east", 60*60))
		body := fmt.Sprintf(`{"from":%q,"to":%q%s}`, formatTime(created.Add(-2*time.Hour)), east.Add(900*time.Microsecond).Format(time.RFC3339Nano), field)
		got := r.call("POST", "/v1/schedules/"+id+"/backfill", body)
		var answer wire.BackfillAnswer
		testkit.Must(t, json.Unmarshal(got.body, &answer))
		if got.status != http.StatusOK || len(answer.Entries) != 3 || answer.Left != 0 || !answer.Entries[0].Tick.Equal(created.Add(-2*time.Hour)) {
			t.Fatalf("%s: status %d, %s", field, got.status, got.body)
		}
		first, last := r.get(ref(wire.Value(answer.Entries[0].Task))), r.get(ref(wire.Value(answer.Entries[2].Task)))
		if got := last.DueAt.Sub(first.DueAt); got != 2*pace {
			t.Errorf("%s: the last is due %s after the first", field, got)
		}
		dry := r.call("POST", "/v1/schedules/"+id+"/backfill?dry_run=true", body)
		again := r.call("POST", "/v1/schedules/"+id+"/backfill", body)
		answer = wire.BackfillAnswer{}
		testkit.Must(t, json.Unmarshal(again.body, &answer))
		if len(answer.Entries) != 0 || answer.Left != 3 || answer.LastDueAt != nil {
			t.Errorf("with nothing to do: %s", again.body)
		}
		if left := answer.LeftAlone; len(left) != 3 || wire.Value(left[2].Task) != id+"@"+schedule.TickName(created) {
			t.Errorf("it leaves alone %+v", left)
		}
		if string(dry.body) != string(again.body) {
			t.Errorf("the dry run said %s", dry.body)
		}
	}
}

// Each action of schedules is called as a dry run, and then in earnest.
func TestDryRun_AnswersAndWritesNothing(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	created := timeIn(t, r.call("PUT", "/v1/schedules/a", `{"overlap":"replace",`+hourly[1:]).body, "created_at")
	r.call("PUT", "/v1/schedules/a", `{"overlap":"replace","jitter":"1s",`+hourly[1:])
	r.call("POST", "/v1/schedules/a/trigger", "")
	span := fmt.Sprintf(`{"from":%q,"to":%q}`, formatTime(created.Add(-2*time.Hour)), formatTime(created))
	times := regexp.MustCompile(`20\d{6}T\d{6}(\.\d+)?Z|20\d\d-[^"]*Z|"late_ms":\d+|"request_id":"\w+"`)
	for _, c := range []struct{ method, path, body, want string }{
		{"POST", "/v1/schedules/a/trigger", "", `"replaces":{`},
		{"POST", "/v1/schedules/a/backfill", span, `"outcome":"backfilled"`},
		{"POST", "/v1/schedules/a/rollback", `{"revision":1}`, `"revision":3`},
		{"DELETE", "/v1/schedules/a", "", `"fate":"cancelled"`},
		{"DELETE", "/v1/schedules/a", "", `"schedule_not_found"`},
		{"POST", "/v1/schedules/a/trigger", "", `"schedule_not_found"`},
	} {
		before := redistest.Dump(t, r.db)
		dry := r.call(c.method, c.path+"?dry_run=true", c.body)
		if diff := cmp.Diff(before, redistest.Dump(t, r.db)); diff != "" {
			t.Errorf("%s %s changed something:\n%s", c.method, c.path, diff)
		}
		wet := r.call(c.method, c.path, c.body)
		foretold, done := times.ReplaceAllString(string(dry.body), ""), times.ReplaceAllString(string(wet.body), "")
		done = strings.ReplaceAll(done, "?dry_run=true", "")
		if dry.status != wet.status || foretold != done || !strings.Contains(foretold, c.want) {
			t.Errorf("%s %s: foretold %d %s\ndone %d %s", c.method, c.path, dry.status, dry.body, wet.status, wet.body)
		}
	}
	if p := r.call("DELETE", "/v1/schedules/a?dry_run=perhaps", "").problem(t); wire.Value(p.Field) != "dry_run" {
		t.Errorf("perhaps: %+v", p)
	}
}

func TestPreviewSchedule_ShowsTheTicksOfARevision(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	r.call("PUT", "/v1/schedules/a", hourly)
	r.call("PUT", "/v1/schedules/a", `{"cron":"0 0 1 1 *",`+strings.TrimPrefix(hourly, `{"every":"1h",`))
	ticks := func(query string) (first time.Time) {
		var next wire.SchedulePreview
		testkit.Must(t, json.Unmarshal(r.call("GET", "/v1/schedules/a/next?count=1"+query, "").body, &next))
		return next.Ticks[0].Tick.Time
	}
	if first := ticks("&revision=1"); time.Until(first) > time.Hour {
		t.Errorf("of the first revision: %s", first)
	}
	if first := ticks(""); first.Month() != time.January || !first.Equal(ticks("&revision=2")) {
		t.Errorf("of the present one: %s, %s", first, ticks("&revision=2"))
	}
	if p := r.call("GET", "/v1/schedules/a/next?revision=9", "").problem(t); p.Code != "revision_not_found" {
		t.Errorf("of none: %+v", p)
	}
	both := r.call("GET", "/v1/schedules/a/next?revision=1&cron=0+*+*+*+*", "").problem(t)
	if both.Code != wire.Invalid || wire.Value(both.Field) != "revision" {
		t.Errorf("with cron: %+v", both)
	}
}

func TestNextTicks_AnswersTheTicksOfAllSchedules(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	const task = `"task":{"type":"http","queue":"mail","payload":{"url":"http://a.test"}}}`
	r.call("PUT", "/v1/schedules/a", `{"cron":"30 2 25 3 *","timezone":"Europe/Berlin","start_at":"2035-01-01T00:00:00Z",`+task)
	r.call("PUT", "/v1/schedules/b?namespace=shop", `{"every":"1h","start_at":"2035-03-25T01:00:00Z",`+task)
	got := r.call("GET", "/v1/forecast/next?count=2&namespace=*", "")
	want := `{"ticks":[
		{"tick":"2035-03-25T01:00:00.000Z","local":"2035-03-25T03:00:00.000+02:00","namespace":"default","schedule":"a",
			"queue":"mail","type":"http","note":"02:30 does not exist that day: runs when the clock jumps to 03:00"},
		{"tick":"2035-03-25T01:00:00.000Z","local":"2035-03-25T01:00:00.000+00:00","namespace":"shop","schedule":"b",
			"queue":"mail","type":"http"}]}`
	if diff := cmp.Diff(asMap(t, want), asMap(t, string(got.body))); diff != "" {
		t.Errorf("status %d (-want +got):\n%s", got.status, diff)
	}
	if got := r.call("GET", "/v1/forecast/next?namespace=none", ""); string(got.body) != "{\"ticks\":[]}\n" {
		t.Errorf("of no schedule: %s", got.body)
	}
	for _, count := range []string{"0", "501"} {
		if p := r.call("GET", "/v1/forecast/next?count="+count, "").problem(t); wire.Value(p.Field) != "count" {
			t.Errorf("count %s: %+v", count, p)
		}
	}
}

func TestLedgerOf_SaysWhatBecameOfATick(t *testing.T) {
	if diff := cmp.Diff(asMap(t, firedEntry), asJSON(t, ledgerOf("a")(entryAt(start)))); diff != "" {
		t.Errorf("fired (-want +got):\n%s", diff)
	}
	missed := schedule.Entry{
		Name: schedule.TickName(start), Tick: start, Outcome: schedule.Missed, Reason: "nobody was there", Late: time.Hour, DecidedAt: start, Revision: 1,
	}
	want := `{"tick":"2026-01-02T15:04:05.120Z","outcome":"missed","reason":"nobody was there","late_ms":3600000,
		"decided_at":"2026-01-02T15:04:05.120Z","revision":1}`
	if diff := cmp.Diff(asMap(t, want), asJSON(t, ledgerOf("a")(missed))); diff != "" {
		t.Errorf("missed (-want +got):\n%s", diff)
	}
}

func TestReadLedger_PagesAndFilters(t *testing.T) {
	t.Parallel()
	r, ctx := startRig(t), t.Context()
	created := timeIn(t, r.call("PUT", "/v1/schedules/a", hourly).body, "created_at")
	at := func(hours int) string { return formatTime(created.Add(time.Duration(hours) * time.Hour)) }
	r.call("POST", "/v1/schedules/a/backfill", fmt.Sprintf(`{"from":%q,"to":%q}`, at(-2), at(0)))
	testkit.Must(t, r.db.HSet(ctx, "dts:{0}:schedule:default:a", "known", start.UnixMilli()).Err())
	for query, want := range map[string][]string{
		"": {at(0), at(-1), at(-2)}, "?since=" + at(-1): {at(0), at(-1)}, "?until=" + at(-1): {at(-1), at(-2)},
		"?since=" + at(-1) + "&until=" + at(-1): {at(-1)}, "?gaps=true": {}, "?gaps=false&limit=1": {at(0)},
	} {
		var page wire.LedgerPage
		testkit.Must(t, json.Unmarshal(r.call("GET", "/v1/schedules/a/ledger"+query, "").body, &page))
		if diff := cmp.Diff(want, each(page.Entries, func(e wire.LedgerEntry) string { return formatTime(e.Tick.Time) })); diff != "" || wire.Value(page.KnownFrom) != wire.At(start) {
			t.Errorf("%s: known from %s (-want +got):\n%s", query, page.KnownFrom, diff)
		}
	}
	first, err := r.ReadLedgerWithResponse(ctx, "a", &client.ReadLedgerParams{Limit: new(2)})
	testkit.Must(t, err)
	rest, err := r.ReadLedgerWithResponse(ctx, "a", &client.ReadLedgerParams{Limit: new(2), Cursor: first.JSON200.NextCursor})
	testkit.Must(t, err)
	if rest.JSON200 == nil || len(rest.JSON200.Entries) != 1 || rest.JSON200.Entries[0].Outcome != wire.TickOutcome(schedule.Backfilled) || rest.JSON200.NextCursor != nil {
		t.Errorf("second page: %s", rest.Body)
	}
}

func TestReportOf_IsWhole(t *testing.T) {
	report := schedule.Report{
		From: start, Until: start.Add(time.Hour), Expected: 3, Accounted: 2, Outcomes: map[schedule.Outcome]int{schedule.Fired: 2},
		Gaps: []time.Time{start.Add(time.Minute)}, Strays: []schedule.Entry{entryAt(start)}, Pending: 1, ForgottenUntil: start,
	}
	want := `{"from":"2026-01-02T15:04:05.120Z","to":"2026-01-02T16:04:05.120Z","expected":3,"accounted":2,"outcomes":{"fired":2},
		"gaps":["2026-01-02T15:05:05.120Z"],"strays":[` + firedEntry + `],"pending":1,"forgotten_until":"2026-01-02T15:04:05.120Z","proved":false}`
	if diff := cmp.Diff(asMap(t, want), asJSON(t, reportOf(report, "a"))); diff != "" {
		t.Errorf("the report (-want +got):\n%s", diff)
	}
	empty := `{"from":"2026-01-02T15:04:05.120Z","to":"2026-01-02T15:04:05.120Z","expected":0,"accounted":0,"outcomes":{},"gaps":[],"strays":[],"pending":0,"proved":true}`
	if diff := cmp.Diff(asMap(t, empty), asJSON(t, reportOf(schedule.Report{From: start, Until: start, Proved: true}, "a"))); diff != "" {
		t.Errorf("of nothing (-want +got):\n%s", diff)
	}
}

func TestAuditSchedule_IsOfTheGivenRange(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	created := formatTime(timeIn(t, r.call("PUT", "/v1/schedules/a", hourly).body, "created_at"))
	got := asMap(t, string(r.call("GET", "/v1/schedules/a/audit?from=2026-01-01T00:00:00Z&to="+created, "").body))
	if got["from"] != created || got["to"] != created || got["proved"] != true || got["expected"] != 0.0 {
		t.Errorf("up to the creation: %v", got)
	}
	if got := asMap(t, string(r.call("GET", "/v1/schedules/a/audit", "").body)); got["from"] != created || got["to"] == nil || got["proved"] != true {
		t.Errorf("of all there is: %v", got)
	}
}

func TestPreviewOf_ShowsWhatTheClockOfTheZoneShows(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	testkit.Must(t, err)
	jump := time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC)
	next := schedule.NextTicks{
		Location: berlin, Ticks: []schedule.UpcomingTick{{Tick: start}, {Tick: jump, Excluded: true, Note: "02:30 does not exist"}},
		Transition: &schedule.Transition{
			At: jump, Before: time.Hour, After: 2 * time.Hour, Ticks: []schedule.UpcomingTick{{Tick: jump}}, Note: "clocks go forward",
		},
	}
	want := `{"timezone":"Europe/Berlin","ticks":[{"tick":"2026-01-02T15:04:05.120Z","local":"2026-01-02T16:04:05.120+01:00"},
		{"tick":"2026-03-29T01:00:00.000Z","local":"2026-03-29T03:00:00.000+02:00","excluded":true,"note":"02:30 does not exist"}],
		"transition":{"at":"2026-03-29T01:00:00.000Z","local":"2026-03-29T03:00:00.000+02:00","offset_before":"+01:00","offset_after":"+02:00",
		"ticks":[{"tick":"2026-03-29T01:00:00.000Z","local":"2026-03-29T03:00:00.000+02:00"}],"note":"clocks go forward"}}`
	if diff := cmp.Diff(asMap(t, want), asJSON(t, previewOf(next))); diff != "" {
		t.Errorf("the preview (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(asMap(t, `{"ticks":[],"timezone":"UTC"}`), asJSON(t, previewOf(schedule.NextTicks{}))); diff != "" {
		t.Errorf("of nothing (-want +got):\n%s", diff)
	}
}

func TestPreviewSchedule_IsOfTheGivenTicks(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	created := timeIn(t, r.call("PUT", "/v1/schedules/a", hourly).body, "created_at")
	for query, want := range map[string]struct {
		first time.Time
		count int
	}{
		"": {created.Add(time.Hour), 10}, "?count=2": {created.Add(time.Hour), 2},
		"?count=2&after=" + formatTime(created.Add(3*time.Hour)): {created.Add(4 * time.Hour), 2},
	} {
		var next wire.SchedulePreview
		testkit.Must(t, json.Unmarshal(r.call("GET", "/v1/schedules/a/next"+query, "").body, &next))
		if len(next.Ticks) != want.count || !next.Ticks[0].Tick.Equal(want.first) {
			t.Errorf("%q: %d ticks, %+v, want %d from %s on", query, len(next.Ticks), next.Ticks, want.count, want.first)
		}
	}
}

func TestPreviewSchedule_IsOfOtherTimesThanThoseInForce(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	const after = "&after=2027-03-27T12:00:00Z"
	var next wire.SchedulePreview
	got := r.call("GET", "/v1/schedules/none/next?cron=30+2+*+*+*&timezone=Europe/Berlin&count=2"+after, "")
	testkit.Must(t, json.Unmarshal(got.body, &next))
	if len(next.Ticks) != 2 || next.Ticks[0].Local != "2027-03-28T03:00:00.000+02:00" || next.Ticks[0].Note == nil ||
		next.Transition == nil || next.Timezone != "Europe/Berlin" {
		t.Errorf("of a schedule that does not exist: %s", got.body)
	}
	got = r.call("GET", "/v1/schedules/none/next?cron=0+0+*+*+*&cron=0+12+*+*+*&count=3"+after, "")
	testkit.Must(t, json.Unmarshal(got.body, &next))
	if len(next.Ticks) != 3 || next.Ticks[1].Local != "2027-03-28T12:00:00.000+00:00" {
		t.Errorf("of two expressions: %s", got.body)
	}
	for query, field := range map[string]string{"cron=61+*+*+*+*": "cron", "timezone=Europe/Berlin": "timezone"} {
		p := r.call("GET", "/v1/schedules/none/next?"+query, "").problem(t)
		if p.Code != wire.Invalid || p.Field == nil || *p.Field != field {
			t.Errorf("%s: %+v", query, p)
		}
	}
}

func TestForecast_NamesWhatComes(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	r.call("PUT", "/v1/schedules/a", hourly)
	r.call("POST", "/v1/tasks", `{"id": "t", "type": "http", "payload": {"url": "http://a.test"}, "delay": "5m"}`)
	var got wire.Forecast
	testkit.Must(t, json.Unmarshal(r.call("GET", "/v1/forecast?within=10m30s", "").body, &got))
	if len(got.Coming) != 1 || wire.Value(got.Coming[0].Task) != "t" || got.Coming[0].Schedule != nil {
		t.Errorf("within ten minutes: %+v", got.Coming)
	}
	testkit.Must(t, json.Unmarshal(r.call("GET", "/v1/forecast", "").body, &got))
	if minutes := len(got.PerMinute); minutes != 24*60 {
		t.Errorf("without hours, the forecast has %d minutes", minutes)
	}
	for _, within := range []string{"0s", "61m", "soon", "15m&hours=3"} {
		p := r.call("GET", "/v1/forecast?within="+within, "").problem(t)
		if p.Code != wire.Invalid || wire.Value(p.Field) != "within" {
			t.Errorf("within %s: %+v", within, p)
		}
	}
}

func TestForecastOf_CountsMinuteByMinute(t *testing.T) {
	minute := start.Truncate(time.Minute)
	forecast := schedule.Forecast{
		From: minute, PerMinute: []int{0, 3}, Schedules: 2, Total: 3,
		Hottest: []schedule.HotMinute{{Minute: minute, Fires: 3, Schedules: []schedule.HotSchedule{{Ref: ref("a"), Fires: 2}, {Ref: task.Ref{Namespace: "n", ID: "b"}, Fires: 1}}}},
	}
	want := `{"from":"2026-01-02T15:04:00.000Z","per_minute":[0,3],"schedules":2,"total":3,"delayed_per_minute":[0,7],"hottest":[{"minute":"2026-01-02T15:04:00.000Z","fires":3,
		"schedules":[{"id":"a","namespace":"default","fires":2},{"id":"b","namespace":"n","fires":1}]}]}`
	if diff := cmp.Diff(asMap(t, want), asJSON(t, forecastOf(control.Forecast{Forecast: forecast, Delayed: []int{0, 7}}))); diff != "" {
		t.Errorf("the forecast (-want +got):\n%s", diff)
	}
}

func TestForecast_IsOfTheGivenNamespaceAndTime(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	for query, want := range map[string]struct{ minutes, schedules int }{"": {24 * 60, 0}, "?hours=1&namespace=*": {60, 0}} {
		got := r.call("GET", "/v1/forecast"+query, "")
		var f wire.Forecast
		testkit.Must(t, json.Unmarshal(got.body, &f))
		if got.status != http.StatusOK || len(f.PerMinute) != want.minutes || f.Schedules != 0 {
			t.Errorf("%q of nothing: status %d, %d minutes, %d schedules", query, got.status, len(f.PerMinute), f.Schedules)
		}
	}
	r.call("PUT", "/v1/schedules/a", hourly)
	r.call("PUT", "/v1/schedules/b?namespace=n", hourly)
	for query, want := range map[string]int{"": 1, "?namespace=n": 1, "?namespace=other": 0, "?namespace=*": 2} {
		var f wire.Forecast
		testkit.Must(t, json.Unmarshal(r.call("GET", "/v1/forecast"+query, "").body, &f))
		if f.Schedules != want {
			t.Errorf("%q: %d schedules, want %d", query, f.Schedules, want)
		}
	}
}

func TestTaskOf_NamesTheScheduleAndTickOfATick(t *testing.T) {
	for id, tick := range map[string]any{
		"nightly@20260102T020000Z": "2026-01-02T02:00:00.000Z", "nightly@20260102T020000.250Z": "2026-01-02T02:00:00.250Z",
		"nightly@20260102T020000.000000Z-manual": "2026-01-02T02:00:00.000Z", "nightly@odd": nil,
	} {
		got := asJSON(t, TaskOf(task.Task{Definition: task.Definition{Ref: ref(id)}}, nil))
		if got["schedule"] != "nightly" || got["tick"] != tick {
			t.Errorf("%s: schedule %v, tick %v", id, got["schedule"], got["tick"])
		}
	}
	got := asJSON(t, TaskOf(task.Task{Definition: task.Definition{Ref: ref("nightly")}}, nil))
	if got["schedule"] != nil || got["tick"] != nil {
		t.Errorf("a task that somebody submitted: %v", got)
	}
}

func TestListTasks_OfASchedule(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	r.call("POST", "/v1/tasks", `{"id":"nightly","type":"http"}`)
	for id, times := range map[string]int{"nightly": 3, "other": 1} {
		r.call("PUT", "/v1/schedules/"+id, `{"overlap":"allow",`+hourly[1:])
		for range times {
			r.call("POST", "/v1/schedules/"+id+"/trigger", "")
		}
	}
	for query, want := range map[string]int{"nightly": 3, "other": 1, "none": 0} {
		var page wire.TaskList
		testkit.Must(t, json.Unmarshal(r.call("GET", "/v1/tasks?schedule="+query, "").body, &page))
		if len(page.Tasks) != want {
			t.Errorf("%s has %d tasks, want %d", query, len(page.Tasks), want)
		}
	}
}

func TestFilterOf_TakesASchedule(t *testing.T) {
	wants := filterOf(FollowEventsParams{Schedule: "nightly"})
	for id, want := range map[string]bool{"nightly@20260102T020000Z": true, "nightly": false, "other@20260102T020000Z": false, "nightly-2@20260102T020000Z": false} {
		if got := wants(&task.Event{Type: "task.queued", Ref: ref(id)}); got != want {
			t.Errorf("%s: %v, want %v", id, got, want)
		}
	}
}

func TestTriggerSchedule_AnswersARepeatWithTheSameRun(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	r.call("PUT", "/v1/schedules/s", `{"every":"1h","overlap":"allow","task":{"type":"noop"}}`)
	trigger := func(key string) string {
		got := r.call("POST", "/v1/schedules/s/trigger", "", "Idempotency-Key", key)
		if got.status != http.StatusOK {
			t.Fatalf("%d %s", got.status, got.body)
		}
		return string(got.body)
	}
	first := trigger("release-42")
	if again := trigger(`"release-42"`); again != first {
		t.Errorf("the repeat says %s, the first request %s", again, first)
	}
	if other := trigger("release-43"); other == first {
		t.Errorf("another key: %s", other)
	}
	for _, path := range []string{"trigger", "backfill"} {
		got := r.call("POST", "/v1/schedules/s/"+path, `{"from":"2026-01-01T00:00:00Z","to":"2026-01-02T00:00:00Z"}`, "Idempotency-Key", "a b")
		if p := got.problem(t); wire.Value(p.Field) != "Idempotency-Key" {
			t.Errorf("%s: %+v", path, p)
		}
	}
}
