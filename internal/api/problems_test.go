package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/labstack/echo/v4"
	"go.yaml.in/yaml/v3"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/edge"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// TestProblem_NamesTheInvalidField also covers what the store finds out: a client cannot tell.
func TestProblem_NamesTheInvalidField(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	r.call("POST", "/v1/tasks", `{"id":"a","type":"http","delay":"1h"}`)
	for _, c := range []struct{ name, method, path, body, field string }{
		{"a missing field", "POST", "/v1/tasks", `{}`, "type"},
		{"an unknown field", "POST", "/v1/tasks", `{"type":"http","quue":"x"}`, "quue"},
		{"a field in the wrong case", "POST", "/v1/tasks", `{"type":"http","Queue":"x"}`, "Queue"},
		{"an unknown field inside", "POST", "/v1/tasks", `{"type":"http","retry":{"backoff":{"fctor":2}}}`, "retry.backoff.fctor"},
		{"a wrong type", "POST", "/v1/tasks", `{"type":1}`, "type"},
		{"a wrong type inside", "POST", "/v1/tasks", `{"type":"http","retry":{"backoff":{"factor":"2"}}}`, "retry.backoff.factor"},
		{"a null", "POST", "/v1/tasks", `{"type":"http","queue":null}`, "queue"},
		{"a number out of range", "POST", "/v1/tasks", `{"type":"http","retry":{"backoff":{"factor":0.5}}}`, "retry.backoff.factor"},
		{"a number that is no integer", "POST", "/v1/tasks", `{"type":"http","retry":{"max_attempts":1.5}}`, "retry.max_attempts"},
		{"an integer written oddly", "POST", "/v1/tasks", `{"type":"http","retry":{"max_attempts":1e1}}`, "retry.max_attempts"},
		{"an empty string", "POST", "/v1/tasks", `{"type":"http","queue":""}`, "queue"},
		{"a bad id", "POST", "/v1/tasks", `{"type":"http","id":"a/b"}`, "id"},
		{"an id of a tick", "POST", "/v1/tasks", `{"type":"http","id":"a@b"}`, "id"},
		{"an id that is too long", "POST", "/v1/tasks", `{"type":"http","id":"` + strings.Repeat("a", 201) + `"}`, "id"},
		{"a duration that is none", "POST", "/v1/tasks", `{"type":"http","delay":"5 minutes"}`, "delay"},
		{"a negative duration", "POST", "/v1/tasks", `{"type":"http","delay":"-5m"}`, "delay"},
		{"a duration that is too long", "POST", "/v1/tasks", `{"type":"http","timeout":"169h"}`, "timeout"},
		{"a bad duration in a list", "POST", "/v1/tasks", `{"type":"http","retry":{"delays":["1m","x"]}}`, "retry.delays[1]"},
		{"a duration in a list that Go cannot hold", "POST", "/v1/tasks", `{"type":"http","retry":{"delays":["1m","99999999h"]}}`, "retry.delays[1]"},
		{"a time that is none", "POST", "/v1/tasks", `{"type":"http","run_at":"tomorrow"}`, "run_at"},
		{"a day that does not exist", "POST", "/v1/tasks", `{"type":"http","run_at":"2026-02-30T00:00:00Z"}`, "run_at"},
		{"two times", "POST", "/v1/tasks", `{"type":"http","run_at":"2026-02-03T00:00:00Z","delay":"1s"}`, "delay"},
		{"two retry policies", "POST", "/v1/tasks", `{"type":"http","retry":{"delays":["1m"],"backoff":{"factor":3}}}`, "retry.delays"},
		{"a label that is no string", "POST", "/v1/tasks", `{"type":"http","labels":{"a":1}}`, "labels.a"},
		{"a payload that is too big", "POST", "/v1/tasks", `{"type":"http","payload":"` + strings.Repeat("x", 256<<10) + `"}`, "payload"},
		{"an empty change", "PATCH", "/v1/tasks/a", `{}`, ""},
		{"a change of what cannot be changed", "PATCH", "/v1/tasks/a", `{"type":"shell"}`, "type"},
		{"a change to two times", "PATCH", "/v1/tasks/a", `{"run_at":"2026-02-03T00:00:00Z","delay":"1s"}`, "delay"},
		{"progress over 100", "POST", "/v1/tasks/a/progress", `{"attempt":1,"progress":101}`, "progress"},
		{"progress without an attempt", "POST", "/v1/tasks/a/progress", `{"progress":10}`, "attempt"},
		{"JSON that is none", "POST", "/v1/tasks", `{"type":`, "type"},
		{"a member that is given twice", "POST", "/v1/tasks", `{"type":"http","labels":{"a":"1","a":"2"}}`, "labels.a"},
		{"half of a surrogate pair", "POST", "/v1/tasks", `{"type":"http","payload":{"x":["\ud800"]}}`, "payload.x[0]"},
		{"text that is no UTF-8", "POST", "/v1/tasks", "{\"type\":\"http\",\"owner\":\"\xff\"}", "owner"},
		{"a batch whose list is given twice", "POST", "/v1/tasks/batch", `{"tasks":[{"type":"http"}],"tasks":[]}`, "tasks"},
		{"a batch that is no object", "POST", "/v1/tasks/batch", `[{"type":"http"}]`, ""},
		{"a batch with an unknown field", "POST", "/v1/tasks/batch", `{"tasks":[{"type":"http"}],"task":1}`, "task"},
		{"a batch of null", "POST", "/v1/tasks/batch", `{"tasks":null}`, "tasks"},
		{"two batches", "POST", "/v1/tasks/batch", `{"tasks":[{"type":"http"}]} {}`, ""},
		{"a batch that is cut off", "POST", "/v1/tasks/batch", `{"tasks":[{"type":"http"}`, "tasks"},
		{"two documents", "POST", "/v1/tasks", `{"type":"http"}{}`, ""},
		{"a stray bracket", "POST", "/v1/tasks", `{"type":"http"}}`, ""},
		{"a list as a body", "POST", "/v1/tasks", `[]`, ""},
		{"a body of blanks", "POST", "/v1/tasks", "  \n", ""},
		{"an unknown parameter", "GET", "/v1/tasks?stat=failed", "", "stat"},
		{"a parameter given twice", "GET", "/v1/tasks?state=failed&state=queued", "", "state"},
		{"a state that is none", "GET", "/v1/tasks?state=failed,broken", "", "state[1]"},
		{"a limit of 0", "GET", "/v1/tasks?limit=0", "", "limit"},
		{"a limit over the limit", "GET", "/v1/tasks?limit=501", "", "limit"},
		{"a limit that is no number", "GET", "/v1/tasks?limit=many", "", "limit"},
		{"an empty limit", "GET", "/v1/tasks?limit=", "", "limit"},
		{"a bad cursor", "GET", "/v1/tasks?cursor=nonsense", "", "cursor"},
		{"a bad namespace", "GET", "/v1/tasks?namespace=a%2Fb", "", "namespace"},
		{"an empty namespace", "DELETE", "/v1/tasks/a?namespace=", "", "namespace"},
		{"a query that cannot be read", "GET", "/v1/tasks?limit=%zz", "", ""},
		{"a bad id in the path", "GET", "/v1/tasks/a%2Fb", "", "id"},
		{"a bad name of a queue", "POST", "/v1/queues/a%20b/pause", "", "queue"},
		{"a bad cursor of a log", "GET", "/v1/tasks/a/logs?after=x", "", "after"},
		{"a bad cursor of a log that is followed", "GET", "/v1/tasks/a/logs?follow=true&after=x", "", "after"},
		{"a follow that is no boolean", "GET", "/v1/tasks/a/logs?follow=maybe", "", "follow"},
		{"a filter of events that is none", "GET", "/v1/events?state=x", "", "state[0]"},
		{"a filter by a schedule that is none", "GET", "/v1/tasks?schedule=a@b", "", "schedule"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := r.call(c.method, c.path, c.body).problem(t)
			if p.Code != "invalid" || wire.Value(p.Field) != c.field || p.Status != http.StatusBadRequest {
				t.Errorf("%s %s %.80s: %+v, want field %q", c.method, c.path, c.body, p, c.field)
			}
		})
	}
}

