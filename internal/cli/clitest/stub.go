package clitest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"

	"github.com/dts-sched/dts/internal/api"
	"github.com/dts-sched/dts/internal/testkit"
)

// Stub is a server that checks every request, and every answer that the test makes up, against openapi.yaml.
type Stub struct {
	T         *testing.T
	URL       string
	Transport *http.Transport

	mux    *http.ServeMux
	router routers.Router

	mu    sync.Mutex
	calls []Call
}

// Call is a request as it arrived.
type Call struct {
	Line   string // method and URI
	Body   string
	Header http.Header
}

// document knows the calls of openapi.yaml.
var document = sync.OnceValues(func() (routers.Router, error) {
	doc, err := api.Document()
	if err != nil {
		return nil, err
	}
	return gorillamux.NewRouter(doc)
})

// Start starts a stub that ends with the test.
func Start(t *testing.T) *Stub {
	t.Helper()
	router, err := document()
	testkit.Must(t, err)
	s := &Stub{T: t, mux: http.NewServeMux(), router: router, Transport: &http.Transport{}}
	server := httptest.NewServer(s)
	s.URL = server.URL
	t.Cleanup(func() {
		s.Transport.CloseIdleConnections()
		server.CloseClientConnections()
		server.Close()
	})
	return s
}

// Pipe returns a shell in a pipe.
func (s *Stub) Pipe() Shell { return Shell{Server: s.URL, Transport: s.Transport} }

// Terminal returns a shell on a terminal.
func (s *Stub) Terminal() Shell {
	return Shell{Server: s.URL, Transport: s.Transport, IsTerminal: true}
}

// ServeHTTP implements http.Handler.
func (s *Stub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.T.Errorf("reading a request: %v", err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	s.mu.Lock()
	s.calls = append(s.calls, Call{r.Method + " " + r.URL.RequestURI(), strings.TrimSpace(string(body)), r.Header})
	s.mu.Unlock()
	input := s.checkRequest(r)
	r.Body = io.NopCloser(bytes.NewReader(body))
	tee := &tee{ResponseWriter: w, status: http.StatusOK}
	s.mux.ServeHTTP(tee, r)
	if input != nil && strings.Contains(w.Header().Get("Content-Type"), "json") {
		s.checkAnswer(input, tee)
	}
}

// asSent keeps the check from adding the document's defaults to a request.
var asSent = &openapi3filter.Options{SkipSettingDefaults: true}

// checkRequest fails the test if the document does not know the request.
func (s *Stub) checkRequest(r *http.Request) *openapi3filter.RequestValidationInput {
	route, params, err := s.router.FindRoute(r)
	if err != nil {
		s.T.Errorf("%s %s is not in openapi.yaml: %v", r.Method, r.URL, err)
		return nil
	}
	input := &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route, Options: asSent}
	if err := openapi3filter.ValidateRequest(context.WithoutCancel(r.Context()), input); err != nil {
		s.T.Errorf("%s %s does not fit openapi.yaml: %v", r.Method, r.URL, err)
	}
	return input
}

func (s *Stub) checkAnswer(input *openapi3filter.RequestValidationInput, sent *tee) {
	answer := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: sent.status, Header: sent.Header(),
		Options: &openapi3filter.Options{IncludeResponseStatus: true},
	}
	if err := openapi3filter.ValidateResponse(context.Background(), answer.SetBodyBytes(sent.body.Bytes())); err != nil {
		s.T.Errorf("the test's answer to %s does not fit openapi.yaml: %v", input.Request.URL, err)
	}
}

// tee keeps a copy of the answer.
type tee struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (t *tee) WriteHeader(status int)      { t.status = status; t.ResponseWriter.WriteHeader(status) }
func (t *tee) Write(p []byte) (int, error) { t.body.Write(p); return t.ResponseWriter.Write(p) }
func (t *tee) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// Handle answers requests such as "GET /v1/tasks/{id}" with h.
func (s *Stub) Handle(pattern string, h http.HandlerFunc) { s.mux.HandleFunc(pattern, h) }

// On answers requests such as "GET /v1/tasks/{id}" with a status and v. A nil v is no body.
func (s *Stub) On(pattern string, status int, v any) {
	s.Handle(pattern, func(w http.ResponseWriter, _ *http.Request) { s.Reply(w, status, v) })
}

// Reply answers a request with a status and v. A nil v is no body.
func (s *Stub) Reply(w http.ResponseWriter, status int, v any) {
	mediaType := "application/json"
	if status >= 400 {
		mediaType = "application/problem+json"
	}
	if v == nil {
		w.WriteHeader(status)
		return
	}
	w.Header().Set("Content-Type", mediaType)
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(v); err != nil {
		s.T.Errorf("answering: %v", err)
	}
}

// OnStream answers with a stream of server-sent events, which ends when serve returns. Each call of send sends a
// message: its name, id and data.
func (s *Stub) OnStream(pattern string, serve func(r *http.Request, send func(name, id string, data any))) {
	s.Handle(pattern, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		flush := func() { // the client may leave at any time, so a closed connection is no error
			if err := http.NewResponseController(w).Flush(); errors.Is(err, http.ErrNotSupported) {
				s.T.Errorf("flushing: %v", err)
			}
		}
		fmt.Fprint(w, ": open\n\n")
		flush()
		serve(r, func(name, id string, data any) {
			fmt.Fprintf(w, "event: %s\nid: %s\ndata: %s\n\n", name, id, JSON(s.T, data))
			flush()
		})
	})
}

// Last returns the newest request.
func (s *Stub) Last() Call {
	s.T.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.calls) == 0 {
		s.T.Fatal("no request was sent")
	}
	return s.calls[len(s.calls)-1]
}

// LastOf returns the newest request with a method.
func (s *Stub) LastOf(method string) Call {
	s.T.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range slices.Backward(s.calls) {
		if strings.HasPrefix(c.Line, method+" ") {
			return c
		}
	}
	s.T.Fatalf("no %s was sent", method)
	return Call{}
}

// Lines returns the lines of all requests.
func (s *Stub) Lines() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var lines []string
	for _, c := range s.calls {
		lines = append(lines, c.Line)
	}
	return lines
}
