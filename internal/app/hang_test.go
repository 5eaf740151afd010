package app

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/dts-sched/dts/internal/api"
	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/queue/monitor"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/testkit"
)

// withoutRedis are the operations that answer 200 whatever becomes of Redis.
var withoutRedis = map[string]bool{"healthz": true, "openapi": true}

const (
	// hangLimit is far below the 20 and 30 s that go-redis and the API wait otherwise. The longest have 5 s for a command that is sent when Redis
	// stops to answer, and 2 s for each after that.
	hangLimit = 10 * time.Second
	// readyLimit and scrapeLimit are for those who ask a node how it is, whether it has noticed that Redis hangs or not: each has a second more than
	// the node takes for it.
	readyLimit  = 2 * time.Second
	scrapeLimit = 3 * time.Second
	// ofEachKind is how many requests there are of each operation. Those that take turns would need twice the limit, one after the other.
	ofEachKind = 8
)

func TestHang_EveryOperationSaysSoSoon(t *testing.T) {
	testkit.NotQuick(t)
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
	paths := strings.NewReplacer("{id}", "a", "{number}", "1", "{name}", "all", "{queue}", "default")
	tokens := strings.NewReplacer("the-token-of-take", answer.Attempts[0].Token)
	redis.Pause()
	defer redis.Continue()
	var all sync.WaitGroup
	defer all.Wait()
	for path, item := range document.Paths.Map() {
		for method, operation := range item.Operations() {
			request := tokens.Replace(exampleOf(t, operation))
			for i := range ofEachKind {
				worker := fmt.Sprint(operation.OperationID, i) // the calls of one worker wait for each other
				all.Go(func() {
					target := strings.ReplaceAll(paths.Replace(path), "{worker}", worker)
					r.callInHang(operation.OperationID, method, placeholder.ReplaceAllString(target, "a"), request)
				})
			}
		}
	}
}

// placeholder is a parameter in a path of the document.
var placeholder = regexp.MustCompile(`{\w+}`)

// exampleOf is the body of a request as the document has it; "" if there is none.
func exampleOf(t *testing.T, operation *openapi3.Operation) string {
	t.Helper()
	if operation.RequestBody == nil {
		return ""
	}
	text, err := json.Marshal(operation.RequestBody.Value.Content.Get("application/json").Example)
	testkit.Must(t, err)
	return string(text)
}

// callInHang calls an operation while Redis hangs.
func (r *running) callInHang(operation, method, path, request string) {
	start := r.watch.Elapsed()
	status, body := r.call(method, path, request)
	took := r.watch.Elapsed() - start
	var problem struct {
		Code       string
		RetryAfter int `json:"retry_after"` // as in the header Retry-After
	}
	if operation == "submitTasks" && status == http.StatusOK { // which answers for each task
		status, body = resultOf(body)
	}
	switch {
	case took > hangLimit:
		r.t.Errorf("%s took %s", operation, took)
	case strings.HasPrefix(operation, "why"), operation == "getStatus", operation == "examine": // that is the answer
		if status != http.StatusOK || !strings.Contains(body, "it does not answer this node") && !strings.Contains(body, "Redis does not answer this node") {
			r.t.Errorf("%s: %d %s", operation, status, body)
		}
	case withoutRedis[operation]:
		if status != http.StatusOK {
			r.t.Errorf("%s: %d %s", operation, status, body)
		}
	case json.Unmarshal([]byte(body), &problem) != nil || status != http.StatusServiceUnavailable || problem.Code != "unavailable" || problem.RetryAfter == 0:
		r.t.Errorf("%s: %d %s", operation, status, body)
	}
	r.t.Logf("%s: %d after %s", operation, status, took)
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
	testkit.NotQuick(t)
	t.Parallel()
	redis := redistest.Start(t)
	r := run(t, Options{Config: settings(redis.URL()), Monitor: monitor.New})
	redis.Pause()
	r.callWithin(scrapeLimit, "/metrics")
	testkit.Eventually(t, "it is noticed", func() bool { return !r.link.Up() })
	_, metrics := r.callWithin(scrapeLimit, "/metrics")
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

// callWithin is call for a path that must answer within a time.
func (r *running) callWithin(limit time.Duration, path string) (int, string) {
	r.t.Helper()
	start := r.watch.Elapsed()
	status, body := r.call(http.MethodGet, path, "")
	if took := r.watch.Elapsed() - start; took > limit {
		r.t.Errorf("%s took %s", path, took)
	}
	return status, body
}

// In an outage, whatever a node does fails again and again, and for each partition. The log says so once in a while.
func TestHang_FloodsNoLog(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	const outage = 10 * time.Second // as long as package telemetry leaves out what it has written
	redis := redistest.Start(t)
	log := &warnings{Handler: slog.NewTextHandler(t.Output(), nil), count: make(map[string]int)}
	r := run(t, Options{Config: settings(redis.URL()), Log: slog.New(log)})
	r.mustRun("before")
	redis.Pause()
	began := clock.Now()
	testkit.Eventually(t, "the end of the outage", func() bool {
		r.call(http.MethodGet, "/v1/tasks", "")
		return clock.Since(began) > outage
	})
	redis.Continue()
	r.mustRun("after")
	log.mu.Lock()
	defer log.mu.Unlock()
	if log.count["Redis unreachable"] != 1 || log.count["lease lost"] == 0 {
		t.Errorf("the outage is not as it should be: %v", log.count)
	}
	for message, n := range log.count {
		if n > 4 { // each kind of failure twice, while 16 partitions and all requests fail
			t.Errorf("it says %d times %q", n, message)
		}
	}
}

// warnings counts the warnings and errors that are logged, by their messages.
type warnings struct {
	slog.Handler
	mu    sync.Mutex
	count map[string]int
}

func (w *warnings) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn {
		w.mu.Lock()
		w.count[r.Message]++
		w.mu.Unlock()
	}
	return w.Handler.Handle(ctx, r)
}

func (w *warnings) WithAttrs([]slog.Attr) slog.Handler { return w }

// What waits for something else than an answer of Redis is not cut off.
func TestHang_LimitsNoWaitForOtherThings(t *testing.T) {
	testkit.NotQuick(t)
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
