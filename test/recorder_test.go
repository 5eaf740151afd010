package test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
)

// call is one call of a task's HTTP handler.
type call struct {
	task    string
	attempt int
	version string // what the URL said behind "?v="
	at      time.Time
	broken  bool // the caller hung up before the end
}

// slowly is how long a call of /slow takes.
const slowly = 1100 * time.Millisecond

// recorder is the far end of HTTP tasks. It keeps its own record, outside Redis, of what was called.
type recorder struct {
	*httptest.Server
	t     *testing.T
	block chan struct{} // calls of /block wait for this to be closed

	mu    sync.Mutex
	calls []call
}

func newRecorder(t *testing.T) *recorder {
	r := &recorder{t: t, block: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("/ok", func(w http.ResponseWriter, q *http.Request) {
		r.note(q)
		_, _ = fmt.Fprint(w, "done")
	})
	mux.HandleFunc("/slow", func(w http.ResponseWriter, q *http.Request) {
		n := r.note(q)
		select {
		case <-time.After(slowly):
			_, _ = fmt.Fprint(w, "done")
		case <-q.Context().Done():
			r.mu.Lock()
			r.calls[n].broken = true
			r.mu.Unlock()
		}
	})
	mux.HandleFunc("/block", func(w http.ResponseWriter, q *http.Request) {
		r.note(q)
		select {
		case <-r.block:
		case <-q.Context().Done():
		}
	})
	r.Server = httptest.NewServer(mux)
	t.Cleanup(r.CloseClientConnections)
	t.Cleanup(func() { go r.Close() }) // a killed node's connections are not waited for
	return r
}

// note records a call, and returns its place in the record.
func (r *recorder) note(q *http.Request) int {
	attempt, err := strconv.Atoi(q.Header.Get("Dts-Attempt"))
	if err != nil {
		r.t.Errorf("a call without an attempt: %v", q.Header)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, call{
		task: q.Header.Get("Dts-Task-Id"), attempt: attempt, version: q.URL.Query().Get("v"), at: time.Now(),
	})
	return len(r.calls) - 1
}

func (r *recorder) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.calls)
}

// since is the record after a time, in the order of the calls.
func (r *recorder) since(after time.Time) []call {
	r.mu.Lock()
	defer r.mu.Unlock()
	first, _ := slices.BinarySearchFunc(r.calls, after, func(c call, at time.Time) int { return c.at.Compare(at) })
	return slices.Clone(r.calls[first:])
}

// byTask is the record: the attempts of each task in the order of their calls.
func (r *recorder) byTask() map[string][]call {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := make(map[string][]call)
	for _, c := range r.calls {
		m[c.task] = append(m[c.task], c)
	}
	return m
}

// task is a submission that calls the recorder.
func (r *recorder) task(id, path string) wire.Submission {
	payload, err := json.Marshal(map[string]string{"url": r.URL + path})
	if err != nil {
		r.t.Fatal(err)
	}
	return wire.Submission{ID: &id, Type: "http", Payload: payload}
}
