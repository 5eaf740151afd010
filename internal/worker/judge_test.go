package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/worker/executor"
	"github.com/dts-sched/dts/internal/worker/executor/executortest"
)

func TestJudge_CallsTheOwnDeadlineATimeout(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		left time.Duration // until the deadline, when the executor returns
		err  error
		want task.Outcome
	}{
		"a socket with the deadline of ctx": {
			-time.Millisecond, fmt.Errorf("read: %w", os.ErrDeadlineExceeded), task.OutcomeTimeout,
		},
		"any failure after the deadline": {
			-time.Millisecond, errors.New("driver: bad connection"), task.OutcomeTimeout,
		},
		"a server whose clock runs faster": {
			30 * time.Millisecond, fmt.Errorf("call: %w", context.DeadlineExceeded), task.OutcomeTimeout,
		},
		"a failure short of the deadline": {
			30 * time.Millisecond, errors.New("boom"), task.OutcomeFailed,
		},
		"a shorter deadline of the handler": {
			time.Minute, fmt.Errorf("query: %w", context.DeadlineExceeded), task.OutcomeFailed,
		},
		"a final failure after the deadline": {
			-time.Millisecond, executor.Permanent(errors.New("boom")), task.OutcomeFailed,
		},
		"nobody needs it, after the deadline": {
			-time.Millisecond, executor.Cancelled(errors.New("sold out")), task.OutcomeCancelled,
		},
		"success, though after the deadline": {
			-time.Millisecond, nil, task.OutcomeSucceeded,
		},
		"a shorter deadline, in other's words": {
			time.Minute, os.ErrDeadlineExceeded, task.OutcomeFailed,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := judge(executortest.Late(t, c.left, errTimeout), time.Second, "", c.err); got.Outcome != c.want {
				t.Errorf("%v became %+v, want %s", c.err, got, c.want)
			}
		})
	}
}
