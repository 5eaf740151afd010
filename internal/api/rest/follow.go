package rest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/clock"
)

const (
	firstPause = 200 * time.Millisecond // before the first attempt to reconnect
	maxPause   = 5 * time.Second        // before any later one; each doubles the pause
)

// Stream is a stream of the server's messages and what to do with it.
type Stream struct {
	Open   func(context.Context) (*http.Response, error)
	Opened func()             // called for each connection: the stream has every message from then on; may be nil
	Lost   func(reason error) // called for each connection that ended; may be nil
	Take   func(client.Message) (done bool, err error)
}

// takeResult ends a stream for good. Its err is nil if Take has enough messages.
type takeResult struct{ err error }

func (t *takeResult) Error() string { return fmt.Sprintf("finished: %v", t.err) }

// errSilent is the reason to end a connection on which nothing came in time.
var errSilent = errors.New("it fell silent")

// Follow passes messages to Take until Take has enough of them, and reconnects when the connection breaks. Its error
// is that of Take, that of a stream that could never be opened, a *Refusal that stays one, also within a stream, or that of ctx.
func (c *Client) Follow(ctx context.Context, s Stream) error {
	pause := firstPause
	for reached := false; ; {
		began := clock.Now()
		opened, err := c.connection(ctx, s)
		var taken *takeResult
		switch {
		case errors.As(err, &taken):
			return taken.err
		case ctx.Err() != nil:
			return ctx.Err()
		case !opened && (!reached || IsFinal(err)):
			return err
		}
		if opened {
			reached = true
			if s.Lost != nil {
				s.Lost(err)
			}
		}
		if clock.Since(began) > maxPause { // else it may be a server that ends every stream at once
			pause = firstPause
		}
		if err := clock.Sleep(ctx, pause); err != nil {
			return err
		}
		pause = min(2*pause, maxPause)
	}
}

// LostText tells the user that a connection ended and is being replaced.
func (c *Client) LostText(reason error) string {
	return fmt.Sprintf("the connection to %s was lost (%v), trying again", c.Address, reason)
}

// connection reads one connection of a stream to its end. It reports whether the connection came about.
func (c *Client) connection(ctx context.Context, s Stream) (opened bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(c.timeout, func() { cancel(errSilent) })
	defer silence.Stop()

	resp, err := s.Open(ctx)
	if err != nil {
		return false, &Unreachable{reasonFor(ctx, err)}
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			return false, &Unreachable{reasonFor(ctx, err)}
		}
		return false, refusalOf(body, resp.Status)
	}
	if s.Opened != nil {
		s.Opened()
	}
	silence.Reset(c.idle)
	return true, reasonFor(ctx, drain(&watchedReader{resp.Body, silence, c.idle}, s.Take))
}

func drain(body io.Reader, take func(client.Message) (bool, error)) error {
	for stream := client.NewStream(body); ; {
		m, err := stream.Next()
		if errors.Is(err, io.EOF) {
			return errors.New("the server ended it")
		}
		if err != nil {
			return err
		}
		if m.Name == problemEvent {
			return problemIn(m.Data)
		}
		if done, err := take(m); done || err != nil {
			return &takeResult{err}
		}
	}
}

// problemEvent is the name of the last message of a stream that something went wrong with.
const problemEvent = "problem"

// problemIn is why a stream ended. One that can be tried again is the reason of a lost connection; any other ends the stream
// for good.
func problemIn(data []byte) error {
	err := refusalOf(data, "a problem")
	refusal := RefusalIn(err)
	if refusal == nil || refusal.Status == http.StatusServiceUnavailable || refusal.Status == http.StatusTooManyRequests {
		return err
	}
	return &takeResult{err}
}

// reasonFor returns the cause of the end of ctx where err is only a consequence of it, else err.
func reasonFor(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && errors.Is(err, context.Canceled) {
		return cause
	}
	return err
}

// watchedReader postpones an alarm whenever something was read.
type watchedReader struct {
	body  io.Reader
	alarm *time.Timer
	limit time.Duration
}

func (w *watchedReader) Read(p []byte) (int, error) {
	n, err := w.body.Read(p)
	if n > 0 {
		w.alarm.Reset(w.limit)
	}
	return n, err
}
