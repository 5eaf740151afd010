package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"go.uber.org/goleak"

	"github.com/dts-sched/dts/internal/api"
	"github.com/dts-sched/dts/internal/api/client"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// now is the time in all tests.
var now = time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)

// stub is a server that holds every request, and every answer the test makes up, against the API's document.
type stub struct {
	t   *testing.T
	mux *http.ServeMux
	url string

	router    routers.Router
	transport *http.Transport

	mu    sync.Mutex
	calls []call
}

// asSent keeps the check from adding the document's defaults to a request.
var asSent = &openapi3filter.Options{SkipSettingDefaults: true}

// call is a request as it arrived.
type call struct {
	line string // method and URI
	body string
	head http.Header
}

// document knows the calls of openapi.yaml.
var document = sync.OnceValues(func() (routers.Router, error) {
	doc, err := api.Document()
	if err != nil {
		return nil, err
	}
	return gorillamux.NewRouter(doc)
})

func startStub(t *testing.T) *stub {
	t.Helper()
	router, err := document()
	must(t, err)
	s := &stub{t: t, mux: http.NewServeMux(), router: router, transport: &http.Transport{}}
	server := httptest.NewServer(s)
	s.url = server.URL
	t.Cleanup(func() {
		s.transport.CloseIdleConnections()
		server.CloseClientConnections()
		server.Close()
	})
	return s
}

func (s *stub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Errorf("reading a request: %v", err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	s.mu.Lock()
	s.calls = append(s.calls, call{r.Method + " " + r.URL.RequestURI(), strings.TrimSpace(string(body)), r.Header})
	s.mu.Unlock()
	input := s.check(r)
	r.Body = io.NopCloser(bytes.NewReader(body))
	tee := &tee{ResponseWriter: w, status: http.StatusOK}
	s.mux.ServeHTTP(tee, r)
	if input != nil && strings.Contains(w.Header().Get("Content-Type"), "json") {
		s.checkAnswer(input, tee)
	}
}

// check fails the test if the request is not one the document knows.
func (s *stub) check(r *http.Request) *openapi3filter.RequestValidationInput {
	route, params, err := s.router.FindRoute(r)
	if err != nil {
		s.t.Errorf("%s %s is not in openapi.yaml: %v", r.Method, r.URL, err)
		return nil
	}
	input := &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route, Options: asSent}
	if err := openapi3filter.ValidateRequest(context.WithoutCancel(r.Context()), input); err != nil {
		s.t.Errorf("%s %s does not fit openapi.yaml: %v", r.Method, r.URL, err)
	}
	return input
}

func (s *stub) checkAnswer(input *openapi3filter.RequestValidationInput, sent *tee) {
	answer := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: sent.status, Header: sent.Header(),
		Options: &openapi3filter.Options{IncludeResponseStatus: true},
	}
	if err := openapi3filter.ValidateResponse(context.Background(), answer.SetBodyBytes(sent.body.Bytes())); err != nil {
		s.t.Errorf("the test's answer to %s does not fit openapi.yaml: %v", input.Request.URL, err)
	}
}

// tee keeps what is answered.
type tee struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (t *tee) WriteHeader(status int)      { t.status = status; t.ResponseWriter.WriteHeader(status) }
func (t *tee) Write(p []byte) (int, error) { t.body.Write(p); return t.ResponseWriter.Write(p) }
func (t *tee) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// on answers requests such as "GET /v1/tasks/{id}" with a status and v; nil is no body.
func (s *stub) on(pattern string, status int, v any) {
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) { s.reply(w, status, v) })
}

func (s *stub) reply(w http.ResponseWriter, status int, v any) {
	kind := "application/json"
	if status >= 400 {
		kind = "application/problem+json"
	}
	if v == nil {
		w.WriteHeader(status)
		return
	}
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(v); err != nil {
		s.t.Errorf("answering: %v", err)
	}
}

// onStream answers with a stream of server-sent events, which ends when serve returns. Each call of send is a message:
// name, id and data.
func (s *stub) onStream(pattern string, serve func(r *http.Request, send func(name, id string, data any))) {
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		flush := func() { // the client may go when it likes, so a connection that is closed is no error
			if err := http.NewResponseController(w).Flush(); errors.Is(err, http.ErrNotSupported) {
				s.t.Errorf("flushing: %v", err)
			}
		}
		fmt.Fprint(w, ": open\n\n")
		flush()
		serve(r, func(name, id string, data any) {
			raw, err := json.Marshal(data)
			must(s.t, err)
			fmt.Fprintf(w, "event: %s\nid: %s\ndata: %s\n\n", name, id, raw)
			flush()
		})
	})
}

