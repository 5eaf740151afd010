package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

func ref(id string) task.Ref { return task.Ref{Namespace: task.DefaultNamespace, ID: id} }

func TestSubmitTask_AnswersTheTaskWithItsDefaults(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	got := r.call("POST", "/v1/tasks", `{"id":"a","type":"http","payload":{"url":"http://x/<a>&b"},"labels":{"team":"x"}}`)
	if got.status != http.StatusCreated || got.header.Get("Location") != "/v1/tasks/a" {
		t.Fatalf("status %d, Location %q", got.status, got.header.Get("Location"))
	}
	created := timeIn(t, got.body, "created_at")
	if age := time.Since(created); age < -time.Minute || age > time.Minute {
		t.Errorf("created at %s", created)
	}
	want := `{"id":"a","namespace":"default","type":"http","queue":"default","state":"scheduled","attempt":0,` +
		`"max_attempts":25,"run_at":"` + formatTime(created) + `","created_at":"` + formatTime(created) + `","progress":0,` +
		`"payload":{"url":"http://x/<a>&b"},"timeout":"30s","retry":{"max_attempts":25,` +
		`"backoff":{"initial":"1s","factor":2,"max":"1h"}},"labels":{"team":"x"}}`
	if diff := cmp.Diff(asMap(t, want), asMap(t, string(got.body))); diff != "" {
		t.Errorf("the task (-want +got):\n%s", diff)
	}
}

func asMap(t *testing.T, s string) map[string]any {
	t.Helper()
	var m map[string]any
	testkit.Must(t, json.Unmarshal([]byte(s), &m))
	return m
}

// timeIn reads the time in a field of an answer.
func timeIn(t *testing.T, body []byte, field string) time.Time {
	t.Helper()
	s, _ := asMap(t, string(body))[field].(string)
	at, err := time.Parse(timeLayout, s)
	testkit.Must(t, err)
	return at
}

func TestSubmitTask_StoresEveryField(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	got := r.call("POST", "/v1/tasks?namespace=acme", `{"id":"a.b-c_1","type":"shell","queue":"low","payload":{"command":["true"]},
		"run_at":"2026-03-01T02:00:00.1239+02:00","timeout":"1h","retry":{"max_attempts":3,"backoff":{"initial":"2s","factor":1.5,"max":"1m30s","jitter":0}},
		"retention":"48h","owner":"ops","labels":{"a":"b"}}`)
	if got.status != http.StatusCreated || got.header.Get("Location") != "/v1/tasks/a.b-c_1?namespace=acme" {
		t.Fatalf("status %d, Location %q, %s", got.status, got.header.Get("Location"), got.body)
	}
	want := task.Definition{
		Ref: task.Ref{Namespace: "acme", ID: "a.b-c_1"}, Type: "shell", Queue: "low", Payload: json.RawMessage(`{"command":["true"]}`),
		RunAt: time.Date(2026, 3, 1, 0, 0, 0, 123_000_000, time.UTC), Timeout: time.Hour,
		Retry:     task.Retry{MaxAttempts: 3, Backoff: task.Backoff{Initial: 2 * time.Second, Factor: 1.5, Max: 90 * time.Second, Jitter: new(0.0)}},
		Retention: 48 * time.Hour, Owner: "ops", Labels: map[string]string{"a": "b"},
	}
	if diff := cmp.Diff(want, r.get(want.Ref).Definition); diff != "" {
		t.Errorf("the definition (-want +got):\n%s", diff)
	}
	again := r.call("POST", "/v1/tasks?namespace=acme", `{"type":"http","delay":"1m","retry":{"delays":["1m","5m"]},"payload":null}`)
	delay := timeIn(t, again.body, "run_at").Sub(timeIn(t, again.body, "created_at"))
	if m := asMap(t, string(again.body)); again.status != http.StatusCreated || delay != time.Minute || m["max_attempts"] != 3.0 || m["payload"] != nil {
		t.Errorf("status %d, %s", again.status, again.body)
	}
}

