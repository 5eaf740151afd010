package redisx

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/clock"
)

const (
	answerLimit = 5 * time.Second // for the answer to a command, with all repetitions and the wait for a connection
	// outageLimit is the same while Redis does not answer: commands fail fast, so that callers do not pile up, and the first one that gets
	// an answer ends the outage. There is no question of its own that would have to come first. It is longer than a Succession has connections
	// wait, so that what comes right before the end of an outage is answered.
	outageLimit = 2 * time.Second
	// silence without an answer begins an outage. It is shorter than the limits of those that ask regularly.
	silence = 900 * time.Millisecond
)

// Link is the way of a process to one Redis, for all pools that share it. It bounds how long a command waits for its answer, but not how
// long a subscription lives; it knows whether Redis answers, and logs "Redis unreachable" once when an outage begins and "Redis back" once
// when it ends. Who waits for the first answer logs that by itself.
type Link struct {
	log     *slog.Logger
	met     atomic.Bool // there was an answer
	down    atomic.Bool // there is an outage
	severed atomic.Pointer[error]

	mu      sync.Mutex
	since   time.Time // start of the first command that failed; zero while Redis answers
	noticed time.Time // end of that command
	back    time.Time // end of the last outage
}

// NewLink returns a link that logs outages; nil logs nothing.
func NewLink(log *slog.Logger) *Link {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Link{log: log}
}

// Up reports whether Redis answers, as far as is known; before the first answer, it does not.
func (l *Link) Up() bool { return l.met.Load() && !l.down.Load() }

// Sever has every command fail from now on, at once and with that error.
func (l *Link) Sever(reason error) { l.severed.CompareAndSwap(nil, &reason) }

// Severed returns the reason with which Sever was called, else nil.
func (l *Link) Severed() error {
	if reason := l.severed.Load(); reason != nil {
		return *reason
	}
	return nil
}

// DialHook implements redis.Hook.
func (l *Link) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (l *Link) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return l.do(ctx, func(ctx context.Context) error { return next(ctx, cmd) })
	}
}

// ProcessPipelineHook implements redis.Hook.
func (l *Link) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if reason := l.Severed(); reason != nil {
			for _, cmd := range cmds {
				cmd.SetErr(reason)
			}
			return reason
		}
		err := l.do(ctx, func(ctx context.Context) error { return next(ctx, cmds) })
		if err != nil && !slices.ContainsFunc(cmds, func(cmd redis.Cmder) bool { return cmd.Err() != nil }) {
			for _, cmd := range cmds { // Redis turned the connection away, and go-redis tells the commands nothing of that
				cmd.SetErr(err)
			}
		}
		return err
	}
}

// do sends commands, with the limit of the link.
func (l *Link) do(ctx context.Context, send func(context.Context) error) error {
	if reason := l.Severed(); reason != nil {
		return reason
	}
	limit := answerLimit
	if l.down.Load() {
		limit = outageLimit
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	start := clock.Now()
	err := send(ctx)
	l.record(start, err)
	return err
}

// record evaluates a command that began at start and returned err.
//
// Commands run concurrently. Therefore an answer ends an outage only if its command began after the outage was
// noticed, and a failure begins an outage only if its command began after the last outage.
func (l *Link) record(start time.Time, err error) {
	answered := isAnswer(err)
	if answered && !l.met.Load() {
		l.met.Store(true)
	}
	if answered && !l.down.Load() || !answered && (!l.met.Load() || !isConnectionFailure(start, err)) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case answered && !l.since.IsZero() && !start.Before(l.noticed):
		l.back = clock.Now()
		l.log.Info("Redis back", slog.Duration("after", l.back.Sub(l.since).Round(time.Millisecond)))
		l.since = time.Time{}
		l.down.Store(false)
	case !answered && l.since.IsZero() && !start.Before(l.back):
		l.log.Error("Redis unreachable", slog.Any("error", err))
		l.since, l.noticed = start, clock.Now()
		l.down.Store(true)
	}
}

// Unanswered reports whether err is that of a server that did not answer.
func Unanswered(err error) bool {
	var netErr net.Error // also the end of a deadline
	return errors.As(err, &netErr) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// isAnswer reports whether err shows that Redis answered: no error, or an error reply.
func isAnswer(err error) bool {
	var reply redis.Error
	return err == nil || errors.As(err, &reply)
}

// isConnectionFailure reports whether err is a refused or broken connection, or a silence since start that was not too short to mean
// anything.
func isConnectionFailure(start time.Time, err error) bool {
	var netErr net.Error
	if errors.As(err, &netErr) && netErr.Timeout() {
		return clock.Since(start) >= silence
	}
	return Unanswered(err)
}
