// Package httpexec runs tasks of type http: it makes an HTTP call for each attempt.
package httpexec

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/tracing"
	"github.com/dts-sched/dts/internal/worker/executor"
	"github.com/dts-sched/dts/internal/worker/executor/address"
	"github.com/dts-sched/dts/internal/worker/executor/certs"
)

const (
	defaultTimeout = 30 * time.Second

	connsPerHost   = 256 // further calls of one host wait for a connection, under their timeout
	redirectsLimit = 10
	headerLimit    = 64 << 10 // bytes of an answer's header
	excerptLimit   = 200      // bytes of a URL or a value that an error quotes
	dialTimeout    = 10 * time.Second

	// After cutting an answer, Execute reads and discards the rest, so that the connection can be used again, as long
	// as that is at most drainLimit bytes and takes at most drainTime.
	drainLimit = 64 << 10
	drainTime  = 50 * time.Millisecond

	// retryAfterLimit is the longest wait that an answer can ask for.
	retryAfterLimit = 24 * time.Hour

	// idleTimeout is shorter than the 5 s after which common servers, such as Node.js, close idle connections. A
	// request that is under way at that moment is lost, as it is never sent twice.
	idleTimeout = 4 * time.Second
)

// Describe describes the executor. The rules say which addresses it may call; their settings are among those of this executor.
func Describe(a *address.Rules) *executor.Descriptor {
	s := &settings{Rules: a, files: certs.Files{Type: "http"}}
	return &executor.Descriptor{
		Type:         "http",
		Timeout:      defaultTimeout,
		CheckPayload: func(_ context.Context, payload json.RawMessage) error { _, err := parseCall(payload); return err },
		PausesKey: func(payload json.RawMessage) bool {
			c, err := parseCall(payload)
			return err == nil && c.pause
		},
		Settings: s,
		New: func(o executor.Options) (executor.Executor, error) {
			if err := s.files.Check(); err != nil {
				return nil, err
			}
			secure, err := s.files.Config(certs.Wanted{})
			if err != nil {
				return nil, err
			}
			a.Protect(o.Own)
			return build(o, s, secure), nil
		},
	}
}

// Executor makes the HTTP call that the payload of an attempt describes. The body of the response is the result.
//
// It sends a call at most once in an attempt, even if the connection breaks. It follows redirects as net/http does,
// except those that would change the method to GET or take a body elsewhere: then the redirect itself is the
// response. Each address to which it connects is checked against the settings of the node.
type Executor struct {
	client    *http.Client
	transport *renewed
	rules     *address.Rules
	files     certs.Files
	userAgent string
	callback  string // the URL at which services reach the API; "" if that is not known
}

// New makes an executor with its own connection pool, which calls every address but those of cloud metadata. Close it at the end.
func New(o executor.Options) *Executor { return build(o, &settings{Rules: address.New()}, nil) }

// build makes an executor whose connections are secured so.
func build(o executor.Options, s *settings, secure *tls.Config) *Executor {
	a := s.Rules
	transport := newRenewed(&http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            a.Dial,
		TLSClientConfig:        secure,
		TLSHandshakeTimeout:    dialTimeout,
		ForceAttemptHTTP2:      true,
		MaxConnsPerHost:        connsPerHost,
		MaxIdleConns:           2 * connsPerHost,
		MaxIdleConnsPerHost:    connsPerHost,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: headerLimit,
	})
	return &Executor{
		client: clientOf(transport, a), transport: transport, rules: a, files: s.files,
		userAgent: "dts/" + cmp.Or(o.Version, "dev"), callback: s.callback,
	}
}

// Close closes the idle connections.
func (e *Executor) Close() error {
	e.transport.current.Load().CloseIdleConnections()
	return nil
}

// Execute makes the call. There is no grace period: it gives up as soon as ctx ends.
func (e *Executor) Execute(ctx context.Context, a executor.Attempt) (string, error) {
	c, err := parseCall(a.Payload)
	if err != nil {
		return "", err
	}
	e, end, err := e.securedFor(c)
	if err != nil {
		return "", err
	}
	defer end()
	result, err := e.do(ctx, c, a)
	if err != nil {
		return "", executor.Failure(ctx, c.method+" "+task.Cut(c.url.Redacted(), excerptLimit), err)
	}
	return result, nil
}

