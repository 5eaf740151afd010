// Package executor runs attempts: it knows how to do the work of a task type, and nothing of queues or
// states.
//
// An executor bounds everything it reads from outside, in bytes and in time, and passes on only what fits
// the limits of package task. Whether an attempt that failed is made again is not its business, with one
// exception: a payload that no executor of its type can ever work with is an *InvalidPayloadError.
package executor

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"

	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
)

// Attempt is what an executor is to do, and where it reports to meanwhile.
type Attempt struct {
	task.Ref
	Number  int
	Type    string
	Payload json.RawMessage

	// Log takes a line of output, of stream "stdout" or "stderr". Lines come without their line end, as
	// valid UTF-8 of at most task.LogLineLimit bytes. It is called by several goroutines at once, and
	// whoever writes the output waits while it blocks. Progress takes 0 to 100. Both must be set, and
	// neither is called any more when Execute has returned.
	Log      func(stream, line string)
	Progress func(percent int)
}

// IdempotencyKey names the attempt for whoever does the work: "<namespace>:<task id>:<number>", the same
// as the id of its delivery. No other attempt has it.
func (a Attempt) IdempotencyKey() string {
	return a.Ref.String() + ":" + strconv.Itoa(a.Number)
}

// Tick is the nominal time that the attempt's task stands for, in RFC 3339 with ms, whenever it really runs; "" if no
// schedule created it.
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

// Executor does the work of one task type.
type Executor interface {
	// Execute does the work and returns its result, valid UTF-8 of at most task.ResultLimit bytes.
	//
	// When ctx ends first, the work is stopped, after a grace period of the executor's at most (and a
	// moment to pick up the last output), and the error wraps context.Cause(ctx), which says whether that
	// was a timeout, a cancellation or a shutdown. A cause that wraps ErrNoGrace stops the work at once.
	//
	// Errors: *InvalidPayloadError if the payload can never work; any other means that this attempt
	// failed. Texts of errors are at most task.ErrorLimit bytes long. With an error there is no result.
	Execute(ctx context.Context, a Attempt) (result string, err error)
}

// ErrNoGrace in the cause of a context's end means that the work has to be stopped at once: somebody else
// may be about to do it.
var ErrNoGrace = errors.New("stopped without grace")

// InvalidPayloadError says what is wrong with a payload. No further attempt can mend it.
type InvalidPayloadError struct {
	Field   string // as in "payload.url"; "payload" if it is wrong as a whole
	Message string // what would be right
}

func (e *InvalidPayloadError) Error() string {
	return task.Cut(e.Field+": "+e.Message, task.ErrorLimit)
}

// Registry holds a node's executors by the task type they work on.
type Registry map[string]Executor

// Types lists the registered types in alphabetical order.
func (r Registry) Types() []string { return slices.Sorted(maps.Keys(r)) }
