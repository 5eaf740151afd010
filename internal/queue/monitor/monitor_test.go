package monitor_test

import (
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/queue/monitor"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// monitorOf returns the UI of a Redis in which a delivery of task a waits in queue default.
func monitorOf(t *testing.T, writable bool) (http.Handler, *redisx.DB) {
	t.Helper()
	srv := redistest.Start(t)
	db := srv.DB(t)
	delivery := task.Delivery{Ref: task.Ref{Namespace: "default", ID: "a"}, Attempt: 1, Type: "echo", Queue: "default", Timeout: time.Minute}
	testkit.Must(t, queue.New(queue.Options{DB: db}).HandOver(t.Context(), []task.Delivery{delivery}, nil).Failure())
	return monitor.New(srv.DB(t), "/monitor", writable), db
}

func ask(t *testing.T, h http.Handler, method, path string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, nil))
	return w.Code, w.Body.String()
}

func TestMonitor_ShowsQueues(t *testing.T) {
	t.Parallel()
	m, _ := monitorOf(t, false)
	if code, body := ask(t, m, http.MethodGet, "/monitor/api/queues"); code != http.StatusOK || !strings.Contains(body, `"queue":"default"`) {
		t.Errorf("answer %d: %s, want 200 and the queue", code, body)
	}
	if code, body := ask(t, m, http.MethodGet, "/monitor/"); code != http.StatusOK || !strings.Contains(body, "<html") {
		t.Errorf("answer %d: %.80s, want 200 and a page", code, body)
	}
}

var assetPattern = regexp.MustCompile(`/monitor/static/[^"]+\.(css|js)`)

// The API forbids browsers to guess types: they do not use a script or a style sheet that is called plain text.
func TestMonitor_NamesTypesOfAssets(t *testing.T) {
	t.Parallel()
	m, _ := monitorOf(t, false)
	_, page := ask(t, m, http.MethodGet, "/monitor/")
	seen := 0
	for _, found := range assetPattern.FindAllStringSubmatch(page, -1) {
		w := httptest.NewRecorder()
		m.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, found[0], nil))
		want := map[string]string{"css": "text/css", "js": "application/javascript"}[found[1]]
		if got := w.Header().Get("Content-Type"); !strings.HasPrefix(got, want) || w.Code != http.StatusOK {
			t.Errorf("%s: %d, type %q, want %s", found[0], w.Code, got, want)
		}
		seen++
	}
	if seen == 0 {
		t.Errorf("the page has no assets: %s", page)
	}
}

func TestMonitor_ChangesNothingUnlessItIsWritable(t *testing.T) {
	t.Parallel()
	for _, writable := range []bool{false, true} {
		m, db := monitorOf(t, writable)
		before := redistest.Dump(t, db)
		for method, path := range map[string]string{
			http.MethodPost:   "/monitor/api/queues/default:pause",
			http.MethodDelete: "/monitor/api/queues/default/pending_tasks/default:a:1",
		} {
			code, body := ask(t, m, method, path)
			if refused := code == http.StatusMethodNotAllowed; refused == writable {
				t.Errorf("writable %v: %s %s is answered %d: %s", writable, method, path, code, body)
			}
		}
		if changed := !reflect.DeepEqual(redistest.Dump(t, db), before); changed != writable {
			t.Errorf("writable %v: Redis changed: %v", writable, changed)
		}
	}
}