func TestProblem_SaysWhatWouldBeValid(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	for path, want := range map[string]string{
		"/v1/queues/low/why?stat=a": "stat: is not a parameter of this call, which has none",
		"/v1/forecast?hour=1":       "hour: is not a parameter of this call, which has namespace, hours, within",
	} {
		if p := r.call("GET", path, "").problem(t); p.Detail != want {
			t.Errorf("%s: %q, want %q", path, p.Detail, want)
		}
	}
	once := func(key string) string { return `{"type":"http","once":{"mode":"latest","key":"` + key + `"}}` }
	for body, want := range map[string]string{
		once("a b"):                                  "once.key: \"a b\" must be 1 to 100 characters of A-Z a-z 0-9 . _ -",
		once(strings.Repeat("k", 101)):               "once.key: is 101 characters long, at most 100 are allowed",
		`{"type":"http","delay":"soon"}`:             "delay: \"soon\" is not a duration such as 1m30s or 48h",
		`{"type":"http","delay":"-1m"}`:              "delay: -1m0s is negative",
		`{"type":"a b"}`:                             "type: \"a b\" must contain only characters of A-Z a-z 0-9 . _ -",
		`{"type":"http","id":"a@b"}`:                 "id: \"a@b\" must not contain @, which is reserved for ticks and follow-ups; use A-Z a-z 0-9 . _ -",
		`{"type":"http","queue":""}`:                 "queue: \"\" must be 1 to 200 characters of A-Z a-z 0-9 . _ -",
		`{}`:                                         "type: is missing",
		`{"type":"http","x":1}`:                      "x: is not a field of this request",
		`{"type":"http","delays":["1s"]}`:            "delays: is not a field of this request; did you mean retry.delays?",
		`{"type":"http","run_at":"now"}`:             "run_at: \"now\" is not a time such as 2026-01-02T15:04:05Z",
		`{"type":"http","retry":{"max_attempts":0}}`: "retry.max_attempts: 0 must be 1 to 1000",
	} {
		if p := r.call("POST", "/v1/tasks", body).problem(t); p.Detail != want {
			t.Errorf("%s: %q, want %q", body, p.Detail, want)
		}
	}
	if p := r.call("PATCH", "/v1/tasks/a", "{}").problem(t); p.Detail != "an object without members changes nothing: give at least one" {
		t.Errorf("a change of nothing: %q", p.Detail)
	}
	if p := r.call("GET", "/v1/tasks/a/logs?after=", "").problem(t); p.Code != "task_not_found" { // as an empty cursor, it is the beginning
		t.Errorf("an empty cursor of a log: %+v", p)
	}
}

