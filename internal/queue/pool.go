package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

const (
	pollInterval  = 20 * time.Millisecond  // wait of an idle pool between two polls: asynq has no blocking take
	failurePause  = 200 * time.Millisecond // delay of a failed command: asynq would repeat it at once
	retryInterval = time.Second            // wait before a delivery whose handler returned an error is delivered again
)

// ErrDeadLetter is returned by a handler for the last delivery of a task that has failed for good: it has no attempts
// or no time left, or its payload is invalid. asynq then archives the delivery, so that its web UI shows the dead letters.
var ErrDeadLetter = errors.New("the task failed and has no attempts left")

// Handler handles one delivery. If it returns nil, asynq deletes the delivery; for ErrDeadLetter, asynq archives it;
// for any other error, asynq delivers it again after a second, at most deliveryRetries times.
type Handler func(ctx context.Context, ref task.Ref, attempt int) error

// PoolOptions describes a pool: one asynq server with its own concurrency and queues.
type PoolOptions struct {
	// DB must not be shared with other users: the pool delays its failed commands.
	DB          *redisx.DB
	Prefix      string         // prefix of the installation; "" means "dts"
	Name        string         // for logs and errors
	Concurrency int            // most deliveries handled at once
	Queues      map[string]int // weight by name: a queue of weight 6 is polled first twice as often as one of weight 3
	Handler     Handler
	Log         *slog.Logger
}

// Pool takes deliveries from its queues and passes them to its handler.
type Pool struct {
	o      PoolOptions
	server *asynq.Server
}

// NewPool returns a pool that is not started.
func NewPool(o PoolOptions) *Pool {
	log := o.Log.With("pool", o.Name)
	redisOutage := &outage{log: log}
	o.DB.AddHook(slowFailures{})
	o.DB.AddHook(redisOutage)
	weights := make(map[string]int, len(o.Queues))
	for name, weight := range o.Queues {
		weights[names(o.Prefix).asynq(name)] = weight
	}
	o.Queues = weights
	return &Pool{o: o, server: asynq.NewServerFromRedisClient(o.DB.UniversalClient, asynq.Config{
		Concurrency: o.Concurrency, Queues: o.Queues, TaskCheckInterval: pollInterval,
		RetryDelayFunc:           func(int, error, *asynq.Task) time.Duration { return retryInterval },
		DelayedTaskCheckInterval: retryInterval, // the default would add up to 5 s to the delay
		ShutdownTimeout:          time.Second,   // the worker has ended its attempts by then
		Logger:                   asynqLog{log, redisOutage},
		LogLevel:                 asynq.ErrorLevel, // at level warn, asynq logs every dead letter
	})}
}

// Start adds the pool's queues to asynq's list of queues and begins to take deliveries.
func (p *Pool) Start(ctx context.Context) error {
	sorted := slices.Sorted(maps.Keys(p.o.Queues))
	members := make([]any, len(sorted))
	for i, name := range sorted {
		members[i] = name
	}
	if err := p.o.DB.SAdd(ctx, string(lua.AsynqQueues), members...).Err(); err != nil {
		return fmt.Errorf("pool %s: %w", p.o.Name, err)
	}
	if err := p.server.Start(asynq.HandlerFunc(p.handle)); err != nil {
		return fmt.Errorf("pool %s: %w", p.o.Name, err)
	}
	return nil
}

// Quiesce stops taking deliveries. The handling of deliveries that were taken continues.
func (p *Pool) Quiesce() { p.server.Stop() }

// Shutdown stops the pool. Deliveries that are still handled after one second return to their queue. The pool's DB
// must be open until Shutdown has returned.
func (p *Pool) Shutdown() { p.server.Shutdown() }

// handle passes a delivery to the handler. asynq archives deliveries for which handle returns asynq.SkipRetry.
func (p *Pool) handle(ctx context.Context, t *asynq.Task) error {
	var r reference
	if err := json.Unmarshal(t.Payload(), &r); err != nil {
		return fmt.Errorf("the payload is not a reference to a task: %w: %w", err, asynq.SkipRetry)
	}
	err := p.o.Handler(ctx, task.Ref{Namespace: r.Namespace, ID: r.Task}, r.Attempt)
	if errors.Is(err, ErrDeadLetter) {
		return fmt.Errorf("%w: %w", err, asynq.SkipRetry)
	}
	return err
}

// slowFailures is a hook that delays failed commands by failurePause, because asynq polls again at once when a poll
// fails.
type slowFailures struct{}

func (slowFailures) DialHook(next redis.DialHook) redis.DialHook { return next }

func (slowFailures) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (slowFailures) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if err != nil && !errors.Is(err, redis.Nil) && !redis.HasErrorPrefix(err, "NOSCRIPT") {
			_ = clock.Sleep(ctx, failurePause)
		}
		return err
	}
}

// asynqLog writes asynq's messages to the log of DTS. Messages that only repeat that Redis is unreachable have level
// debug.
type asynqLog struct {
	log    *slog.Logger
	outage *outage
}

func (l asynqLog) Debug(args ...any) { l.log.Debug(fmt.Sprint(args...)) }
func (l asynqLog) Info(args ...any)  { l.log.Debug(fmt.Sprint(args...)) }
func (l asynqLog) Warn(args ...any)  { l.log.Warn(fmt.Sprint(args...)) }
func (l asynqLog) Fatal(args ...any) { l.log.Error(fmt.Sprint(args...)) }

func (l asynqLog) Error(args ...any) {
	message := fmt.Sprint(args...)
	if l.outage.repeats(message) {
		l.log.Debug(message)
		return
	}
	l.log.Error(message)
}
