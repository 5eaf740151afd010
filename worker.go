package dts

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/dts-sched/dts/internal/app"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/worker/executor"
)

// Handler does the work of one attempt of a task. What it returns becomes the result of the task, at most 16 KiB: a string or
// a []byte as it is, anything else as JSON, which must not be longer, nil as no result. An error means that the attempt failed, and [Permanent],
// [RetryAfter], [Snooze], [ErrMoved] and [Cancelled] say what follows; otherwise the task's Retry does.
//
// ctx ends when the timeout of the attempt is over, somebody cancels the task, or the worker stops; context.Cause says which:
// [ErrTimeout], [ErrCancelled] or [ErrShutdown]. Then a Handler should return soon: the worker waits for it, and counts it in its concurrency.
type Handler func(ctx context.Context, t *Task) (result any, err error)

// WorkerOptions says where a worker finds its tasks, and how many it runs. Redis is required.
type WorkerOptions struct {
	Redis       string         // URL, as dtsd's setting redis: redis://, unix://, redis+sentinel:// or redis+cluster://, or with rediss for TLS
	Prefix      string         // of all keys in Redis; "" means "dts"
	Name        string         // in the list of nodes, the same after a restart; "" means the name of the machine
	Version     string         // of your program, in the list of nodes
	Concurrency int            // attempts at once; 0 means twice the number of processors, at least 10
	Queues      map[string]int // queues to serve and their weights; nil means critical=6, default=3, low=1
	// Labels say what is particular about the worker, in the list of nodes: at most 32, names and values of at most 63 of
	// A-Z a-z 0-9 . _ - /. No name is id, name, host, version or role.
	Labels map[string]string
	// DrainTimeout is how long running attempts may go on when the worker stops; 0 means 30 s. Those that take longer are interrupted,
	// and run again elsewhere with their checkpoint: the attempt does not count. Handlers that do not return then hold up Run for another 15 s.
	DrainTimeout time.Duration
	// OutageTolerance is how long running attempts may go on while Redis cannot be reached; 0 means a minute. If only this worker cannot
	// reach it, another one may begin the next attempt of a task after three seconds. A negative value stops them before that.
	OutageTolerance time.Duration
	// Durability is dtsd's setting of that name, such as "wait=1": what the begin of an attempt waits for that must be the only one; "" means
	// none.
	Durability string
	// Lead has the worker lead partitions as well, so that a fleet of such workers needs no dtsd.
	Lead   bool
	Logger *slog.Logger // nil means slog.Default()
	// TracerProvider takes the spans of attempts and, of a worker that leads, of hand-overs. The context of a handler has the
	// span of its attempt. Tasks have spans if their submission was traced. nil means none.
	TracerProvider trace.TracerProvider
}

// Worker runs the tasks of some types, as a node of the fleet. Add handlers, then call Run.
type Worker struct {
	options    WorkerOptions
	handlers   map[string]Handler
	middleware []func(Handler) Handler
	ready      chan struct{}
	ran        atomic.Bool
}

// NewWorker returns a worker without handlers. It does nothing before Run.
func NewWorker(o WorkerOptions) *Worker {
	return &Worker{options: o, handlers: make(map[string]Handler), ready: make(chan struct{})}
}

// Handle has a worker run tasks of a type with a function, which gets the payload decoded into A. A payload that cannot be decoded fails
// the task for good; fields of it that A does not have are left out. It panics if the type is invalid, is TypeWorkflow, or has a handler already.
func Handle[A any](w *Worker, taskType string, handle func(ctx context.Context, args A) error) {
	HandleResult(w, taskType, func(ctx context.Context, args A) (any, error) { return nil, handle(ctx, args) })
}

// HandleResult is Handle for functions that return a result.
func HandleResult[A, R any](w *Worker, taskType string, handle func(ctx context.Context, args A) (R, error)) {
	w.add(taskType, func(ctx context.Context, t *Task) (any, error) {
		var args A
		if len(t.Payload) > 0 {
			if err := json.Unmarshal(t.Payload, &args); err != nil {
				return nil, Permanent(fmt.Errorf("payload: cannot be decoded into %T: %w", args, err))
			}
		}
		return handle(ctx, args)
	})
}

// Handle has the worker run tasks of a type with a Handler. A payload that is no JSON, as Redis has damaged it, fails the
// task for good. It panics if the type is invalid or has a handler already.
func (w *Worker) Handle(taskType string, h Handler) {
	if h == nil {
		panic(fmt.Sprintf("dts: the handler of type %q is nil", taskType))
	}
	w.add(taskType, func(ctx context.Context, t *Task) (any, error) {
		if len(t.Payload) > 0 && !json.Valid(t.Payload) {
			return nil, Permanent(errors.New("payload: is not JSON"))
		}
		return h(ctx, t)
	})
}

