package test

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/clock"
)

// flowHandlers are the far end of the steps of runs, with a record of their calls.
type flowHandlers struct {
	url string
	t   *testing.T

	mu    sync.Mutex
	calls map[string][]flowCall // by task
	runs  map[string]int        // calls that have not ended, by run
	total int
}

// flowCall is the begin of an attempt.
type flowCall struct {
	attempt int
	begin   time.Time
}

func newFlowHandlers(t *testing.T) *flowHandlers {
	t.Helper()
	h := &flowHandlers{t: t, calls: make(map[string][]flowCall), runs: make(map[string]int)}
	server := httptest.NewServer(h)
	t.Cleanup(server.CloseClientConnections)
	t.Cleanup(func() { go server.Close() }) // the connections of killed nodes are not waited for
	h.url = server.URL
	return h
}

// ServeHTTP does what chance says, which is the same for an attempt each time. One of five fails, and one of eight
// takes long enough to be killed.
func (h *flowHandlers) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	id, begin := q.Header.Get("Dts-Task-Id"), time.Now()
	attempt, err := strconv.Atoi(q.Header.Get("Dts-Attempt"))
	run, _, isStep := strings.Cut(id, "@")
	if err != nil || !isStep {
		h.t.Errorf("a call without an attempt of a step: %v", q.Header)
	}
	h.mu.Lock()
	h.calls[id] = append(h.calls[id], flowCall{attempt, begin})
	h.runs[run]++
	h.total++
	h.mu.Unlock()

	sum := fnv.New64a()
	_, _ = fmt.Fprint(sum, id, attempt)
	random := rand.New(rand.NewPCG(sum.Sum64(), 0))
	takes := time.Duration(random.IntN(10)) * time.Millisecond
	if random.IntN(8) == 0 {
		takes = time.Duration(random.IntN(1500)) * time.Millisecond
	}
	gone := clock.Sleep(q.Context(), takes) != nil
	h.mu.Lock()
	h.runs[run]--
	h.mu.Unlock()
	switch {
	case gone:
	case random.IntN(5) == 0:
		w.WriteHeader(http.StatusInternalServerError)
	default:
		_, _ = fmt.Fprintf(w, `{"n": %d}`, 1+random.IntN(2))
	}
}

// of returns the calls for a task, in their order.
func (h *flowHandlers) of(id string) []flowCall {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.calls[id])
}

// running returns how many calls for steps of a run have not ended.
func (h *flowHandlers) running(run string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.runs[run]
}

func (h *flowHandlers) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.total
}