// What an error advises is right: nobody is refused again who does what it says.
func TestProblem_SaysWhichTypeWouldBeValid(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	task := func(more string) string { return `{"type":"http",` + more + `}` }
	run := func(steps string) string { return `{"definition":{"steps":` + steps + `}}` }
	for _, c := range []struct{ path, body, want string }{
		{"/v1/tasks", task(`"owner":5`), `owner: 5 must be a string: "5"`},
		{"/v1/tasks", task(`"owner":true`), `owner: true must be a string: "true"`},
		{"/v1/tasks", task(`"queue":5`), `queue: 5 must be a string: "5"`},
		{"/v1/tasks", task(`"queue":1.5e+30`), `queue: 1.5e+30 must be a string`}, // a name has no plus sign
		{"/v1/tasks", task(`"delay":5`), `delay: 5 must be a duration with its unit, such as "1m30s"`},
		{"/v1/tasks", task(`"run_at":1700000000`), `run_at: 1700000000 must be a time such as "2026-01-02T15:04:05Z"`},
		{"/v1/tasks", task(`"once":{"mode":"throttle","key":"k","excess":5}`), `once.excess: must be drop or delay`},
		{"/v1/tasks", task(`"once":{"mode":"throttle","key":"k","excess":true}`), `once.excess: must be drop or delay`},
		{"/v1/tasks", task(`"labels":5`), "labels: value must be an object"},
		{"/v1/tasks", task(`"retry":{"delays":"1s"}`), `retry.delays: "1s" must be an array, such as ["1s"]`},
		{"/v1/tasks", task(`"retry":{"delays":"soon"}`), `retry.delays: "soon" must be an array`},
		{"/v1/tasks", task(`"retry":{"delays":5}`), `retry.delays: 5 must be an array`},
		{"/v1/runs", run(`"x"`), `definition.steps: "x" must be an array`},
		{"/v1/runs", run(`[{"id":"a","needs":"b"}]`), `definition.steps[0].needs: "b" must be an array, such as ["b"]`},
		{"/v1/runs", run(`[{"id":"a","needs":5}]`), `definition.steps[0].needs: 5 must be an array`},
	} {
		if p := r.call("POST", c.path, c.body).problem(t); p.Detail != c.want {
			t.Errorf("%s: %q, want %q", c.body, p.Detail, c.want)
		}
	}
}