// add is Handle for a Handler that fails if the payload is no JSON.
func (w *Worker) add(taskType string, h Handler) {
	if err := task.ValidateType(taskType); err != nil {
		panic("dts: " + err.Error())
	}
	if taskType == TypeWorkflow {
		panic(`dts: type "workflow" is of runs of workflows, which leaders carry on: a handler needs another type`)
	}
	if w.handlers[taskType] != nil {
		panic(fmt.Sprintf("dts: type %q has a handler already", taskType))
	}
	w.handlers[taskType] = h
}

// Use wraps all handlers of the worker; of several wrappers, the first is the outermost.
func (w *Worker) Use(wrap ...func(Handler) Handler) { w.middleware = append(w.middleware, wrap...) }

// Ready is closed when the worker takes tasks; never, if Run fails before.
func (w *Worker) Ready() <-chan struct{} { return w.ready }

// Run runs tasks until ctx ends. Then it takes no more, lets running attempts go on for up to DrainTimeout, reports how they ended,
// leaves the fleet and returns nil. Once it has connected to Redis, it cannot be called again. A Redis that does not answer is waited for, at
// the start as well as later. Errors: CodeInvalid for an option, without handlers, and when it is called again; CodeUnavailable if Redis
// cannot be used, as with a wrong password, or holds other data.
func (w *Worker) Run(ctx context.Context) error {
	settings, err := w.options.settings()
	if err != nil {
		return &Error{Code: CodeInvalid, Message: err.Error(), Err: err}
	}
	switch {
	case len(w.handlers) == 0:
		return &Error{Code: CodeInvalid, Message: "the worker has no handlers: add some with dts.Handle"}
	case w.ran.Load():
		return &Error{Code: CodeInvalid, Message: "the worker has run already: make another one"}
	case ctx.Err() != nil:
		return nil
	}
	node, err := app.NewHeadless(ctx, app.Options{
		Config: settings, Executors: w.executors(), Version: w.options.Version, Log: cmp.Or(w.options.Logger, slog.Default()),
		Traces: func(string, *slog.Logger) (trace.TracerProvider, func() error, error) {
			return w.options.TracerProvider, nil, nil
		},
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return nil
	case err != nil:
		return &Error{Code: CodeUnavailable, Message: err.Error(), Err: err}
	}
	w.ran.Store(true)
	ended, end := context.WithCancel(ctx)
	defer end()
	go func() {
		select {
		case <-node.Ready():
			close(w.ready)
		case <-ended.Done():
		}
	}()
	return node.Run(ctx)
}

// settings returns the options as dtsd's settings. Error: an option is invalid.
func (o WorkerOptions) settings() (config.Config, error) {
	c := config.Default()
	c.Redis, c.Prefix, c.NodeName = config.URL(o.Redis), cmp.Or(o.Prefix, c.Prefix), o.Name
	c.Concurrency, c.DrainTimeout = cmp.Or(o.Concurrency, c.Concurrency), cmp.Or(o.DrainTimeout, c.DrainTimeout)
	c.OutageTolerance = max(cmp.Or(o.OutageTolerance, c.OutageTolerance), 0)
	if o.Durability != "" {
		if err := c.Durability.Set(o.Durability); err != nil {
			return c, fmt.Errorf("durability: %w", err)
		}
	}
	if o.Queues != nil {
		c.Queues = config.Queues(maps.Clone(o.Queues))
	}
	c.Labels = maps.Clone(o.Labels)
	c.Roles = config.Roles{config.RoleWorker}
	if o.Lead {
		c.Roles = append(c.Roles, config.RoleScheduler)
	}
	if o.Redis == "" {
		return c, errors.New("redis: is required, such as redis://127.0.0.1:6379/0")
	}
	return c, c.Validate()
}

// executors returns the handlers, in their middleware, as the executors of a node.
func (w *Worker) executors() executor.Table {
	var table executor.Table
	for taskType, handle := range w.handlers {
		for i := len(w.middleware) - 1; i >= 0; i-- {
			handle = w.middleware[i](handle)
		}
		table = append(table, &executor.Descriptor{
			Type: taskType, Timeout: task.DefaultTimeout,
			New: func(executor.Options) (executor.Executor, error) { return handlerExecutor{handle}, nil },
		})
	}
	return table
}
