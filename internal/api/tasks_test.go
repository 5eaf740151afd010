package api

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/task"
)

func ref(id string) task.Ref { return task.Ref{Namespace: task.DefaultNamespace, ID: id} }

func TestASubmissionAnswersTheTaskWithItsDefaults(t *testing.T) {
	r := startRig(t)
	got := r.call("POST", "/v1/tasks", `{"id":"a","type":"http","payload":{"url":"http://x/<a>&b"},"labels":{"team":"x"}}`)
	if got.status != http.StatusCreated || got.header.Get("Location") != "/v1/tasks/a" {
		t.Fatalf("status %d, Location %q", got.status, got.header.Get("Location"))
	}
	want := `{"id":"a","namespace":"default","type":"http","queue":"default","state":"scheduled","attempt":0,` +
		`"max_attempts":4,"run_at":"2026-01-02T15:04:05.120Z","created_at":"2026-01-02T15:04:05.120Z","progress":0,` +
		`"payload":{"url":"http://x/<a>&b"},"timeout":"30s","retry":{"max_attempts":4,` +
		`"backoff":{"initial":"1s","factor":2,"max":"10m","jitter":0.1}},"labels":{"team":"x"}}`
	if diff := cmp.Diff(asMap(t, want), asMap(t, string(got.body))); diff != "" {
		t.Errorf("the task (-want +got):\n%s", diff)
	}
}

func asMap(t *testing.T, s string) map[string]any {
	t.Helper()
	var m map[string]any
	must(t, json.Unmarshal([]byte(s), &m))
	return m
}

func TestEveryFieldOfASubmissionReachesTheStore(t *testing.T) {
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
	if diff := cmp.Diff(want, r.store.asked[want.Ref]); diff != "" {
		t.Errorf("the definition (-want +got):\n%s", diff)
	}
	again := r.call("POST", "/v1/tasks?namespace=acme", `{"type":"http","delay":"1m","retry":{"delays":["1m","5m"]},"payload":null}`)
	if m := asMap(t, string(again.body)); again.status != http.StatusCreated || m["run_at"] != "2026-01-02T15:05:06.120Z" || m["max_attempts"] != 3.0 || m["payload"] != nil {
		t.Errorf("status %d, %s", again.status, again.body)
	}
}

func TestTheSameSubmissionAgainIsHarmless(t *testing.T) {
	r := startRig(t)
	const body = `{"id":"a","type":"http"}`
	for _, want := range []int{http.StatusCreated, http.StatusOK} {
		if got := r.call("POST", "/v1/tasks", body); got.status != want {
			t.Errorf("status %d, want %d", got.status, want)
		}
	}
	got := r.call("POST", "/v1/tasks", `{"id":"a","type":"shell"}`)
	if p := got.problem(t); p.Code != ProblemCode(task.CodeTaskConflict) || p.Type != "urn:dts:problem:task_conflict" || got.status != http.StatusConflict {
		t.Errorf("got %+v", p)
	}
}

func TestTheNamespaceComesFromTheBodyOrTheQuery(t *testing.T) {
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
	if p := got.problem(t); p.Code != "invalid" || p.Field != "namespace" {
		t.Errorf("two namespaces: %+v", p)
	}
}

func TestALifeOverTheGeneratedClient(t *testing.T) {
	r, ctx := startRig(t), t.Context()
	params := &client.SubmitTaskParams{}
	made, err := r.SubmitTaskWithResponse(ctx, params, client.Submission{ID: new("a"), Type: "http", RunAt: new(start.Add(time.Hour))})
	must(t, err)
	if made.JSON201 == nil || !made.JSON201.RunAt.Equal(start.Add(time.Hour)) {
		t.Fatalf("submitted: %s", made.Body)
	}
	changed, err := r.ChangeTaskWithResponse(ctx, "a", nil, client.TaskChange{Queue: new("low"), Delay: new("5m"), Payload: json.RawMessage(`[1]`)})
	must(t, err)
	if changed.JSON200 == nil || changed.JSON200.Queue != "low" || string(changed.JSON200.Payload) != "[1]" || !changed.JSON200.RunAt.Equal(start.Add(5*time.Minute)) {
		t.Errorf("changed: %s", changed.Body)
	}
	r.store.change(ref("a"), func(x *task.Task) {
		x.State, x.Attempt, x.Node, x.QueuedAt, x.StartedAt = task.Running, 1, "n1", start, start
	})
	reported, err := r.ReportProgressWithResponse(ctx, "a", nil, client.ProgressReport{Attempt: 1, Progress: 40})
	must(t, err)
	if reported.StatusCode() != http.StatusNoContent {
		t.Errorf("reported: %s", reported.Body)
	}
	stopped, err := r.CancelTaskWithResponse(ctx, "a", nil)
	must(t, err)
	if s := stopped.JSON200; s == nil || s.State != client.StateRunning || s.CancelRequestedAt == nil || s.Progress != 40 {
		t.Errorf("cancelled: %s", stopped.Body)
	}
	r.store.change(ref("a"), func(x *task.Task) { x.State, x.FinishedAt, x.Error = task.Cancelled, start, "told to stop" })
	r.store.attempts[ref("a")] = []task.Attempt{
		{Number: 1, Node: "n1", StartedAt: start, FinishedAt: start, Outcome: task.OutcomeLost, Error: "node died"},
		{Number: 2, Node: "n2", StartedAt: start},
	}
	attempts, err := r.ListAttemptsWithResponse(ctx, "a", nil)
	must(t, err)
	if a := attempts.JSON200; a == nil || len(a.Attempts) != 2 || *a.Attempts[0].Outcome != client.OutcomeLost || a.Attempts[1].Outcome != nil {
		t.Errorf("attempts: %s", attempts.Body)
	}
	rerun, err := r.RetryTaskWithResponse(ctx, "a", nil)
	must(t, err)
	if rerun.JSON200 == nil || rerun.JSON200.State != client.StateScheduled || rerun.JSON200.MaxAttempts != 5 {
		t.Errorf("retried: %s", rerun.Body)
	}
	got, err := r.GetTaskWithResponse(ctx, "a", nil)
	must(t, err)
	if got.JSON200 == nil || *got.JSON200.Error != "told to stop" || got.JSON200.FinishedAt != nil {
		t.Errorf("got: %s", got.Body)
	}
}

