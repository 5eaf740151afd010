package queue

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

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

func newTransport(t *testing.T, opts ...redistest.Option) *transport {
	t.Helper()
	srv := redistest.Start(t, opts...)
	db := srv.DB(t)
	return &transport{Queues: New(Options{DB: db}), t: t, db: db, srv: srv}
}

func aDelivery(id string) task.Delivery {
	return task.Delivery{
		Ref: task.Ref{Namespace: "default", ID: id}, Attempt: 1, Type: "echo", Queue: "default", Timeout: time.Minute,
		ClaimedAt: time.UnixMilli(1767323045000),
	}
}

func (x *transport) enqueue(d task.Delivery) {
	x.t.Helper()
	testkit.Must(x.t, x.HandOver(x.t.Context(), []task.Delivery{d}, nil).Failure())
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

// leaseEnds has the lease of a delivery end in left.
func (x *transport) leaseEnds(d task.Delivery, left time.Duration) {
	x.t.Helper()
	now, err := x.db.Time(x.t.Context()).Result()
	testkit.Must(x.t, err)
	testkit.Must(x.t, x.db.Do(x.t.Context(), "ZADD", string(lua.AsynqQueue(d.Queue).Deadline()), now.Add(left).Unix(), d.String()).Err())
}

// leaseLeft returns how long the lease of a delivery lasts.
func (x *transport) leaseLeft(d task.Delivery) time.Duration {
	x.t.Helper()
	now, err := x.db.Time(x.t.Context()).Result()
	testkit.Must(x.t, err)
	ends, err := x.db.ZScore(x.t.Context(), string(lua.AsynqQueue(d.Queue).Deadline()), d.String()).Result()
	testkit.Must(x.t, err)
	return time.Unix(int64(ends), 0).Sub(now)
}

// log discards everything.
func (x *transport) log() *slog.Logger { return slog.New(slog.DiscardHandler) }

// foreign enqueues a task with asynq's own client.
func (x *transport) foreign(payload []byte, o ...asynq.Option) *asynq.TaskInfo {
	x.t.Helper()
	info, err := asynq.NewClientFromRedisClient(x.db.UniversalClient).EnqueueContext(x.t.Context(), asynq.NewTask("foreign", payload), o...)
	testkit.Must(x.t, err)
	return info
}

// pool is a consumer whose deliveries a handler handles, two at once.
type pool struct {
	*Consumer
	stop  context.CancelFunc
	ended chan error
}

// handler handles a delivery; its result is passed to End.
type handler func(ref task.Ref, attempt int) error

// pool runs a pool on the default queue until the test ends.
func (x *transport) pool(url string, h handler, change ...func(*ConsumerOptions)) *pool {
	x.t.Helper()
	p := x.poolOf(redistest.Open(x.t, url), h, change...)
	testkit.Receive(x.t, p.Ready(), "the consumer")
	return p
}

// poolOf runs a pool on a client of Redis. It may not be ready yet.
func (x *transport) poolOf(db *redisx.DB, h handler, change ...func(*ConsumerOptions)) *pool {
	x.t.Helper()
	o := ConsumerOptions{
		DB: db, Name: "test", Concurrency: 2, Queues: map[string]int{"default": 1}, Log: x.log(),
	}
	for _, c := range change {
		c(&o)
	}
	p := &pool{Consumer: NewConsumer(o), ended: make(chan error, 1)}
	taking, stopTaking := context.WithCancel(x.t.Context())
	running, stopRunning := context.WithCancel(context.WithoutCancel(x.t.Context()))
	taken := make(chan struct{})
	go func() { defer close(taken); p.take(taking, o.Concurrency, h) }()
	go func() { p.ended <- p.Run(running) }()
	p.stop = func() { p.Quiesce(); stopTaking(); <-taken; stopRunning() }
	x.t.Cleanup(func() { p.shutDown(x.t) })
	return p
}

// take takes deliveries as a worker does.
func (p *pool) take(ctx context.Context, concurrency int, h handler) {
	slots := make(chan struct{}, concurrency)
	for p.Await(ctx) == nil {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		taken := p.Take(ctx, 1)
		for _, t := range taken {
			go func() { defer func() { <-slots }(); p.End(t, h(t.Ref, t.Attempt)) }()
		}
		if len(taken) == 0 {
			<-slots
		}
	}
}

// shutDown stops the pool and waits for its end.
func (p *pool) shutDown(t *testing.T) {
	t.Helper()
	p.stop()
	if err := testkit.Receive(t, p.ended, "the end of the consumer"); err != nil {
		t.Errorf("the consumer ended with %v", err)
	}
	p.ended <- nil // for whoever asks again
}

// takeNow takes up to n deliveries with a consumer that nobody runs.
func (x *transport) takeNow(n int, queues map[string]int) (*Consumer, []*Taken) {
	x.t.Helper()
	c := NewConsumer(ConsumerOptions{DB: x.db, Name: "test", Concurrency: n, Queues: queues, Log: x.log()})
	return c, c.Take(x.t.Context(), n)
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

// failures is how often in a row the consumer could not read a queue.
func (p *pool) failures(queue string) int {
	p.sources.mu.Lock()
	defer p.sources.mu.Unlock()
	return p.sources.byName[queue].failures
}
