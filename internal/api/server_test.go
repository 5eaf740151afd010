package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/dts-sched/dts/internal/testkit"
)

func TestRequestID_NamesEveryRequest(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	if got := r.call("GET", "/healthz", "", "X-Request-Id", "abc-1.2_Z").header.Get("X-Request-Id"); got != "abc-1.2_Z" {
		t.Errorf("a sane id became %q", got)
	}
	seen := map[string]bool{}
	for _, id := range []string{"", "with blank", strings.Repeat("x", 65), `"quoted"`} {
		got := r.call("GET", "/healthz", "", "X-Request-Id", id).header.Get("X-Request-Id")
		if got == id || len(got) < 20 || seen[got] {
			t.Errorf("%q became %q", id, got)
		}
		seen[got] = true
	}
}

func TestAccessLog_NamesWhoeverConnected(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	r.call("GET", "/v1/tasks/none", "", "X-Forwarded-For", "1.2.3.4", "X-Real-Ip", "1.2.3.4", "X-Request-Id", "seen")
	testkit.Must(t, r.stop()) // everything is logged
	logged := r.logged.Find(t, "request refused")
	if len(logged) != 1 {
		t.Fatalf("logged %v", logged)
	}
	for key, want := range map[string]any{"request_id": "seen", "method": "GET", "path": "/v1/tasks/none", "status": 404.0, "client": "127.0.0.1"} {
		if logged[0][key] != want {
			t.Errorf("%s is %v, want %v", key, logged[0][key], want)
		}
	}
}

