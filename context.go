package dts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/api"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/worker/executor"
)

// run is an attempt as its handler sees it.
type run struct {
	attempt executor.Attempt
	task    *Task
	log     *slog.Logger
}

type runKey struct{}

func newRun(a executor.Attempt) *run {
	r := &run{attempt: a, task: taskFrom(api.TaskOf(a.Task, nil))}
	r.log = slog.New(newLogHandler(r.write))
	return r
}

// write writes a line to the task's log.
func (r *run) write(stream, line string) {
	r.attempt.Log(stream, task.Cut(strings.ToValidUTF8(line, "\uFFFD"), task.LogLineLimit))
}

func runOf(ctx context.Context) *run {
	r, _ := ctx.Value(runKey{}).(*run)
	return r
}

// errOutside is the error of functions that need the context of a handler.
var errOutside = errors.New("dts: the context is not that of a handler")

// Current returns the task that a handler's context belongs to, nil for any other context. Its Attempt is the number of this attempt.
func Current(ctx context.Context) *Task {
	if r := runOf(ctx); r != nil {
		return r.task
	}
	return nil
}

// Logger returns a logger whose records are lines of the task's log, which [Client.Logs] and "dtsctl task logs" show. Records from warnings
// on go to the stream stderr, others to stdout. Outside of a handler, it is slog.Default().
func Logger(ctx context.Context) *slog.Logger {
	if r := runOf(ctx); r != nil {
		return r.log
	}
	return slog.Default()
}

// Progress tells how far the attempt is, in percent, and with what; note may be "". It returns at once: what comes too fast is left out, as is a
// report of less than 0 or more than 100.
// Outside of a handler, it does nothing.
func Progress(ctx context.Context, percent int, note string) {
	if r := runOf(ctx); r != nil {
		r.attempt.Progress(percent, note)
	}
}

// Moving returns a channel that is closed when the attempt is asked to move to another worker: by [Client.Move], by
// "dtsctl task move", or because its node is drained or stops. A handler that can go on elsewhere saves its checkpoint then, and
// returns [ErrMoved]. One that does not just goes on. Outside of a handler, the channel is nil: it is never closed.
func Moving(ctx context.Context) <-chan struct{} {
	if r := runOf(ctx); r != nil {
		return r.attempt.Moving
	}
	return nil
}

// checkpointTimeout is how long Redis may take to have a checkpoint.
const checkpointTimeout = 5 * time.Second

// SaveCheckpoint saves how far the work is, as JSON of at most 64 KiB, in place of any earlier checkpoint of the task. When it returns nil,
// the next attempt finds it by [LoadCheckpoint], on whatever node. It works for a while after ctx has ended, too: a handler that is told to stop can
// save where it was. Errors: the value is no JSON or too long; another attempt may run by now, so that this one should stop; Redis
// does not answer within 5 s; ctx is not that of a handler.
func SaveCheckpoint(ctx context.Context, value any) error {
	r := runOf(ctx)
	if r == nil {
		return errOutside
	}
	raw, err := wire.Encode(value)
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkpointTimeout)
	defer cancel()
	return r.attempt.Save(ctx, raw)
}

// LoadCheckpoint decodes the last checkpoint of an earlier attempt of the task into value, and reports whether there is one.
// Errors: it does not fit value; ctx is not that of a handler.
func LoadCheckpoint(ctx context.Context, value any) (bool, error) {
	r := runOf(ctx)
	switch {
	case r == nil:
		return false, errOutside
	case len(r.attempt.Checkpoint) == 0:
		return false, nil
	}
	if err := json.Unmarshal(r.attempt.Checkpoint, value); err != nil {
		return false, fmt.Errorf("checkpoint: cannot be decoded into %T: %w", value, err)
	}
	return true, nil
}
