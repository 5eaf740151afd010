package dts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
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
		return "", executor.Brief(err)
	}
	result, err := resultText(value)
	if err != nil {
		return "", executor.Permanent(err)
	}
	return result, nil
}

// guarded turns a panic into an error, and writes its stack to the task's log. The handler has a goroutine of its own, which it may end.
func (e handlerExecutor) guarded(ctx context.Context, r *run) (value any, err error) {
	ended := make(chan struct{})
	err = errors.New("the handler ended its goroutine (runtime.Goexit)")
	go func() {
		defer close(ended)
		defer func() {
			if p := recover(); p != nil {
				err = panicked(p, r)
			}
		}()
		value, err = e.handle(ctx, r.task)
	}()
	<-ended
	return value, err
}

// panicked returns the error of a panic, and writes the stack to the task's log.
func panicked(p any, r *run) error {
	_, stack, _ := strings.Cut(string(debug.Stack()), "\npanic(") // what comes before is of this package
	_, stack, _ = strings.Cut(stack, "\n")
	_, stack, _ = strings.Cut(stack, "\n")
	for line := range strings.Lines(stack) {
		r.write("stderr", strings.TrimRight(line, "\n"))
	}
	if err, ok := p.(error); ok {
		return fmt.Errorf("panic: %w\n%s", err, stack)
	}
	return fmt.Errorf("panic: %v\n%s", p, stack)
}

// resultText returns what a handler returned as the result of the task. Error: it cannot be JSON, or its JSON is too long.
func resultText(value any) (string, error) {
	var text string
	switch v := value.(type) {
	case nil:
		return "", nil
	case string:
		text = v
	case []byte:
		text = string(v)
	case json.RawMessage:
		return fitting(v)
	default:
		raw, err := wire.Encode(v)
		if err != nil {
			return "", fmt.Errorf("result: %w", err)
		}
		return fitting(raw)
	}
	return task.Cut(strings.ToValidUTF8(text, "\uFFFD"), task.ResultLimit), nil
}

// fitting returns JSON as it is: a part of it would be none.
func fitting(raw json.RawMessage) (string, error) {
	if len(raw) > task.ResultLimit {
		return "", fmt.Errorf("result: is %d bytes long, at most %d are allowed", len(raw), task.ResultLimit)
	}
	return string(raw), nil
}