func TestProblem_SaysOfParametersWhatWouldBeValid(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	for _, c := range []struct{ method, path, want string }{
		{"GET", "/v1/tasks?state=broken", "state[0]: \"broken\" must be scheduled, queued, running, succeeded, failed or cancelled"},
		{"GET", "/v1/tasks?limit=501", "limit: 501 must be 1 to 500"},
		{"GET", "/v1/tasks?limit=abc", `limit: "abc" must be a whole number`},
		{"GET", "/v1/tasks/a/logs?follow=maybe", `follow: "maybe" must be true or false`},
		{"GET", "/v1/tasks?namespace=a%20b", "namespace: \"a b\" must be 1 to 200 characters of A-Z a-z 0-9 . _ -"},
		{"GET", "/v1/tasks?schedule=a@b", "schedule: \"a@b\" must not contain @, which is reserved for ticks and follow-ups; use A-Z a-z 0-9 . _ -"},
		{"GET", "/v1/tasks/a@b@c", "id: \"a@b@c\" must be the id of a schedule or a task, an @ and a tick, a follow-up or a step, of A-Z a-z 0-9 . _ -"},
		{"GET", "/v1/forecast?namespace=**", "namespace: \"**\" must be 1 to 200 characters of A-Z a-z 0-9 . _ -"},
		{"DELETE", "/v1/workers/a%20b", "worker: \"a b\" must be 1 to 100 characters of A-Z a-z 0-9 . _ -"},
		{"DELETE", "/v1/workers/" + strings.Repeat("w", 101), "worker: is 101 characters long, at most 100 are allowed"},
		{"GET", "/v1/schedules?label=team", "label[0]: \"team\" is not of a form such as team=billing"},
	} {
		if p := r.call(c.method, c.path, "").problem(t); p.Detail != c.want {
			t.Errorf("%s %s: %q, want %q", c.method, c.path, p.Detail, c.want)
		}
	}
}

// TestDocument_HasWordsForEachPattern keeps regular expressions out of what people read.
func TestDocument_HasWordsForEachPattern(t *testing.T) {
	t.Parallel()
	var doc any
	testkit.Must(t, yaml.Unmarshal(document, &doc))
	patterns := 0
	var walk func(at string, v any)
	walk = func(at string, v any) {
		switch v := v.(type) {
		case map[string]any:
			name, named := v[wordsExtension].(string)
			if _, ok := v["pattern"].(string); ok {
				patterns++
				if v["example"] == nil && words[name] == nil {
					t.Errorf("%s: a pattern needs an example, or one of the words", at)
				}
			}
			if named && words[name] == nil {
				t.Errorf("%s: there are no words %q", at, name)
			}
			for key, member := range v {
				walk(at+"."+key, member)
			}
		case []any:
			for i, element := range v {
				walk(fmt.Sprintf("%s[%d]", at, i), element)
			}
		}
	}
	walk("", doc)
	if patterns < 10 {
		t.Errorf("found %d patterns", patterns)
	}
}

