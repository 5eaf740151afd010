package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

const (
	hourly = `{"every":"1h","task":{"type":"http"}}`

	// everything says all that can be said of a schedule, in the form in which it is answered.
	everything = `{"specs":[{"cron":"30 2 * * MON-FRI"},{"every":"1h30m"}],"exclude":["2026-12-25","2026-12-24/2027-01-02"],
		"timezone":"Europe/Berlin","start_at":"2026-01-03T00:00:00.123Z","end_at":"2097-06-01T00:00:00.000Z","max_runs":500,"jitter":"1m30s",
		"misfire":{"policy":"all","window":"2h","max":7},"overlap":"queue","pause_on_failure":3,"owner":"ops","description":"What it does",
		"labels":{"team":"x"},"task":{"type":"shell","queue":"low","payload":{"command":["true"]},"timeout":"1h",
		"retry":{"max_attempts":3,"backoff":{"initial":"2s","factor":1.5,"max":"1m30s","jitter":0}},"retention":"48h","owner":"dev","labels":{"a":"b"}}}`
)

func TestPutSchedule_CreatesAndReplaces(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	got := r.call("PUT", "/v1/schedules/nightly", hourly)
	if got.status != http.StatusCreated || got.header.Get("Location") != "/v1/schedules/nightly" || got.header.Get("ETag") != `"1"` {
		t.Fatalf("created: status %d, %v, %s", got.status, got.header, got.body)
	}
	created := timeIn(t, got.body, "created_at")
	if age := time.Since(created); age < -time.Minute || age > time.Minute {
		t.Errorf("created at %s", created)
	}
	want := fmt.Sprintf(`{"id":"nightly","namespace":"default","every":"1h","task":{"type":"http","queue":"default","payload":{}},"revision":1,
		"created_at":%q,"updated_at":%[1]q,"updated_by":"somebody at 127.0.0.1","cursor":%[1]q,"next_at":%q,"paused":false,"runs":0,
		"failures":0,"live":0,"waiting":0}`, formatTime(created), formatTime(created.Add(time.Hour)))
	if diff := cmp.Diff(asMap(t, want), asMap(t, string(got.body))); diff != "" {
		t.Errorf("the schedule (-want +got):\n%s", diff)
	}
	for _, c := range []struct{ body, tag string }{
		{hourly, `"1"`},
		{`{"every":"60m","task":{"type":"http","queue":"default","payload":{  }}}`, `"1"`}, // which says the same
		{`{"every":"2h","task":{"type":"http"}}`, `"2"`},
	} {
		got := r.call("PUT", "/v1/schedules/nightly", c.body)
		if got.status != http.StatusOK || got.header.Get("ETag") != c.tag || got.header.Get("Location") != "" {
			t.Errorf("%s: status %d, ETag %s, want %s", c.body, got.status, got.header.Get("ETag"), c.tag)
		}
	}
}

func TestPutSchedule_StoresEveryField(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	got := r.call("PUT", "/v1/schedules/a.b-c_1?namespace=acme", everything)
	if got.status != http.StatusCreated || got.header.Get("Location") != "/v1/schedules/a.b-c_1?namespace=acme" {
		t.Fatalf("status %d, Location %q, %s", got.status, got.header.Get("Location"), got.body)
	}
	want := schedule.Definition{
		Ref: task.Ref{Namespace: "acme", ID: "a.b-c_1"},
		Spec: schedule.Spec{
			Rules:   []schedule.Rule{{Cron: "30 2 * * MON-FRI"}, {Every: 90 * time.Minute}},
			Exclude: []string{"2026-12-25", "2026-12-24/2027-01-02"}, Timezone: "Europe/Berlin",
			StartAt: time.Date(2026, 1, 3, 0, 0, 0, 123_000_000, time.UTC), EndAt: time.Date(2097, 6, 1, 0, 0, 0, 0, time.UTC),
			Jitter: 90 * time.Second,
		},
		MaxRuns: 500, Misfire: schedule.Misfire{Policy: schedule.MisfireAll, Window: 2 * time.Hour, Max: 7},
		Overlap: schedule.OverlapQueue, PauseOnFailure: 3, Owner: "ops", Description: "What it does", Labels: map[string]string{"team": "x"},
		Task: task.Definition{
			Type: "shell", Queue: "low", Payload: json.RawMessage(`{"command":["true"]}`), Timeout: time.Hour,
			Retry:     task.Retry{MaxAttempts: 3, Backoff: task.Backoff{Initial: 2 * time.Second, Factor: 1.5, Max: 90 * time.Second, Jitter: new(0.0)}},
			Retention: 48 * time.Hour, Owner: "dev", Labels: map[string]string{"a": "b"},
		},
	}
	stored, err := r.store.Schedules.Get(t.Context(), want.Ref)
	testkit.Must(t, err)
	if diff := cmp.Diff(want, stored.Definition); diff != "" {
		t.Errorf("the definition (-want +got):\n%s", diff)
	}
	answered := asMap(t, string(got.body))
	for field, said := range asMap(t, everything) {
		if diff := cmp.Diff(said, answered[field]); diff != "" {
			t.Errorf("%s was answered otherwise than said (-said +answered):\n%s", field, diff)
		}
	}
}

