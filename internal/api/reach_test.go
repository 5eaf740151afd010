package api

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/api/wire"
)

// reachOf is what of an object, or of one within it, says where a task may run.
func reachOf(t *testing.T, body []byte, path ...string) map[string]any {
	t.Helper()
	object := asMap(t, string(body))
	for _, name := range path {
		object, _ = object[name].(map[string]any)
	}
	reach := map[string]any{}
	for _, name := range []string{"select", "prefer", "route"} {
		if value, has := object[name]; has {
			reach[name] = value
		}
	}
	return reach
}

// What a request says of where a task may run is in its answer, for tasks, follow-ups, schedules and steps.
func TestAPI_TakesAndAnswersWhereTasksRun(t *testing.T) {
	t.Parallel()
	r := startKnowing(t)
	const reach = `"type":"http","select":"gpu,zone in (eu,us)","prefer":[{"select":"a=b","weight":10}],` +
		`"route":{"by":"hash","key":"tenant-7","sticky":"prefer"}`
	all := asMap(t, `{`+reach+`}`)
	delete(all, "type")
	for _, c := range []struct {
		method, path, body string
		status             int
		within             []string
		want               map[string]any
	}{
		{"POST", "/v1/tasks", `{"id":"a","delay":"1h",` + reach + `}`, http.StatusCreated, nil, all},
		{"GET", "/v1/tasks/a", "", http.StatusOK, nil, all},
		{"POST", "/v1/tasks", `{"id":"a","delay":"1h",` + reach + `}`, http.StatusOK, nil, all},
		{"POST", "/v1/tasks?dry_run=true", `{` + reach + `}`, http.StatusOK, nil, all},
		{
			"POST", "/v1/tasks", `{"type":"http","on_end":{"when":"ended","task":{"payload":{"url":"http://x"},` + reach + `}}}`,
			http.StatusCreated, []string{"on_end", "task"}, all,
		},
		{"PUT", "/v1/schedules/s", `{"every":"1h","task":{` + reach + `}}`, http.StatusCreated, []string{"task"}, all},
		{"GET", "/v1/schedules/s", "", http.StatusOK, []string{"task"}, all},
		{
			"PATCH", "/v1/tasks/a", `{"prefer":[]}`, http.StatusOK, nil,
			map[string]any{"select": all["select"], "route": all["route"]},
		},
		{"PATCH", "/v1/tasks/a", `{"select":""}`, http.StatusOK, nil, map[string]any{"route": all["route"]}},
		{
			"PATCH", "/v1/tasks/a", `{"route":{"by":"round"},"select":" a "}`, http.StatusOK, nil,
			map[string]any{"select": "a", "route": map[string]any{"by": "round"}},
		},
		{"PATCH", "/v1/tasks/a", `{"route":{}}`, http.StatusOK, nil, map[string]any{"select": "a"}},
		{"PATCH", "/v1/tasks/a", `{"priority":3}`, http.StatusOK, nil, map[string]any{"select": "a"}},
	} {
		got := r.call(c.method, c.path, c.body)
		if got.status != c.status {
			t.Errorf("%s %s %s: %d %s", c.method, c.path, c.body, got.status, got.body)
			continue
		}
		if diff := cmp.Diff(c.want, reachOf(t, got.body, c.within...)); diff != "" {
			t.Errorf("%s %s %s (-want +got):\n%s", c.method, c.path, c.body, diff)
		}
	}
	const flow = `{"steps":[{"id":"one","task":{"payload":{"url":"http://x"},` + reach + `}}]}`
	if put := r.call("PUT", "/v1/workflows/w", flow); put.status != http.StatusCreated {
		t.Fatalf("a workflow: %d %s", put.status, put.body)
	}
	definition, _ := asMap(t, string(r.call("GET", "/v1/workflows/w", "").body))["definition"].(map[string]any)
	steps, _ := definition["steps"].([]any)
	step, _ := steps[0].(map[string]any)["task"].(map[string]any)
	if diff := cmp.Diff(all, map[string]any{
		"select": step["select"], "prefer": step["prefer"], "route": step["route"],
	}); diff != "" {
		t.Errorf("a step (-want +got):\n%s", diff)
	}
}

// An error names the field, and says what would be right.
func TestAPI_SaysWhatIsWrongWithWhereTasksRun(t *testing.T) {
	t.Parallel()
	r := startKnowing(t)
	r.call("POST", "/v1/tasks", `{"id":"a","type":"http","delay":"1h"}`)
	for _, c := range []struct{ fields, field, detail string }{
		{`"prefer":[{"select":"a"},{"select":"b","weight":0}]`, "prefer[1].weight", "0 must be 1 to 100"},
		{`"route":{"by":"hash"}`, "route.key", "is missing: tasks of one key go to the same node"},
		{`"route":{"by":"hash","key":"a b"}`, "route.key", `"a b" must be 1 to 100 characters of A-Z a-z 0-9 . _ -`},
		{`"route":{"by":"round","key":"a"}`, "route.key", "must be left out: only hash goes by it"},
		{`"route":{"by":"failover"}`, "route.order", "must name 1 to 16 nodes, the first one first"},
		{`"route":{"by":"round","sticky":"prefer"}`, "route.sticky", "must be left out: only hash goes by it"},
		{`"route":{"by":"weighted","load":{"cpu":2}}`, "route.load.cpu", "2 must be 0 to 1"},
		{
			`"prefer":[{"select":""}]`, "prefer[0].select",
			"must have a term, as zone=eu: all nodes satisfy a selector without one",
		},
		{
			`"select":"zone=a=b"`, "select",
			`term 1, "zone=a=b", at character 1: after = must come a value of A-Z a-z 0-9 . _ - / +; ` +
				"several are listed as zone in (a, b)",
		},
		{
			`"route":{"by":"nearest"}`, "route.by",
			`"nearest" must be any, first, last, round, weighted_round, random, hash, least_running, least_used, ` +
				"longest_idle, weighted, failover or busy_over",
		},
	} {
		for path, request := range map[string][3]string{
			"":      {"POST", "/v1/tasks", `{"type":"http",` + c.fields + `}`},
			"task.": {"PUT", "/v1/schedules/s", `{"every":"1h","task":{"type":"http",` + c.fields + `}}`},
			"on_end.task.": {
				"POST", "/v1/tasks", `{"type":"http","on_end":{"when":"ended","task":{"type":"http",` + c.fields + `}}}`,
			},
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