func TestProblem_HasACodeForEachCause(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	for _, id := range []string{"scheduled", "queued", "running", "succeeded"} {
		r.submit(id)
	}
	r.claim("queued")
	r.begin("running")
	r.end("succeeded", task.Succeeded, "")
	for _, c := range []struct{ method, path, body, code string }{
		{"GET", "/v1/tasks/none", "", "task_not_found"},
		{"GET", "/v1/tasks/none/attempts", "", "task_not_found"},
		{"GET", "/v1/tasks/none/logs", "", "task_not_found"},
		{"GET", "/v1/tasks/none/logs?follow=true", "", "task_not_found"},
		{"DELETE", "/v1/tasks/none", "", "task_not_found"},
		{"GET", "/v1/tasks/scheduled?namespace=other", "", "task_not_found"},
		{"PATCH", "/v1/tasks/running", `{"delay":"1s"}`, "task_not_waiting"},
		{"DELETE", "/v1/tasks/succeeded", "", "task_finished"},
		{"POST", "/v1/tasks/running/retry", "", "task_not_finished"},
		{"POST", "/v1/tasks/queued/progress", `{"attempt":1,"progress":1}`, "task_not_running"},
		{"POST", "/v1/tasks/running/progress", `{"attempt":2,"progress":1}`, "stale_attempt"},
		{"POST", "/v1/queues/none/pause", "", "queue_not_found"},
		{"POST", "/v1/queues/none/resume", "", "queue_not_found"},
		{"GET", "/v1/nothing", "", "not_found"},
		{"GET", "/", "", "not_found"},
		{"PUT", "/v1/tasks", "{}", "method_not_allowed"},
		{"DELETE", "/healthz", "", "method_not_allowed"},
	} {
		p := r.call(c.method, c.path, c.body).problem(t)
		if string(p.Code) != c.code {
			t.Errorf("%s %s: %+v, want %s", c.method, c.path, p, c.code)
		}
	}
}

func TestBody_MustBePlainJSON(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	for _, headers := range [][]string{
		{"Content-Type", ""},
		{"Content-Type", "text/plain"},
		{"Content-Type", "application/x-www-form-urlencoded"},
		{"Content-Type", "application/json; charset=latin1"},
		{"Content-Type", "application/problem+json"},
		{"Content-Encoding", "gzip"},
	} {
		if p := r.call("POST", "/v1/tasks", `{"type":"http"}`, headers...).problem(t); p.Code != "unsupported_media_type" || p.Status != http.StatusUnsupportedMediaType {
			t.Errorf("%v: %+v", headers, p)
		}
	}
	if got := r.call("POST", "/v1/tasks", `{"type":"http"}`, "Content-Type", "application/json; charset=UTF-8"); got.status != http.StatusCreated {
		t.Errorf("with a charset: status %d", got.status)
	}
}

func TestBody_IsLimited(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	body := `{"type":"http","payload":"` + strings.Repeat("x", 1<<20) + `"}`
	if p := r.call("POST", "/v1/tasks", body).problem(t); p.Code != "body_too_large" || p.Status != http.StatusRequestEntityTooLarge {
		t.Errorf("got %+v", p)
	}
}

func TestGuardOrigin_RefusesPagesOfOtherOrigins(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	r.openQueue("default")
	if p := r.call("POST", "/v1/queues/default/pause", "", "Origin", "https://evil.example").problem(t); p.Code != "cross_origin" ||
		!strings.Contains(p.Detail, "reverse proxy") || !strings.Contains(p.Detail, "allowed-hosts") || p.Status != http.StatusForbidden {
		t.Errorf("got %+v", p)
	}
	if p := r.call("DELETE", "/v1/tasks/a", "", "Sec-Fetch-Site", "cross-site").problem(t); p.Code != "cross_origin" {
		t.Errorf("got %+v", p)
	}
	if got := r.call("POST", "/v1/queues/default/pause", "", "Origin", r.url, "Sec-Fetch-Site", "same-origin"); got.status != http.StatusNoContent {
		t.Errorf("the server's own page: status %d", got.status)
	}
}

