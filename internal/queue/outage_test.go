package queue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// asynqLogTo returns an asynqLog, with its outage, that writes all levels to out, as text without times.
func asynqLogTo(out io.Writer) asynqLog {
	log := slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
	return asynqLog{log, &outage{log: log}}
}

func TestOutage_IsLoggedOnceWhenItBeginsAndOnceWhenItEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := asynqLogTo(&out)
		for range 4 {
			start := clock.Now()
			_ = clock.Sleep(t.Context(), 3*time.Second)
			err := l.outage.record(start, io.EOF)
			l.Error("Dequeue error: UNKNOWN: redis eval error: ", err)
			l.Error("Failed to forward scheduled tasks: INTERNAL_ERROR: INTERNAL_ERROR: redis eval error: ", err)
		}
		_ = l.outage.record(clock.Now(), redis.Nil)
		_ = l.outage.record(clock.Now(), nil)

		var shown []string
		for line := range strings.Lines(out.String()) {
			if !strings.HasPrefix(line, "level=DEBUG") {
				shown = append(shown, strings.TrimSpace(line))
			}
		}
		want := []string{`level=ERROR msg="Redis unreachable" error=EOF`, `level=INFO msg="Redis back" after=12s`}
		if fmt.Sprint(shown) != fmt.Sprint(want) {
			t.Errorf("logged %q, want %q", shown, want)
		}
	})
}

func TestOutage_HidesNoOtherError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := asynqLogTo(&out)
		start := clock.Now()
		_ = clock.Sleep(t.Context(), time.Second)
		lost := l.outage.record(start, io.EOF)
		for name, message := range map[string]string{
			"an error reply":         "Dequeue error: UNKNOWN: redis eval error: OOM command not allowed",
			"about one delivery":     fmt.Sprint("Could not remove task id=a: ", lost),
			"a panic of the handler": "recovering from panic. See the stack trace below for details:",
		} {
			out.Reset()
			l.Error(message)
			if !strings.HasPrefix(out.String(), "level=ERROR") {
				t.Errorf("%s during an outage: logged %q", name, out.String())
			}
		}
		_ = l.outage.record(clock.Now(), nil)
		out.Reset()
		l.Error("Dequeue error: ", lost)
		if !strings.HasPrefix(out.String(), "level=ERROR") {
			t.Errorf("after an outage: logged %q", out.String())
		}
	})
}

func TestOutage_IgnoresCommandsThatBeganBeforeItOrBeforeItsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		o := asynqLogTo(&out).outage
		before := clock.Now()
		_ = clock.Sleep(t.Context(), time.Second)
		_ = o.record(before, io.EOF)
		out.Reset()
		if _ = o.record(before, nil); out.Len() > 0 {
			t.Errorf("an answer to an earlier command: logged %q", out.String())
		}
		during := clock.Now()
		_ = clock.Sleep(t.Context(), time.Second)
		_ = o.record(during, nil)
		out.Reset()
		if err := o.record(during, io.EOF); !errors.Is(err, io.EOF) || strings.Contains(err.Error(), unreachable) || out.Len() > 0 {
			t.Errorf("a failure of an earlier command: %v, logged %q", err, out.String())
		}
	})
}

func TestOutage_DoesNotBeginForAClosedClientOrAnEndedContext(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	o := asynqLogTo(&out).outage
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for ctx, want := range map[context.Context]error{t.Context(): redis.ErrClosed, ended: context.DeadlineExceeded} {
		fail := o.ProcessHook(func(context.Context, redis.Cmder) error { return want })
		if err := fail(ctx, redis.NewStatusCmd(ctx)); !errors.Is(err, want) || strings.Contains(err.Error(), unreachable) || out.Len() > 0 {
			t.Errorf("%v: returned %v, logged %q", want, err, out.String())
		}
	}
}

// recorder is a handler that sends the text of every record to a channel.
type recorder chan string

func (r recorder) Enabled(context.Context, slog.Level) bool { return true }
func (r recorder) WithAttrs([]slog.Attr) slog.Handler       { return r }
func (r recorder) WithGroup(string) slog.Handler            { return r }
func (r recorder) Handle(_ context.Context, record slog.Record) error {
	r <- record.Level.String() + " " + record.Message
	return nil
}

func TestPool_LogsAnOutageOfRedisOnce(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	proxy := redistest.NewProxy(t, x.srv.Addr())
	records := make(recorder, 1000)
	p := NewPool(PoolOptions{
		DB: redistest.Open(t, proxy.URL()), Name: "test", Concurrency: 2, Queues: map[string]int{"default": 1},
		Handler: func(context.Context, task.Ref, int) error { return nil }, Log: slog.New(records),
	})
	testkit.Must(t, p.Start(t.Context()))
	defer p.Shutdown()

	const starting = "ERROR cannot subscribe to cancelation channel" // if asynq has not done so before the cut
	var shown []string
	until := func(beginning string) {
		t.Helper()
		for {
			select {
			case record := <-records:
				if !strings.HasPrefix(record, "DEBUG") && !strings.HasPrefix(record, starting) {
					shown = append(shown, record)
				}
				if strings.HasPrefix(record, beginning) {
					return
				}
			case <-time.After(testkit.Limit):
				t.Fatalf("no record begins with %q; shown: %q", beginning, shown)
			}
		}
	}
	proxy.Cut()
	until("ERROR Redis unreachable")
	until("DEBUG Dequeue error")
	until("DEBUG Failed to forward")
	proxy.Mend()
	until("INFO Redis back")
	if want := []string{"ERROR Redis unreachable", "INFO Redis back"}; fmt.Sprint(shown) != fmt.Sprint(want) {
		t.Errorf("shown: %q, want %q", shown, want)
	}
}

var _ asynq.Logger = asynqLog{}
