package queue

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/clock"
)

// outage logs "Redis unreachable" once when Redis stops answering a consumer, and "Redis back" once when it answers again.
type outage struct {
	log *slog.Logger

	mu      sync.Mutex
	since   time.Time // start of the first command that failed; zero while Redis answers
	noticed time.Time // end of that command
	back    time.Time // end of the last outage
}

// record evaluates a command that began at start and returned err. It reports whether Redis is unreachable.
//
// Commands run concurrently. Therefore an answer ends an outage only if its command began after the outage was
// noticed, and a failure begins an outage only if its command began after the last outage.
func (o *outage) record(start time.Time, err error) bool {
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
	}
	return !o.since.IsZero()
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
