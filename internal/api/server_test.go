package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/dts-sched/dts/internal/edge"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestAccessLog_ShowsWhatFailedAndWhy(t *testing.T) {
	t.Parallel()
	notReady := errors.New("does not run")
	r := startRig(t, func(o *rigOptions) {
		o.Ready = []Check{{"worker", func(context.Context) error { return notReady }}}
	})
	refused, failed := "request refused", "request failed"
	requests := []struct {
		path, body string
		fault      error // of Redis, from here on
		message    string
		want       map[string]any
	}{
		{"/v1/tasks", `{"type":"noop"}`, nil, "request", map[string]any{"level": "DEBUG", "status": 201.0, "code": nil}},
		{"/healthz", "", nil, "request", map[string]any{"level": "DEBUG", "status": 200.0}},
		{"/readyz", "", nil, failed, map[string]any{"level": "DEBUG", "status": 503.0, "code": "unavailable"}},
		{"/v1/tasks", `{"type":"noop","delay":"a secret"}`, nil, refused,
			map[string]any{"level": "INFO", "status": 400.0, "code": "invalid", "field": "delay", "error": nil}},
		{"/v1/tasks/none", "", nil, refused, map[string]any{
			"level": "INFO", "status": 404.0, "code": "task_not_found", "field": nil,
		}},
		{"/v1/tasks/none", "", errors.New("it hangs"), failed,
			map[string]any{"level": "WARN", "status": 503.0, "code": "unavailable", "field": nil,
				"error": "Redis did not answer in time, or refused: script read_tasks: it hangs"}},
		{"/v1/tasks", `{"type":"noop"}`, errors.New("it hangs"), failed,
			map[string]any{"error": "Redis did not answer in time, or refused; " +
				"a change may have been made nevertheless: script create: it hangs"}},
		{"/v1/tasks/none", "", context.Canceled, failed, map[string]any{
			"level": "ERROR", "status": 500.0, "code": "internal",
		}},
	}
	for i, c := range requests {
		r.faults.set(nil, c.fault)
		method := "GET"
		if c.body != "" {
			method = "POST"
		}
		r.call(method, c.path, c.body, "X-Request-Id", fmt.Sprint("request-", i))
	}
	testkit.Must(t, r.stop()) // everything is logged
	for i, c := range requests {
		var line map[string]any
		for _, found := range r.logged.Find(t, c.message) {
			if found["request_id"] == fmt.Sprint("request-", i) {
				line = found
			}
		}
		for key, want := range c.want {
			if line == nil || line[key] != want {
				t.Errorf("%s %s: %s is not %v: %v", c.path, c.body, key, want, line)
			}
		}
	}
}

func TestReadyz_FailsWithItsChecks(t *testing.T) {
	t.Parallel()
	var fault error
	r := startRig(t, func(o *rigOptions) {
		o.Ready = []Check{
			{"redis", func(context.Context) error { return nil }}, {"worker", func(context.Context) error { return fault }},
		}
	})
	got := r.call("GET", "/healthz", "")
	if got.status != http.StatusOK || asMap(t, string(got.body))["version"] != "test" {
		t.Errorf("healthz: %d %s", got.status, got.body)
	}
	if got := r.call("GET", "/readyz", ""); string(got.body) != "{\"checks\":[\"redis\",\"worker\"],\"status\":\"ok\"}\n" {
		t.Errorf("readyz: %s", got.body)
	}
	fault = errors.New("does not run")
	if p := r.call("GET", "/readyz", "").problem(t); p.Code != "unavailable" || p.Detail != "worker: does not run" {
		t.Errorf("readyz: %+v", p)
	}
}

func TestReadyz_IsReadyWithWarnings(t *testing.T) {
	t.Parallel()
	var warnings []string
	r := startRig(t, func(o *rigOptions) { o.Warnings = func() []string { return warnings } })
	if got := r.call("GET", "/readyz", ""); string(got.body) != "{\"checks\":[],\"status\":\"ok\"}\n" {
		t.Errorf("without a warning: %s", got.body)
	}
	warnings = []string{"Redis evicts"}
	got := r.call("GET", "/readyz", "")
	want := `{"checks":[],"status":"ok","warnings":["Redis evicts"]}` + "\n"
	if got.status != http.StatusOK || string(got.body) != want {
		t.Errorf("with one: %d %s", got.status, got.body)
	}
}

