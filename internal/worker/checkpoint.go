package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/worker/executor"
)

// saveTime is how long saving a checkpoint may take that nobody waits for. It is not bound to the end of the attempt's
// time: a command that is told to stop may save one.
const saveTime = 5 * time.Second

// save saves a checkpoint for the attempts that follow. If another run has the attempt, it stops the work.
func (a *attempt) save(ctx context.Context, checkpoint json.RawMessage) error {
	err := a.run.Load().Save(ctx, checkpoint)
	if errors.Is(err, tasks.ErrStale) {
		a.lose(err)
		return fmt.Errorf("%w (%w)", executor.ErrNotCurrent, err)
	}
	return err
}

// saveLate saves a checkpoint that was reported some time ago, unless the run is lost meanwhile.
func (a *attempt) saveLate(ctx context.Context, checkpoint json.RawMessage) error {
	if errors.Is(context.Cause(a.ctx), executor.ErrNoGrace) {
		return executor.ErrNotCurrent
	}
	ctx, cancel := context.WithTimeout(ctx, saveTime)
	defer cancel()
	return a.save(ctx, checkpoint)
}

// saveSoon takes a checkpoint, which replaces one that is not saved yet. Error: CodeInvalid.
func (l *lines) saveSoon(checkpoint json.RawMessage) error {
	compact, err := task.CompactCheckpoint(checkpoint)
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.unsaved = compact
	l.mu.Unlock()
	l.wake()
	return nil
}

// sendCheckpoint saves the newest checkpoint. One that Redis does not take is sent again with the next flush, unless
// there is a newer one by then. After the last flush, the log says that it is lost.
func (l *lines) sendCheckpoint(ctx context.Context, last bool) {
	l.mu.Lock()
	checkpoint := l.unsaved
	l.unsaved = nil
	l.mu.Unlock()
	if checkpoint == nil {
		return
	}
	err := l.save(ctx, checkpoint)
	switch {
	case err == nil || errors.Is(err, executor.ErrNotCurrent):
	case last:
		l.add("stderr", task.Cut("the last checkpoint was not saved: "+err.Error(), task.LogLineLimit))
	default:
		l.keepUnsaved(checkpoint)
		l.wake()
	}
}

// keepUnsaved keeps a checkpoint that could not be saved, unless there is a newer one.
func (l *lines) keepUnsaved(checkpoint json.RawMessage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unsaved == nil {
		l.unsaved = checkpoint
	}
}