func TestPutSchedule_TakesWhatItAnswered(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	doc, err := Document()
	testkit.Must(t, err)
	definition := doc.Components.Schemas["ScheduleDefinition"].Value.Properties
	for _, body := range []string{hourly, everything, `{"specs":[{"cron":"@daily"}],"task":{"type":"http","retry":{"delays":["0s","1m"]}}}`} {
		id := "s" + strings.Repeat("x", len(body)%7)
		answered := asMap(t, string(r.call("PUT", "/v1/schedules/"+id, body).body))
		maps.DeleteFunc(answered, func(field string, _ any) bool { return definition[field] == nil })
		again, err := json.Marshal(answered)
		testkit.Must(t, err)
		if got := r.call("PUT", "/v1/schedules/"+id, string(again)); got.status != http.StatusOK || got.header.Get("ETag") != `"1"` {
			t.Errorf("%s became %s: status %d, ETag %s", body, again, got.status, got.header.Get("ETag"))
		}
	}
}

func TestPutSchedule_TakesTheNamespaceFromBodyOrQuery(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	for _, c := range []struct{ query, field, want string }{
		{"", "", "default"}, {"?namespace=q", "", "q"}, {"", `"namespace":"b",`, "b"}, {"?namespace=same", `"namespace":"same",`, "same"},
	} {
		got := r.call("PUT", "/v1/schedules/a"+c.query, `{`+c.field+hourly[1:])
		if m := asMap(t, string(got.body)); m["namespace"] != c.want {
			t.Errorf("query %q, body %q: namespace %v, want %s", c.query, c.field, m["namespace"], c.want)
		}
	}
	if p := r.call("PUT", "/v1/schedules/a?namespace=q", `{"namespace":"b",`+hourly[1:]).problem(t); p.Code != "invalid" || wire.Value(p.Field) != "namespace" {
		t.Errorf("two namespaces: %+v", p)
	}
}

func TestPutSchedule_LeavesPausedAsItIsUnlessGiven(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	for _, c := range []struct {
		field string
		want  bool
	}{{"", false}, {`"paused":true,`, true}, {"", true}, {`"paused":false,`, false}} {
		got := asMap(t, string(r.call("PUT", "/v1/schedules/a", `{`+c.field+hourly[1:]).body))
		if got["paused"] != c.want || got["revision"] != 1.0 || (got["next_at"] == nil) != c.want {
			t.Errorf("with %q: paused %v, revision %v, next at %v", c.field, got["paused"], got["revision"], got["next_at"])
		}
	}
}

