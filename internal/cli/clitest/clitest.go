// Package clitest is for tests of dtsctl's commands: it runs them against a stub of the server.
package clitest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/cli"
	"github.com/dts-sched/dts/internal/testkit"
)

// Now is the time in all tests.
var Now = time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)

// Shell is where a test's dtsctl runs: in a pipe, or on a terminal.
type Shell struct {
	Server     string // the address that DTSCTL_SERVER has
	IsTerminal bool
	Stdin      string
	Tty        *os.File // standard input in place of Stdin, if it is not nil
	Env        map[string]string
	StreamIdle time.Duration
	Transport  http.RoundTripper
}

// Serve returns a shell whose server answers everything with h. Requests and answers are not checked.
func Serve(t *testing.T, h http.HandlerFunc) Shell {
	t.Helper()
	server := httptest.NewServer(h)
	transport := &http.Transport{}
	t.Cleanup(func() { transport.CloseIdleConnections(); server.Close() })
	return Shell{Server: server.URL, Transport: transport}
}

// RoundTripper is a function that answers requests in place of a server.
type RoundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f RoundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Answer returns an answer for a RoundTripper.
func Answer(r *http.Request, status int, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(body)), Request: r,
	}
}

// Result is what a command left behind.
type Result struct {
	Code     int
	Out, Err string
}

// Expect compares everything that a command left behind.
func (r Result) Expect(t *testing.T, code int, out, err string) {
	t.Helper()
	if r.Code != code || r.Out != out || r.Err != err {
		t.Errorf("got code %d\nout %q\nerr %q\nwant code %d\nout %q\nerr %q", r.Code, r.Out, r.Err, code, out, err)
	}
}

// Run runs dtsctl to its end.
func (sh Shell) Run(t *testing.T, args ...string) Result {
	t.Helper()
	return sh.Start(t, args...).Wait()
}

// Job is a running dtsctl.
type Job struct {
	t         *testing.T
	Out, Err  *Screen
	Interrupt context.CancelFunc
	code      chan int
}

// Start starts dtsctl.
func (sh Shell) Start(t *testing.T, args ...string) *Job {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	j := &Job{t: t, Out: newScreen(), Err: newScreen(), Interrupt: cancel, code: make(chan int, 1)}
	var in io.Reader = strings.NewReader(sh.Stdin)
	if sh.Tty != nil {
		in = sh.Tty
	}
	system := cli.System{
		In: in, Out: j.Out, Err: j.Err, OutIsTerminal: sh.IsTerminal, ErrIsTerminal: sh.IsTerminal,
		Getenv: func(name string) string {
			if v, ok := sh.Env[name]; ok || name != "DTSCTL_SERVER" {
				return v
			}
			return sh.Server
		},
		Now: func() time.Time { return Now }, Zone: time.FixedZone("CET", 3600), Version: "v1.2.3",
		Transport: asking(t, sh.Transport, args), StreamIdle: sh.StreamIdle,
	}
	go func() { j.code <- cli.Run(ctx, system, args) }()
	return j
}

// Wait waits for the end of dtsctl. The test fails if it does not end.
func (j *Job) Wait() Result {
	j.t.Helper()
	defer j.Interrupt()
	select {
	case code := <-j.code:
		return Result{code, j.Out.String(), j.Err.String()}
	case <-time.After(20 * time.Second):
		j.t.Fatalf("dtsctl does not end; it wrote %q and %q", j.Out.String(), j.Err.String())
		return Result{}
	}
}

// Screen is a buffer that can be watched.
type Screen struct {
	mu    sync.Mutex
	text  bytes.Buffer
	wrote chan struct{} // closed at the next write
}

func newScreen() *Screen { return &Screen{wrote: make(chan struct{})} }

// Write implements io.Writer.
func (s *Screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.wrote)
	s.wrote = make(chan struct{})
	return s.text.Write(p)
}

// String returns everything written so far.
func (s *Screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// Await waits until the text has been written. The test fails if it never is.
func (s *Screen) Await(t *testing.T, text string) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for {
		s.mu.Lock()
		found, wrote := strings.Contains(s.text.String(), text), s.wrote
		s.mu.Unlock()
		if found {
			return
		}
		select {
		case <-wrote:
		case <-deadline:
			t.Fatalf("%q never came; there is %q", text, s.String())
		}
	}
}

// JSON returns v as JSON.
func JSON(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	testkit.Must(t, err)
	return string(raw)
}