func TestSubmitTask_IsRefusedWhileRedisIsNearlyFull(t *testing.T) {
	t.Parallel()
	refused := make(map[string]int)
	r := startRig(t, func(o *rigOptions) { o.Refused = func(code string) { refused[code]++ } })
	r.redis.FillMemory()
	for _, path := range []string{"/v1/tasks", "/v1/tasks/batch"} {
		got := r.call("POST", path, map[string]string{"/v1/tasks": `{"type":"http"}`, "/v1/tasks/batch": `{"tasks":[{"type":"http"}]}`}[path])
		if p := got.problem(t); p.Code != "unavailable" || got.header.Get("Retry-After") == "" || p.Status != http.StatusServiceUnavailable {
			t.Errorf("%s: %+v, Retry-After %q", path, p, got.header.Get("Retry-After"))
		}
	}
	if got := r.call("GET", "/v1/tasks", ""); got.status != http.StatusOK {
		t.Errorf("reading: status %d", got.status)
	}
	r.faults.set(nil, errors.New("dial tcp: refused"))
	if got := r.call("GET", "/v1/tasks", ""); got.status != http.StatusServiceUnavailable {
		t.Errorf("reading while Redis does not answer: status %d", got.status)
	}
	if refused["unavailable"] != 2 || len(refused) != 1 {
		t.Errorf("refusals were counted as %v, want the two submissions", refused)
	}
}

func TestProblem_LogsAFaultAndDoesNotTellIt(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	r.submit("a")
	faults := []struct {
		hold         func(context.Context)
		fault        error
		code, secret string
	}{
		{func(context.Context) { panic("nil is a secret") }, nil, "internal", "secret"},
		{nil, errors.New("dial tcp 10.0.0.7:6379: secret"), "unavailable", "secret"},
	}
	for _, c := range faults {
		r.faults.set(c.hold, c.fault)
		got := r.call("GET", "/v1/tasks/a", "", "X-Request-Id", "mine-1")
		if p := got.problem(t); string(p.Code) != c.code || strings.Contains(string(got.body), c.secret) {
			t.Errorf("got %s", got.body)
		}
	}
	testkit.Must(t, r.stop()) // everything is logged
	logged := r.logged.Find(t, "request failed")
	for i, c := range faults {
		if len(logged) != 2 || logged[i]["request_id"] != "mine-1" || !strings.Contains(fmt.Sprint(logged[i]["error"]), c.secret) {
			t.Errorf("logged %v", logged)
		}
	}
}

func TestProblem_AnswersACancelledCallIfTheClientWaits(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	r.faults.set(nil, fmt.Errorf("reading: %w", context.Canceled))
	if p := r.call("GET", "/v1/tasks/a", "").problem(t); p.Code != "internal" {
		t.Errorf("got %+v", p)
	}
}

// 0 stands for the default inside; nobody who writes it means that.
func TestSubmitTask_RefusesAZeroDurationThatWouldMeanTheDefault(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	for field, body := range map[string]string{
		"timeout":               `{"type":"http","timeout":"0"}`,
		"retention":             `{"type":"http","retention":"0s"}`,
		"retry.backoff.initial": `{"type":"http","retry":{"backoff":{"initial":"0ms"}}}`,
		"retry.backoff.max":     `{"type":"http","retry":{"backoff":{"max":"0s"}}}`,
	} {
		if p := r.call("POST", "/v1/tasks", body).problem(t); p.Code != "invalid" || wire.Value(p.Field) != field {
			t.Errorf("%s: %+v", body, p)
		}
	}
	if got := r.call("POST", "/v1/tasks", `{"type":"http","delay":"0s","retry":{"delays":["0s"]}}`); got.status != http.StatusCreated {
		t.Errorf("no delay: %d %s", got.status, got.body)
	}
}

