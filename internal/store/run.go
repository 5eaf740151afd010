package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/task"
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
	s    *Store
	p    int
	Task task.Task
}

// Begin starts an attempt for a node. run is a token made for this very call: a resent call is let through
// again, any other is not. Error: ErrLeftover, if the task is not queued for that attempt.
func (s *Store) Begin(ctx context.Context, ref task.Ref, attempt int, node, run string) (*Run, error) {
	p := s.PartitionOf(ref)
	keys := []string{s.keys.task(p, ref), s.keys.queued(p), s.keys.inflight(p), s.keys.running(p)}
	reply, err := s.db.Run(ctx, s.scripts.begin, keys, ref.String(), attempt, node, run, s.keys.events())
	var refusal *redisx.Refusal
	if errors.As(err, &refusal) {
		return nil, fmt.Errorf("task %s, attempt %d: %w: %s", ref, attempt, ErrLeftover, refusal.Code)
	}
	if err != nil {
		return nil, err
	}
	t, err := decodeFields(ref, reply)
	if err != nil {
		return nil, err
	}
	return &Run{s: s, p: p, Task: t}, nil
}

// Finish reports the attempt's end, and the task's with it. Errors: ErrStale; ErrCancelled, if it failed after
// the task had been asked to stop.
func (r *Run) Finish(ctx context.Context, end task.State, o task.Outcome, result, reason string) error {
	t := r.Task
	keys := []string{
		r.s.keys.task(r.p, t.Ref), r.s.keys.running(r.p), r.s.keys.attempts(r.p, t.Ref),
		r.s.keys.index(r.p, t.Namespace, end), r.s.keys.expiry(r.p),
	}
	reply, err := r.s.db.Run(ctx, r.s.scripts.finish, keys, t.Ref.String(), t.Attempt, t.Run, string(end), string(o),
		task.Cut(result, task.ResultLimit), task.Cut(reason, task.ErrorLimit),
		t.EffectiveRetention(end).Milliseconds(), task.HistoryLimit, r.s.keys.events(), r.s.keys.wake())
	r.s.warnOfPause(ctx, t.Ref, reply)
	return r.verdict(err)
}

// Retry reports the attempt's end, with the next one due after delay. Errors: ErrStale, ErrCancelled.
func (r *Run) Retry(ctx context.Context, delay time.Duration, o task.Outcome, reason string) error {
	t := r.Task
	keys := []string{
		r.s.keys.task(r.p, t.Ref), r.s.keys.running(r.p), r.s.keys.attempts(r.p, t.Ref), r.s.keys.wheel(r.p),
	}
	_, err := r.s.db.Run(ctx, r.s.scripts.retry, keys, t.Ref.String(), t.Attempt, t.Run, delay.Milliseconds(), string(o),
		task.Cut(reason, task.ErrorLimit), task.HistoryLimit, r.s.keys.events(), r.s.keys.wake(), r.p)
	return r.verdict(err)
}

// Progress reports how far the attempt is, in percent. Errors: ErrStale, CodeInvalid.
func (r *Run) Progress(ctx context.Context, percent int) error {
	err := r.s.progress(ctx, r.Task.Ref, r.Task.Attempt, r.Task.Run, percent)
	switch task.CodeOf(err) {
	case task.CodeTaskNotFound, task.CodeNotRunning, task.CodeStaleAttempt:
		return fmt.Errorf("task %s: %w", r.Task.Ref, ErrStale)
	}
	return err
}

// Line is one line of output to log.
type Line struct {
	Stream string `json:"stream"`
	Text   string `json:"text"`
}

// Log appends lines; first is the number of the first one in this attempt, from 1. Error: ErrStale.
func (r *Run) Log(ctx context.Context, first int, lines []Line) error {
	encoded, err := json.Marshal(lines)
	if err != nil {
		return fmt.Errorf("encoding log lines of task %s: %w", r.Task.Ref, err)
	}
	t := r.Task
	_, err = r.s.db.Run(ctx, r.s.scripts.log, []string{r.s.keys.task(r.p, t.Ref), r.s.keys.log(r.p, t.Ref)},
		t.Ref.String(), t.Attempt, t.Run, task.LogLimit, first, r.s.keys.events(), encoded)
	return r.verdict(err)
}

// CancelRequested asks Redis whether the task was told to stop: for a worker that may have missed the message.
func (r *Run) CancelRequested(ctx context.Context) (bool, error) {
	return r.s.db.HExists(ctx, r.s.keys.task(r.p, r.Task.Ref), "cancel").Result()
}

func (r *Run) verdict(err error) error {
	var refusal *redisx.Refusal
	switch {
	case !errors.As(err, &refusal):
		return err
	case refusal.Code == "CANCELLED":
		return fmt.Errorf("task %s: %w", r.Task.Ref, ErrCancelled)
	}
	return fmt.Errorf("task %s, attempt %d: %w: %s", r.Task.Ref, r.Task.Attempt, ErrStale, refusal.Code)
}

// Stops tells of attempts that were asked to stop, until ctx ends. connected is called whenever the
// subscription stands: what was asked before may have been missed (see CancelRequested).
func (s *Store) Stops(ctx context.Context, connected func(), stop func(ref task.Ref, attempt int)) error {
	return s.db.Listen(ctx, connected, func(_, payload string) {
		if ref, attempt, err := task.ParseDelivery(payload); err == nil {
			stop(ref, attempt)
		}
	}, s.keys.control())
}
