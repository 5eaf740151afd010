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

	"github.com/dts-sched/dts/internal/events"
	"github.com/dts-sched/dts/internal/store"
	"github.com/dts-sched/dts/internal/task"
)

// noStore takes every task and keeps none, so that a benchmark sees the API alone.
type noStore struct{ TaskStore }

func (noStore) Create(_ context.Context, defs []task.Definition) []store.Created {
	out := make([]store.Created, len(defs))
	for i, d := range defs {
		d = d.Normalize()
		out[i] = store.Created{Task: task.Task{Definition: d, State: task.Scheduled, CreatedAt: start, DueAt: start}}
	}
	return out
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
	s := newStub()
	srv := httptest.NewServer(s.Handler())
	defer srv.Close()
	body := batchBody(1000)
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		resp, err := http.Post(srv.URL+"/v1/tasks/batch", jsonType, bytes.NewReader(body))
		must(b, err)
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
			b.Fatalf("status %d, %v", resp.StatusCode, err)
		}
		must(b, resp.Body.Close())
	}
	b.ReportMetric(1000*float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
}

// BenchmarkBatchCheck is the part of BenchmarkBatch that holds the body against the document.
func BenchmarkBatchCheck(b *testing.B) {
	doc, err := Document()
	must(b, err)
	schema := doc.Components.Schemas["SubmissionBatch"].Value
	body := batchBody(1000)
	for b.Loop() {
		must(b, checkBody(schema, body))
	}
}

// BenchmarkBatchDecode is the part of BenchmarkBatch that reads the body into Go's types.
func BenchmarkBatchDecode(b *testing.B) {
	body := batchBody(1000)
	for b.Loop() {
		var in SubmissionBatch
		must(b, decode(body, &in))
	}
}

func newStub() *Server {
	s, err := New(Options{
		Tasks: noStore{}, Schedules: newFakeSchedules(), Nodes: fakeNodes{}, Queues: &fakeQueues{}, Log: slog.New(slog.DiscardHandler),
		Events: events.New(events.Options{}),
	})
	if err != nil {
		panic(err)
	}
	return s
}
