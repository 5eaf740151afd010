// Package asynqexec runs tasks of type asynq: it hands them to the workers of a fleet that uses asynq, and follows what becomes of them.
//
// The workers of that fleet know nothing of DTS. It is reached through asynq's own Client and Inspector; only to follow, which must cost
// little, the states of all tasks are read in one pipeline.
//
// The asynq task of a DTS task has the same id in all attempts that follow each other. So an attempt that begins after the worker of the
// one before has died finds the asynq task and follows it, and nothing is enqueued twice. For that, asynq keeps the outcome until DTS has
// recorded it.
package asynqexec

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/spf13/pflag"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/worker/executor"
)

// meetPause is how long nobody asks a Redis again that did not answer at first.
const meetPause = time.Second

// grace is how long a running asynq task may take to stop. Asynq's servers do not wait for the handler.
const grace = 5 * time.Second

// Describe describes the executor.
func Describe() *executor.Descriptor {
	s := &settings{}
	return &executor.Descriptor{
		Type:         "asynq",
		Timeout:      task.DefaultTimeout,
		CheckPayload: func(_ context.Context, payload json.RawMessage) error { _, err := parseOrder(payload); return err },
		OptIn:        "run tasks of type asynq: whoever may submit, may enqueue in any queue of asynq on that Redis",
		Settings:     s,
		New: func(o executor.Options) (executor.Executor, error) {
			if s.redis == "" { // which the node has met already
				return New(Options{Redis: o.Redis, Prefix: o.Prefix})
			}
			return New(Options{Redis: string(s.redis), Prefix: o.Prefix, Log: o.Log})
		},
	}
}

type settings struct{ redis config.URL }

func (s *settings) Declare(flags *pflag.FlagSet) {
	flags.Var(&s.redis, "asynq-redis", "Redis of the asynq workers to which tasks of type asynq go; if empty, that of DTS")
}

func (s *settings) Validate() error {
	if s.redis == "" {
		return nil
	}
	return s.redis.Validate("asynq-redis")
}

// Options says which fleet an executor serves, and for whom. Redis is required.
type Options struct {
	Redis  string // URL, as redisx.Options has it
	Prefix string // of the installation of DTS; "" means "dts"

	// Log is told if the Redis of the fleet does not answer at first, and when it does. nil: nobody asks it before the first task.
	Log *slog.Logger
}

// Executor hands tasks to asynq's workers. The result that a handler writes is the result of the attempt. An asynq task that is
// archived is a failure; asynq's own retries are not.
type Executor struct {
	db        *redisx.DB
	inspector *asynq.Inspector
	prefix    string
	poller    *poller
	consumers consumers
	stop      context.CancelFunc
	ended     sync.WaitGroup
}

// New makes an executor, which connects when the first task comes, or at once if it has a log. Close it at the end. Error: the URL is invalid.
func New(o Options) (*Executor, error) {
	db, err := redisx.New(redisx.Options{URL: o.Redis})
	if err != nil {
		return nil, err
	}
	e := &Executor{
		db: db, inspector: asynq.NewInspectorFromRedisClient(db.UniversalClient), prefix: cmp.Or(o.Prefix, "dts"), poller: newPoller(db),
	}
	e.consumers.list = e.inspector.Servers
	ctx, stop := context.WithCancel(context.Background())
	e.stop = stop
	e.ended.Go(func() { e.poller.run(ctx, e.remove) })
	if o.Log != nil {
		e.ended.Go(func() { e.meet(ctx, o.Log) })
	}
	return e, nil
}

// meet waits for the first answer of the Redis of the fleet, and says so if it does not come.
func (e *Executor) meet(ctx context.Context, log *slog.Logger) {
	err := e.db.Meet(ctx)
	if err == nil || ctx.Err() != nil {
		return
	}
	log.Warn("the Redis of the asynq fleet does not answer, or refuses: tasks of type asynq fail until it does", "error", err)
	for clock.Sleep(ctx, meetPause) == nil {
		if e.db.Meet(ctx) == nil {
			log.Info("the Redis of the asynq fleet answers")
			return
		}
	}
}

// Close stops following, and closes the connections.
func (e *Executor) Close() error {
	e.stop()
	e.ended.Wait()
	return e.db.Close()
}

// Endpoints are those of the Redis of the fleet.
func (e *Executor) Endpoints() []executor.Endpoint {
	return executor.RedisEndpoints("the Redis of the asynq fleet", e.db.Link().Servers())
}

// Discover looks which servers the Redis of the fleet has.
func (e *Executor) Discover(ctx context.Context) { e.db.Discover(ctx) }

