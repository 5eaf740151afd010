package worker

import (
	"context"
	"errors"
	"fmt"

	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
)

// share returns the token of the run for somebody else, who may end the attempt.
func (a *attempt) share() string {
	a.shared.Store(true)
	return a.run.Load().Token()
}

// endedByOther reports whether somebody to whom the token was given has ended the attempt; or it is lost, which is the same to this run.
func (a *attempt) endedByOther() bool {
	return a.shared.Load() && errors.Is(context.Cause(a.ctx), tasks.ErrStale)
}

// settleShared returns what is to become of the delivery of an attempt that somebody else has ended: nil, or queue.ErrDeadLetter if the
// task has failed for good.
func (a *attempt) settleShared(run *tasks.Run) error {
	a.w.o.Log.Debug("attempt was ended over the API, or is lost", "delivery", a.name)
	t, err := a.w.o.Store.Tasks.Find(a.work, run.Task.Ref)
	if err == nil && t.State == task.Failed && t.Run == run.Task.Run {
		return fmt.Errorf("%w: %s", queue.ErrDeadLetter, t.Error)
	}
	return nil
}
