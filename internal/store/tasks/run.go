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

// What a worker is told when an attempt is not its to begin or to report on.
var (
	// ErrLeftover: the delivery has no attempt to begin any more; it is harmless and can be dropped.
	ErrLeftover = errors.New("the attempt is not there to be begun")
	// ErrStale: the attempt is not this run's any more; what it says is refused.
	ErrStale = errors.New("the attempt belongs to somebody else, or has ended")
	// ErrCancelled: the task was asked to stop, so its attempt must end as cancelled.
	ErrCancelled = errors.New("the task was asked to stop")
)

// Run is one attempt that this worker began. Only its holder can report on the attempt: every script compares
// the run token.
type Run struct {
	s    *Tasks
	keys lua.Partition
	Task task.Task
}

// Begin starts an attempt for a node. run is a token made for this very call: a resent call is let through
// again, any other is not. Error: ErrLeftover, if the task is not queued for that attempt.
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

// RunOf returns the run that t.Run names, for a worker that knows its token and did not get it from Begin.
func (s *Tasks) RunOf(t task.Task) *Run { return &Run{s: s, keys: s.l.KeysOf(t.Ref), Task: t} }

// Finish reports the attempt's end, and the task's with it. Errors: ErrStale; ErrCancelled, if it failed after
// the task had been asked to stop.
func (r *Run) Finish(ctx context.Context, end task.State, o task.Outcome, result, reason string) error {
	t := r.Task
	reply, err := redisx.Run(ctx, r.s.l.DB, lua.Finish{
		Task: r.keys.Task(t.Ref), Running: r.keys.Running(), Attempts: r.keys.Attempts(t.Ref),
		Index: r.keys.Index(t.Namespace, end), Expiry: r.keys.Expiry(),
		Member: t.Ref, Attempt: t.Attempt, Run: lua.RunToken(t.Run), State: end, Outcome: o,
		Result: task.Cut(result, task.ResultLimit), Error: task.Cut(reason, task.ErrorLimit),
		Retention: t.EffectiveRetention(end), Events: r.s.l.Keys.Events(), Wake: r.s.l.Keys.Wake(),
	})
	r.s.WarnOfPause(ctx, t.Ref, reply.Paused)
	return r.verdict(err)
}

// Reattempt reports the attempt's end, with the next one due after delay. Errors: ErrStale, ErrCancelled.
func (r *Run) Reattempt(ctx context.Context, delay time.Duration, o task.Outcome, reason string) error {
	t := r.Task
	_, err := redisx.Run(ctx, r.s.l.DB, lua.Reattempt{
		Task: r.keys.Task(t.Ref), Running: r.keys.Running(), Attempts: r.keys.Attempts(t.Ref), Wheel: r.keys.Wheel(),
		Member: t.Ref, Attempt: t.Attempt, Run: lua.RunToken(t.Run), Delay: delay, Outcome: o,
		Error: task.Cut(reason, task.ErrorLimit), Events: r.s.l.Keys.Events(), Wake: r.s.l.Keys.Wake(),
	})
	return r.verdict(err)
}

// Progress reports how far the attempt is, in percent. Errors: ErrStale, CodeInvalid.
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

// Log appends lines; first is the number of the first one in this attempt, from 1. Error: ErrStale.
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
	return r.verdict(err)
}

// CancelRequested asks Redis whether the task was told to stop: for a worker that may have missed the message.
func (r *Run) CancelRequested(ctx context.Context) (bool, error) {
	return r.s.l.DB.HExists(ctx, string(r.keys.Task(r.Task.Ref)), "cancel").Result()
}

func (r *Run) verdict(err error) error {
	var refusal *redisx.Refusal
	switch {
	case !errors.As(err, &refusal):
		return err
	case refusal.Code == lua.CodeCancelled:
		return fmt.Errorf("task %s: %w", r.Task.Ref, ErrCancelled)
	}
	return fmt.Errorf("task %s, attempt %d: %w: %s", r.Task.Ref, r.Task.Attempt, ErrStale, refusal.Code)
}

// Stops tells of attempts that were asked to stop, until ctx ends. connected is called whenever the
// subscription stands: what was asked before may have been missed (see CancelRequested).
func (s *Tasks) Stops(ctx context.Context, connected func(), stop func(ref task.Ref, attempt int)) error {
	return s.l.DB.Listen(ctx, connected, func(_, payload string) {
		if ref, attempt, err := task.ParseDelivery(payload); err == nil {
			stop(ref, attempt)
		}
	}, string(s.l.Keys.Control()))
}
