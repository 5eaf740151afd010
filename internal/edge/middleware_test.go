package edge

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestRequestID_NamesEveryRequest(t *testing.T) {
	t.Parallel()
	r := startRig(t, nil)
	if got := r.call("GET", "/small", "", "X-Request-Id", "abc-1.2_Z").header.Get("X-Request-Id"); got != "abc-1.2_Z" {
		t.Errorf("a sane id became %q", got)
	}
	seen := map[string]bool{}
	for _, id := range []string{"", "with blank", strings.Repeat("x", 65), `"quoted"`} {
		got := r.call("GET", "/small", "", "X-Request-Id", id).header.Get("X-Request-Id")
		if got == id || len(got) < 20 || seen[got] {
			t.Errorf("%q became %q", id, got)
		}
		seen[got] = true
	}
}

func TestAccessLog_NamesWhoeverConnected(t *testing.T) {
	t.Parallel()
	r := startRig(t, nil)
	r.call("GET", "/none", "", "X-Forwarded-For", "1.2.3.4", "X-Real-Ip", "1.2.3.4", "X-Request-Id", "seen")
	testkit.Must(t, r.stop()) // everything is logged
	logged := r.logged.Find(t, "request refused")
	if len(logged) != 1 {
		t.Fatalf("logged %v", logged)
	}
	for key, want := range map[string]any{
		"request_id": "seen", "method": "GET", "path": "/none", "status": 404.0, "client": "127.0.0.1",
	} {
		if logged[0][key] != want {
			t.Errorf("%s is %v, want %v", key, logged[0][key], want)
		}
	}
}

// What a client makes up has no label of its own.
func TestAnswered_NamesRoutesAsTheDocumentDoes(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var got []string
	r := startRig(t, map[string]echo.HandlerFunc{
		"/v1/tasks/:id/logs": func(c echo.Context) error { return c.NoContent(http.StatusNoContent) },
		"/broken":            func(echo.Context) error { panic("broken") },
	}, func(o *Options) {
		o.Answered = func(route, method string, status int, took time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, fmt.Sprint(route, " ", method, " ", status, " ", took > 0))
		}
	})
	r.call("GET", "/v1/tasks/a/logs", "")
	r.call("POST", "/v1/tasks/a/logs", "")
	r.call("BREW", "/v1/tasks/b/logs", "")
	r.call("GET", "/none/of/these", "")
	r.call("GET", "/broken", "")
	testkit.Must(t, r.stop()) // everything is counted
	want := []string{
		"/v1/tasks/{id}/logs GET 204 true", "/v1/tasks/{id}/logs POST 405 true", "/v1/tasks/{id}/logs other 405 true",
		"unknown GET 404 true", "/broken GET 500 true",
	}
	if !slices.Equal(got, want) {
		t.Errorf("counted %q, want %q", got, want)
	}
}

func TestCallerOf_IsWhoSaysSo(t *testing.T) {
	t.Parallel()
	var who control.Caller
	r := startRig(t, map[string]echo.HandlerFunc{"/who": func(c echo.Context) error {
		who = CallerOf(c, "blue")
		return c.NoContent(http.StatusNoContent)
	}})
	for _, name := range []string{strings.Repeat("x", 101), "a\xff", "a\tb"} {
		p := r.call("GET", "/who", "", "Dts-Caller", name).problem(t)
		if p.Status != http.StatusBadRequest || p.Code != task.CodeInvalid || p.Field != "Dts-Caller" {
			t.Errorf("%.10q: %+v", name, p)
		}
	}
	got := r.call("GET", "/who", "", "Dts-Caller", "Ann Ünlü, on call", "X-Request-Id", "seven")
	want := control.Caller{Namespace: "blue", Address: "127.0.0.1", Name: "Ann Ünlü, on call", Request: "seven"}
	if got.status != http.StatusNoContent || who != want {
		t.Errorf("%d: %+v, want %+v", got.status, who, want)
	}
}

func TestRecover_AnswersAProblemAndLogsTheStack(t *testing.T) {
	t.Parallel()
	r := startRig(t, map[string]echo.HandlerFunc{"/panic": func(echo.Context) error { panic("boom") }})
	if p := r.call("GET", "/panic", "").problem(t); p.Code != task.CodeInternal || strings.Contains(p.Detail, "boom") {
		t.Errorf("got %+v", p)
	}
	logged := r.logged.Find(t, "panic")
	if len(logged) != 1 {
		t.Fatalf("logged %v", logged)
	}
	if line := logged[0]; line["panic"] != "boom" || !strings.Contains(fmt.Sprint(line["stack"]), "TestRecover") {
		t.Errorf("logged %v", line)
	}
}

func TestServer_LimitsBodiesByPolicy(t *testing.T) {
	t.Parallel()
	r := startRig(t, nil, func(o *Options) { o.BodyLimit = 100 })
	r.server.SetPolicy(Policy{BodyLimit: 200}, "/body")
	for size, want := range map[int]int{200: http.StatusCreated, 201: http.StatusRequestEntityTooLarge} {
		if got := r.call("POST", "/body", strings.Repeat("x", size)); got.status != want {
			t.Errorf("%d bytes: %d %s", size, got.status, got.body)
		}
	}
	r.server.SetPolicy(Policy{}, "/body")
	p := r.call("POST", "/body", strings.Repeat("x", 101)).problem(t)
	if p.Code != CodeBodyTooLarge || !strings.Contains(p.Detail, "100 bytes") {
		t.Errorf("without a policy: %+v", p)
	}
}

func TestServer_RefusesAllButWhatItsPolicyNames(t *testing.T) {
	t.Parallel()
	r := startRig(t, nil, func(o *Options) { o.Refusal = ErrNoAPI })
	r.server.SetPolicy(Policy{Always: true}, "/small")
	for path, refused := range map[string]bool{"/small": false, "/large": true, "/nothing": true} {
		got := r.call("GET", path, "")
		if strings.Contains(string(got.body), "does not have the role api") != refused {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
}

func TestAccessLog_TellsLittleOfRoutine(t *testing.T) {
	t.Parallel()
	fails := func(echo.Context) error { return task.Errorf(task.CodeUnavailable, "not now") }
	r := startRig(t, map[string]echo.HandlerFunc{"/probe": fails, "/other": fails})
	r.server.SetPolicy(Policy{Routine: true}, "/probe")
	r.call("GET", "/probe", "")
	r.call("GET", "/other", "")
	testkit.Must(t, r.stop()) // everything is logged
	levels := map[any]any{}
	for _, line := range r.logged.Find(t, "request failed") {
		levels[line["path"]] = line["level"]
	}
	if levels["/probe"] != "DEBUG" || levels["/other"] != "WARN" {
		t.Errorf("logged at %v", levels)
	}
}

func TestLimitTime_EndsWhatAHandlerWaitsFor(t *testing.T) {
	t.Parallel()
	r := startRig(t, nil)
	waits := func(c echo.Context) error { <-c.Request().Context().Done(); return c.Request().Context().Err() }
	r.server.Echo().GET("/waits", waits, LimitTime(20*time.Millisecond))
	if p := r.call("GET", "/waits", "").problem(t); p.Code != task.CodeUnavailable || p.Detail != "no answer in time" {
		t.Errorf("%+v", p)
	}
}
