package api

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestPreferredWait_ReadsTheHeader(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]time.Duration{
		"wait=30": 30 * time.Second, "Wait = 30": 30 * time.Second, `wait="30"`: 30 * time.Second, "wait=0": 0,
		"respond-async, wait=5": 5 * time.Second, "wait=5; x=1, return=minimal": 5 * time.Second,
		"wait=5, wait=9": 5 * time.Second,
		"wait=86400":     time.Minute, "wait=2147483647": time.Minute,
		"": -1, "wait": -1, "wait=": -1, "wait=-1": -1, "wait=1.5": -1, "wait=soon": -1, "waiting=5": -1,
		"wait=99999999999": -1,
	} {
		got, ok := preferredWait(http.Header{"Prefer": {header}})
		if ok != (want >= 0) || ok && got != want {
			t.Errorf("%q: %s, %t; want %s", header, got, ok, want)
		}
	}
}

// awaited asks for the task "a" with some headers, and sends the answer on a channel.
func (r *rig) awaited(headers ...string) chan answer {
	got := make(chan answer, 1)
	go func() { got <- r.call("GET", "/v1/tasks/a", "", headers...) }()
	return got
}

func checkAwaited(t *testing.T, got answer, state wire.State, applied string) {
	t.Helper()
	s, waited := asMap(t, string(got.body))["state"], got.header.Get("Preference-Applied")
	if got.status != http.StatusOK || s != string(state) || waited != applied {
		t.Errorf("status %d, state %v, applied %q; want %s, %q", got.status, s, waited, state, applied)
	}
}

func TestGetTask_WaitsForTheEnd(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	r.submit("a")
	waiting := r.awaited("Prefer", "wait=50")
	testkit.Eventually(t, "the request waits", r.source.listenedTo)
	r.source.publish(event("task.running", "a"))
	r.end("a", task.Succeeded, "")
	r.source.publish(event("task.succeeded", "a", func(e *task.Event) { e.State = task.Succeeded }))
	checkAwaited(t, testkit.Receive(t, waiting, "the answer"), "succeeded", "wait=50")
	checkAwaited(t, r.call("GET", "/v1/tasks/a", "", "Prefer", "wait=50"), "succeeded", "wait=50")
	checkAwaited(t, r.call("GET", "/v1/tasks/a", "", "Prefer", "handling=lenient"), "succeeded", "")
	testkit.Eventually(t, "nobody listens any more", func() bool { return !r.source.listenedTo() })
}

func TestGetTask_WaitsNoLongerThanItMay(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	r.submit("a")
	checkAwaited(t, r.call("GET", "/v1/tasks/a", "", "Prefer", "wait=0"), "scheduled", "wait=0")
	if p := r.call("GET", "/v1/tasks/none", "", "Prefer", "wait=50").problem(t); p.Code != "task_not_found" {
		t.Errorf("of no task: %+v", p)
	}
	request := httptest.NewRequest(http.MethodGet, "/", nil)
	request.RemoteAddr = "127.0.0.1:1"
	for range resultsPerAddress {
		leave, err := r.endpoints.results.Enter(echo.New().NewContext(request, nil))
		testkit.Must(t, err)
		defer leave()
	}
	checkAwaited(t, r.call("GET", "/v1/tasks/a", "", "Prefer", "wait=50"), "scheduled", "")
}

func TestGetTask_WaitsNoLongerThanTheServer(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	r.submit("a")
	waiting := r.awaited("Prefer", "wait=50")
	testkit.Eventually(t, "the request waits", r.source.listenedTo)
	testkit.Must(t, r.stop())
	checkAwaited(t, testkit.Receive(t, waiting, "the answer"), "scheduled", "wait=50")
}
