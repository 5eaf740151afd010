package asynqexec

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/worker/executor"
	"github.com/dts-sched/dts/internal/worker/executor/executortest"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// fleet is a Redis with what a fleet that uses asynq has there.
type fleet struct {
	t         *testing.T
	redis     *redistest.Server
	inspector *asynq.Inspector
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	redis := redistest.Start(t)
	return &fleet{t: t, redis: redis, inspector: asynq.NewInspectorFromRedisClient(redis.DB(t).UniversalClient)}
}

// serve runs a server of asynq until the test ends. It polls faster than by default, and tries again at once.
func (f *fleet) serve(handler asynq.HandlerFunc) { f.serveWith(time.Millisecond, handler) }

func (f *fleet) serveWith(retryDelay time.Duration, handler asynq.HandlerFunc) {
	f.t.Helper()
	server := asynq.NewServer(asynq.RedisClientOpt{Addr: f.redis.Addr()}, asynq.Config{
		Concurrency: 4, Queues: map[string]int{"mails": 1}, LogLevel: asynq.FatalLevel, ShutdownTimeout: time.Millisecond,
		TaskCheckInterval: 10 * time.Millisecond, DelayedTaskCheckInterval: 10 * time.Millisecond,
		RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return retryDelay },
	})
	testkit.Must(f.t, server.Start(handler))
	f.t.Cleanup(server.Shutdown)
}

// consume has DTS take deliveries from a queue until the test ends.
func (f *fleet) consume(name string) {
	f.t.Helper()
	ctx, stop := context.WithCancel(f.t.Context())
	ended := make(chan error, 1)
	consumer := queue.NewConsumer(queue.ConsumerOptions{
		DB: f.redis.DB(f.t), Node: "node-a", Name: "test", Concurrency: 1, Queues: map[string]int{name: 1}, Log: slog.New(slog.DiscardHandler),
	})
	go func() { ended <- consumer.Run(ctx) }()
	f.t.Cleanup(func() {
		stop()
		testkit.Must(f.t, testkit.Receive(f.t, ended, "the end of the consumer"))
	})
	testkit.Eventually(f.t, "asynq lists the consumer", func() bool {
		servers, err := f.inspector.Servers()
		return err == nil && len(servers) == 1
	})
}

// executor is one worker of DTS.
func (f *fleet) executor() *Executor {
	f.t.Helper()
	e, err := New(Options{Redis: f.redis.URL()})
	testkit.Must(f.t, err)
	f.t.Cleanup(func() { testkit.Must(f.t, e.Close()) })
	return e
}

// attempt is one of a task that is due at noon.
func attempt(payload string) *executortest.Recorder {
	r := executortest.NewRecorder(payload)
	r.Task.FirstDueAt = time.Date(2027, 1, 2, 12, 0, 0, 0, time.UTC)
	return r
}

// asynqID is the id of the asynq task of every attempt.
const asynqID = "dts:acme:job-1:1798891200000"

// ended is how an attempt ended.
type ended struct {
	result string
	err    error
}

// start executes an attempt in the background.
func start(ctx context.Context, e *Executor, a executor.Attempt) chan ended {
	c := make(chan ended, 1)
	go func() {
		result, err := e.Execute(ctx, a)
		c <- ended{result, err}
	}()
	return c
}

// state is what asynq's inspector says of the task; "" if there is none.
func (f *fleet) state() string {
	info, err := f.inspector.GetTaskInfo("mails", asynqID)
	if err != nil {
		return ""
	}
	return info.State.String()
}

func (f *fleet) reaches(state string) {
	f.t.Helper()
	testkit.Eventually(f.t, "the asynq task is "+state, func() bool { return f.state() == state })
}

const mail = `{"type": "email:send", "queue": "mails", "payload": {"to": "ada"}}`

// untilTold is a handler that runs until its context ends or it is told to end; it says when it has begun.
func untilTold() (_ asynq.HandlerFunc, begun chan string, tell chan error) {
	begun, tell = make(chan string, 10), make(chan error, 10)
	return func(ctx context.Context, t *asynq.Task) error {
		begun <- t.Type()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-tell:
			return err
		}
	}, begun, tell
}