func TestSubmitTask_AnswersARepetitionWithTheTask(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	const body = `{"id":"a","type":"http"}`
	for _, want := range []int{http.StatusCreated, http.StatusOK} {
		if got := r.call("POST", "/v1/tasks", body); got.status != want {
			t.Errorf("status %d, want %d", got.status, want)
		}
	}
	got := r.call("POST", "/v1/tasks", `{"id":"a","type":"shell"}`)
	if p := got.problem(t); p.Code != wire.ProblemCode(task.CodeTaskConflict) || p.Type != "urn:dts:problem:task_conflict" || got.status != http.StatusConflict {
		t.Errorf("got %+v", p)
	}
}

func TestSubmitTask_TakesTheIDFromTheIdempotencyKey(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	for _, c := range []struct {
		key, body, id string
		want          int
	}{
		{"order-1", `{"type":"http"}`, "order-1", http.StatusCreated},
		{`"order-1"`, `{"type":"http"}`, "order-1", http.StatusOK},
		{"order-2", `{"type":"http","id":"mine"}`, "mine", http.StatusCreated},
	} {
		got := r.call("POST", "/v1/tasks", c.body, "Idempotency-Key", c.key)
		if id := asMap(t, string(got.body))["id"]; got.status != c.want || id != c.id {
			t.Errorf("key %s, body %s: %d, id %v; want %d, %s", c.key, c.body, got.status, id, c.want, c.id)
		}
	}
	if p := r.call("POST", "/v1/tasks", `{"type":"shell"}`, "Idempotency-Key", "order-1").problem(t); p.Code != wire.ProblemCode(task.CodeTaskConflict) {
		t.Errorf("the same key with another task: %+v", p)
	}
	for key, want := range map[string]string{
		"order 1":                `Idempotency-Key: "order 1" must be 1 to 200 characters of A-Z a-z 0-9 . _ -`,
		`"order-1`:               `Idempotency-Key: "\"order-1" is not of a form such as order-4711`,
		"a@b":                    `Idempotency-Key: "a@b" must not contain @, which is reserved for ticks and follow-ups; use A-Z a-z 0-9 . _ -`,
		strings.Repeat("x", 201): "Idempotency-Key: is 201 characters long, at most 200 are allowed",
	} {
		p := r.call("POST", "/v1/tasks", `{"type":"http"}`, "Idempotency-Key", key).problem(t)
		if p.Code != "invalid" || wire.Value(p.Field) != "Idempotency-Key" || p.Detail != want {
			t.Errorf("key %.20s: %+v, want %s", key, p, want)
		}
	}
}

func TestListTasks_TakesAnEmptyCursorForTheFirstPage(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	r.call("POST", "/v1/tasks", `{"type":"http","id":"a"}`)
	if got := r.call("GET", "/v1/tasks?cursor=", ""); got.status != http.StatusOK || !strings.Contains(string(got.body), `"id":"a"`) {
		t.Errorf("%d %s", got.status, got.body)
	}
}

func TestSubmitTask_TakesTheNamespaceFromBodyOrQuery(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	for _, c := range []struct{ query, body, want string }{
		{"", `{"type":"http"}`, "default"},
		{"?namespace=q", `{"type":"http"}`, "q"},
		{"", `{"type":"http","namespace":"b"}`, "b"},
		{"?namespace=same", `{"type":"http","namespace":"same"}`, "same"},
	} {
		got := r.call("POST", "/v1/tasks"+c.query, c.body)
		if m := asMap(t, string(got.body)); m["namespace"] != c.want {
			t.Errorf("query %q, body %s: namespace %v, want %s", c.query, c.body, m["namespace"], c.want)
		}
	}
	got := r.call("POST", "/v1/tasks?namespace=q", `{"type":"http","namespace":"b"}`)
	if p := got.problem(t); p.Code != "invalid" || wire.Value(p.Field) != "namespace" {
		t.Errorf("two namespaces: %+v", p)
	}
}