// last is the newest request.
func (s *stub) last() call {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.calls) == 0 {
		s.t.Fatal("nothing was asked")
	}
	return s.calls[len(s.calls)-1]
}

func (s *stub) lines() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var lines []string
	for _, c := range s.calls {
		lines = append(lines, c.line)
	}
	return lines
}

// shell is where a test's dtsctl runs: in a pipe, unless terminal is set.
type shell struct {
	server   string
	terminal bool
	stdin    string
	env      map[string]string
	idle     time.Duration
	rt       http.RoundTripper
}

func (s *stub) pipe() shell     { return shell{server: s.url, rt: s.transport} }
func (s *stub) terminal() shell { return shell{server: s.url, rt: s.transport, terminal: true} }

// result is what a command left behind.
type result struct {
	code     int
	out, err string
}

func (sh shell) run(t *testing.T, args ...string) result {
	t.Helper()
	return sh.start(t, args...).wait()
}

// job is a running dtsctl.
type job struct {
	t         *testing.T
	out, err  *screen
	interrupt context.CancelFunc
	code      chan int
}

func (sh shell) start(t *testing.T, args ...string) *job {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	j := &job{t: t, out: newScreen(), err: newScreen(), interrupt: cancel, code: make(chan int, 1)}
	f := Factory{
		In: strings.NewReader(sh.stdin), Out: j.out, Err: j.err, OutIsTerminal: sh.terminal, ErrIsTerminal: sh.terminal,
		Getenv: func(name string) string {
			if v, ok := sh.env[name]; ok || name != "DTSCTL_SERVER" {
				return v
			}
			return sh.server
		},
		Now: func() time.Time { return now }, Zone: time.FixedZone("CET", 3600), Version: "v1.2.3",
		Transport: sh.rt, StreamIdle: sh.idle,
	}
	go func() { j.code <- Run(ctx, f, args) }()
	return j
}

func (j *job) wait() result {
	j.t.Helper()
	defer j.interrupt()
	select {
	case code := <-j.code:
		return result{code, j.out.String(), j.err.String()}
	case <-time.After(20 * time.Second):
		j.t.Fatalf("dtsctl does not end; it wrote %q and %q", j.out.String(), j.err.String())
		return result{}
	}
}

// screen is a buffer that can be watched.
type screen struct {
	mu    sync.Mutex
	text  bytes.Buffer
	wrote chan struct{} // closed at the next write
}

func newScreen() *screen { return &screen{wrote: make(chan struct{})} }

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.wrote)
	s.wrote = make(chan struct{})
	return s.text.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// await waits until the text is there.
func (s *screen) await(t *testing.T, text string) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for {
		s.mu.Lock()
		there, wrote := strings.Contains(s.text.String(), text), s.wrote
		s.mu.Unlock()
		if there {
			return
		}
		select {
		case <-wrote:
		case <-deadline:
			t.Fatalf("%q never came; there is %q", text, s.String())
		}
	}
}

// expect compares all that a command left behind.
func (r result) expect(t *testing.T, code int, out, err string) {
	t.Helper()
	if r.code != code || r.out != out || r.err != err {
		t.Errorf("got code %d\nout %q\nerr %q\nwant code %d\nout %q\nerr %q", r.code, r.out, r.err, code, out, err)
	}
}

// aTask is a task in the state, changed as the test needs it.
func aTask(id string, state client.State, change ...func(*client.Task)) client.Task {
	t := client.Task{
		ID: id, Namespace: "default", Type: "shell", Queue: "default", State: state, MaxAttempts: 4,
		RunAt: now.Add(3 * time.Minute), CreatedAt: now.Add(-2 * time.Minute), Payload: json.RawMessage(`{"command":["true"]}`),
		Timeout: "10m0s", Retry: client.Retry{MaxAttempts: new(4)},
	}
	for _, f := range change {
		f(&t)
	}
	return t
}

// ran makes a task one that a node ran for 1.5 s.
func ran(t *client.Task) {
	t.Attempt, t.Node = 1, new("n1")
	t.StartedAt, t.FinishedAt = new(now.Add(-3500*time.Millisecond)), new(now.Add(-2*time.Second))
}

func problem(status int, code client.ProblemCode, field, detail string) client.Problem {
	p := client.Problem{
		Type: "urn:dts:problem:" + string(code), Title: "No", Status: status, Detail: detail, Code: code, RequestID: "r1",
	}
	if field != "" {
		p.Field = &field
	}
	return p
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	must(t, err)
	return string(raw)
}
