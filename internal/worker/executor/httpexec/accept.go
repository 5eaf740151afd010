package httpexec

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/worker/executor"
	"github.com/dts-sched/dts/internal/worker/executor/address"
)

// How often the status of accepted work is read: the wait doubles from the first one on.
const (
	firstPoll = time.Second
	leastPoll = 100 * time.Millisecond
	pollLimit = 30 * time.Second // of the wait, unless the answer asks for more
)

// accept is the payload's field of that name: an answer 202 means that the work has begun, and that its end is reported later.
type accept struct {
	statusURL *url.URL // nil: the Location of the answer, if it has one
	poll      time.Duration
}

// parseAccept reads the field; nil if it is not given. Error: *executor.InvalidPayloadError.
func parseAccept(raw json.RawMessage) (*accept, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	var status, poll string
	err := executor.DecodeField("accept", raw, map[string]executor.Field{
		"status_url": {Into: &status, Want: "a string"}, "poll": {Into: &poll, Want: "a duration such as \"1s\""},
	})
	if err != nil {
		return nil, err
	}
	a := &accept{poll: firstPoll}
	if poll != "" {
		if a.poll, err = time.ParseDuration(poll); err != nil || a.poll < leastPoll || a.poll > retryAfterLimit {
			return nil, executor.Invalid("accept.poll", "%q must be a duration from %s to %s", poll, leastPoll, retryAfterLimit)
		}
	}
	if status == "" {
		return a, nil
	}
	a.statusURL, err = parseURL("accept.status_url", status)
	if err != nil {
		return nil, err
	}
	return a, nil
}

// accepted reports whether an answer says that the work has begun.
func (c *call) accepted(status int) bool { return c.accept != nil && status == http.StatusAccepted }

// statusOf is where the status of accepted work is read, and whether the payload's headers may be sent there; nil if nobody said where.
func (c *call) statusOf(answer *http.Response) (at *url.URL, trusted bool) {
	if c.accept.statusURL != nil {
		return c.accept.statusURL, true
	}
	at, err := answer.Location()
	if err != nil || !callable(at) {
		return nil, false
	}
	return at, sameOrigin(at, c.url) && stays(answer.Request, c.url)
}

// await waits until somebody reports the end of accepted work: the status, whose answer it returns; or whoever has the token, and then
// ctx ends.
func (e *Executor) await(ctx context.Context, c *call, a executor.Attempt, answer *http.Response) (string, error) {
	at, trusted := c.statusOf(answer)
	if at == nil {
		<-ctx.Done()
		return "", context.Cause(ctx)
	}
	wait, least := c.accept.poll, retryAfter(answer.Header)
	for {
		if err := clock.Sleep(ctx, max(wait, min(least, retryAfterLimit))); err != nil {
			return "", err
		}
		p := e.poll(ctx, c, a, at, trusted)
		if p.ended {
			return p.result, p.err
		}
		wait, least = min(2*wait, max(pollLimit, c.accept.poll)), p.wait
	}
}

// polled is what the status says.
type polled struct {
	ended  bool
	result string
	err    error         // if ended
	wait   time.Duration // least time until the next look
}

// poll reads the status once. What may pass, such as a connection that breaks or 503, does not end the attempt.
func (e *Executor) poll(ctx context.Context, c *call, a executor.Attempt, at *url.URL, trusted bool) polled {
	header := http.Header{}
	if trusted {
		header = c.header.Clone()
		header.Del("Content-Type")
	}
	e.introduce(header, c, a)
	if !trusted {
		ctx = address.Sent(ctx)
	}
	req := (&http.Request{Method: http.MethodGet, URL: at, Header: header}).WithContext(ctx)
	if trusted {
		req.Host = c.host
	}
	resp, err := e.client.Do(req)
	if err != nil {
		return polled{ended: executor.IsPermanent(err), err: withoutURL(err, at)}
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, bytesOf(resp.Header, c.expect.limit())))
	wait, text := min(retryAfter(resp.Header), retryAfterLimit), textOf(resp.Header, body)
	if err := putOff(resp, text); err != nil {
		return polled{ended: true, err: err}
	}
	switch {
	case err != nil:
		return polled{}
	case resp.StatusCode == http.StatusAccepted:
		tellProgress(a, body)
		return polled{wait: wait}
	case c.codes.contain(resp.StatusCode):
		if err := c.expect.checkAnswer(ctx, resp.Header, text); err != nil {
			return polled{ended: true, err: fmt.Errorf("the status is HTTP %d, but %w", resp.StatusCode, err)}
		}
		return polled{ended: true, result: task.Cut(text, task.ResultLimit)}
	case c.tryAgain(resp.StatusCode):
		return polled{wait: wait}
	}
	return polled{ended: true, err: c.refused(resp, text)}
}

// tellProgress reports what a status says of the progress: {"progress": 40, "note": "rows"}.
func tellProgress(a executor.Attempt, body []byte) {
	var status struct {
		Progress *int   `json:"progress"`
		Note     string `json:"note"`
	}
	if json.Unmarshal(body, &status) == nil && status.Progress != nil {
		a.Progress(*status.Progress, status.Note)
	}
}
