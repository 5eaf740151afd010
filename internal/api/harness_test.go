package api

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/edge"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const (
	problemType  = "application/problem+json"
	problemEvent = "problem" // of a stream that ends because something went wrong
)

// start is a time for whatever is not read from Redis.
var start = time.Date(2026, 1, 2, 15, 4, 5, 120_000_000, time.UTC)

// rig is a server that runs on a backend, and a client that checks every answer against the document.
type rig struct {
	*client.ClientWithResponses
	*backend
	t         *testing.T
	url       string
	http      *http.Client
	logged    *testkit.Log
	server    *edge.Server
	endpoints *endpoints
	stop      func() error // ends the server, as often as one likes
}

// rigOptions are those of the server and of the API.
type rigOptions struct {
	edge.Options
	served
}

type served = Options

func startRig(t *testing.T, change ...func(*rigOptions)) *rig {
	t.Helper()
	backend, useCases := startBackend(t)
	return startRigOn(t, backend, useCases, change...)
}

// startRigOn is a rig on a backend.
func startRigOn(t *testing.T, backend *backend, useCases *control.Control, change ...func(*rigOptions)) *rig {
	t.Helper()
	r := &rig{backend: backend, t: t, logged: &testkit.Log{}}
	o := rigOptions{
		edge.Options{Log: slog.New(slog.NewJSONHandler(r.logged, &slog.HandlerOptions{Level: slog.LevelDebug}))},
		Options{Control: useCases, Version: "test", Types: task.Types{"http": {Timeout: 30 * time.Second}}},
	}
	for _, f := range change {
		f(&o)
	}
	s, err := edge.New(o.Options)
	testkit.Must(t, err)
	r.endpoints, err = register(s, o.served)
	testkit.Must(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	r.url = "http://" + l.Addr().String()
	r.run(s, l)

	base := &http.Transport{}
	r.http = &http.Client{Transport: newChecker(t, base)}
	t.Cleanup(base.CloseIdleConnections)
	r.ClientWithResponses, err = client.NewClientWithResponses(r.url, client.WithHTTPClient(r.http))
	testkit.Must(t, err)
	return r
}

func (r *rig) run(s *edge.Server, l net.Listener) {
	r.server = s
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, l) }()
	r.stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	r.t.Cleanup(func() {
		if err := r.stop(); err != nil {
			r.t.Errorf("Run: %v", err)
		}
	})
}

// answer is what came back, read to its end.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// call sends a request that the generated client would not.
func (r *rig) call(method, path, body string, headers ...string) answer {
	r.t.Helper()
	req, err := http.NewRequest(method, r.url+path, strings.NewReader(body))
	testkit.Must(r.t, err)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
			continue
		}
		req.Header.Set(headers[i], headers[i+1])
		if headers[i+1] == "" {
			req.Header.Del(headers[i])
		}
	}
	resp, err := r.http.Do(req)
	testkit.Must(r.t, err)
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	testkit.Must(r.t, err)
	return answer{resp.StatusCode, resp.Header, raw}
}

// contextOf is what Echo gives the handlers of a request from an address.
func contextOf(address string) echo.Context {
	req := httptest.NewRequest(http.MethodPost, "/", nil)
	req.RemoteAddr = address + ":1"
	return echo.New().NewContext(req, httptest.NewRecorder())
}

// problem is the problem document an answer must be.
func (a answer) problem(t *testing.T) wire.Problem {
	t.Helper()
	var p wire.Problem
	if got := a.header.Get("Content-Type"); got != problemType {
		t.Fatalf("Content-Type is %q, want %q; status %d, body %s", got, problemType, a.status, a.body)
	}
	testkit.Must(t, json.Unmarshal(a.body, &p))
	if p.Status != a.status {
		t.Errorf("the problem says status %d, the answer has %d", p.Status, a.status)
	}
	if p.RequestID != a.header.Get("X-Request-Id") || p.RequestID == "" {
		t.Errorf("the problem is of request %q, the answer of %q", p.RequestID, a.header.Get("X-Request-Id"))
	}
	return p
}

// checker is a transport that fails the test where an answer does not fit the document.
type checker struct {
	t       *testing.T
	next    http.RoundTripper
	doc     *openapi3.T
	router  routers.Router
	options *openapi3filter.Options
}

func newChecker(t *testing.T, next http.RoundTripper) *checker {
	t.Helper()
	doc, err := strictDocument()
	testkit.Must(t, err)
	router, err := gorillamux.NewRouter(doc)
	testkit.Must(t, err)
	threeDecimals := openapi3.NewRegexpFormatValidator(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`)
	options := &openapi3filter.Options{IncludeResponseStatus: true, SchemaValidationOptions: []openapi3.SchemaValidationOption{
		openapi3.WithStringFormatValidator("date-time", threeDecimals),
	}}
	return &checker{t: t, next: next, doc: doc, router: router, options: options}
}

// strictDocument is the document with every object closed: an answer may hold nothing that is not in it. It is read
// once, since that takes longer than most tests, and nobody changes it.
var strictDocument = sync.OnceValues(func() (*openapi3.T, error) {
	doc, err := Document()
	if err != nil {
		return nil, err
	}
	for _, schema := range doc.Components.Schemas {
		if len(schema.Value.Properties) > 0 {
			schema.Value.AdditionalProperties = openapi3.BoolSchema{Has: new(false)}
		}
	}
	return doc, nil
})

func (c *checker) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := c.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), edge.StreamType) {
		return resp, nil // its events are checked as they are read
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	_ = resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(body))
	if err := c.check(req, resp, body); err != nil {
		c.t.Errorf("%s %s answered %d, which does not fit the document: %v\n%s", req.Method, req.URL.Path, resp.StatusCode, err, body)
	}
	return resp, nil
}

func (c *checker) check(req *http.Request, resp *http.Response, body []byte) error {
	route, parameters, err := c.router.FindRoute(req)
	if err != nil && resp.StatusCode < http.StatusBadRequest {
		return nil // of what is mounted
	}
	if err != nil {
		return c.value("Problem", body)
	}
	input := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: req, PathParams: parameters, Route: route},
		Status:                 resp.StatusCode, Header: resp.Header, Options: c.options,
	}
	return openapi3filter.ValidateResponse(context.Background(), input.SetBodyBytes(body))
}

// value holds JSON against a schema of the document.
func (c *checker) value(schema string, raw []byte) error {
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return err
	}
	return c.doc.Components.Schemas[schema].Value.VisitJSON(v, c.options.SchemaValidationOptions...)
}

// timeLayout is how times are answered.
const timeLayout = "2006-01-02T15:04:05.000Z"

func formatTime(t time.Time) string { return t.UTC().Format(timeLayout) }
