package chaos

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// behaviour is what a handler does, and what must become of the task.
type behaviour string

const (
	works     behaviour = "works"     // answers after a while
	flaky     behaviour = "flaky"     // fails in the first attempts
	doomed    behaviour = "doomed"    // fails in every attempt
	permanent behaviour = "permanent" // fails so that no other attempt makes sense
	hangs     behaviour = "hangs"     // until the timeout
)

// flakyAttempts is how many attempts of a flaky handler fail.
const flakyAttempts = 2

// fails reports whether the handler fails in an attempt.
func (b behaviour) fails(attempt int) bool {
	return b == doomed || b == permanent || b == hangs || b == flaky && attempt <= flakyAttempts
}

// timeout is the time limit of a task whose handler does that.
func (b behaviour) timeout() time.Duration {
	if b == hangs {
		return hangsUntil
	}
	return 30 * time.Second
}

// call is one call of a handler.
type call struct {
	task       string
	attempt    int
	version    int // of the task's payload
	behaviour  behaviour
	begin, end time.Time
	token      string   // what the handler answered, "" if it has not or the caller had gone
	members    []string // on which the caller depends, its own name first; nil if it is not known
}

// isFinal reports whether the answer was such that no further attempt makes sense.
func (c call) isFinal() bool {
	return c.token != "" && (c.behaviour == permanent || !c.behaviour.fails(c.attempt))
}

func (c call) String() string {
	return fmt.Sprintf("attempt %d, version %d, from %s to %s, called by %s, answered %q",
		c.attempt, c.version, c.begin.UTC().Format(stamp), c.end.UTC().Format(stamp), c.members, c.token)
}

// handlers is the far end of all tasks, and the record of what was called.
type handlers struct {
	*httptest.Server

	mu    sync.Mutex
	calls []*call
	bad   []string // calls that say nothing of a task
}

// callerKey is the key of a function that returns the members on which the caller depends, in the context of a request.
type callerKey struct{}

// startHandlers starts the far end. caller returns the members on which the caller depends whose connection that is.
func startHandlers(caller func(net.Conn) []string) *handlers {
	h := &handlers{}
	mux := http.NewServeMux()
	mux.HandleFunc("/run", h.serve)
	h.Server = httptest.NewUnstartedServer(mux)
	h.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, callerKey{}, sync.OnceValue(func() []string { return caller(c) })) // not now: it would hold up those who wait to be accepted
	}
	h.Start()
	return h
}

// stop ends the server; connections of killed nodes are not waited for.
func (h *handlers) stop() {
	h.CloseClientConnections()
	go h.Close()
}

// address is what a task calls.
func (h *handlers) address(b behaviour, takes time.Duration, version int) string {
	q := url.Values{"b": {string(b)}, "ms": {strconv.FormatInt(takes.Milliseconds(), 10)}, "v": {strconv.Itoa(version)}}
	return h.URL + "/run?" + q.Encode()
}

func (h *handlers) serve(w http.ResponseWriter, r *http.Request) {
	begin := time.Now()
	q := r.URL.Query()
	attempt, err := strconv.Atoi(r.Header.Get("Dts-Attempt"))
	takes, errTakes := strconv.Atoi(q.Get("ms"))
	version, errVersion := strconv.Atoi(q.Get("v"))
	c := &call{task: r.Header.Get("Dts-Task-Id"), attempt: attempt, version: version, behaviour: behaviour(q.Get("b")), begin: begin}
	c.members = r.Context().Value(callerKey{}).(func() []string)()
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil || errTakes != nil || errVersion != nil || c.task == "" {
		h.bad = append(h.bad, fmt.Sprint(r.URL, r.Header))
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	h.calls = append(h.calls, c)
	token := fmt.Sprint("call-", len(h.calls))
	h.mu.Unlock()
	gone := !work(r, c, time.Duration(takes)*time.Millisecond)
	h.mu.Lock()
	c.end = time.Now()
	if gone {
		return
	}
	c.token = token
	if c.behaviour.fails(attempt) {
		w.WriteHeader(map[bool]int{true: http.StatusBadRequest, false: http.StatusInternalServerError}[c.behaviour == permanent])
	}
	_, _ = fmt.Fprint(w, token) // who is not there any more has lost the attempt
}

// work takes its time; false if the caller went away meanwhile.
func work(r *http.Request, c *call, takes time.Duration) bool {
	if c.behaviour == hangs {
		takes = time.Hour
	}
	timer := time.NewTimer(takes)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
		return false
	}
}

// unknown is the number of calls whose caller is not known: it was stopped or dead when its connection was looked for.
func (h *handlers) unknown() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.calls {
		if c.members == nil {
			n++
		}
	}
	return n
}

// byTask is the record, in the order of the calls.
func (h *handlers) byTask() map[string][]call {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := make(map[string][]call)
	for _, c := range h.calls {
		m[c.task] = append(m[c.task], *c)
	}
	return m
}

// String is the record as text, a line for each call.
func (h *handlers) String() string {
	var text strings.Builder
	for task, calls := range h.byTask() {
		for _, c := range calls {
			fmt.Fprintf(&text, "%s: %s\n", task, c)
		}
	}
	return text.String()
}
