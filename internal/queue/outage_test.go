package queue

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// outageLoggedTo returns an outage that writes to out, as text without times.
func outageLoggedTo(out io.Writer) *outage {
	return &outage{log: slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))}
}

func TestOutage_IsLoggedOnceWhenItBeginsAndOnceWhenItEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		o := outageLoggedTo(&out)
		for range 4 {
			start := clock.Now()
			_ = clock.Sleep(t.Context(), 3*time.Second)
			if !o.record(start, io.EOF) {
				t.Error("Redis counts as reachable after a broken connection")
			}
		}
		if o.record(clock.Now(), redis.Nil) || o.record(clock.Now(), nil) {
			t.Error("Redis counts as unreachable after an answer")
		}
		want := "level=ERROR msg=\"Redis unreachable\" error=EOF\nlevel=INFO msg=\"Redis back\" after=12s\n"
		if out.String() != want {
			t.Errorf("logged %q, want %q", out.String(), want)
		}
	})
}

func TestOutage_IgnoresCommandsThatBeganBeforeItOrBeforeItsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		o := outageLoggedTo(&out)
		before := clock.Now()
		_ = clock.Sleep(t.Context(), time.Second)
		o.record(before, io.EOF)
		out.Reset()
		if !o.record(before, nil) || out.Len() > 0 {
			t.Errorf("an answer to an earlier command: logged %q", out.String())
		}
		during := clock.Now()
		_ = clock.Sleep(t.Context(), time.Second)
		o.record(during, nil)
		out.Reset()
		if o.record(during, io.EOF) || out.Len() > 0 {
			t.Errorf("a failure of an earlier command: logged %q", out.String())
		}
	})
}

func TestOutage_DoesNotBeginForAClosedClientOrAnEndedContext(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	o := outageLoggedTo(&out)
	for _, err := range []error{redis.ErrClosed, context.Canceled, redis.ErrPoolExhausted} {
		if o.record(clock.Now(), err) || out.Len() > 0 {
			t.Errorf("%v: logged %q", err, out.String())
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

func TestConsumer_LogsAnOutageOfRedisOnce(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	proxy := redistest.NewProxy(t, x.srv.Addr())
	records := make(recorder, 1000)
	handled := make(chan task.Ref, 1)
	p := x.pool(proxy.URL(), func(ref task.Ref, _ int) error { handled <- ref; return nil },
		func(o *ConsumerOptions) { o.Log = slog.New(records) })
	var shown []string
	await := func(want string) {
		t.Helper()
		shown = append(shown, testkit.Receive(t, records, want))
	}
	proxy.Cut()
	x.enqueue(aDelivery("a"))
	await("the beginning of the outage")
	testkit.Eventually(t, "it tries several times", func() bool { return p.failures.Load() > 2 })
	proxy.Mend()
	await("the end of the outage")
	testkit.Receive(t, handled, "the delivery")
	p.shutDown(t)
	close(records)
	for record := range records {
		shown = append(shown, record)
	}
	if want := []string{"ERROR Redis unreachable", "INFO Redis back"}; fmt.Sprint(shown) != fmt.Sprint(want) {
		t.Errorf("shown: %q, want %q", shown, want)
	}
}

// A Redis that refuses does answer: it is not unreachable, and its refusals are no news after the first.
func TestConsumer_LogsRefusalsOnce(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	records := make(recorder, 1000)
	x.breakQueue()
	c := NewConsumer(ConsumerOptions{DB: x.db, Queues: map[string]int{"default": 1}, Log: slog.New(records)})
	for range 3 {
		c.Take(t.Context(), 1)
	}
	close(records)
	var shown []string
	for record := range records {
		shown = append(shown, record)
	}
	if want := []string{"WARN cannot take deliveries"}; fmt.Sprint(shown) != fmt.Sprint(want) {
		t.Errorf("shown: %q, want %q", shown, want)
	}
}