func TestClient_LeadsATaskThroughItsLife(t *testing.T) {
	t.Parallel()
	r, ctx := startRig(t), t.Context()
	later := time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
	made, err := r.SubmitTaskWithResponse(ctx, &client.SubmitTaskParams{}, wire.Submission{ID: new("a"), Type: "http", RunAt: new(wire.At(later))})
	testkit.Must(t, err)
	if made.JSON201 == nil || !made.JSON201.RunAt.Equal(later) {
		t.Fatalf("submitted: %s", made.Body)
	}
	changed, err := r.ChangeTaskWithResponse(ctx, "a", nil, wire.TaskChange{Queue: new("low"), Delay: new("5m"), Payload: json.RawMessage(`[1]`)})
	testkit.Must(t, err)
	if c := changed.JSON200; c == nil || c.Queue != "low" || string(c.Payload) != "[1]" || c.RunAt.Before(c.CreatedAt.Add(5*time.Minute)) || !c.RunAt.Before(later) {
		t.Errorf("changed: %s", changed.Body)
	}
	r.begin("a")
	testkit.Must(t, r.db.ZAdd(ctx, string(r.store.KeysOf(ref("a")).Held()), redis.Z{Score: 1, Member: "default:a"}).Err())
	testkit.Must(t, r.store.Partitions.At(0).Lead(fence).Reap(ctx, r.get(ref("a")), time.Now(), time.Time{}, partition.Loss{Reason: "node died"}))
	r.begin("a")
	reported, err := r.ReportProgressWithResponse(ctx, "a", nil, wire.ProgressReport{Attempt: 2, Progress: 40, Note: new("row 5")})
	testkit.Must(t, err)
	if reported.StatusCode() != http.StatusNoContent {
		t.Errorf("reported: %s", reported.Body)
	}
	testkit.Must(t, r.store.Tasks.RunOf(r.get(ref("a"))).Save(ctx, json.RawMessage(`{"row": 5}`)))
	one, err := r.GetTaskWithResponse(ctx, "a", nil)
	testkit.Must(t, err)
	if one.JSON200 == nil || string(one.JSON200.Checkpoint) != `{"row":5}` {
		t.Errorf("with a checkpoint: %s", one.Body)
	}
	all, err := r.ListTasksWithResponse(ctx, nil)
	testkit.Must(t, err)
	if all.JSON200 == nil || len(all.JSON200.Tasks) != 1 || all.JSON200.Tasks[0].Checkpoint != nil {
		t.Errorf("in a list: %s", all.Body)
	}
	attempts, err := r.ListAttemptsWithResponse(ctx, "a", nil)
	testkit.Must(t, err)
	if a := attempts.JSON200; a == nil || len(a.Attempts) != 2 || *a.Attempts[0].Outcome != wire.OutcomeLost || a.Attempts[1].Outcome != nil {
		t.Errorf("attempts: %s", attempts.Body)
	}
	stopped, err := r.CancelTaskWithResponse(ctx, "a", nil)
	testkit.Must(t, err)
	if s := stopped.JSON200; s == nil || s.State != wire.StateRunning || s.CancelRequestedAt == nil || s.Progress != 40 || *s.ProgressNote != "row 5" {
		t.Errorf("cancelled: %s", stopped.Body)
	}
	r.end("a", task.Cancelled, "told to stop")
	got, err := r.GetTaskWithResponse(ctx, "a", nil)
	testkit.Must(t, err)
	if got.JSON200 == nil || got.JSON200.State != wire.StateCancelled || *got.JSON200.Error != "asked to stop by somebody at 127.0.0.1: told to stop" || got.JSON200.FinishedAt == nil {
		t.Errorf("got: %s", got.Body)
	}
	retried, err := r.RetryTaskWithResponse(ctx, "a", nil)
	testkit.Must(t, err)
	if a := retried.JSON200; a == nil || a.State != wire.StateScheduled || a.MaxAttempts != 27 || a.FinishedAt != nil {
		t.Errorf("retried: %s", retried.Body)
	}
}