func (e *Executor) do(ctx context.Context, c *call, a executor.Attempt) (string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	resp, err := e.client.Do(e.request(ctx, c, a))
	if err != nil {
		return "", withoutURL(err, c.url)
	}
	defer func() { _ = resp.Body.Close() }()
	keepCheckpoint(ctx, resp.Header, a)
	limit := bytesOf(resp.Header, c.expect.limit())
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit))
	text := textOf(resp.Header, body)
	if err := putOff(resp, text); err != nil {
		return "", err
	}
	if c.accepted(resp.StatusCode) {
		_ = resp.Body.Close() // the connection is for others meanwhile
		tellProgress(a, body)
		return e.await(ctx, c, a, resp)
	}
	if !c.codes.contain(resp.StatusCode) {
		return "", c.refused(resp, text)
	}
	if err != nil {
		return "", fmt.Errorf("the answer broke off: %w", err)
	}
	if int64(len(body)) == limit {
		drain(resp.Body, cancel)
	}
	if err := c.expect.checkAnswer(ctx, resp.Header, text); err != nil {
		return "", fmt.Errorf("HTTP %d, but %w", resp.StatusCode, err)
	}
	return task.Cut(text, task.ResultLimit), nil
}

func (e *Executor) request(ctx context.Context, c *call, a executor.Attempt) *http.Request {
	header := c.header.Clone()
	e.introduce(header, c, a)
	sendCheckpoint(header, a.Checkpoint)
	if c.accept != nil {
		e.sendToken(header, a)
	}
	req := (&http.Request{Method: c.method, URL: c.url, Host: c.host, Header: header}).WithContext(ctx)
	body := c.body
	mayHaveBody := slices.Contains([]string{http.MethodPost, http.MethodPut, http.MethodPatch}, c.method)
	if len(body) == 0 && a.Task.Parent != nil && mayHaveBody {
		body = a.ParentJSON()
		header.Set("Content-Type", cmp.Or(header.Get("Content-Type"), "application/json"))
	}
	if len(body) > 0 {
		req.ContentLength = int64(len(body))
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		req.Body, _ = req.GetBody()
	}
	return req
}

// introduce adds the headers that tell which attempt asks.
func (e *Executor) introduce(header http.Header, c *call, a executor.Attempt) {
	header.Set("Dts-Task-Id", a.ID)
	header.Set("Dts-Attempt", strconv.Itoa(a.Number))
	header.Set("Dts-Namespace", a.Namespace)
	if tick := a.Tick(); tick != "" {
		header.Set("Dts-Tick", tick)
	}
	if p := a.Task.Parent; p != nil {
		header.Set(parentIDHeader, p.ID)
		header.Set(parentStateHeader, string(p.State))
		header.Set(parentAttemptHeader, strconv.Itoa(p.Attempt))
	}
	if a.Traceparent != "" && header.Get(tracing.Header) == "" { // the payload's own wins
		header.Set(tracing.Header, a.Traceparent)
	}
	header[idempotencyKey] = []string{cmp.Or(c.key, a.IdempotencyKey())}
	if header.Get("User-Agent") == "" {
		header.Set("User-Agent", e.userAgent)
	}
}

// sendToken adds the headers with which the service can report on the attempt.
func (e *Executor) sendToken(header http.Header, a executor.Attempt) {
	header.Set(tokenHeader, a.Token())
	if e.callback == "" {
		return
	}
	at := fmt.Sprintf("%s/v1/tasks/%s/attempts/%d/%%s?namespace=%s", e.callback, url.PathEscape(a.ID), a.Number, url.QueryEscape(a.Namespace))
	header.Set(callbackHeader, fmt.Sprintf(at, "finish"))
	header.Set(reportHeader, fmt.Sprintf(at, "report"))
}

// Headers of calls for a follow-up: how the task ended that it follows.
const (
	parentIDHeader      = "Dts-Parent-Id"
	parentStateHeader   = "Dts-Parent-State"
	parentAttemptHeader = "Dts-Parent-Attempt"
)

// Headers of calls whose payload has the field accept.
const (
	tokenHeader    = "Dts-Token"
	callbackHeader = "Dts-Callback" // where to end the attempt
	reportHeader   = "Dts-Report"   // where to tell its progress
)

// idempotencyKey is in lower case so that net/http does not recognize it. net/http sends a request with the canonical
// "Idempotency-Key" again when a reused connection breaks before the answer, but max_attempts: 1 means at most once. To
// receivers, upper and lower case are the same.
const idempotencyKey = "idempotency-key"

