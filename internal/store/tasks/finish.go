package tasks

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// End is the end of an attempt, and what becomes of its task.
type End struct {
	Run     *Run
	State   task.State // of the task from now on: a final one, or Scheduled for a further attempt
	Outcome task.Outcome
	Result  string        // cut to its limit; "" for none
	Reason  string        // the error, cut to its limit; "" for none
	Delay   time.Duration // until the further attempt is due
	Last    int           // the number of the last attempt that may be made, if this one does not count; else 0
	Span    time.Duration // the timeout of the further attempt, if it must end before the next tick of the task's schedule; else 0
}

// Ending is how an attempt ended.
type Ending struct {
	Outcome task.Outcome
	Result  string
	Reason  string        // the error
	Final   bool          // no further attempt can succeed, whatever the retry policy allows
	Wait    time.Duration // least time until the next attempt; with OutcomeSnoozed, just that time
	Snooze  bool          // the target asks for Wait: the attempt does not count, as far as task.Task.Snooze allows that
	Asked   bool          // somebody asked the attempt to move
	Timeout time.Duration // of the next attempt
	Pause   time.Duration // how long the limits of the task's keys are to be paused; 0: not at all
}

// noTimeLeft ends the error of a failed attempt of a tick's task that gets no further one because of the next tick.
const noTimeLeft = "; not tried again, as another attempt could last until the next tick of the schedule"

// After returns how an attempt ended after the report that it ended as e was refused with err. ok is false if err is neither
// ErrCancelled nor ErrTick.
func (e Ending) After(err error) (_ Ending, ok bool) {
	switch {
	case errors.Is(err, ErrCancelled):
		e.Outcome, e.Reason = task.OutcomeCancelled, strings.TrimSuffix(e.Reason, noTimeLeft)
	case errors.Is(err, ErrTick):
		e.Final, e.Reason = true, task.CutError(e.Reason, task.ErrorLimit-len(noTimeLeft))+noTimeLeft
	default:
		return e, false
	}
	return e, true
}

// End decides what becomes of the task after an attempt that ended so: it ends with it, or another attempt follows. now is the time of
// Redis; random, from 0 to less than 1, selects the wait from the range that the jitter of the retry policy allows.
func (r *Run) End(e Ending, now time.Time, random float64) End {
	end := End{Run: r, State: task.Failed, Outcome: e.Outcome, Reason: e.Reason}
	switch e.Outcome {
	case task.OutcomeSucceeded:
		return End{Run: r, State: task.Succeeded, Outcome: e.Outcome, Result: e.Result}
	case task.OutcomeCancelled:
		end.State = task.Cancelled
		return end
	case task.OutcomeInterrupted:
		if r.Task.Interrupted(now) {
			return end.uncounted(now, now)
		}
	case task.OutcomeMoved, task.OutcomeSnoozed:
		due, err := now, r.Task.Moved(now, e.Asked)
		if e.Outcome == task.OutcomeSnoozed {
			due, err = r.Task.PutOff(now, e.Wait)
		}
		if err == nil {
			return end.uncounted(now, due)
		}
		why := "; " + err.Error()
		end.Outcome, end.Reason = task.OutcomeFailed, task.CutError(e.Reason, task.ErrorLimit-len(why))+why
	}
	due, again := r.Task.NextAttempt(e.Outcome, now, e.Wait, random)
	if e.Snooze && !e.Final {
		if later, ok := r.Task.Snooze(now, e.Wait, random); ok {
			due, again = later, true
			end.Outcome, end.Last = task.OutcomeSnoozed, r.Task.MaxAttempts+1
		}
	}
	if again && !e.Final {
		end.State, end.Delay = task.Scheduled, due.Sub(now)
		if !e.Outcome.AtOnce() && r.Task.MustEndBeforeTick() {
			end.Span = cmp.Or(e.Timeout, task.DefaultTimeout)
		}
	}
	return end
}

// uncounted returns the end with a further attempt, in place of this one, which does not count.
func (e End) uncounted(now, due time.Time) End {
	e.State, e.Delay, e.Last = task.Scheduled, due.Sub(now), e.Run.Task.MaxAttempts+1
	return e
}

// FinishEach reports the ends of attempts in one round trip, and returns an error for each, in order: ErrStale; ErrBehind; ErrCancelled,
// if the task was asked to stop and State is neither Succeeded nor Cancelled; ErrTick, if a further attempt could last until the next tick of
// the schedule that created the task; or an error of Redis. After ErrCancelled and ErrTick, Ending.After says how it ended instead.
func (s *Tasks) FinishEach(ctx context.Context, ends []End) []error {
	errs := make([]error, len(ends))
	for i, f := range s.finishKnown(ctx, s.l.DB, ends) {
		if errs[i] = f.err; f.err != nil {
			continue
		}
		// What this call has not recorded, an earlier one has whose answer was lost. The search for that takes long.
		s.noteEnd(ctx, ends[i], f, f.recorded || !s.recent.has(ends[i].Run))
	}
	return errs
}

