package telemetry

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/task"
)

const (
	throttleInterval = 10 * time.Second // between two records of the same kind
	throttleKinds    = 1000             // kinds that are remembered; beyond it, all are forgotten
)

// Throttle returns a logger that writes what fails as Redis does not answer, refuses or is almost full, or as this node is overloaded, at most once
// in ten seconds for each message, kind of failure and, if the record names one as "server", server: as long as that lasts, everything fails again
// and again. The next record that is written says in left_out how many were not.
// It also throttles ends of attempts at every level: for each message, "type" and "outcome" of a record that names both.
// All other records pass.
func Throttle(log *slog.Logger) *slog.Logger {
	if _, done := log.Handler().(throttled); done {
		return log
	}
	return slog.New(throttled{Handler: log.Handler(), seen: &seen{kinds: make(map[string]*kind)}})
}

// throttled implements slog.Handler.
type throttled struct {
	slog.Handler
	seen *seen
}

// seen is what the loggers that stem from one call of Throttle have written.
type seen struct {
	mu    sync.Mutex
	kinds map[string]*kind
}

// kind is the records of one kind.
type kind struct {
	written time.Time
	leftOut int // since then
}

func (h throttled) WithAttrs(attributes []slog.Attr) slog.Handler {
	return throttled{h.Handler.WithAttrs(attributes), h.seen}
}

func (h throttled) WithGroup(name string) slog.Handler {
	return throttled{h.Handler.WithGroup(name), h.seen}
}

func (h throttled) Handle(ctx context.Context, r slog.Record) error {
	if name := kindOf(r); name != "" {
		leftOut, due := h.seen.note(name)
		if !due {
			return nil
		}
		if leftOut > 0 {
			r = r.Clone()
			r.AddAttrs(slog.Int("left_out", leftOut))
		}
	}
	return h.Handler.Handle(ctx, r)
}

// note counts a record. due is false if it must not be written; leftOut is how many were not before.
func (s *seen) note(name string) (leftOut int, due bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.kinds[name]
	if k != nil && clock.Since(k.written) < throttleInterval {
		k.leftOut++
		return 0, false
	}
	if k == nil {
		if len(s.kinds) >= throttleKinds {
			clear(s.kinds)
		}
		k = &kind{}
		s.kinds[name] = k
	}
	leftOut = k.leftOut
	k.written, k.leftOut = clock.Now(), 0
	return leftOut, true
}

// kindOf is the same text for records of the same kind; "" for a record that is not about a failure that Throttle is for.
func kindOf(r slog.Record) string {
	failure, server, kind, outcome := "", "", "", ""
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "server":
			server = a.Value.String()
		case "type":
			kind = a.Value.String()
		case "outcome":
			outcome = a.Value.String()
		}
		if err, ok := a.Value.Any().(error); ok && failure == "" {
			failure = failureOf(err)
		}
		return true
	})
	if kind != "" && outcome != "" {
		return r.Level.String() + " " + kind + " " + outcome + " " + r.Message
	}
	if failure == "" || r.Level < slog.LevelWarn {
		return ""
	}
	return r.Level.String() + " " + failure + " " + server + " " + r.Message
}

// failureOf returns how Redis failed: the code of its reply, or how the connection did; or the code of an error that says that DTS can do nothing
// for now. It is "" for another error.
func failureOf(err error) string {
	var (
		reply interface { // redis.Error
			error
			RedisError()
		}
		connection net.Error
	)
	switch {
	case errors.As(err, &reply):
		code, _, _ := strings.Cut(reply.Error(), " ")
		return code
	case errors.As(err, &connection) && connection.Timeout():
		return "timeout"
	case errors.As(err, &connection), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "connection"
	}
	if code := task.CodeOf(err); code == task.CodeUnavailable || code == task.CodeOverloaded {
		return string(code)
	}
	return ""
}
