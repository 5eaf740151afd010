package api

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/testkit"
)

// large has an answer of 200 KiB that is said to be compressed.
var large = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/x-large")
	w.Header().Set("Content-Encoding", "x-test")
	w.WriteHeader(http.StatusAccepted)
	_, _ = io.WriteString(w, strings.Repeat(r.URL.Path[1:2], 200<<10))
})

func TestMonitor_ListsHundredTasksAtATime(t *testing.T) {
	t.Parallel()
	r := startRig(t, func(o *rigOptions) { o.Monitor = large })
	for size, want := range map[string]int{
		"100": http.StatusAccepted, "1": http.StatusAccepted, "": http.StatusAccepted,
		"101": 400, "0": 400, "-1": 400, "many": 400,
	} {
		got := r.call("GET", "/monitor/api/queues/default/archived_tasks?size="+size, "")
		if got.status != want {
			t.Errorf("%q: %d %.200s", size, got.status, got.body)
		}
		if want == 400 && !strings.Contains(string(got.body), `"field":"size"`) {
			t.Errorf("%q: %s", size, got.body)
		}
	}
}

func TestMonitor_TakesTurnsWithPages(t *testing.T) {
	t.Parallel()
	r := startRig(t, func(o *rigOptions) { o.Monitor = large })
	var ends []func()
	for range control.PagesLimit {
		end, err := r.endpoints.Control.TakePage(t.Context())
		testkit.Must(t, err)
		ends = append(ends, end)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+"/monitor/api/queues", nil)
	testkit.Must(t, err)
	if resp, err := r.http.Do(req); err == nil {
		_ = resp.Body.Close()
		t.Errorf("it was read without a turn: %d", resp.StatusCode)
	}
	if got := r.call("GET", "/monitor/", ""); got.status != http.StatusAccepted {
		t.Errorf("what is not read in Redis: %d", got.status)
	}
	for _, end := range ends {
		end()
	}
	for range control.PagesLimit + 1 {
		if got := r.call("GET", "/monitor/api/queues", ""); got.status != http.StatusAccepted {
			t.Errorf("afterwards: %d", got.status)
		}
	}
}
