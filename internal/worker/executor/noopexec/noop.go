// Package noopexec runs tasks of type noop, which do nothing. They are for tests and benchmarks of DTS itself.
package noopexec

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/worker/executor"
)

// Describe describes the executor.
func Describe() *executor.Descriptor {
	return &executor.Descriptor{
		Type:         "noop",
		Timeout:      task.DefaultTimeout,
		CheckPayload: func(_ context.Context, payload json.RawMessage) error { _, err := parsePlan(payload); return err },
		New:          func(executor.Options) (executor.Executor, error) { return Executor{}, nil },
	}
}

// Executor succeeds at once, with an empty result, unless the payload says otherwise.
type Executor struct{}

// Execute waits and fails as the payload says. There is no grace period: it gives up as soon as ctx ends.
func (Executor) Execute(ctx context.Context, a executor.Attempt) (string, error) {
	p, err := parsePlan(a.Payload)
	if err != nil {
		return "", err
	}
	if clock.Sleep(ctx, p.sleep) != nil {
		return "", context.Cause(ctx)
	}
	if p.fail != "" {
		return "", errors.New(task.CutError(p.fail, task.ErrorLimit))
	}
	return "", nil
}

// plan is the payload of a noop task: {sleep?, fail?}.
type plan struct {
	sleep time.Duration // before the attempt ends
	fail  string        // the error with which the attempt fails; "" if it succeeds
}

// parsePlan reads a payload. Error: *executor.InvalidPayloadError.
func parsePlan(payload json.RawMessage) (plan, error) {
	var p plan
	sleep := "0s"
	err := executor.DecodePayload(payload, map[string]executor.Field{
		"sleep": {Into: &sleep, Want: "a string"},
		"fail":  {Into: &p.fail, Want: "a string"},
	})
	if err != nil {
		return plan{}, err
	}
	p.sleep, err = time.ParseDuration(sleep)
	if err != nil || p.sleep < 0 {
		return plan{}, executor.Invalid("sleep", "%q must be a duration from 0 on, such as 10ms", sleep)
	}
	return p, nil
}