func TestHealth_TakesAnyParameters(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	for _, path := range []string{"/healthz?note=hello%20world", "/readyz?_=1&_=2"} {
		if got := r.call("GET", path, ""); got.status != http.StatusOK {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
}

func TestOpenapi_ServesTheDocument(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	got := r.call("GET", "/openapi.json", "")
	doc, err := openapi3.NewLoader().LoadFromData(got.body)
	testkit.Must(t, err)
	testkit.Must(t, doc.Validate(context.Background()))
	if doc.Paths.Find("/v1/tasks") == nil || got.header.Get("Content-Type") != jsonType {
		t.Errorf("Content-Type %q", got.header.Get("Content-Type"))
	}
}

func TestRegister_MountsMonitorAndMetrics(t *testing.T) {
	t.Parallel()
	echoPath := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Method+" "+r.URL.Path)
	})
	s, e := newStub(t)
	for _, path := range []string{"/metrics", "/monitor", "/monitor/api/queues", "/docs"} {
		if rec := serve(s, "GET", path); rec.Code != http.StatusNotFound {
			t.Errorf("%s without a handler: status %d", path, rec.Code)
		}
	}
	o := e.Options
	o.Monitor, o.Metrics, o.Docs = echoPath, echoPath, echoPath
	s, err := edge.New(s.Options())
	testkit.Must(t, err)
	testkit.Must(t, Register(s, o))
	for _, path := range []string{"/metrics", "/monitor", "/monitor/", "/monitor/api/queues", "/docs"} {
		if rec := serve(s, "POST", path); rec.Body.String() != "POST "+path {
			t.Errorf("%s: status %d, %s", path, rec.Code, rec.Body)
		}
	}
}

// What takes long to compute is not for links of other pages, and what probes ask for is for all.
func TestRegister_TellsTheServerOfItsPaths(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	link := []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}
	for path, want := range map[string]int{
		"/v1/tasks": http.StatusOK, "/v1/forecast": http.StatusForbidden, "/v1/doctor": http.StatusForbidden,
		"/v1/schedules/a/audit": http.StatusForbidden,
	} {
		if got := r.call("GET", path, "", link...); got.status != want {
			t.Errorf("a link to %s: %d %s", path, got.status, got.body)
		}
	}
	s, err := edge.New(edge.Options{Log: slog.New(slog.DiscardHandler), Refusal: edge.ErrNoAPI})
	testkit.Must(t, err)
	testkit.Must(t, Register(s, Options{Metrics: http.NotFoundHandler(), Monitor: http.NotFoundHandler()}))
	for path, want := range map[string]bool{
		"/healthz": false, "/readyz": false, "/metrics": false, "/monitor": true, "/monitor/a": true, "/v1/tasks": true,
		"/openapi.json": true, "/nothing": true,
	} {
		if got := serve(s, "GET", path).Body.String(); strings.Contains(got, "does not have the role api") != want {
			t.Errorf("%s of a server that refuses: %s", path, got)
		}
	}
}

func serve(s *edge.Server, method, path string) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	s.Echo().ServeHTTP(rec, httptest.NewRequest(method, path, nil))
	return rec
}

func TestRegister_SaysWhichOptionsAreMissing(t *testing.T) {
	s, _ := newStub(t)
	if err := Register(s, Options{}); err == nil || !strings.Contains(err.Error(), "must be set") {
		t.Errorf("got %v", err)
	}
}

func TestServer_AnswersARequestThatTakesTooLong(t *testing.T) {
	t.Parallel()
	r := startRig(t, func(o *rigOptions) { o.RequestTimeout = 50 * time.Millisecond })
	r.faults.set(func(ctx context.Context) { <-ctx.Done() }, nil)
	p := r.call("GET", "/v1/tasks/a", "").problem(t)
	if p.Code != "unavailable" || !strings.Contains(p.Detail, "did not answer in time") {
		t.Errorf("got %+v", p)
	}
}

func TestServer_SaysThatRedisRefusesWrites(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	r.openQueue("busy")
	r.redis.RefuseWrites()
	for path, body := range map[string]string{"/v1/tasks": `{"type":"http"}`, "/v1/queues/busy/pause": ""} {
		p := r.call("POST", path, body).problem(t)
		if p.Code != "unavailable" || p.Detail != "Redis refuses writes: NOREPLICAS Not enough good replicas to write." {
			t.Errorf("%s: %+v", path, p)
		}
	}
}

func TestServer_ChecksEveryOperationOfTheDocument(t *testing.T) {
	t.Parallel()
	doc, err := Document()
	testkit.Must(t, err)
	_, e := newStub(t)
	chains := e.perOperation(doc)
	raw, err := json.Marshal(doc)
	testkit.Must(t, err)
	if n := strings.Count(string(raw), `"operationId"`); n != len(chains) || n < 18 {
		t.Errorf("%d operations, %d chains", n, len(chains))
	}
}
