package queue

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/clock"
)

// outage is a hook of a pool's Redis client. It logs "Redis unreachable" once when Redis stops answering, and "Redis
// back" once when it answers again. asynq itself logs every failed command of its loops; asynqLog asks repeats which
// of these messages add nothing.
type outage struct {
	log *slog.Logger

	mu      sync.Mutex
	since   time.Time // start of the first command that failed; zero while Redis answers
	noticed time.Time // end of that command
	back    time.Time // end of the last outage
}

// unreachable is put before the text of every error of an outage. asynq's messages contain errors as text only.
const unreachable = "Redis unreachable: "

// loopMessages are the beginnings of the messages that asynq's loops log when a command failed which they repeat.
// Messages about one delivery begin differently.
var loopMessages = []string{"Dequeue error: ", "Failed to "}

// DialHook implements redis.Hook.
func (o *outage) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessPipelineHook implements redis.Hook.
func (o *outage) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ProcessHook implements redis.Hook. A command whose own context has ended says nothing about Redis.
func (o *outage) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		start := clock.Now()
		err := next(ctx, cmd)
		if ctx.Err() != nil {
			return err
		}
		return o.record(start, err)
	}
}

// record evaluates a command that began at start and returned err. If the command failed because Redis is
// unreachable, record returns err with the prefix unreachable, else err itself.
//
// Commands run concurrently. Therefore an answer ends an outage only if its command began after the outage was
// noticed, and a failure begins an outage only if its command began after the last outage.
func (o *outage) record(start time.Time, err error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case isAnswer(err):
		if !o.since.IsZero() && !start.Before(o.noticed) {
			o.back = clock.Now()
			o.log.Info("Redis back", slog.Duration("after", o.back.Sub(o.since).Round(time.Millisecond)))
			o.since = time.Time{}
		}
	case isConnectionFailure(err) && !start.Before(o.back):
		if o.since.IsZero() {
			o.log.Error("Redis unreachable", slog.Any("error", err))
			o.since, o.noticed = start, clock.Now()
		}
		return fmt.Errorf("%s%w", unreachable, err)
	}
	return err
}

// repeats reports whether a message of asynq only says again that Redis is unreachable.
func (o *outage) repeats(message string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.since.IsZero() && strings.Contains(message, unreachable) &&
		slices.ContainsFunc(loopMessages, func(prefix string) bool { return strings.HasPrefix(message, prefix) })
}

// isAnswer reports whether err shows that Redis answered: no error, or an error reply.
func isAnswer(err error) bool {
	var reply redis.Error
	return err == nil || errors.As(err, &reply)
}

// isConnectionFailure reports whether err is a refused or broken connection, or a timeout.
func isConnectionFailure(err error) bool {
	var netErr net.Error
	return errors.As(err, &netErr) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