// Grace is how long a running asynq task may take to stop.
func (e *Executor) Grace() time.Duration { return grace }

// locate returns where the asynq task of an attempt is. The time at which the first attempt was due tells the attempts until the task
// has ended from those after a client had it run again.
func (e *Executor) locate(o *order, a executor.Attempt) location {
	first := strconv.FormatInt(a.Task.FirstDueAt.UnixMilli(), 10)
	return location{o.queue, strings.Join([]string{e.prefix, a.Namespace, a.ID, first}, ":")}
}

// Execute has the task run and waits for its end.
func (e *Executor) Execute(ctx context.Context, a executor.Attempt) (string, error) {
	o, err := parseOrder(a.Payload)
	if err != nil {
		return "", err
	}
	if err := e.consumers.refuse(o.queue); err != nil {
		return "", err
	}
	at := e.locate(o, a)
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	said, err := e.handOver(ctx, o, at)
	if err != nil {
		return "", executor.Brief(err)
	}
	a.Log("stdout", fmt.Sprintf("asynq task %s in queue %q: %s", at.id, task.Cut(at.queue, nameLimit), said))
	result, err := e.await(ctx, at, a.Log)
	var end *archivedError
	if o.final && errors.As(err, &end) {
		err = executor.Permanent(err)
	}
	return result, executor.Brief(err)
}

// handOver makes sure that the asynq task is there and not archived, and says what it did. If Redis does not answer, that fails the
// attempt: the next one finds what this one enqueued. It does not stop when ctx ends, as it would not know then what it has done.
func (e *Executor) handOver(ctx context.Context, o *order, at location) (said string, err error) {
	const rounds = 3 // more are needed only while somebody else changes the task
	for range rounds {
		if err = e.enqueue(ctx, o, at); err == nil {
			return "enqueued", nil
		}
		if !errors.Is(err, asynq.ErrTaskIDConflict) {
			return "", err
		}
		if said, err = e.takeUp(ctx, o, at); err == nil {
			return said, nil
		}
	}
	return "", err
}

// enqueue enqueues the asynq task. Error: asynq.ErrTaskIDConflict if there is one already.
func (e *Executor) enqueue(ctx context.Context, o *order, at location) error {
	// A client remembers for ever which queues it has added to the list of queues, also those that were deleted meanwhile.
	client := asynq.NewClientFromRedisClient(e.db.UniversalClient)
	if _, err := client.EnqueueContext(context.WithoutCancel(ctx), o.task(ctx, at.id)); err != nil {
		return fmt.Errorf("cannot enqueue the asynq task: %w", err)
	}
	return nil
}

// takeUp goes on with an asynq task that an earlier attempt enqueued. One that is archived runs again. If the payload was changed after
// that attempt, the asynq task is replaced, unless it has begun.
func (e *Executor) takeUp(ctx context.Context, o *order, at location) (said string, err error) {
	info, err := e.inspector.GetTaskInfo(at.queue, at.id)
	if err != nil {
		return "", fmt.Errorf("cannot read the asynq task: %w", err)
	}
	begun := info.State == asynq.TaskStateActive || info.State == asynq.TaskStateCompleted
	switch same := o.describes(ctx, info); {
	case begun && !same:
		return "found, and " + info.State.String() + " with what was there before the task was changed", nil
	case !same:
		return e.replace(ctx, o, at, info.State)
	case info.State != asynq.TaskStateArchived:
		return "found, and " + info.State.String(), nil
	}
	if err := e.inspector.RunTask(at.queue, at.id); err != nil {
		return "", fmt.Errorf("cannot run the archived asynq task again: %w", err)
	}
	return "found archived, and run again", nil
}

// replace enqueues the asynq task anew. A worker whose attempt has ended must not do that: its order may be the older one.
func (e *Executor) replace(ctx context.Context, o *order, at location, state asynq.TaskState) (said string, err error) {
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if err := e.inspector.DeleteTask(at.queue, at.id); err != nil { // as when it has begun meanwhile
		return "", fmt.Errorf("cannot delete the asynq task from before the change: %w", err)
	}
	if err := e.enqueue(ctx, o, at); err != nil {
		return "", err
	}
	return "found " + state.String() + ", and replaced because the task was changed", nil
}

// Recorded deletes the asynq task, unless its payload says how long asynq keeps it.
func (e *Executor) Recorded(a executor.Attempt) {
	if o, err := parseOrder(a.Payload); err == nil && o.retention == 0 {
		e.poller.settle(e.locate(o, a))
	}
}
