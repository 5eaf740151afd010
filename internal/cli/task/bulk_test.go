package task_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/clitest"
)

// bulkAction is one with a task, in a state.
func bulkAction(state wire.BulkState, changed int) wire.Bulk {
	at := wire.At(time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC))
	b := wire.Bulk{
		ID: "b1", Action: wire.BulkActionRetry, Namespace: "default", State: state, Total: 1, Changed: changed,
		AsOf: at, StartedAt: at,
	}
	if changed > 0 {
		b.EndedAt = &at
	}
	return b
}

// startBulk is a server with a bulk action that was started.
func startBulk(t *testing.T) *clitest.Stub {
	s := clitest.Start(t)
	b := bulkAction(wire.BulkStateRunning, 0)
	s.On("POST /v1/bulk/preview", 200, wire.BulkPreview{Total: 1, AsOf: b.AsOf, Examples: []wire.Task{}})
	s.On("POST /v1/bulk", 201, b)
	return s
}

func TestBulk_OutlastsAServerThatGoesAway(t *testing.T) {
	s := startBulk(t)
	var looks atomic.Int32
	s.Handle("GET /v1/bulk/{bulk}", func(w http.ResponseWriter, _ *http.Request) {
		if looks.Add(1) <= 3 {
			s.Reply(w, 503, clitest.Problem(503, wire.Unavailable, "", "Redis cannot be reached"))
			return
		}
		s.Reply(w, 200, bulkAction(wire.BulkStateDone, 1))
	})
	got := s.Pipe().Run(t, "task", "retry", "--queue", "low", "--yes")
	if got.Code != 0 || !strings.HasPrefix(got.Out, "b1\tretry\tdone\t1\t1\t") {
		t.Errorf("exit code %d, output %q", got.Code, got.Out)
	}
	if !strings.Contains(got.Err, "bulk action b1: the API does not answer, trying again") {
		t.Errorf("it says %q", got.Err)
	}
}

func TestBulk_SaysHowToWatchAgain(t *testing.T) {
	s := startBulk(t)
	s.On("GET /v1/bulk/{bulk}", 404, clitest.Problem(404, wire.BulkNotFound, "", "no bulk action b1"))
	got := s.Pipe().Run(t, "task", "retry", "--queue", "low", "--yes")
	if got.Code != 1 || !strings.Contains(got.Err, "get b1") || !strings.Contains(got.Err, "no bulk action b1") {
		t.Errorf("exit code %d, %q", got.Code, got.Err)
	}
}
