package dts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/worker/executor"
)

// handlerGrace is how long a worker that stops waits for handlers that it has interrupted.
const handlerGrace = 10 * time.Second

// handlerExecutor is a Handler as an executor.
type handlerExecutor struct{ handle Handler }

// Grace is for the worker that stops. Nothing can end a handler that does not return.
func (handlerExecutor) Grace() time.Duration { return handlerGrace }

// Execute runs the handler.
func (e handlerExecutor) Execute(ctx context.Context, a executor.Attempt) (string, error) {
	r := newRun(a)
	value, err := e.guarded(context.WithValue(ctx, runKey{}, r), r)
	if err != nil {
		return "", verdictOf(err)
	}
	result, err := resultText(value)
	if err != nil {
		return "", executor.Permanent(err)
	}
	return result, nil
}

// guarded turns a panic into an error, and writes its stack to the task's log.
func (e handlerExecutor) guarded(ctx context.Context, r *run) (_ any, err error) {
	defer func() {
		if p := recover(); p != nil {
			stack := string(debug.Stack())
			for line := range strings.Lines(stack) {
				r.write("stderr", strings.TrimRight(line, "\n"))
			}
			err = fmt.Errorf("panic: %v\n%s", p, stack)
		}
	}()
	return e.handle(ctx, r.task)
}

// resultText returns what a handler returned as the result of the task. Error: it cannot be JSON.
func resultText(value any) (string, error) {
	var text string
	switch v := value.(type) {
	case nil:
		return "", nil
	case string:
		text = v
	case json.RawMessage:
		text = string(v)
	default:
		raw, err := rest.Encode(v)
		if err != nil {
			return "", fmt.Errorf("result: %w", err)
		}
		text = string(raw)
	}
	return task.Cut(strings.ToValidUTF8(text, "\uFFFD"), task.ResultLimit), nil
}

// verdictOf turns the error of a handler into one of an executor.
func verdictOf(err error) error {
	var v *verdict
	text := task.Cut(strings.ToValidUTF8(err.Error(), "\uFFFD"), task.ErrorLimit)
	cut := errors.New(text)
	switch {
	case errors.As(err, &v) && v.kind == permanent:
		return executor.Permanent(cut)
	case errors.As(err, &v) && v.kind == cancelled:
		return executor.Cancelled(cut)
	case errors.As(err, &v):
		return executor.RetryAfter(cut, v.wait)
	}
	return cut
}
