package api

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/testkit"
)

// startKnowing is a rig all nodes of which know priorities and fair keys.
func startKnowing(t *testing.T) *rig {
	t.Helper()
	nobody := func(context.Context) ([]cluster.Node, error) { return nil, nil }
	backend, useCases := startBackend(t, func(o *control.Options) {
		testkit.Must(t, o.Store.Advance(t.Context(), nobody))
	})
	return startRigOn(t, backend, useCases)
}

// turnOf is what of an object, or of one within it, says when a task has its turn, and which limits count it.
func turnOf(t *testing.T, body []byte, path ...string) map[string]any {
	t.Helper()
	object := asMap(t, string(body))
	for _, name := range path {
		object, _ = object[name].(map[string]any)
	}
	turn := map[string]any{}
	for _, name := range []string{"priority", "fair_key", "fair_weight", "limit_key"} {
		if value, has := object[name]; has {
			turn[name] = value
		}
	}
	return turn
}

// What a request says of a turn is in its answer, for tasks, follow-ups and schedules.
func TestAPI_TakesAndAnswersTurns(t *testing.T) {
	t.Parallel()
	r := startKnowing(t)
	const turn = `"type":"http","priority":7,"fair_key":"customer-7","fair_weight":3,"limit_key":"b,a"`
	all := map[string]any{"priority": 7.0, "fair_key": "customer-7", "fair_weight": 3.0, "limit_key": "b,a"}
	urgent := map[string]any{"priority": 9.0, "fair_key": "customer-7", "fair_weight": 3.0, "limit_key": "b,a"}
	for _, c := range []struct {
		method, path, body string
		status             int
		within             []string
		want               map[string]any
	}{
		{"POST", "/v1/tasks", `{"id":"a","delay":"1h",` + turn + `}`, http.StatusCreated, nil, all},
		{"GET", "/v1/tasks/a", "", http.StatusOK, nil, all},
		{"POST", "/v1/tasks", `{"id":"a","delay":"1h",` + turn + `}`, http.StatusOK, nil, all},
		{"POST", "/v1/tasks?dry_run=true", `{` + turn + `}`, http.StatusOK, nil, all},
		{
			"POST", "/v1/tasks", `{"type":"http","priority":0,"fair_key":"k","fair_weight":1}`, http.StatusCreated,
			nil, map[string]any{"fair_key": "k"},
		},
		{
			"POST", "/v1/tasks", `{"type":"http","on_end":{"when":"ended","task":{"payload":{"url":"http://x"},` + turn + `}}}`,
			http.StatusCreated, []string{"on_end", "task"}, all,
		},
		{"PUT", "/v1/schedules/s", `{"every":"1h","task":{` + turn + `}}`, http.StatusCreated, []string{"task"}, all},
		{"GET", "/v1/schedules/s", "", http.StatusOK, []string{"task"}, all},
		{"PATCH", "/v1/tasks/a", `{"priority":9}`, http.StatusOK, nil, urgent},
		{
			"PATCH", "/v1/tasks/a", `{"fair_key":""}`, http.StatusOK,
			nil, map[string]any{"priority": 9.0, "limit_key": "b,a"},
		},
		{"PATCH", "/v1/tasks/a", `{"limit_key":""}`, http.StatusOK, nil, map[string]any{"priority": 9.0}},
		{
			"PATCH", "/v1/tasks/a", `{"priority":0,"fair_key":"k","fair_weight":2,"limit_key":"x,y,z"}`, http.StatusOK,
			nil, map[string]any{"fair_key": "k", "fair_weight": 2.0, "limit_key": "x,y,z"},
		},
	} {
		got := r.call(c.method, c.path, c.body)
		if got.status != c.status {
			t.Errorf("%s %s %s: %d %s", c.method, c.path, c.body, got.status, got.body)
			continue
		}
		if diff := cmp.Diff(c.want, turnOf(t, got.body, c.within...)); diff != "" {
			t.Errorf("%s %s %s (-want +got):\n%s", c.method, c.path, c.body, diff)
		}
	}
	batch := r.call("POST", "/v1/tasks/batch", `{"tasks":[{`+turn+`},{"type":"http","priority":10}]}`)
	results, _ := asMap(t, string(batch.body))["results"].([]any)
	if len(results) != 2 {
		t.Fatalf("the batch: %d %s", batch.status, batch.body)
	}
	made, _ := results[0].(map[string]any)["task"].(map[string]any)
	if made["priority"] != 7.0 || made["fair_key"] != "customer-7" || made["fair_weight"] != 3.0 ||
		made["limit_key"] != "b,a" {
		t.Errorf("the batch: %s", batch.body)
	}
	if refused, _ := results[1].(map[string]any)["error"].(map[string]any); refused["field"] != "priority" {
		t.Errorf("the batch: %s", batch.body)
	}
}

// An error names the field, and says what would be right.
func TestAPI_SaysWhatIsWrongWithTurns(t *testing.T) {
	t.Parallel()
	r := startKnowing(t)
	r.call("POST", "/v1/tasks", `{"id":"a","type":"http","delay":"1h"}`)
	for _, c := range []struct{ fields, field, detail string }{
		{`"priority":10`, "priority", "10 must be 0 to 9"},
		{`"priority":-1`, "priority", "-1 must be 0 to 9"},
		{`"fair_key":"a b"`, "fair_key", `"a b" must be 1 to 100 characters of A-Z a-z 0-9 . _ -`},
		{`"fair_key":"k","fair_weight":101`, "fair_weight", "101 must be 1 to 100"},
		{`"fair_key":"k","fair_weight":0`, "fair_weight", "0 must be 1 to 100"},
		{`"fair_weight":2`, "fair_weight", "belongs to fair_key, which is missing"},
		{`"fair_key":"` + strings.Repeat("k", 101) + `"`, "fair_key", "is 101 characters long, at most 100 are allowed"},
		{
			`"limit_key":"a, b"`, "limit_key",
			`" b" must be 1 to 100 characters of A-Z a-z 0-9 . _ -; give keys as in tenant-7,api-x`,
		},
		{`"limit_key":"a,b,c,d"`, "limit_key", "has 4 keys, at most 3 are allowed"},
		{`"limit_key":"a,b,a"`, "limit_key", `has "a" twice: name each key once`},
		{
			`"limit_key":"a,` + strings.Repeat("k", 101) + `"`, "limit_key",
			"key 2 is 101 characters long, at most 100 are allowed",
		},
	} {
		for path, request := range map[string][3]string{
			"":       {"POST", "/v1/tasks", `{"type":"http",` + c.fields + `}`},
			"task.":  {"PUT", "/v1/schedules/s", `{"every":"1h","task":{"type":"http",` + c.fields + `}}`},
			"change": {"PATCH", "/v1/tasks/a", `{` + c.fields + `}`},
		} {
			want := path + c.field
			if path == "change" {
				want = c.field
			}
			p := r.call(request[0], request[1], request[2]).problem(t)
			if p.Code != "invalid" || wire.Value(p.Field) != want || p.Detail != want+": "+c.detail {
				t.Errorf("%s: field %q, %q, want %q: %q", request[2], wire.Value(p.Field), p.Detail, want, c.detail)
			}
		}
	}
}
