package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store"
	"github.com/dts-sched/dts/internal/task"
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

func TestARunByHandIsAnsweredWithItsRecord(t *testing.T) {
	r := startRig(t)
	r.call("PUT", "/v1/schedules/a", hourly)
	got := r.call("POST", "/v1/schedules/a/trigger", "")
	want := `{"tick":"2026-01-02T15:04:05.120Z","outcome":"triggered","task":"a@20260102T150405.120000Z-manual","late_ms":0,
		"decided_at":"2026-01-02T15:04:05.120Z","revision":1}`
	if diff := cmp.Diff(asMap(t, want), asMap(t, string(got.body))); diff != "" || got.status != http.StatusOK {
		t.Errorf("status %d (-want +got):\n%s", got.status, diff)
	}
	_, err := r.schedules.on(ref("a"), func(s *schedule.Schedule) { s.Live = 1 })
	must(t, err)
	if p := r.call("POST", "/v1/schedules/a/trigger", "").problem(t); p.Code != "schedule_busy" || p.Status != http.StatusConflict {
		t.Errorf("while its task has not ended: %+v", p)
	}
}

func TestABackfillSaysItsRangeAndPace(t *testing.T) {
	r := startRig(t)
	r.call("PUT", "/v1/schedules/a", hourly)
	r.schedules.backfill = store.Backfilled{Entries: []schedule.Entry{entryAt(start)}, Left: 7}
	from, to := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 1, 2, 1, 0, 0, 5_000_000, time.UTC)
	for field, pace := range map[string]time.Duration{"": time.Second, `,"pace":"0s"`: 0, `,"pace":"1m30s"`: 90 * time.Second, `,"pace":"24h"`: 24 * time.Hour} {
		got := r.call("POST", "/v1/schedules/a/backfill", `{"from":"2026-01-01T00:00:00Z","to":"2026-01-02T02:00:00.0059+01:00"`+field+`}`)
		want := fmt.Sprintf(`{"entries":[%s],"left":7}`, firedEntry)
		if diff := cmp.Diff(asMap(t, want), asMap(t, string(got.body))); diff != "" || got.status != http.StatusOK {
			t.Errorf("%s: status %d (-want +got):\n%s", field, got.status, diff)
		}
		if diff := cmp.Diff([]any{from, to, pace}, r.schedules.asked["Backfill"]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", field, diff)
		}
	}
	r.schedules.backfill = store.Backfilled{}
	if got := r.call("POST", "/v1/schedules/a/backfill", `{"from":"2026-01-01T00:00:00Z","to":"2026-01-01T00:00:00Z"}`); string(got.body) != "{\"entries\":[],\"left\":0}\n" {
		t.Errorf("with nothing to do: %s", got.body)
	}
}

func TestTheLedgerIsPagedAndFiltered(t *testing.T) {
	r, ctx := startRig(t), t.Context()
	r.call("PUT", "/v1/schedules/a", hourly)
	missed := schedule.Entry{
		Name: schedule.TickName(start.Add(-time.Hour)), Tick: start.Add(-time.Hour), Outcome: schedule.Missed, Reason: "nobody was there",
		Late: time.Hour, DecidedAt: start, Revision: 1,
	}
	r.schedules.ledger[ref("a")], r.schedules.knownFrom = []schedule.Entry{entryAt(start), missed}, start.Add(-2*time.Hour)
	got := r.call("GET", "/v1/schedules/a/ledger?since=2026-01-01T00:00:00Z&until=2026-01-03T00:00:00Z&gaps=true", "")
	want := `{"entries":[` + firedEntry + `,{"tick":"2026-01-02T14:04:05.120Z","outcome":"missed","reason":"nobody was there","late_ms":3600000,
		"decided_at":"2026-01-02T15:04:05.120Z","revision":1}],"known_from":"2026-01-02T13:04:05.120Z"}`
	if diff := cmp.Diff(asMap(t, want), asMap(t, string(got.body))); diff != "" {
		t.Errorf("the ledger (-want +got):\n%s", diff)
	}
	asked := store.LedgerFilter{
		Since: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Until: time.Date(2026, 1, 3, 0, 0, 0, 0, time.UTC), Gaps: true,
	}
	if diff := cmp.Diff(asked, r.schedules.asked["Ledger"]); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	first, err := r.ReadLedgerWithResponse(ctx, "a", &client.ReadLedgerParams{Limit: new(1)})
	must(t, err)
	rest, err := r.ReadLedgerWithResponse(ctx, "a", &client.ReadLedgerParams{Limit: new(1), Cursor: first.JSON200.NextCursor})
	must(t, err)
	if rest.JSON200 == nil || len(rest.JSON200.Entries) != 1 || rest.JSON200.Entries[0].Outcome != client.TickOutcome(schedule.Missed) || rest.JSON200.NextCursor != nil {
		t.Errorf("second page: %s", rest.Body)
	}
	if diff := cmp.Diff(store.LedgerFilter{}, r.schedules.asked["Ledger"]); diff != "" {
		t.Errorf("asked for nothing in particular (-want +got):\n%s", diff)
	}
}

