// Package executor says what the executor of a task type is, and holds what is known of each type in one table.
//
// An executor does the work of one attempt and knows nothing of queues or states. Each one is a package of its own
// below this one, which exports Describe; package builtin lists them, and package payloads what programs need of them that only submit.
// To add a type, write such a package and add its line to both: settings, timeouts, checks of payloads and the worker all read the table.
//
// An executor bounds everything that it reads from outside, in bytes and in time, and what it makes of that in memory, by
// [Decode]. It returns only what fits the limits of package task. The task's retry policy decides whether a failed attempt is followed by another one, and when. An executor can only
// narrow that, by a [Verdict].
package executor

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
)

// Attempt says what an executor has to do, and where it reports to meanwhile.
type Attempt struct {
	task.Ref
	Number  int
	Type    string
	Payload json.RawMessage // nobody has looked whether it is JSON: Redis may have damaged it
	Task    task.Task       // as it was when the attempt began

	// Checkpoint is the newest one that an earlier attempt of the task saved, as compact JSON; nil if none did.
	Checkpoint json.RawMessage

	// Traceparent names the span of the attempt, for the services that it calls; "" for none. The context of Execute has
	// the span.
	Traceparent string

	// Log takes a line of output, of stream "stdout" or "stderr". Lines come without their line end, as valid UTF-8 of
	// at most task.LogLineLimit bytes. It may be called by several goroutines at once. It may block, and then whoever
	// writes the output waits. Progress takes 0 to 100, and what the attempt is at, for people: "" for nothing, cut at
	// task.ProgressNoteLimit.
	Log      func(stream, line string)
	Progress func(percent int, note string)

	// Save saves a checkpoint, JSON of at most task.CheckpointLimit bytes, for the attempts that follow this one, in place of an
	// earlier one. It returns once Redis has it, or when ctx ends. Errors: a *task.Error with task.CodeInvalid if it is not JSON or
	// too long; ErrNotCurrent; any other error means that it may not have been saved, and that it may be tried again.
	//
	// Token returns what somebody else can report on the attempt with, and end it, over the API. When that has happened, the context
	// of Execute ends.
	Token func() string

	// Moving is closed when the work is asked to move to another worker: Execute may save a checkpoint and return an error
	// that Moved has made. Else the work goes on. nil if nobody asks.
	Moving <-chan struct{}

	// Log, Progress, Save, SaveSoon and Token must be set, and none of them is called after Execute has returned.
	Save func(ctx context.Context, checkpoint json.RawMessage) error

	// SaveSoon takes a checkpoint whose saving nobody waits for, and returns at once. Of several, the newest is saved,
	// every 200 ms at most, and once more when Execute has returned. If that fails at last, the log says so. Error: a
	// *task.Error with task.CodeInvalid.
	SaveSoon func(checkpoint json.RawMessage) error
}

// IdempotencyKey names the work for whoever does it: "<namespace>:<task id>". It is the same for all attempts of a task, so that
// who has done the work can tell that another attempt asks for the same.
func (a Attempt) IdempotencyKey() string { return a.Ref.String() }

// Tick is the nominal time for which a schedule created the task, in RFC 3339 with milliseconds, whenever the task
// really runs; "" if no schedule created it.
func (a Attempt) Tick() string {
	_, name, ok := schedule.OfTask(a.Ref)
	if !ok {
		return ""
	}
	at, _, err := schedule.ParseTickName(name)
	if err != nil {
		return ""
	}
	return at.Format("2006-01-02T15:04:05.000Z")
}

// ParentJSON is how the task ended that this one follows, as one JSON object; nil if it follows none.
func (a Attempt) ParentJSON() []byte {
	if a.Task.Parent == nil {
		return nil
	}
	text, _ := json.Marshal(a.Task.Parent) // of texts and a number
	return text
}

// Executor does the work of one task type. It may be used by several goroutines at once.
//
// An executor that takes a grace period to stop has a method Grace() time.Duration, which returns its length. One that
// holds resources is an io.Closer. One that has a Redis of its own has a method
// Endpoints() []Endpoint, which returns where that listens, and may have Discover(ctx), which looks for servers that
// were added to it. One that must know when DTS has recorded a success is a Keeper.
type Executor interface {
	// Execute does the work and returns its result, valid UTF-8 of at most task.ResultLimit bytes.
	//
	// When ctx ends first, Execute stops the work, after its grace period at most (and a moment to read the last
	// output), and returns an error that wraps context.Cause(ctx), which is a timeout, a cancellation or a shutdown. If
	// the cause wraps ErrNoGrace, Execute stops the work at once.
	//
	// Errors: *InvalidPayloadError if no executor of the type can work with the payload, as it is no JSON, for example; *Verdict if the error says what
	// follows; any other error means that this attempt failed. Texts of errors are at most task.ErrorLimit bytes long. With an error there is no result.
	Execute(ctx context.Context, a Attempt) (result string, err error)
}

// ErrNotCurrent means that the attempt has ended, or that another run has it: whatever this run does is in vain. Its context is about
// to end.
var ErrNotCurrent = errors.New("this run is not current any more: its attempt has ended, or another run has it")

// Keeper is an executor that keeps the outcome of its work somewhere, so that another attempt finds it if this one's end cannot be recorded.
type Keeper interface {
	// Recorded is called when DTS has recorded that an attempt succeeded: no other one will look for the outcome. It returns at once.
	Recorded(a Attempt)
}

// Why the context of an attempt ended, in its cause.
var (
	// ErrTimeout means that the attempt's time is over.
	ErrTimeout = errors.New("timeout")
	// ErrCancelled means that somebody cancelled the task.
	ErrCancelled = errors.New("cancelled")
	// ErrShutdown means that the node shuts down: the attempt ends as interrupted, and another node makes the next one.
	ErrShutdown = errors.New("the node shut down")
)

// ErrNoGrace in the cause of a context's end means that the work must stop at once, because another node may be about
// to do it.
var ErrNoGrace = errors.New("stopped without grace")

// Registry holds a node's executors by the task type they run.
type Registry map[string]Executor

// Types lists the registered types in alphabetical order.
func (r Registry) Types() []string { return slices.Sorted(maps.Keys(r)) }

// Grace is the longest grace period of the executors: how long Execute may take to return after its context has ended.
func (r Registry) Grace() time.Duration {
	var longest time.Duration
	for _, e := range r {
		if g, ok := e.(interface{ Grace() time.Duration }); ok {
			longest = max(longest, g.Grace())
		}
	}
	return longest
}

// Endpoints are those of the executors: where what they use besides the parts of the installation listens.
func (r Registry) Endpoints() []Endpoint {
	var all []Endpoint
	for _, e := range r {
		if own, ok := e.(interface{ Endpoints() []Endpoint }); ok {
			all = append(all, own.Endpoints()...)
		}
	}
	return all
}

// Discover has the executors that have a Redis of their own look which servers it has, as Endpoints says afterwards.
func (r Registry) Discover(ctx context.Context) {
	for _, e := range r {
		if own, ok := e.(interface{ Discover(ctx context.Context) }); ok {
			own.Discover(ctx)
		}
	}
}

// Close closes the executors that hold resources. No attempt may run any more.
func (r Registry) Close() error {
	var failures []error
	for _, e := range r {
		if c, ok := e.(io.Closer); ok {
			failures = append(failures, c.Close())
		}
	}
	return errors.Join(failures...)
}