func TestClient_LeadsAScheduleThroughItsLife(t *testing.T) {
	t.Parallel()
	r, ctx := startRig(t), t.Context()
	every := func(s string) wire.ScheduleDefinition {
		return wire.ScheduleDefinition{Every: &s, Task: wire.TaskTemplate{Type: "http"}}
	}
	made, err := r.PutScheduleWithResponse(ctx, "a", &client.PutScheduleParams{IfNoneMatch: new("*")}, every("1h"))
	testkit.Must(t, err)
	if made.JSON201 == nil || *made.JSON201.Every != "1h" || made.HTTPResponse.Header.Get("ETag") != `"1"` {
		t.Fatalf("created: %s", made.Body)
	}
	changed, err := r.PutScheduleWithResponse(ctx, "a", &client.PutScheduleParams{IfMatch: new(`"1"`)}, every("2h"))
	testkit.Must(t, err)
	if changed.JSON200 == nil || changed.JSON200.Revision != 2 {
		t.Errorf("changed: %s", changed.Body)
	}
	history, err := r.ListRevisionsWithResponse(ctx, "a", nil)
	testkit.Must(t, err)
	if h := history.JSON200; h == nil || len(h.Revisions) != 2 || *h.Revisions[1].Definition.Every != "1h" || h.Revisions[0].Until != nil || !h.Revisions[1].Until.Equal(h.Revisions[0].From.Time) {
		t.Errorf("history: %s", history.Body)
	}
	back, err := r.RollbackScheduleWithResponse(ctx, "a", &client.RollbackScheduleParams{IfMatch: new(`"2"`)}, wire.Rollback{Revision: 1})
	testkit.Must(t, err)
	if back.JSON200 == nil || back.JSON200.Revision != 3 || *back.JSON200.Every != "1h" || back.HTTPResponse.Header.Get("ETag") != `"3"` {
		t.Errorf("rolled back: %s", back.Body)
	}
	paused, err := r.PauseScheduleWithResponse(ctx, "a", nil, wire.SchedulePause{Note: new("moving house")})
	testkit.Must(t, err)
	if p := paused.JSON200; p == nil || !p.Paused || *p.PauseNote != "moving house" || p.PausedAt == nil || p.Revision != 3 {
		t.Errorf("paused: %s", paused.Body)
	}
	resumed, err := r.ResumeScheduleWithResponse(ctx, "a", nil)
	testkit.Must(t, err)
	if resumed.JSON200 == nil || resumed.JSON200.Paused || resumed.JSON200.PauseNote != nil {
		t.Errorf("resumed: %s", resumed.Body)
	}
	got, err := r.GetScheduleWithResponse(ctx, "a", nil)
	testkit.Must(t, err)
	if got.JSON200 == nil || got.HTTPResponse.Header.Get("ETag") != `"3"` {
		t.Errorf("got: %s", got.Body)
	}
	deleted, err := r.DeleteScheduleWithResponse(ctx, "a", &client.DeleteScheduleParams{Tasks: new(wire.DeleteTasksAll)})
	testkit.Must(t, err)
	if d := deleted.JSON200; d == nil || d.Cancelled+d.Stopping+d.Left != 0 || d.Examples != nil {
		t.Errorf("deleted: %s", deleted.Body)
	}
	if gone, err := r.GetScheduleWithResponse(ctx, "a", nil); err != nil || gone.StatusCode() != http.StatusNotFound {
		t.Errorf("afterwards: %v, %s", err, gone.Body)
	}
}

func TestDeleteSchedule_CancelsWaitingTasksByDefault(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	for query, want := range map[string]wire.ScheduleDeletion{
		"": {Cancelled: 1, Left: 1}, "?tasks=waiting": {Cancelled: 1, Left: 1}, "?tasks=none": {Left: 2}, "?tasks=all": {Cancelled: 1, Stopping: 1},
	} {
		id := "s" + strings.TrimPrefix(query, "?tasks=")
		r.call("PUT", "/v1/schedules/"+id, `{"overlap":"allow",`+hourly[1:])
		for i := range 2 {
			got := r.call("POST", "/v1/schedules/"+id+"/trigger", "")
			if tick, _ := asMap(t, string(got.body))["task"].(string); i == 0 {
				r.begin(tick)
			}
		}
		var answer wire.ScheduleDeletion
		got := r.call("DELETE", "/v1/schedules/"+id+query, "")
		testkit.Must(t, json.Unmarshal(got.body, &answer))
		same := answer.Cancelled == want.Cancelled && answer.Stopping == want.Stopping && answer.Left == want.Left
		if got.status != http.StatusOK || !same || len(answer.Examples) != 2 {
			t.Errorf("%q: status %d, %+v, want %+v", query, got.status, answer, want)
		}
	}
}

// Who names a revision means it: better no deletion than one of something else.
func TestDeleteSchedule_RefusesARevision(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	r.call("PUT", "/v1/schedules/a", hourly)
	if got := r.call("DELETE", "/v1/schedules/a", "", "If-Match", `"1"`); got.status != http.StatusBadRequest {
		t.Errorf("status %d", got.status)
	}
	if got := r.call("GET", "/v1/schedules/a", ""); got.status != http.StatusOK {
		t.Errorf("afterwards: status %d", got.status)
	}
}