func TestListTasks_PagesAndFilters(t *testing.T) {
	t.Parallel()
	r, ctx := startRig(t), t.Context()
	r.call("POST", "/v1/tasks", `{"id":"c","type":"http"}`)
	r.end("c", task.Failed, "boom")
	for _, body := range []string{`{"id":"a","type":"http","owner":"x y","delay":"1h"}`, `{"id":"b","type":"shell","queue":"low","delay":"2h"}`} {
		r.call("POST", "/v1/tasks", body)
	}
	for query, want := range map[string][]string{
		"":                             {"b", "a", "c"},
		"?state=failed":                {"c"},
		"?state=failed,scheduled":      {"b", "a", "c"},
		"?state=running":               {},
		"?queue=low":                   {"b"},
		"?type=http":                   {"a", "c"},
		"?owner=x%20y":                 {"a"},
		"?node=n1":                     {"c"},
		"?namespace=other":             {},
		"?type=http&state=scheduled":   {"a"},
		"?limit=2":                     {"b", "a"},
		"?limit=500&namespace=default": {"b", "a", "c"},
	} {
		got := r.call("GET", "/v1/tasks"+query, "")
		var page wire.TaskList
		testkit.Must(t, json.Unmarshal(got.body, &page))
		ids := each(page.Tasks, func(t wire.Task) string { return t.ID })
		if diff := cmp.Diff(want, ids); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
	}
	first, err := r.ListTasksWithResponse(ctx, &client.ListTasksParams{Limit: new(2), State: wire.States{wire.StateScheduled, wire.StateFailed}})
	testkit.Must(t, err)
	rest, err := r.ListTasksWithResponse(ctx, &client.ListTasksParams{Limit: new(2), Cursor: first.JSON200.NextCursor})
	testkit.Must(t, err)
	if rest.JSON200 == nil || len(rest.JSON200.Tasks) != 1 || rest.JSON200.Tasks[0].ID != "c" || rest.JSON200.NextCursor != nil {
		t.Errorf("second page: %s", rest.Body)
	}
}

func TestGetTask_FindsATickHoweverItsIDIsEscaped(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	r.call("PUT", "/v1/schedules/nightly", hourly)
	id, _ := asMap(t, string(r.call("POST", "/v1/schedules/nightly/trigger", "").body))["task"].(string)
	for _, path := range []string{"/v1/tasks/" + id, "/v1/tasks/" + strings.Replace(id, "@", "%40", 1)} {
		if got := r.call("GET", path, ""); got.status != http.StatusOK || asMap(t, string(got.body))["id"] != id {
			t.Errorf("%s: status %d, %s", path, got.status, got.body)
		}
	}
}

func TestListNodes_AndQueues(t *testing.T) {
	t.Parallel()
	r, ctx := startRig(t), t.Context()
	r.openQueue("default")
	nodes, err := r.ListNodesWithResponse(ctx, nil)
	testkit.Must(t, err)
	if nodes.JSON200 == nil || len(nodes.JSON200.Nodes) != 2 || nodes.JSON200.Nodes[1].State != wire.Dead {
		t.Errorf("nodes: %s", nodes.Body)
	}
	for _, do := range []struct {
		action string
		paused bool
	}{{"pause", true}, {"pause", true}, {"resume", false}} {
		if got := r.call("POST", "/v1/queues/default/"+do.action, ""); got.status != http.StatusNoContent {
			t.Errorf("%s: status %d", do.action, got.status)
		}
		queues, err := r.ListQueuesWithResponse(ctx)
		testkit.Must(t, err)
		if q := queues.JSON200.Queues[0]; q.Paused != do.paused || q.Name != "default" || q.Pending != 1 {
			t.Errorf("after %s: %s", do.action, queues.Body)
		}
	}
}

