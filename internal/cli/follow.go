package cli

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
	firstPause = 200 * time.Millisecond // before a lost stream is taken up again
	maxPause   = 5 * time.Second        // the same after many tries; each doubles it
)

// feed is a stream of the server's and what to do with it.
type feed struct {
	open   func(context.Context) (*http.Response, error)
	opened func()             // called each time the stream is there; everything that happens from then on is in it
	lost   func(reason error) // called each time it is not there any more
	take   func(client.Message) (done bool, err error)
}

// finished ends a feed for good; err is nil if that is as it should be.
type finished struct{ err error }

func (f *finished) Error() string { return fmt.Sprintf("finished: %v", f.err) }

// errSilent is that a stream did not begin in time, or stopped being heard of.
var errSilent = errors.New("it fell silent")

// follow takes messages until take has enough of them, and takes a stream that broke up again. Its error is that of
// take, that of a stream that could never be opened, or a *refusal that trying again does not help.
func (s *session) follow(ctx context.Context, f feed) error {
	pause := firstPause
	for reached := false; ; {
		began := clock.Now()
		opened, err := s.connection(ctx, f)
		var end *finished
		switch {
		case errors.As(err, &end):
			return end.err
		case ctx.Err() != nil:
			return ctx.Err()
		case !opened && (!reached || isFinal(err)):
			return err
		}
		if opened {
			reached = true
			f.lost(err)
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

// isFinal says whether err is a no that will stay one.
func isFinal(err error) bool {
	var r *refusal
	return errors.As(err, &r) && r.Status < http.StatusInternalServerError
}

// connection reads one connection of a feed to its end, and says whether it came about.
func (s *session) connection(ctx context.Context, f feed) (opened bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(s.timeout, func() { cancel(errSilent) })
	defer silence.Stop()

	resp, err := f.open(ctx)
	if err != nil {
		return false, &unreachable{reasonFor(ctx, err)}
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			return false, &unreachable{reasonFor(ctx, err)}
		}
		return false, noIn(body, resp.Status)
	}
	f.opened()
	idle := s.streamIdle()
	silence.Reset(idle)
	return true, reasonFor(ctx, drain(&watched{resp.Body, silence, idle}, f.take))
}

// sayLost tells the user that a stream has to be taken up again.
func (s *session) sayLost(reason error) {
	s.say("the connection to %s was lost (%v), trying again", s.serverURL(), reason)
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
		if done, err := take(m); done || err != nil {
			return &finished{err}
		}
	}
}

// reasonFor is why ctx was ended, where it was and the reason says more than err.
func reasonFor(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && errors.Is(err, context.Canceled) {
		return cause
	}
	return err
}

func (s *session) streamIdle() time.Duration {
	if s.StreamIdle > 0 {
		return s.StreamIdle
	}
	return defaultStreamIdle
}

// watched puts an alarm off whenever something was read.
type watched struct {
	body  io.Reader
	alarm *time.Timer
	limit time.Duration
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.body.Read(p)
	if n > 0 {
		w.alarm.Reset(w.limit)
	}
	return n, err
}
