package app

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/testkit"
)

// Nodes write their counts every two seconds, so the test takes that long.
func TestCounts_OneNodeTellsWhatAnotherHasRun(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	redis := redistest.Start(t)
	c := settings(redis.URL())
	works := run(t, Options{Config: c})
	c.Roles = config.Roles{config.RoleAPI}
	tells := run(t, Options{Config: c})
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "order "+r.URL.Path[1:]+" is not there", http.StatusUnprocessableEntity)
	}))
	defer service.Close()
	const n = 50
	for i := range n {
		submission := fmt.Sprintf(`{"type":"http","payload":{"url":"%s/%d"},"retry":{"max_attempts":1}}`, service.URL, 1000+i)
		if status, body := works.call(http.MethodPost, "/v1/tasks", submission); status != http.StatusCreated {
			t.Fatalf("submitting: %d %s", status, body)
		}
	}
	tells.await("/v1/failures", fmt.Sprintf(`"count":%d,"dead":%[1]d,`, n))
	tells.await("/v1/stats", fmt.Sprintf(`"begun":%d,"cancelled":0,"dead":%[1]d,"ended":%[1]d,`, n))
}
