package queue

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// transport is a Queues on a Redis of its own.
type transport struct {
	*Queues
	t   *testing.T
	db  *redisx.DB
	srv *redistest.Server
}

func newTransport(t *testing.T) *transport {
	t.Helper()
	srv := redistest.Start(t)
	db := srv.DB(t)
	return &transport{Queues: New(Options{DB: db}), t: t, db: db, srv: srv}
}

func aDelivery(id string) task.Delivery {
	return task.Delivery{
		Ref: task.Ref{Namespace: "default", ID: id}, Attempt: 1, Type: "echo", Queue: "default", Timeout: time.Minute,
	}
}

func (x *transport) enqueue(d task.Delivery) {
	x.t.Helper()
	testkit.Must(x.t, x.Enqueue(x.t.Context(), d))
}

// state is where asynq keeps a delivery, "" if it does not.
func (x *transport) state(d task.Delivery) string {
	x.t.Helper()
	values, err := x.db.HMGet(x.t.Context(), string(lua.AsynqQueue(d.Queue).Delivery(d.String())), "state").Result()
	testkit.Must(x.t, err)
	s, _ := values[0].(string)
	return s
}

// waiting are the deliveries that wait in the default queue, the next one to be taken last.
func (x *transport) waiting() []string {
	x.t.Helper()
	ids, err := x.db.LRange(x.t.Context(), string(lua.AsynqQueue("default").Pending()), 0, -1).Result()
	testkit.Must(x.t, err)
	return ids
}

// take does what a worker of asynq does when it takes a delivery; its lease ends in left.
func (x *transport) take(d task.Delivery, left time.Duration) {
	x.t.Helper()
	ctx, k := x.t.Context(), lua.AsynqQueue(d.Queue)
	now, err := x.db.Time(ctx).Result()
	testkit.Must(x.t, err)
	testkit.Must(x.t, x.db.RPopLPush(ctx, string(k.Pending()), string(k.Active())).Err())
	testkit.Must(x.t, x.db.HSet(ctx, string(k.Delivery(d.String())), "state", "active").Err())
	testkit.Must(x.t, x.db.HDel(ctx, string(k.Delivery(d.String())), "pending_since").Err())
	testkit.Must(x.t, x.db.Do(ctx, "ZADD", string(k.Deadline()), now.Add(left).Unix(), d.String()).Err())
}

// pool runs a pool until the test ends.
func (x *transport) pool(url string, handler Handler) *Pool {
	x.t.Helper()
	p := NewPool(PoolOptions{
		DB: redistest.Open(x.t, url), Name: "test", Concurrency: 2, Queues: map[string]int{"default": 1},
		Handler: handler, Log: slog.New(slog.DiscardHandler),
	})
	testkit.Must(x.t, p.Start(x.t.Context()))
	x.t.Cleanup(p.Shutdown)
	return p
}

func dump(t *testing.T, db *redisx.DB) string {
	t.Helper()
	text, err := json.Marshal(redistest.Dump(t, db))
	testkit.Must(t, err)
	return string(text)
}

// calls counts the commands that Redis was sent and did not carry out, or did: INFO commandstats.
func calls(t *testing.T, db *redisx.DB, field string, commands ...string) int {
	t.Helper()
	info, err := db.Info(context.WithoutCancel(t.Context()), "commandstats").Result()
	testkit.Must(t, err)
	total := 0
	for line := range strings.Lines(info) {
		name, stats, _ := strings.Cut(strings.TrimSpace(line), ":")
		for _, c := range commands {
			if name == "cmdstat_"+c {
				total += statistic(t, stats, field)
			}
		}
	}
	return total
}

func statistic(t *testing.T, stats, field string) int {
	t.Helper()
	for pair := range strings.SplitSeq(stats, ",") {
		name, value, _ := strings.Cut(pair, "=")
		if name == field {
			var n int
			testkit.Must(t, json.Unmarshal([]byte(value), &n))
			return n
		}
	}
	return 0
}