func TestPauseSchedule_NeedsNoBody(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	r.call("PUT", "/v1/schedules/a", hourly)
	for _, body := range []string{"", "{}"} {
		if got := r.call("POST", "/v1/schedules/a/pause", body); got.status != http.StatusOK || asMap(t, string(got.body))["paused"] != true {
			t.Errorf("%q: status %d, %s", body, got.status, got.body)
		}
	}
	if p := r.call("POST", "/v1/schedules/a/pause", "{}", "Content-Type", "text/plain").problem(t); p.Code != "unsupported_media_type" {
		t.Errorf("a body of another kind: %+v", p)
	}
}

func TestScheduleOf_ShowsTheState(t *testing.T) {
	raw, err := json.Marshal(scheduleOf(schedule.Schedule{
		Cursor: start.Add(time.Hour), EndedAt: start.Add(time.Hour), Runs: 5, Failures: 2, Live: 3, Waiting: 1,
	}))
	testkit.Must(t, err)
	got := asMap(t, string(raw))
	for field, want := range map[string]any{
		"cursor": "2026-01-02T16:04:05.120Z", "ended_at": "2026-01-02T16:04:05.120Z", "next_at": nil,
		"runs": 5.0, "failures": 2.0, "live": 3.0, "waiting": 1.0,
	} {
		if got[field] != want {
			t.Errorf("%s is %v, want %v", field, got[field], want)
		}
	}
}

func TestListSchedules_PagesAndFilters(t *testing.T) {
	t.Parallel()
	r, ctx := startRig(t), t.Context()
	for id, fields := range map[string]string{"a": `"owner":"x y",`, "b": `"paused":true,"labels":{"team":"x","tier":"1"},`, "c": `"labels":{"team":"x","k":"v=w"},`} {
		r.call("PUT", "/v1/schedules/"+id, `{`+fields+hourly[1:])
	}
	for query, want := range map[string][]string{
		"":                                  {"a", "b", "c"},
		"?paused=true":                      {"b"},
		"?paused=false":                     {"a", "c"},
		"?owner=x%20y":                      {"a"},
		"?label=team%3Dx":                   {"b", "c"},
		"?label=team=x&label=tier=1":        {"b"},
		"?label=team=x&label=team=x":        {"b", "c"},
		"?label=k=v=w":                      {"c"},
		"?label=team=x&paused=false":        {"c"},
		"?label=team=":                      {},
		"?namespace=other":                  {},
		"?limit=2":                          {"a", "b"},
		"?limit=500&namespace=default":      {"a", "b", "c"},
		"?paused=true&label=team=x&limit=1": {"b"},
	} {
		var page wire.ScheduleList
		got := r.call("GET", "/v1/schedules"+query, "")
		testkit.Must(t, json.Unmarshal(got.body, &page))
		if diff := cmp.Diff(want, each(page.Schedules, func(s wire.Schedule) string { return s.ID })); diff != "" {
			t.Errorf("%s (-want +got):\n%s\n%s", query, diff, got.body)
		}
	}
	first, err := r.ListSchedulesWithResponse(ctx, &client.ListSchedulesParams{Limit: new(2)})
	testkit.Must(t, err)
	rest, err := r.ListSchedulesWithResponse(ctx, &client.ListSchedulesParams{Limit: new(2), Cursor: first.JSON200.NextCursor})
	testkit.Must(t, err)
	if rest.JSON200 == nil || len(rest.JSON200.Schedules) != 1 || rest.JSON200.Schedules[0].ID != "c" || rest.JSON200.NextCursor != nil {
		t.Errorf("second page: %s", rest.Body)
	}
	listed, err := r.ListSchedulesWithResponse(ctx, &client.ListSchedulesParams{Label: []string{"team=x", "tier=1"}, Paused: new(true)})
	testkit.Must(t, err)
	if listed.JSON200 == nil || len(listed.JSON200.Schedules) != 1 || listed.JSON200.NextCursor != nil {
		t.Errorf("over the client: %s", listed.Body)
	}
}