func TestAccessLog_ShowsWhatFailedAndWhy(t *testing.T) {
	t.Parallel()
	notReady := errors.New("does not run")
	r := startRig(t, func(o *Options) {
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
		{"/v1/tasks/none", "", nil, refused, map[string]any{"level": "INFO", "status": 404.0, "code": "task_not_found", "field": nil}},
		{"/v1/tasks/none", "", errors.New("it hangs"), failed,
			map[string]any{"level": "WARN", "status": 503.0, "code": "unavailable", "field": nil,
				"error": "Redis did not answer in time, or refused: script read_tasks: it hangs"}},
		{"/v1/tasks", `{"type":"noop"}`, errors.New("it hangs"), failed,
			map[string]any{"error": "Redis did not answer in time, or refused; a change may have been made nevertheless: script create: it hangs"}},
		{"/v1/tasks/none", "", context.Canceled, failed, map[string]any{"level": "ERROR", "status": 500.0, "code": "internal"}},
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
	r := startRig(t, func(o *Options) {
		o.Ready = []Check{{"redis", func(context.Context) error { return nil }}, {"worker", func(context.Context) error { return fault }}}
	})
	if got := r.call("GET", "/healthz", ""); got.status != http.StatusOK || asMap(t, string(got.body))["version"] != "test" {
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
	r := startRig(t, func(o *Options) { o.Warnings = func() []string { return warnings } })
	if got := r.call("GET", "/readyz", ""); string(got.body) != "{\"checks\":[],\"status\":\"ok\"}\n" {
		t.Errorf("without a warning: %s", got.body)
	}
	warnings = []string{"Redis evicts"}
	got := r.call("GET", "/readyz", "")
	if got.status != http.StatusOK || string(got.body) != "{\"checks\":[],\"status\":\"ok\",\"warnings\":[\"Redis evicts\"]}\n" {
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

func TestNew_MountsMonitorAndMetrics(t *testing.T) {
	t.Parallel()
	echoPath := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Method+" "+r.URL.Path) })
	s := newStub(t)
	for _, path := range []string{"/metrics", "/monitor", "/monitor/api/queues"} {
		if rec := serve(s, "GET", path); rec.Code != http.StatusNotFound {
			t.Errorf("%s without a handler: status %d", path, rec.Code)
		}
	}
	o := s.options
	o.Monitor, o.Metrics = echoPath, echoPath
	s, err := New(o)
	testkit.Must(t, err)
	for _, path := range []string{"/metrics", "/monitor", "/monitor/", "/monitor/api/queues"} {
		if rec := serve(s, "POST", path); rec.Body.String() != "POST "+path {
			t.Errorf("%s: status %d, %s", path, rec.Code, rec.Body)
		}
	}
}

func serve(s *Server, method, path string) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	s.Handler().ServeHTTP(rec, httptest.NewRequest(method, path, nil))
	return rec
}

func TestNew_SaysWhichOptionsAreMissing(t *testing.T) {
	if _, err := New(Options{}); err == nil || !strings.Contains(err.Error(), "must be set") {
		t.Errorf("got %v", err)
	}
}

func TestServer_AnswersARequestThatTakesTooLong(t *testing.T) {
	t.Parallel()
	r := startRig(t, func(o *Options) { o.RequestTimeout = 50 * time.Millisecond })
	r.faults.set(func(ctx context.Context) { <-ctx.Done() }, nil)
	if p := r.call("GET", "/v1/tasks/a", "").problem(t); p.Code != "unavailable" || !strings.Contains(p.Detail, "did not answer in time") {
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

func TestServer_DoesNotWaitForABody(t *testing.T) {
	t.Parallel()
	r := startRig(t, func(o *Options) { o.ReadTimeout = 50 * time.Millisecond })
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	testkit.Must(t, err)
	defer func() { _ = conn.Close() }()
	_, err = fmt.Fprintf(conn, "POST /v1/tasks HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
	testkit.Must(t, err)
	raw, err := io.ReadAll(conn)
	testkit.Must(t, err)
	if !strings.HasPrefix(string(raw), "HTTP/1.1 408") || !strings.Contains(string(raw), "did not arrive in time") {
		t.Errorf("got %s", raw)
	}
}

func TestServer_LogsNoErrorIfTheClientHasGone(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	r.submit("a")
	ctx, leave := context.WithCancel(context.Background())
	r.faults.set(func(ctx context.Context) { leave(); <-ctx.Done() }, nil)
	_, err := r.GetTaskWithResponse(ctx, "a", nil)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	testkit.Must(t, r.stop())
	logged := r.logged.Find(t, "request")
	failed := len(r.logged.Find(t, "request failed")) + len(r.logged.Find(t, "request refused"))
	if len(logged) != 2 || logged[1]["status"] != float64(statusClientGone) || failed != 0 {
		t.Errorf("logged %v", logged)
	}
}

func TestRun_LetsRequestsInProgressFinish(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	r.submit("a")
	begun, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	r.faults.set(func(context.Context) { once.Do(func() { close(begun) }); <-goOn }, nil)
	got := make(chan answer, 1)
	go func() { got <- r.call("GET", "/v1/tasks/a", "") }()
	<-begun
	stopped := make(chan error, 1)
	go func() { stopped <- r.stop() }()
	testkit.Eventually(t, "nobody new is let in", func() bool {
		conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
	close(goOn)
	if a := <-got; a.status != http.StatusOK {
		t.Errorf("status %d", a.status)
	}
	testkit.Must(t, <-stopped)
}

func TestRun_CutsOffRequestsAfterTheGrace(t *testing.T) {
	t.Parallel()
	r := startRig(t, func(o *Options) { o.ShutdownGrace = 20 * time.Millisecond })
	r.submit("a")
	begun, cut := make(chan struct{}), make(chan struct{})
	r.faults.set(func(ctx context.Context) { close(begun); <-ctx.Done(); close(cut) }, nil)
	answered := make(chan int, 1)
	go func() {
		answer, err := r.GetTaskWithResponse(context.Background(), "a", nil)
		if err != nil { // the connection was closed before there was an answer
			answered <- http.StatusServiceUnavailable
			return
		}
		answered <- answer.StatusCode()
	}()
	<-begun
	testkit.Must(t, r.stop())
	<-cut
	if status := <-answered; status != http.StatusServiceUnavailable {
		t.Errorf("a request that was cut off was answered %d", status)
	}
}

func TestRun_FailsIfItLosesItsListener(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	testkit.Must(t, l.Close())
	if err := newStub(t).Run(context.Background(), l); err == nil {
		t.Error("Run returned no error")
	}
}

func TestServer_ChecksEveryOperationOfTheDocument(t *testing.T) {
	t.Parallel()
	doc, err := Document()
	testkit.Must(t, err)
	chains := newStub(t).perOperation(doc)
	raw, err := json.Marshal(doc)
	testkit.Must(t, err)
	if n := strings.Count(string(raw), `"operationId"`); n != len(chains) || n < 18 {
		t.Errorf("%d operations, %d chains", n, len(chains))
	}
}