// once sends each request at most once. net/http would also send requests of safe methods without a body again when a
// reused connection breaks. So they get an empty body, which net/http finds to be empty and leaves out.
// Where an answer sends the caller is escaped as the URL of a payload. An answer that changes to another protocol gets
// no body: net/http takes all that follows for its body, and goes on to read it when the context has ended.
type once struct{ http.RoundTripper }

func (o once) RoundTrip(req *http.Request) (*http.Response, error) {
	switch req.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		req = req.WithContext(req.Context()) // a copy: a RoundTripper must not change its request
		req.GetBody = nil
		if req.Body == nil || req.Body == http.NoBody {
			req.Body = io.NopCloser(strings.NewReader(""))
		}
	}
	resp, err := o.RoundTripper.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		_ = resp.Body.Close()
		resp.Body = http.NoBody
	}
	if to := resp.Header.Get("Location"); to != "" {
		resp.Header.Set("Location", escape(to))
	}
	return resp, nil
}

// refused is the error for an answer that is not a success. It says whether, and when, another attempt may be.
func (c *call) refused(resp *http.Response, body string) error {
	err := statusError(resp, body)
	if !c.tryAgain(resp.StatusCode) {
		return executor.Permanent(err)
	}
	wait := min(retryAfter(resp.Header), retryAfterLimit)
	switch {
	case wait <= 0:
		return err
	case resp.StatusCode == http.StatusTooManyRequests && c.pause:
		return executor.PauseKey(executor.Snooze(err, wait), wait)
	case resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusServiceUnavailable:
		return executor.Snooze(err, wait)
	}
	return executor.RetryAfter(err, wait)
}

// snoozeHeader is the header of an answer that puts the task off. Its value is a duration, such as 5m.
const snoozeHeader = "Dts-Snooze"

// putOff is the error of an answer that puts the task off, or that wants to and does not say for how long; nil for others.
func putOff(resp *http.Response, body string) error {
	value := resp.Header.Get(snoozeHeader)
	if value == "" {
		return nil
	}
	err := statusError(resp, body)
	wait, notOne := time.ParseDuration(value)
	if notOne != nil || wait <= 0 {
		return fmt.Errorf("the answer's %s is %.100q, which must be a duration such as 5m: %w", snoozeHeader, value, err)
	}
	return executor.PutOff(err, wait)
}

// retryAfter reads the header Retry-After, which has seconds or a time; 0 if there is none (RFC 9110, 10.2.3).
func retryAfter(header http.Header) time.Duration {
	value := header.Get("Retry-After")
	seconds, err := strconv.ParseUint(value, 10, 31)
	if err == nil {
		return time.Duration(seconds) * time.Second
	}
	if errors.Is(err, strconv.ErrRange) {
		return retryAfterLimit
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	now, err := http.ParseTime(header.Get("Date")) // by the clock of the same server
	if err != nil {
		now = clock.Now()
	}
	return at.Sub(now)
}

// statusError is "HTTP 503 Service Unavailable: <the body>", with as much of the body as the error of a task has room for.
func statusError(resp *http.Response, body string) error {
	text := strings.TrimSpace(fmt.Sprintf("HTTP %d %s", resp.StatusCode, http.StatusText(resp.StatusCode)))
	if to := resp.Header.Get("Location"); to != "" {
		text += " to " + task.Cut(config.MaskURLs(to), excerptLimit)
		switch resp.StatusCode {
		case http.StatusTemporaryRedirect, http.StatusPermanentRedirect: // see checkRedirect
			text += ", not followed, as the body is for the first scheme, host and port only"
		}
	}
	if body = strings.TrimSpace(body); body != "" {
		text = task.CutError(text+": "+body, task.ErrorLimit)
	}
	return errors.New(text)
}

// withoutURL removes the method and URL that net/http puts in front of an error of a call to from: they may be long, and
// the task has them already. It has not where a redirect led.
func withoutURL(err error, from *url.URL) error {
	var wrapped *url.Error
	if !errors.As(err, &wrapped) {
		return err
	}
	to, failed := url.Parse(wrapped.URL)
	if failed != nil || to.Scheme == "" || to.Scheme == from.Scheme && to.Host == from.Host && to.Path == from.Path {
		return wrapped.Err
	}
	return fmt.Errorf("after a redirect to %s: %w", task.Cut(config.MaskURLs(wrapped.URL), excerptLimit), wrapped.Err)
}

// drain reads and discards the rest of a body. It calls giveUp if that takes too long.
func drain(body io.Reader, giveUp func()) {
	timer := time.AfterFunc(drainTime, giveUp)
	defer timer.Stop()
	_, _ = io.CopyN(io.Discard, body, drainLimit)
}