func TestProblem_TellsNoReaderOfAChange(t *testing.T) {
	t.Parallel()
	err := layout.Unavailable(context.DeadlineExceeded)
	for request, wants := range map[string]bool{
		"GET /v1/tasks": false, "HEAD /v1/tasks/a": false, "PUT /v1/schedules/a?dry_run=true": false,
		"POST /v1/tasks": true, "PUT /v1/schedules/a?dry_run=false": true, "DELETE /v1/tasks/a": true,
	} {
		method, path, _ := strings.Cut(request, " ")
		c := echo.New().NewContext(httptest.NewRequest(method, path, nil), httptest.NewRecorder())
		p := edge.ProblemFor(c, err)
		for _, detail := range []string{p.Detail, refused(c, err).Error.Detail} {
			if got := strings.Contains(detail, "change"); got != wants || !strings.Contains(detail, "did not answer") {
				t.Errorf("%s: %s", request, detail)
			}
		}
	}
}

// What is wrong stays readable: a long quotation loses its middle.
func TestProblem_BoundsWhatItQuotes(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	long := strings.Repeat("ü", 100_000)
	for name, c := range map[string]struct{ method, path, body, says string }{
		"a pattern": {"POST", "/v1/tasks", `{"type":"http","delay":"` + long + `"}`, "maximum string length is 64"},
		"an enum": {
			"PUT", "/v1/schedules/a",
			`{"every":"1h","misfire":{"policy":"` + long + `"},"task":{"type":"http"}}`, "must be",
		},
		"an unknown field": {"POST", "/v1/tasks", `{"type":"http","` + long + `":1}`, "is not a field of this request"},
		"a wrong time":     {"POST", "/v1/tasks", `{"type":"http","run_at":"` + long + `"}`, "is not a time such as"},
		"a name given twice": {
			"POST", "/v1/tasks", `{"type":"http","payload":{"` + long + `":1,"` + long + `":2}}`, "is given twice",
		},
		"a namespace":     {"POST", "/v1/tasks?namespace=a", `{"type":"http","namespace":"` + long + `"}`, ""},
		"a parameter":     {"GET", "/v1/tasks?" + strings.Repeat("x", 50_000) + "=1", "", "is not a parameter of this call"},
		"a wrong value":   {"GET", "/v1/tasks?limit=" + strings.Repeat("9", 50_000), "", ""},
		"an id":           {"GET", "/v1/tasks/" + strings.Repeat("a", 50_000), "", ""},
		"a cron rule":     {"PUT", "/v1/schedules/a", `{"cron":"` + long + `","task":{"type":"http"}}`, ""},
		"a label":         {"POST", "/v1/tasks", `{"type":"http","labels":{"` + long + `":"1"}}`, ""},
		"an unknown type": {"POST", "/v1/workers/w/take", `{"types":["` + long + `"]}`, ""},
	} {
		got := r.call(c.method, c.path, c.body)
		if len(got.body) > 3000 || got.status < 400 || got.status >= 500 {
			t.Errorf("%s: %d, %d bytes: %.300s", name, got.status, len(got.body), got.body)
			continue
		}
		if p := got.problem(t); !strings.Contains(p.Detail, c.says) {
			t.Errorf("%s: %s, want %q in it", name, p.Detail, c.says)
		}
	}
	batch := r.call("POST", "/v1/tasks/batch", `{"tasks":[{"type":"http","delay":"`+long+`"}]}`)
	if len(batch.body) > 3000 {
		t.Errorf("a batch: %d bytes: %.300s", len(batch.body), batch.body)
	}
}

// TestDocument_HasEveryCode compares the codes of problems with those of the document.
func TestDocument_HasEveryCode(t *testing.T) {
	t.Parallel()
	doc, err := Document()
	testkit.Must(t, err)
	schema := doc.Components.Schemas["ProblemCode"].Value
	var documented []task.Code
	for _, code := range schema.Enum {
		documented = append(documented, task.Code(fmt.Sprint(code)))
	}
	slices.Sort(documented)
	if diff := cmp.Diff(edge.Codes(), documented); diff != "" {
		t.Errorf("the document has other codes:\n%s", diff)
	}
	for _, e := range edge.Explain() {
		if row := fmt.Sprintf("| `%s` | %d | %s |", e.Code, e.Status, e.Meaning); !strings.Contains(schema.Description, row) {
			t.Errorf("the document's table lacks %s", row)
		}
	}
}
