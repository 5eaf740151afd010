package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/edge"
	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/testkit"
)

// noRedis answers for Redis that every task was created, so that a benchmark measures the API alone.
type noRedis struct{}

func (noRedis) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (noRedis) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (noRedis) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			cmd.(*redis.Cmd).SetVal([]any{int64(1), start.UnixMilli()})
		}
		return nil
	}
}

func batchBody(n int) []byte {
	tasks := make([]map[string]any, n)
	for i := range tasks {
		tasks[i] = map[string]any{
			"id": fmt.Sprintf("bench-%06d", i), "type": "http", "queue": "default", "delay": "30s",
			"payload": map[string]any{
				"url": "http://127.0.0.1:9000/orders/" + fmt.Sprint(i), "method": "POST",
				"headers": map[string]string{"X-Tenant": "acme", "X-Kind": "invoice"},
				"body":    map[string]any{"order": i, "lines": []int{1, 2, 3}, "note": "as discussed"},
			},
			"retry": map[string]any{"max_attempts": 5}, "labels": map[string]string{"team": "billing"},
		}
	}
	raw, err := json.Marshal(map[string]any{"tasks": tasks})
	if err != nil {
		panic(err)
	}
	return raw
}

// BenchmarkBatch submits batches of 1,000 tasks over HTTP, client and server in one process.
func BenchmarkBatch(b *testing.B) {
	s, _ := newStub(b, noRedis{})
	srv := httptest.NewServer(s.Echo())
	defer srv.Close()
	body := batchBody(1000)
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		resp, err := http.Post(srv.URL+"/v1/tasks/batch", jsonType, bytes.NewReader(body))
		testkit.Must(b, err)
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
			b.Fatalf("status %d, %v", resp.StatusCode, err)
		}
		testkit.Must(b, resp.Body.Close())
	}
	b.ReportMetric(1000*float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
}

// BenchmarkBatchCheck is the part of BenchmarkBatch that holds the body against the document.
func BenchmarkBatchCheck(b *testing.B) {
	doc, err := Document()
	testkit.Must(b, err)
	schema := doc.Components.Schemas["SubmissionBatch"].Value
	body := batchBody(1000)
	for b.Loop() {
		testkit.Must(b, checkBody(schema, body))
	}
}

// BenchmarkBatchDecode is the part of BenchmarkBatch that reads the body into Go's types.
func BenchmarkBatchDecode(b *testing.B) {
	body := batchBody(1000)
	for b.Loop() {
		var in wire.SubmissionBatch
		testkit.Must(b, decode(body, &in))
	}
}

// newStub is a server on a Redis of its own, without events.
func newStub(t testing.TB, hooks ...redis.Hook) (*edge.Server, *endpoints) {
	t.Helper()
	db := redistest.Start(t).DB(t)
	useCases := control.New(control.Options{Store: openStore(t, db), Queues: queue.New(queue.Options{DB: db}), Nodes: stubNodes{}})
	for _, hook := range hooks {
		db.AddHook(hook)
	}
	s, err := edge.New(edge.Options{Log: slog.New(slog.DiscardHandler)})
	testkit.Must(t, err)
	e, err := register(s, Options{Control: useCases})
	testkit.Must(t, err)
	return s, e
}

// BenchmarkSubmit submits single tasks over HTTP to a real Redis, one after the other.
func BenchmarkSubmit(b *testing.B) {
	s, _ := newStub(b)
	srv := httptest.NewServer(s.Echo())
	defer srv.Close()
	body := []byte(`{"type":"http","delay":"30s","payload":{"url":"http://127.0.0.1:9000/","method":"POST","body":{"order":1}},"labels":{"team":"billing"}}`)
	b.ReportAllocs()
	for b.Loop() {
		resp, err := http.Post(srv.URL+"/v1/tasks", jsonType, bytes.NewReader(body))
		testkit.Must(b, err)
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode >= http.StatusBadRequest {
			b.Fatalf("status %d, %v", resp.StatusCode, err)
		}
		testkit.Must(b, resp.Body.Close())
	}
}