func TestScheduleCalls_ThatCreateWorkAreRefusedWhileRedisIsNearlyFull(t *testing.T) {
	t.Parallel()
	refused := make(map[string]int)
	r := startRig(t, func(o *rigOptions) { o.Refused = func(code string) { refused[code]++ } })
	d := schedule.Definition{Ref: ref("a"), Spec: schedule.Spec{Rules: []schedule.Rule{{Every: time.Hour}}}, Task: task.Definition{Type: "http"}}
	_, err := r.store.Schedules.Write(t.Context(), d.Normalize(), 0, start, false, "")
	testkit.Must(t, err)
	r.redis.FillMemory()
	for path, body := range map[string]string{"PUT /v1/schedules/a": hourly, "POST /v1/schedules/a/trigger": "", "POST /v1/schedules/a/backfill": `{}`} {
		method, path, _ := strings.Cut(path, " ")
		if method == "POST" && body != "" {
			body = `{"from":"2026-01-01T00:00:00Z","to":"2026-01-02T00:00:00Z"}`
		}
		if p := r.call(method, path, body).problem(t); p.Code != "unavailable" {
			t.Errorf("%s %s: %+v", method, path, p)
		}
	}
	for _, path := range []string{"pause", "resume"} {
		if got := r.call("POST", "/v1/schedules/a/"+path, ""); got.status != http.StatusOK {
			t.Errorf("%s, which makes room: status %d", path, got.status)
		}
	}
	if refused["unavailable"] != 3 || len(refused) != 1 {
		t.Errorf("refusals were counted as %v, want one of each call that creates work", refused)
	}
}

func TestScheduleCalls_DoNotTellAFaultOfRedis(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	r.faults.set(nil, errors.New("dial tcp: secret"))
	for _, call := range everyScheduleCall {
		got := r.call(call.method, strings.Replace(call.path, "{id}", "a", 1), call.body)
		if strings.HasSuffix(call.path, "/why") { // for which this is the answer
			if !strings.Contains(string(got.body), `"code":"redis_silent"`) || strings.Contains(string(got.body), "secret") {
				t.Errorf("%s %s: %s", call.method, call.path, got.body)
			}
			continue
		}
		if p := got.problem(t); p.Code != "unavailable" || strings.Contains(string(got.body), "secret") {
			t.Errorf("%s %s: %s", call.method, call.path, got.body)
		}
	}
}

// everyScheduleCall is a good request of each operation on schedules.
var everyScheduleCall = []struct{ method, path, body string }{
	{"GET", "/v1/schedules", ""},
	{"PUT", "/v1/schedules/{id}", hourly},
	{"GET", "/v1/schedules/{id}", ""},
	{"DELETE", "/v1/schedules/{id}", ""},
	{"POST", "/v1/schedules/{id}/pause", ""},
	{"POST", "/v1/schedules/{id}/resume", ""},
	{"POST", "/v1/schedules/{id}/trigger", ""},
	{"POST", "/v1/schedules/{id}/backfill", `{"from":"2026-01-01T00:00:00Z","to":"2026-01-02T00:00:00Z"}`},
	{"GET", "/v1/schedules/{id}/why", ""},
	{"GET", "/v1/schedules/{id}/next", ""},
	{"GET", "/v1/schedules/{id}/ledger", ""},
	{"GET", "/v1/schedules/{id}/logs", ""},
	{"GET", "/v1/schedules/{id}/audit", ""},
	{"GET", "/v1/schedules/{id}/history", ""},
	{"POST", "/v1/schedules/{id}/rollback", `{"revision":1}`},
	{"GET", "/v1/forecast", ""},
	{"GET", "/v1/forecast/next", ""},
}

func TestScheduleCalls_AreAllInTheList(t *testing.T) {
	doc, err := Document()
	testkit.Must(t, err)
	tried := map[string]bool{}
	for _, call := range everyScheduleCall {
		tried[call.method+" "+call.path] = true
	}
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			if op.Tags[0] == "schedules" && !tried[method+" "+path] {
				t.Errorf("%s %s is not in the list", method, path)
			}
		}
	}
}

func TestScheduleCalls_HaveACodeForAMissingSchedule(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	r.call("PUT", "/v1/schedules/a", hourly)
	for _, call := range everyScheduleCall {
		if call.method == "PUT" || !strings.Contains(call.path, "{id}") {
			continue
		}
		for _, at := range []string{strings.Replace(call.path, "{id}", "none", 1), strings.Replace(call.path, "{id}", "a", 1) + "?namespace=other"} {
			if p := r.call(call.method, at, call.body).problem(t); p.Code != "schedule_not_found" || p.Status != http.StatusNotFound {
				t.Errorf("%s %s: %+v", call.method, at, p)
			}
		}
	}
}

func TestSchedulesOf_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	page := make([]schedule.Schedule, 3)
	if all, err := schedulesOf(ctx, page); err != nil || len(all) != len(page) {
		t.Errorf("%d of %d schedules, %v", len(all), len(page), err)
	}
	cancel()
	if all, err := schedulesOf(ctx, page); !errors.Is(err, context.Canceled) {
		t.Errorf("%d schedules, %v", len(all), err)
	}
}
