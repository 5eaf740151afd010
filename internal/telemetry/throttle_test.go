package telemetry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/task"
)

func TestThrottle_WritesTheSameFailureOfRedisOnceInAWhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := Throttle(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == slog.LevelKey {
				return slog.Attr{}
			}
			return a
		}})))
		expect := func(want string) {
			t.Helper()
			if diff := cmp.Diff(want, out.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			out.Reset()
		}
		ofNode := Throttle(log.With("node", "a")) // again, as an app inside an app does
		for p := range 80 {
			err := fmt.Errorf("script claim: %w", &net.OpError{Op: "read", Net: "tcp", Source: &net.TCPAddr{Port: p}, Err: os.ErrDeadlineExceeded})
			ofNode.Warn("cannot claim", "partition", p, "error", err)
		}
		expect("msg=\"cannot claim\" node=a partition=0 error=\"script claim: read tcp :0: i/o timeout\"\n")

		log.Warn("cannot claim", "error", io.EOF)
		log.Warn("cannot claim", "error", errors.Join(errors.New("besides"), context.DeadlineExceeded))
		log.Warn("cannot fire", "error", context.DeadlineExceeded)
		log.Error("cannot fire", "error", context.DeadlineExceeded)
		log.Warn("cannot fire", "error", redis.ErrClosed)
		expect("msg=\"cannot claim\" error=EOF\nmsg=\"cannot fire\" error=\"context deadline exceeded\"\n" +
			"msg=\"cannot fire\" error=\"context deadline exceeded\"\nmsg=\"cannot fire\" error=\"redis: client is closed\"\n")

		for range 2 {
			log.Error("Redis unreachable", "server", "a:1", "error", io.EOF)
			log.Error("Redis unreachable", "server", "b:1", "error", io.EOF)
		}
		expect("msg=\"Redis unreachable\" server=a:1 error=EOF\nmsg=\"Redis unreachable\" server=b:1 error=EOF\n")

		for range 2 {
			log.Warn("request failed", "path", "/v1/tasks", "error", task.Errorf(task.CodeOverloaded, "this node is at its limit"))
			log.Warn("holding ticks back", "partition", 1, "error", task.Errorf(task.CodeUnavailable, "Redis is almost full"))
		}
		expect("msg=\"request failed\" path=/v1/tasks error=\"this node is at its limit\"\n" +
			"msg=\"holding ticks back\" partition=1 error=\"Redis is almost full\"\n")

		for range 2 { // what is not about Redis, or no warning
			log.Warn("request failed", "error", task.Errorf(task.CodeInternal, "see the log"))
			log.Warn("schedule paused itself", "schedule", "default:a")
			log.Info("request", "error", io.EOF)
		}
		other := "msg=\"request failed\" error=\"see the log\"\nmsg=\"schedule paused itself\" schedule=default:a\nmsg=request error=EOF\n"
		expect(other + other)

		for i := range 3 { // ends of attempts
			log.Warn("a task has failed", "task", i, "type", "http", "outcome", "failed", "error", "boom")
			log.Info("another attempt", "task", i, "type", "http", "outcome", "failed")
			log.Info("another attempt", "task", i, "type", "mail", "outcome", "failed")
		}
		expect("msg=\"a task has failed\" task=0 type=http outcome=failed error=boom\n" +
			"msg=\"another attempt\" task=0 type=http outcome=failed\nmsg=\"another attempt\" task=0 type=mail outcome=failed\n")

		_ = clock.Sleep(t.Context(), throttleInterval)
		log.Info("another attempt", "type", "http", "outcome", "failed")
		expect("msg=\"another attempt\" type=http outcome=failed left_out=2\n")
		log.Warn("cannot claim", "error", context.DeadlineExceeded)
		log.Warn("cannot claim", "error", context.DeadlineExceeded)
		expect("msg=\"cannot claim\" error=\"context deadline exceeded\" left_out=80\n")
	})
}

func TestThrottle_RemembersABoundedNumberOfKinds(t *testing.T) {
	t.Parallel()
	s := &seen{kinds: make(map[name]*kind)}
	for i := range 2 * throttleKinds {
		s.note(name{text: fmt.Sprint("message ", i)})
	}
	if n := len(s.kinds); n == 0 || n > throttleKinds {
		t.Errorf("%d kinds are remembered", n)
	}
}

// Tasks of thousands of types must neither fill the log with their ends, nor have failures of Redis repeated.
func TestThrottle_HoldsEndsOfAnyNumberOfTypes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := Throttle(slog.New(slog.NewTextHandler(&out, nil)))
		for i := range 5 * throttleKinds {
			log.Warn("cannot claim", "error", io.EOF)
			log.Warn("a task has failed", "type", fmt.Sprint("type-", i), "outcome", "failed")
		}
		claims, ends := strings.Count(out.String(), "cannot claim"), strings.Count(out.String(), "a task has failed")
		if claims != 1 || ends != throttleTyped+1 {
			t.Errorf("%d lines of one failure and %d of ends, want 1 and %d", claims, ends, throttleTyped+1)
		}
		_ = clock.Sleep(t.Context(), throttleInterval)
		out.Reset()
		log.Warn("a task has failed", "type", "another", "outcome", "failed")
		if left := fmt.Sprint("left_out=", 5*throttleKinds-throttleTyped-1); !strings.Contains(out.String(), left) {
			t.Errorf("the next line is %q, want %s", out.String(), left)
		}
	})
}
