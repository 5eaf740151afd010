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
	throttleTyped    = 500              // of which are ends of attempts by type: types beyond that share one
)

// Throttle returns a logger that writes what fails as Redis does not answer, refuses or is almost full, or as this node is overloaded, at most once
// in ten seconds for each message, kind of failure and, if the record names one as "server", server: as long as that lasts, everything fails again
// and again. The next record that is written says in left_out how many were not.
// It also throttles ends of attempts at every level: for each message, "type" and "outcome" of a record that names both.
// Only the first types are told apart, as clients may name any number of them.
// All other records pass.
func Throttle(log *slog.Logger) *slog.Logger {
	if _, done := log.Handler().(throttled); done {
		return log
	}
	return slog.New(throttled{Handler: log.Handler(), seen: &seen{kinds: make(map[name]*kind)}})
}

// throttled implements slog.Handler.
type throttled struct {
	slog.Handler
	seen *seen
}

// seen is what the loggers that stem from one call of Throttle have written.
type seen struct {
	mu    sync.Mutex
	kinds map[name]*kind
	typed int // of kinds, those with a type
}

// name names a kind of records.
type name struct {
	text     string // level, message and failure or outcome
	taskType string // of ends of attempts; "" for those of types that share a kind, and for other records
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
	if of := kindOf(r); of.text != "" {
		leftOut, due := h.seen.note(of)
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
func (s *seen) note(of name) (leftOut int, due bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.kind(of)
	if !k.written.IsZero() && clock.Since(k.written) < throttleInterval {
		k.leftOut++
		return 0, false
	}
	leftOut = k.leftOut
	k.written, k.leftOut = clock.Now(), 0
	return leftOut, true
}

// kind returns the kind of that name, a new one if there is none. The caller holds mu.
func (s *seen) kind(of name) *kind {
	k := s.kinds[of]
	if k == nil && of.taskType != "" && s.typed >= throttleTyped {
		of.taskType = ""
		k = s.kinds[of]
	}
	if k != nil {
		return k
	}
	if len(s.kinds) >= throttleKinds {
		clear(s.kinds)
		s.typed = 0
	}
	if of.taskType != "" {
		s.typed++
	}
	k = &kind{}
	s.kinds[of] = k
	return k
}

// kindOf is the same name for records of the same kind. Its text is "" for a record that Throttle lets pass.
func kindOf(r slog.Record) name {
	failure, server, taskType, outcome := "", "", "", ""
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "server":
			server = a.Value.String()
		case "type":
			taskType = a.Value.String()
		case "outcome":
			outcome = a.Value.String()
		}
		if err, ok := a.Value.Any().(error); ok && failure == "" {
			failure = failureOf(err)
		}
		return true
	})
	if taskType != "" && outcome != "" {
		return name{text: r.Level.String() + " " + outcome + " " + r.Message, taskType: taskType}
	}
	if failure == "" || r.Level < slog.LevelWarn {
		return name{}
	}
	return name{text: r.Level.String() + " " + failure + " " + server + " " + r.Message}
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
