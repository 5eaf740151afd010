package app

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api"
	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/queue/monitor"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/testkit"
)

// bodies are valid requests, by operation, of operations that need one.
var bodies = map[string]string{
	"submitTask":       `{"type":"noop"}`,
	"limitQueue":       `{"limit":100}`,
	"submitTasks":      `{"tasks":[{"type":"noop"},{"type":"noop"}]}`,
	"changeTask":       `{"queue":"low"}`,
	"reportProgress":   `{"attempt":1,"progress":50}`,
	"reportAttempt":    `{"token":"TOKEN","progress":50}`,
	"finishAttempt":    `{"token":"TOKEN","outcome":"succeeded"}`,
	"takeAttempts":     `{"types":["mine"],"wait":"1s","request":"again"}`,
	"extendAttempts":   `{"attempts":[{"task":"a","attempt":1,"token":"TOKEN"}]}`,
	"putSchedule":      `{"every":"1h","task":{"type":"noop"}}`,
	"backfillSchedule": `{"from":"2026-01-01T00:00:00Z","to":"2026-01-02T00:00:00Z"}`,
	"rollbackSchedule": `{"revision":1}`,
	"acquireLock":      `{"holder":"me","ttl":"10s"}`,
	"renewLock":        `{"holder":"me","fence":1,"ttl":"10s"}`,
	"releaseLock":      `{"holder":"me","fence":1}`,
}

// withoutRedis are the operations that answer 200 whatever becomes of Redis.
var withoutRedis = map[string]bool{"healthz": true, "openapi": true}

// hangLimit is far below the 20 and 30 s that go-redis and the API wait otherwise, and far above what an answer takes.
const hangLimit = 15 * time.Second

func TestHang_EveryOperationSaysSoSoon(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	r := run(t, Options{Config: settings(redis.URL())})
	document, err := api.Document()
	testkit.Must(t, err)
	r.call(http.MethodPost, "/v1/tasks", `{"id":"a","type":"mine","payload":{}}`)
	_, taken := r.call(http.MethodPost, "/v1/workers/w/take", `{"types":["mine"]}`)
	var answer struct{ Attempts []struct{ Token string } }
	if json.Unmarshal([]byte(taken), &answer) != nil || len(answer.Attempts) != 1 {
		t.Fatalf("taken: %s", taken)
	}
	paths := strings.NewReplacer("{id}", "a", "{number}", "1", "{worker}", "w", "{name}", "l", "{queue}", "default")
	redis.Pause()
	defer redis.Continue()
	var all sync.WaitGroup
	defer all.Wait()
	for path, item := range document.Paths.Map() {
		for method, operation := range item.Operations() {
			all.Go(func() {
				start := clock.Now()
				request := strings.ReplaceAll(bodies[operation.OperationID], "TOKEN", answer.Attempts[0].Token)
				status, body := r.call(method, paths.Replace(path), request)
				took := clock.Since(start)
				var problem struct{ Code string }
				if operation.OperationID == "submitTasks" { // which answers for each task
					status, body = resultOf(body)
				}
				switch {
				case took > hangLimit:
					t.Errorf("%s took %s", operation.OperationID, took)
				case withoutRedis[operation.OperationID]:
					if status != http.StatusOK {
						t.Errorf("%s: %d %s", operation.OperationID, status, body)
					}
				case json.Unmarshal([]byte(body), &problem) != nil || status != http.StatusServiceUnavailable || problem.Code != "unavailable":
					t.Errorf("%s: %d %s", operation.OperationID, status, body)
				}
				t.Logf("%s: %d after %s", operation.OperationID, status, took)
			})
		}
	}
}

// resultOf returns the status and the problem of the first task of a batch.
func resultOf(body string) (int, string) {
	var batch struct {
		Results []struct {
			Status int
			Error  json.RawMessage
		}
	}
	if json.Unmarshal([]byte(body), &batch) != nil || len(batch.Results) == 0 {
		return 0, body
	}
	return batch.Results[0].Status, string(batch.Results[0].Error)
}

// The metrics of the node itself are there when one needs them most. Afterwards, the first request succeeds.
func TestHang_MetricsComeSoonAndRequestsSucceedAfterwards(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	r := run(t, Options{Config: settings(redis.URL()), Monitor: monitor.New})
	redis.Pause()
	testkit.Eventually(t, "it is noticed", func() bool { return !r.link.Up() })
	start := clock.Now()
	_, metrics := r.call(http.MethodGet, "/metrics", "")
	if took := clock.Since(start); took > hangLimit {
		t.Errorf("the metrics took %s", took)
	}
	for name, want := range map[string]bool{"dts_redis_up 0": true, "dts_leases_held": true, "dts_tasks{": false, "asynq_queue_size": false} {
		if strings.Contains(metrics, name) != want {
			t.Errorf("%s is there: %v\n%s", name, !want, metrics)
		}
	}
	if status, body := r.call(http.MethodGet, "/monitor/api/queues", ""); status == http.StatusOK {
		t.Errorf("the monitor: %d %s", status, body)
	}
	var clients sync.WaitGroup
	for range 50 { // more than connections
		clients.Go(func() { r.call(http.MethodGet, "/v1/tasks", "") })
	}
	clients.Wait()
	redis.Continue()
	if status, body := r.call(http.MethodPost, "/v1/tasks", `{"type":"noop"}`); status != http.StatusCreated {
		t.Errorf("afterwards: %d %s", status, body)
	}
	r.await("/metrics", "dts_redis_up 1")
}

// What waits for something else than an answer of Redis is not cut off.
func TestHang_LimitsNoWaitForOtherThings(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	r := run(t, Options{Config: settings(redis.URL())})
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Limit)
	defer cancel()
	lines, _ := r.follow("/v1/events")
	start := clock.Now()
	status, body := r.call(http.MethodPost, "/v1/workers/w/take", `{"types":["other"],"wait":"7s"}`)
	if took := clock.Since(start); status != http.StatusOK || took < 7*time.Second {
		t.Errorf("taking: %d after %s: %s", status, took, body)
	}
	r.mustRun("late")
	readUntil(t, lines, "event: task.succeeded")
	testkit.Must(t, ctx.Err())
}
