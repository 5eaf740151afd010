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
	pollInterval  = 20 * time.Millisecond  // how long an idle pool waits before it looks again: asynq has no blocking take
	failurePause  = 200 * time.Millisecond // how long a command that failed is held up: asynq would repeat it at once
	retryInterval = time.Second            // how long a delivery waits whose handler could not reach Redis
)

// ErrDeadLetter is what a handler returns for the last delivery of a task that failed for good: asynq then
// archives it, so that its web UI shows the dead letters.
var ErrDeadLetter = errors.New("the task has failed for good")

// Handler works on one delivery. nil: the delivery is done with. ErrDeadLetter: it is archived. Any other error:
// it is delivered again after a while.
type Handler func(ctx context.Context, ref task.Ref, attempt int) error

// PoolOptions describes a pool: one asynq server with its own concurrency and queues.
type PoolOptions struct {
	// DB is for this pool alone: commands that fail on it are slowed down.
	DB          *redisx.DB
	Prefix      string // of the installation; "" means "dts"
	Name        string
	Concurrency int
	Queues      map[string]int // weights: a queue of weight 6 is looked at first twice as often as one of 3
	Handler     Handler
	Log         *slog.Logger
}

// Pool takes deliveries from its queues and gives them to its handler, Concurrency at a time.
type Pool struct {
	o      PoolOptions
	server *asynq.Server
}

// NewPool prepares a pool.
func NewPool(o PoolOptions) *Pool {
	o.DB.AddHook(slowFailures{})
	log := o.Log.With("pool", o.Name)
	weights := make(map[string]int, len(o.Queues))
	for name, weight := range o.Queues {
		weights[names(o.Prefix).asynq(name)] = weight
	}
	o.Queues = weights
	return &Pool{o: o, server: asynq.NewServerFromRedisClient(o.DB.UniversalClient, asynq.Config{
		Concurrency: o.Concurrency, Queues: o.Queues, TaskCheckInterval: pollInterval,
		RetryDelayFunc:           func(int, error, *asynq.Task) time.Duration { return retryInterval },
		DelayedTaskCheckInterval: retryInterval,                             // with its default, what is to be tried again waits for up to 5 s more
		ShutdownTimeout:          time.Second,                               // the worker has seen to its own attempts by then
		Logger:                   asynqLog{log}, LogLevel: asynq.ErrorLevel, // at level warn it tells of every dead letter
	})}
}

// Start makes the pool's queues known and begins to take deliveries.
func (p *Pool) Start(ctx context.Context) error {
	names := slices.Sorted(maps.Keys(p.o.Queues))
	members := make([]any, len(names))
	for i, name := range names {
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

// Quiesce stops taking deliveries; those that were taken go on.
func (p *Pool) Quiesce() { p.server.Stop() }

// Shutdown ends the pool. What is still being worked on after a second goes back to its queue.
// The pool's DB must be open until Shutdown has returned.
func (p *Pool) Shutdown() { p.server.Shutdown() }

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

// slowFailures holds up commands that Redis could not or would not carry out, because asynq repeats a take that
// failed without a pause.
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

// asynqLog lets asynq write into DTS's log.
type asynqLog struct{ log *slog.Logger }

func (l asynqLog) Debug(args ...any) { l.log.Debug(fmt.Sprint(args...)) }
func (l asynqLog) Info(args ...any)  { l.log.Debug(fmt.Sprint(args...)) }
func (l asynqLog) Warn(args ...any)  { l.log.Warn(fmt.Sprint(args...)) }
func (l asynqLog) Error(args ...any) { l.log.Error(fmt.Sprint(args...)) }
func (l asynqLog) Fatal(args ...any) { l.log.Error(fmt.Sprint(args...)) }