func TestAnAuditIsAnsweredWhole(t *testing.T) {
	r := startRig(t)
	r.call("PUT", "/v1/schedules/a", hourly)
	r.schedules.report = schedule.Report{
		From: start, Until: start.Add(time.Hour), Expected: 3, Accounted: 2, Outcomes: map[schedule.Outcome]int{schedule.Fired: 2},
		Gaps: []time.Time{start.Add(time.Minute)}, Strays: []schedule.Entry{entryAt(start)}, Pending: 1, ForgottenUntil: start,
	}
	got := r.call("GET", "/v1/schedules/a/audit?from=2026-01-01T00:00:00Z&to=2026-01-02T00:00:00Z", "")
	want := `{"from":"2026-01-02T15:04:05.120Z","to":"2026-01-02T16:04:05.120Z","expected":3,"accounted":2,"outcomes":{"fired":2},
		"gaps":["2026-01-02T15:05:05.120Z"],"strays":[` + firedEntry + `],"pending":1,"forgotten_until":"2026-01-02T15:04:05.120Z","proved":false}`
	if diff := cmp.Diff(asMap(t, want), asMap(t, string(got.body))); diff != "" {
		t.Errorf("the report (-want +got):\n%s", diff)
	}
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	if diff := cmp.Diff([]any{from, from.AddDate(0, 0, 1)}, r.schedules.asked["Audit"]); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	r.schedules.report = schedule.Report{From: start, Until: start, Proved: true}
	got = r.call("GET", "/v1/schedules/a/audit", "")
	empty := `{"from":"2026-01-02T15:04:05.120Z","to":"2026-01-02T15:04:05.120Z","expected":0,"accounted":0,"outcomes":{},"gaps":[],"strays":[],"pending":0,"proved":true}`
	if diff := cmp.Diff(asMap(t, empty), asMap(t, string(got.body))); diff != "" {
		t.Errorf("of nothing (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]any{time.Time{}, time.Time{}}, r.schedules.asked["Audit"]); diff != "" {
		t.Errorf("asked for all there is (-want +got):\n%s", diff)
	}
}

func TestThePreviewShowsWhatTheClockOfTheZoneShows(t *testing.T) {
	r := startRig(t)
	r.call("PUT", "/v1/schedules/a", hourly)
	berlin, err := time.LoadLocation("Europe/Berlin")
	must(t, err)
	jump := time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC)
	r.schedules.preview = schedule.Preview{
		Location: berlin, Ticks: []schedule.Upcoming{{Tick: start}, {Tick: jump, Excluded: true, Note: "02:30 does not exist"}},
		Transition: &schedule.Transition{
			At: jump, Before: time.Hour, After: 2 * time.Hour, Ticks: []schedule.Upcoming{{Tick: jump}}, Note: "clocks go forward",
		},
	}
	got := r.call("GET", "/v1/schedules/a/next?count=2&after=2026-01-01T00:00:00Z", "")
	want := `{"timezone":"Europe/Berlin","ticks":[{"tick":"2026-01-02T15:04:05.120Z","local":"2026-01-02T16:04:05.120+01:00"},
		{"tick":"2026-03-29T01:00:00.000Z","local":"2026-03-29T03:00:00.000+02:00","excluded":true,"note":"02:30 does not exist"}],
		"transition":{"at":"2026-03-29T01:00:00.000Z","local":"2026-03-29T03:00:00.000+02:00","offset_before":"+01:00","offset_after":"+02:00",
		"ticks":[{"tick":"2026-03-29T01:00:00.000Z","local":"2026-03-29T03:00:00.000+02:00"}],"note":"clocks go forward"}}`
	if diff := cmp.Diff(asMap(t, want), asMap(t, string(got.body))); diff != "" {
		t.Errorf("the preview (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]any{time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), 2}, r.schedules.asked["Next"]); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	r.schedules.preview = schedule.Preview{}
	if got := r.call("GET", "/v1/schedules/a/next", ""); string(got.body) != "{\"ticks\":[],\"timezone\":\"UTC\"}\n" {
		t.Errorf("of nothing: %s", got.body)
	}
	if diff := cmp.Diff([]any{time.Time{}, 10}, r.schedules.asked["Next"]); diff != "" {
		t.Errorf("asked for nothing in particular (-want +got):\n%s", diff)
	}
}

func TestAForecastIsAnsweredMinuteByMinute(t *testing.T) {
	r := startRig(t)
	minute := start.Truncate(time.Minute)
	r.schedules.forecast = schedule.Forecast{
		From: minute, PerMinute: []int{0, 3}, Schedules: 2, Total: 3,
		Hottest: []schedule.Hot{{Minute: minute, Fires: 3, Schedules: []schedule.HotSchedule{{Ref: ref("a"), Fires: 2}, {Ref: task.Ref{Namespace: "n", ID: "b"}, Fires: 1}}}},
	}
	got := r.call("GET", "/v1/forecast?hours=1&namespace=*", "")
	want := `{"from":"2026-01-02T15:04:00.000Z","per_minute":[0,3],"schedules":2,"total":3,"hottest":[{"minute":"2026-01-02T15:04:00.000Z","fires":3,
		"schedules":[{"id":"a","namespace":"default","fires":2},{"id":"b","namespace":"n","fires":1}]}]}`
	if diff := cmp.Diff(asMap(t, want), asMap(t, string(got.body))); diff != "" {
		t.Errorf("the forecast (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]any{"*", 1}, r.schedules.asked["Forecast"]); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	r.schedules.forecast = schedule.Forecast{From: minute}
	if got := r.call("GET", "/v1/forecast", ""); got.status != http.StatusOK {
		t.Errorf("of nothing: %s", got.body)
	}
	if diff := cmp.Diff([]any{"default", 24}, r.schedules.asked["Forecast"]); diff != "" {
		t.Errorf("asked for nothing in particular (-want +got):\n%s", diff)
	}
}

func TestATickTaskNamesItsScheduleAndTick(t *testing.T) {
	r := startRig(t)
	r.call("POST", "/v1/tasks", `{"id":"nightly","type":"http"}`)
	for id, tick := range map[string]any{
		"nightly@20260102T020000Z": "2026-01-02T02:00:00.000Z", "nightly@20260102T020000.250Z": "2026-01-02T02:00:00.250Z",
		"nightly@20260102T020000.000000Z-manual": "2026-01-02T02:00:00.000Z", "nightly@odd": nil,
	} {
		r.store.addTickTask(ref(id))
		got := asMap(t, string(r.call("GET", "/v1/tasks/"+id, "").body))
		if got["schedule"] != "nightly" || got["tick"] != tick {
			t.Errorf("%s: schedule %v, tick %v", id, got["schedule"], got["tick"])
		}
	}
	got := asMap(t, string(r.call("GET", "/v1/tasks/nightly", "").body))
	if got["schedule"] != nil || got["tick"] != nil {
		t.Errorf("a task that somebody submitted: %v", got)
	}
	r.store.addTickTask(ref("other@20260102T020000Z"))
	for query, want := range map[string]int{"nightly": 4, "other": 1, "none": 0} {
		var page TaskList
		must(t, json.Unmarshal(r.call("GET", "/v1/tasks?schedule="+query, "").body, &page))
		if len(page.Tasks) != want {
			t.Errorf("%s has %d tasks, want %d", query, len(page.Tasks), want)
		}
	}
}

func TestEventsCanBeThoseOfASchedule(t *testing.T) {
	wants := filterOf(FollowEventsParams{Schedule: "nightly"})
	for id, want := range map[string]bool{"nightly@20260102T020000Z": true, "nightly": false, "other@20260102T020000Z": false, "nightly-2@20260102T020000Z": false} {
		if got := wants(&task.Event{Type: "task.queued", Ref: ref(id)}); got != want {
			t.Errorf("%s: %v, want %v", id, got, want)
		}
	}
}
