package executor

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/task"
)

const (
	defaultConnsPerHost = 256
	redirectsLimit      = 10
	headerLimit         = 64 << 10 // bytes of an answer's header
	excerptLimit        = 200      // bytes of an answer that did not succeed, for the error
	dialTimeout         = 10 * time.Second

	// What is left of an answer that was cut is read and thrown away, so that its connection can be used
	// again, if it is not more than drainLimit and there within drainTime.
	drainLimit = 64 << 10
	drainTime  = 50 * time.Millisecond

	// idleTimeout is shorter than the 5 s after which common servers hang up (Node.js is one): a request
	// that is on its way when the server does is lost, as it is never sent twice.
	idleTimeout = 4 * time.Second
)

// HTTPOptions says how calls are made.
type HTTPOptions struct {
	Version      string // of this program, for the User-Agent header; "" means "dev"
	ConnsPerHost int    // connections to one host at most; 0: 256. Calls over it wait, under their timeout
}

// HTTP makes an HTTP call of an attempt: the payload says which, the answer's body is the result.
//
// A call is sent at most once in an attempt, whatever becomes of the connection. Redirects are followed
// as net/http does it, except those that would turn the call into a GET: their status is the answer.
type HTTP struct {
	client    *http.Client
	transport *http.Transport
	userAgent string
}

// NewHTTP makes an executor with a connection pool of its own. Close it at the end.
func NewHTTP(o HTTPOptions) *HTTP {
	perHost := cmp.Or(o.ConnsPerHost, defaultConnsPerHost)
	transport := &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSHandshakeTimeout:    dialTimeout,
		ForceAttemptHTTP2:      true,
		MaxConnsPerHost:        perHost,
		MaxIdleConns:           2 * perHost,
		MaxIdleConnsPerHost:    perHost,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: headerLimit,
	}
	client := &http.Client{Transport: once{transport}, CheckRedirect: keepMethod}
	return &HTTP{client: client, transport: transport, userAgent: "dts/" + cmp.Or(o.Version, "dev")}
}

// Close closes the connections that are kept for later calls.
func (h *HTTP) Close() { h.transport.CloseIdleConnections() }

// Execute makes the call. There is no grace period: a call whose context ends is given up at once.
func (h *HTTP) Execute(ctx context.Context, a Attempt) (string, error) {
	c, err := parseCall(a.Payload)
	if err != nil {
		return "", err
	}
	result, err := h.do(ctx, c, a)
	switch {
	case err == nil:
		return result, nil
	case ctx.Err() != nil:
		return "", fmt.Errorf("%s %s: %w", c.method, task.Cut(c.url.Redacted(), excerptLimit), context.Cause(ctx))
	}
	return "", errors.New(task.Cut(err.Error(), task.ErrorLimit))
}

func (h *HTTP) do(ctx context.Context, c *call, a Attempt) (string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	resp, err := h.client.Do(h.request(ctx, c, a))
	if err != nil {
		return "", withoutURL(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, task.ResultLimit+1))
	if !c.accepts(resp.StatusCode) {
		return "", statusError(resp, string(body))
	}
	if err != nil {
		return "", fmt.Errorf("the answer broke off: %w", err)
	}
	if len(body) > task.ResultLimit {
		drain(resp.Body, cancel)
	}
	return task.Cut(string(body), task.ResultLimit), nil
}

func (h *HTTP) request(ctx context.Context, c *call, a Attempt) *http.Request {
	header := c.header.Clone()
	header.Set("Dts-Task-Id", a.ID)
	header.Set("Dts-Attempt", strconv.Itoa(a.Number))
	header.Set("Dts-Namespace", a.Namespace)
	if tick := a.Tick(); tick != "" {
		header.Set("Dts-Tick", tick)
	}
	header[idempotencyKey] = []string{a.IdempotencyKey()}
	if header.Get("User-Agent") == "" {
		header.Set("User-Agent", h.userAgent)
	}
	req := (&http.Request{Method: c.method, URL: c.url, Host: c.host, Header: header}).WithContext(ctx)
	if len(c.body) > 0 {
		req.ContentLength = int64(len(c.body))
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(c.body)), nil }
		req.Body, _ = req.GetBody()
	}
	return req
}

// idempotencyKey is spelled so that net/http does not know it. A request whose header has the usual
// "Idempotency-Key" is sent again when a kept connection breaks before the answer; but max_attempts: 1
// means at most once. Names of headers are the same in any case.
const idempotencyKey = "idempotency-key"

// once sends each request at most once. The methods that HTTP calls safe would be sent again as well when
// a kept connection breaks, if they had no body: so they get an empty one, which is found to be empty and
// left out before the request is written.
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
	return o.RoundTripper.RoundTrip(req)
}

// keepMethod stops at a redirect that changes the method: a POST that silently became a GET would look
// like a success.
func keepMethod(next *http.Request, via []*http.Request) error {
	switch {
	case next.Method != via[0].Method:
		return http.ErrUseLastResponse
	case len(via) > redirectsLimit:
		return fmt.Errorf("stopped after %d redirects", redirectsLimit)
	}
	return nil
}

// statusError is "HTTP 503 Service Unavailable: <the body's beginning>".
func statusError(resp *http.Response, body string) error {
	text := strings.TrimSpace(fmt.Sprintf("HTTP %d %s", resp.StatusCode, http.StatusText(resp.StatusCode)))
	if to := resp.Header.Get("Location"); to != "" {
		text += " to " + task.Cut(to, excerptLimit)
	}
	if body = strings.TrimSpace(task.Cut(body, excerptLimit)); body != "" {
		text += ": " + body
	}
	return errors.New(text)
}

// withoutURL takes off the method and URL that net/http puts in front of an error: they may be long, and
// the task has them already.
func withoutURL(err error) error {
	var e *url.Error
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}

func drain(body io.Reader, giveUp func()) {
	timer := time.AfterFunc(drainTime, giveUp)
	defer timer.Stop()
	_, _ = io.CopyN(io.Discard, body, drainLimit)
}