func TestSubmitTask_DryRunAnswersAndWritesNothing(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	body := `{"id":"a","type":"http","payload":{"url":"http://127.0.0.1/"}}`
	for _, want := range []string{"created", "created"} {
		got := r.call("POST", "/v1/tasks?dry_run=true", body)
		if got.status != http.StatusOK || got.header.Get("Dts-Change") != want || got.header.Get("Location") != "" {
			t.Fatalf("%d, %q, %s", got.status, got.header.Get("Dts-Change"), got.body)
		}
	}
	if got := r.call("GET", "/v1/tasks/a", ""); got.status != http.StatusNotFound {
		t.Errorf("it exists: %s", got.body)
	}
	r.call("POST", "/v1/tasks", body)
	if got := r.call("POST", "/v1/tasks?dry_run=true", body); got.status != http.StatusOK || got.header.Get("Dts-Change") != "unchanged" {
		t.Errorf("again: %d, %q, %s", got.status, got.header.Get("Dts-Change"), got.body)
	}
	if p := r.call("POST", "/v1/tasks?dry_run=true", `{"id":"a","type":"shell"}`).problem(t); p.Code != "task_conflict" {
		t.Errorf("other content: %+v", p)
	}
	got := r.call("POST", "/v1/tasks/batch?dry_run=true", `{"tasks":[`+body+`,{"id":"b","type":"http"},{"type":7}]}`)
	var batch wire.BatchAnswer
	testkit.Must(t, json.Unmarshal(got.body, &batch))
	if got.status != http.StatusOK || batch.Results[0].Status != 200 || batch.Results[1].Status != 201 || batch.Results[2].Status != 400 {
		t.Errorf("a batch: %d, %s", got.status, got.body)
	}
	if got := r.call("GET", "/v1/tasks/b", ""); got.status != http.StatusNotFound {
		t.Errorf("the task of a batch exists: %s", got.body)
	}
}

// Editors of Windows put one in front of what curl then sends.
func TestSubmitTask_PassesOverAByteOrderMark(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	if got := r.call("POST", "/v1/tasks", "\ufeff"+`{"id":"a","type":"noop"}`); got.status != http.StatusCreated {
		t.Errorf("got %d: %s", got.status, got.body)
	}
}

func TestListTasks_HasTheFieldsThatAreAskedFor(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	r.call("POST", "/v1/tasks", `{"id":"a","type":"http","payload":{"url":"x"},"owner":"ops","labels":{"order":"7"}}`)
	r.end("a", task.Failed, "boom")
	always := []string{"attempt", "id", "max_attempts", "namespace", "progress", "retry", "state"}
	for fields, want := range map[string][]string{
		"labels":        {"labels"},
		"error,payload": {"error", "payload"},
		"result":        nil, // it has none
		"owner,queue":   {"owner", "queue"},
	} {
		for _, filter := range []string{"", "&queue=default"} { // without an index, and with one
			got := asMap(t, string(r.call("GET", "/v1/tasks?fields="+fields+filter, "").body))
			row, _ := got["tasks"].([]any)[0].(map[string]any)
			want := slices.Sorted(slices.Values(slices.Concat(always, want)))
			if diff := cmp.Diff(want, slices.Sorted(maps.Keys(row))); diff != "" {
				t.Errorf("%s%s (-want +got):\n%s", fields, filter, diff)
			}
		}
	}
	if got := r.call("GET", "/v1/tasks?fields=labels,id", ""); got.status != http.StatusBadRequest {
		t.Errorf("a member that each task has: %d %s", got.status, got.body)
	}
}

func TestTaskField_NamesWhatTasksMayLack(t *testing.T) {
	t.Parallel()
	doc, err := strictDocument()
	testkit.Must(t, err)
	shape := doc.Components.Schemas["Task"].Value
	var want []string
	for name := range shape.Properties {
		if !slices.Contains(append(shape.Required, "checkpoint", "run"), name) { // no list of tasks has those two
			want = append(want, name)
		}
	}
	var named []string
	for _, name := range doc.Components.Schemas["TaskField"].Value.Enum {
		named = append(named, fmt.Sprint(name))
	}
	slices.Sort(want)
	slices.Sort(named)
	if diff := cmp.Diff(want, named); diff != "" {
		t.Errorf("TaskField (-want +got):\n%s", diff)
	}
}

// The list is whole without an index, and its counts are not.
func TestListTasks_SaysWhatCountsLack(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	r.call("POST", "/v1/tasks", `{"id":"a","type":"http","delay":"1h","payload":{"url":"http://x"}}`)
	const warning = `"warnings":["the list may lack tasks, as no leader has begun to build the index of lists"]`
	for query, warned := range map[string]bool{"": false, "?counts=true": true, "?counts=true&state=failed": false} {
		got := r.call("GET", "/v1/tasks"+query, "")
		if got.status != http.StatusOK || strings.Contains(string(got.body), warning) != warned {
			t.Errorf("%q: status %d, %s; want a warning: %t", query, got.status, got.body, warned)
		}
	}
}
