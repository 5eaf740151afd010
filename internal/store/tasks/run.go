package tasks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// Errors of a worker that may not begin an attempt or report on it.
var (
	// ErrLeftover is returned if the attempt of a delivery cannot begin any more. The delivery can be dropped.
	ErrLeftover = errors.New("the task is not queued for this attempt")
	// ErrStale is returned if the attempt has ended or another run has it. Nothing was written.
	ErrStale = errors.New("the attempt has ended or another run has it")
	// ErrCancelled is returned if the task was asked to stop: its attempt must end as cancelled.
	ErrCancelled = errors.New("the task was asked to stop")
)

// Run is an attempt that this worker began. Every script of a report compares the run token in Task with the one in
// Redis, so only the holder of the token can report.
type Run struct {
	s    *Tasks
	keys lua.Partition
	Task task.Task
}

// Begin starts an attempt on a node. run is a token that the caller makes for this call: the same call sent again
// succeeds, a call with another token does not. Errors: ErrLeftover, if the task is not queued for that attempt; or an
// error of Redis, after which the attempt may have begun.
func (s *Tasks) Begin(ctx context.Context, ref task.Ref, attempt int, node, run string) (*Run, error) {
	k := s.l.KeysOf(ref)
	reply, err := redisx.Run(ctx, s.l.DB, lua.Begin{
		Task: k.Task(ref), Queued: k.Queued(), InFlight: k.InFlight(), Running: k.Running(),
		Member: ref, Attempt: attempt, Node: lua.NodeID(node), Run: lua.RunToken(run), Events: s.l.Keys.Events(),
	})
	var refusal *redisx.Refusal
	if errors.As(err, &refusal) {
		return nil, fmt.Errorf("task %s, attempt %d: %w: %s", ref, attempt, ErrLeftover, refusal.Code)
	}
	if err != nil {
		return nil, err
	}
	t, err := codec.DecodeTask(ref, reply.Task)
	if err != nil {
		return nil, err
	}
	return &Run{s: s, keys: k, Task: t}, nil
}

// RunOf returns the run whose token is t.Run, without a call to Redis.
func (s *Tasks) RunOf(t task.Task) *Run { return &Run{s: s, keys: s.l.KeysOf(t.Ref), Task: t} }

// Finish reports that the attempt ended with outcome o and that the task ends in the state end. result and reason (the
// error) are cut to their limits. Errors: ErrStale; ErrCancelled, if end is Failed and the task was asked to stop; or an
// error of Redis.
func (r *Run) Finish(ctx context.Context, end task.State, o task.Outcome, result, reason string) error {
	t := r.Task
	reply, err := redisx.Run(ctx, r.s.l.DB, lua.Finish{
		Task: r.keys.Task(t.Ref), Running: r.keys.Running(), Attempts: r.keys.Attempts(t.Ref),
		Index: r.keys.Index(t.Namespace, end), Expiry: r.keys.Expiry(),
		Member: t.Ref, Attempt: t.Attempt, Run: lua.RunToken(t.Run), State: end, Outcome: o,
		Result: task.Cut(result, task.ResultLimit), Reason: task.Cut(reason, task.ErrorLimit),
		Retention: t.EffectiveRetention(end), Events: r.s.l.Keys.Events(), Wake: r.s.l.Keys.Wake(),
	})
	r.s.WarnIfPaused(ctx, t.Ref, reply.Paused)
	return r.reportError(err)
}

// Reattempt reports that the attempt ended with outcome o and that the next one is due after delay. reason (the error) is
// cut to its limit. Errors: ErrStale, ErrCancelled, or an error of Redis.
func (r *Run) Reattempt(ctx context.Context, delay time.Duration, o task.Outcome, reason string) error {
	t := r.Task
	_, err := redisx.Run(ctx, r.s.l.DB, lua.Reattempt{
		Task: r.keys.Task(t.Ref), Running: r.keys.Running(), Attempts: r.keys.Attempts(t.Ref), Wheel: r.keys.Wheel(),
		Member: t.Ref, Attempt: t.Attempt, Run: lua.RunToken(t.Run), Delay: delay, Outcome: o,
		Reason: task.Cut(reason, task.ErrorLimit), Events: r.s.l.Keys.Events(), Wake: r.s.l.Keys.Wake(),
	})
	return r.reportError(err)
}

// Progress reports the attempt's progress in percent. Errors: ErrStale, CodeInvalid, CodeUnavailable.
func (r *Run) Progress(ctx context.Context, percent int) error {
	err := r.s.progress(ctx, r.Task.Ref, r.Task.Attempt, lua.RunToken(r.Task.Run), percent)
	switch task.CodeOf(err) {
	case task.CodeTaskNotFound, task.CodeNotRunning, task.CodeStaleAttempt:
		return fmt.Errorf("task %s: %w", r.Task.Ref, ErrStale)
	}
	return err
}

// Line is one line of output to log.
type Line struct {
	Stream string // stdout or stderr
	Text   string
}

// Log appends lines to the task's log. first is the number of the first line within this attempt, from 1; lines that the
// log has already are not appended again. Errors: ErrStale, or an error of Redis.
func (r *Run) Log(ctx context.Context, first int, lines []Line) error {
	t := r.Task
	written := make([]lua.LogLine, len(lines))
	for i, l := range lines {
		written[i] = lua.LogLine(l)
	}
	_, err := redisx.Run(ctx, r.s.l.DB, lua.Log{
		Task: r.keys.Task(t.Ref), Log: r.keys.Log(t.Ref), Member: t.Ref, Attempt: t.Attempt, Run: lua.RunToken(t.Run),
		First: first, Events: r.s.l.Keys.Events(), Lines: written,
	})
	return r.reportError(err)
}

// CancelRequested reads whether the task was asked to stop, for a worker that may have missed the message. Error: one of
// Redis.
func (r *Run) CancelRequested(ctx context.Context) (bool, error) {
	return r.s.l.DB.HExists(ctx, string(r.keys.Task(r.Task.Ref)), "cancel").Result()
}

// reportError translates the refusal of a report: ErrCancelled or ErrStale. Other errors stay as they are.
func (r *Run) reportError(err error) error {
	var refusal *redisx.Refusal
	switch {
	case !errors.As(err, &refusal):
		return err
	case refusal.Code == lua.CodeCancelled:
		return fmt.Errorf("task %s: %w", r.Task.Ref, ErrCancelled)
	}
	return fmt.Errorf("task %s, attempt %d: %w: %s", r.Task.Ref, r.Task.Attempt, ErrStale, refusal.Code)
}

// ListenStops calls stop for every attempt that is asked to stop, until ctx ends; then it returns nil. It calls connected
// whenever the subscription is established: earlier requests may have been missed (see CancelRequested).
func (s *Tasks) ListenStops(ctx context.Context, connected func(), stop func(ref task.Ref, attempt int)) error {
	onMessage := func(_, payload string) {
		if ref, attempt, err := task.ParseDelivery(payload); err == nil {
			stop(ref, attempt)
		}
	}
	return s.l.DB.Listen(ctx, redisx.Listener{Connected: connected, Message: onMessage}, string(s.l.Keys.Control()))
}
