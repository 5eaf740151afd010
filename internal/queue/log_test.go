package queue

import (
	"context"
	"fmt"
	"log/slog"
	"testing"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
)

// recorder is a handler that sends the text of every record to a channel.
type recorder chan string

func (r recorder) Enabled(context.Context, slog.Level) bool { return true }
func (r recorder) WithAttrs([]slog.Attr) slog.Handler       { return r }
func (r recorder) WithGroup(string) slog.Handler            { return r }
func (r recorder) Handle(_ context.Context, record slog.Record) error {
	r <- record.Level.String() + " " + record.Message
	return nil
}

// The link to Redis logs an outage, once for all.
func TestConsumer_LogsNothingOfItsOwnInAnOutageOfRedis(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	x := newTransport(t)
	proxy := redistest.NewProxy(t, x.srv.Addr())
	records := make(recorder, 1000)
	handled := make(chan task.Ref, 1)
	db, err := redisx.Open(t.Context(), redisx.Options{URL: proxy.URL(), Link: redisx.NewLink(slog.New(records))})
	testkit.Must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	p := x.poolOf(db, func(ref task.Ref, _ int) error { handled <- ref; return nil },
		func(o *ConsumerOptions) { o.Log = slog.New(records) })
	testkit.Receive(t, p.Ready(), "the consumer")
	var shown []string
	await := func(want string) {
		t.Helper()
		shown = append(shown, testkit.Receive(t, records, want))
	}
	proxy.Cut()
	x.enqueue(aDelivery("a"))
	await("the beginning of the outage")
	testkit.Eventually(t, "it tries several times", func() bool { return p.failures("default") > 2 })
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

// Redis names neither the queue nor the key of the wrong type.
func TestConsumer_LogsWhoNamesADamagedKey(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	testkit.Must(t, x.db.Set(t.Context(), string(lua.AsynqQueue("default").Pending()), "no list", 0).Err())
	var log testkit.Log
	logger := slog.New(slog.NewTextHandler(&log, nil))
	NewConsumer(ConsumerOptions{DB: x.db, Queues: map[string]int{"default": 1}, Log: logger}).Take(t.Context(), 1)
	for _, text := range []string{"queue default: ", "WRONGTYPE", "dtsctl doctor names it"} {
		if !log.Has(text) {
			t.Errorf("%q is not in the log", text)
		}
	}
}