// FinishShared reports the end of an attempt as FinishEach does. Other nodes may report it, too, so it is logged and
// counted only if Redis says that this call has recorded it. After a lost answer, nobody knows that.
func (s *Tasks) FinishShared(ctx context.Context, e End) (recorded bool, err error) {
	f := s.finishKnown(ctx, s.l.DB, []End{e})[0]
	if f.err == nil {
		s.noteEnd(ctx, e, f, f.recorded)
	}
	return f.recorded, f.err
}

// noteEnd keeps an end that Redis has recorded, and logs and counts it if it is new.
func (s *Tasks) noteEnd(ctx context.Context, e End, f finished, isNew bool) {
	if isNew {
		s.LogEnd(ctx, e.Run.Task, e.State, e.Outcome, e.Reason)
		s.CountEnd(e.Run.Task, e.State, e.Outcome, e.Reason)
	}
	s.recent.add(e, s.serverOf(e.Run), f.at)
}

// finished is the result of reporting one end.
type finished struct {
	at       time.Time // by the clock of Redis
	recorded bool      // by this report, and not by an earlier one
	missing  bool      // there is no such task
	err      error
}

// finishKnown reports ends. If Redis may have lost tasks, it restores those that are missing.
func (s *Tasks) finishKnown(ctx context.Context, db *redisx.DB, ends []End) []finished {
	return withRestored(ctx, s, runsOf(ends), func(places []int) []finished {
		some := make([]End, len(places))
		for k, i := range places {
			some[k] = ends[i]
		}
		return s.finish(ctx, db, some)
	}, func(f finished) gap { return gapOf(f.missing, f.err) }, func(err error) finished { return finished{err: err} })
}

func (s *Tasks) finish(ctx context.Context, db *redisx.DB, ends []End) []finished {
	refs := refsOf(runsOf(ends))
	results, lost := make([]finished, len(ends)), make(map[int]bool)
	runParts(ctx, db, s.parts(refs), func(p part) lua.Finish {
		call := lua.Finish{States: p.keys.States(), Events: s.l.Keys.Events(), Wake: s.l.WakeOf(refs[p.places[0]]), Ends: nil}
		for _, i := range p.places {
			end := finishEnd(ends[i])
			end.Outcome = s.knownToAll(end.Outcome)
			call.Ends = append(call.Ends, end)
		}
		return call
	}, func(i, k int, r redisx.Result[lua.FinishReply]) {
		if results[i].err = r.Err; r.Err == nil {
			answer := r.Reply.Answers[k]
			s.WarnIfPaused(ctx, refs[i], answer.Paused)
			results[i] = finished{
				at: r.Reply.Now, recorded: answer.Recorded, missing: answer.Refused.Code == lua.CodeNotFound,
				err: s.refusedReport(ends[i].Run.Task, answer.Refused),
			}
			if answer.Unbegun && !ends[i].Run.Foreign {
				lost[s.noticeLostBegin(ends[i].Run, r.Reply.Now)] = true
			}
		}
	})
	s.l.RecordLosses(ctx, lost)
	return results
}

// knownToAll returns an outcome as all nodes know it: those of earlier releases know fewer.
func (s *Tasks) knownToAll(o task.Outcome) task.Outcome {
	if o == task.OutcomeMoved && !s.l.HasRoutes() {
		o = task.OutcomeInterrupted
	}
	if o == task.OutcomeInterrupted && s.l.HasOlder() {
		o = task.OutcomeLost
	}
	return o
}

// runsOf returns the runs that end, in order.
func runsOf(ends []End) []*Run {
	runs := make([]*Run, len(ends))
	for i, e := range ends {
		runs[i] = e.Run
	}
	return runs
}

// noticeLostBegin notices that Redis, whose time is now, has lost that the attempt of a run has begun. It returns the partition of the task.
func (s *Tasks) noticeLostBegin(r *Run, now time.Time) int {
	t := r.Task
	if t.StartedAt.IsZero() { // somebody else has begun it
		t.StartedAt = t.QueuedAt
	}
	p := s.l.PartitionOf(t.Ref)
	s.l.NoticeLoss(p, t.StartedAt, now, "the begin of an attempt of "+t.Ref.String())
	return p
}

func finishEnd(e End) lua.FinishEnd {
	t := e.Run.Task
	return lua.FinishEnd{
		Member: t.Ref, Attempt: t.Attempt, Run: lua.RunToken(t.Run), State: e.State, Outcome: e.Outcome,
		Result: task.Cut(e.Result, task.ResultLimit), Reason: task.CutError(e.Reason, task.ErrorLimit), Delay: e.Delay,
		Retention: t.EffectiveRetention(e.State), Queued: t.QueuedAt, Span: e.Span, Last: e.Last,
	}
}

// Finish reports that the attempt ended with outcome o and that the task ends in the state end, as FinishEach does.
func (r *Run) Finish(ctx context.Context, end task.State, o task.Outcome, result, reason string) error {
	return r.s.FinishEach(ctx, []End{{Run: r, State: end, Outcome: o, Result: result, Reason: reason}})[0]
}

// Reattempt reports that the attempt ended with outcome o and that the next one is due after delay, as FinishEach does.
func (r *Run) Reattempt(ctx context.Context, delay time.Duration, o task.Outcome, reason string) error {
	return r.s.FinishEach(ctx, []End{{Run: r, State: task.Scheduled, Outcome: o, Reason: reason, Delay: delay}})[0]
}