func TestAListIsPagedAndFiltered(t *testing.T) {
	r, ctx := startRig(t), t.Context()
	for _, body := range []string{`{"id":"a","type":"http","owner":"x y"}`, `{"id":"b","type":"shell","queue":"low"}`, `{"id":"c","type":"http"}`} {
		r.call("POST", "/v1/tasks", body)
	}
	r.store.change(ref("c"), func(x *task.Task) { x.State, x.Node = task.Failed, "n1" })
	for query, want := range map[string][]string{
		"":                             {"c", "b", "a"},
		"?state=failed":                {"c"},
		"?state=failed,scheduled":      {"c", "b", "a"},
		"?state=running":               {},
		"?queue=low":                   {"b"},
		"?type=http":                   {"c", "a"},
		"?owner=x%20y":                 {"a"},
		"?node=n1":                     {"c"},
		"?namespace=other":             {},
		"?type=http&state=scheduled":   {"a"},
		"?limit=2":                     {"c", "b"},
		"?limit=500&namespace=default": {"c", "b", "a"},
	} {
		got := r.call("GET", "/v1/tasks"+query, "")
		var page TaskList
		must(t, json.Unmarshal(got.body, &page))
		ids := each(page.Tasks, func(t Task) string { return t.ID })
		if diff := cmp.Diff(want, ids); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
	}
	first, err := r.ListTasksWithResponse(ctx, &client.ListTasksParams{Limit: new(2), State: client.States{client.StateScheduled, client.StateFailed}})
	must(t, err)
	rest, err := r.ListTasksWithResponse(ctx, &client.ListTasksParams{Limit: new(2), Cursor: first.JSON200.NextCursor})
	must(t, err)
	if rest.JSON200 == nil || len(rest.JSON200.Tasks) != 1 || rest.JSON200.Tasks[0].ID != "a" || rest.JSON200.NextCursor != nil {
		t.Errorf("second page: %s", rest.Body)
	}
}

func TestATicksTaskCanBeAskedForHoweverItIsEscaped(t *testing.T) {
	r := startRig(t)
	r.call("POST", "/v1/tasks", `{"id":"nightly","type":"http"}`)
	tick := ref("nightly@20260102T150405Z")
	r.store.tasks[tick] = &task.Task{Definition: task.Definition{Ref: tick, Type: "http", Queue: "default", Payload: json.RawMessage("{}")}, State: task.Cancelled, CreatedAt: start, DueAt: start}
	for _, path := range []string{"/v1/tasks/nightly@20260102T150405Z", "/v1/tasks/nightly%4020260102T150405Z"} {
		if got := r.call("GET", path, ""); got.status != http.StatusOK {
			t.Errorf("%s: status %d, %s", path, got.status, got.body)
		}
	}
}

func TestNodesAndQueuesAreListed(t *testing.T) {
	r, ctx := startRig(t), t.Context()
	nodes, err := r.ListNodesWithResponse(ctx)
	must(t, err)
	if nodes.JSON200 == nil || len(nodes.JSON200.Nodes) != 2 || nodes.JSON200.Nodes[1].State != client.Dead {
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
		must(t, err)
		if q := queues.JSON200.Queues[0]; q.Paused != do.paused || q.Latency != "1.5s" {
			t.Errorf("after %s: %s", do.action, queues.Body)
		}
	}
}
