package queue

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/queue/monitor"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestMonitor_ShowsServers(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	x.enqueue(aDelivery("a"))
	c, _ := x.takeNow(1, map[string]int{"default": 3})
	testkit.Must(t, c.beat(t.Context()))
	m := monitor.New(x.srv.DB(t), "/monitor", false)
	w := httptest.NewRecorder()
	m.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/monitor/api/servers", nil))
	for _, want := range []string{`"id":"` + c.record.id + `"`, `"queue_priorities":{"default":3}`, `"status":"active"`, `"task_id":"default:a:1"`} {
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), want) {
			t.Errorf("answer %d: %s, want %s in it", w.Code, w.Body, want)
		}
	}
}
