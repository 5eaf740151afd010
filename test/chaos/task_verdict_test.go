package chaos

import (
	"fmt"
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/task"
)

// verdict is the violations that were found.
type verdict []string

func (v *verdict) add(format string, args ...any) { *v = append(*v, fmt.Sprintf(format, args...)) }

// evidence is what is known of one task.
type evidence struct {
	id          string
	behaviour   behaviour
	maxAttempts int
	due         time.Time
	moves       bool       // its handler gives its work up when it is asked to move
	asked       bool       // a client asked it to
	task        *wire.Task // as DTS lists it; nil: it does not
	history     []wire.Attempt
	calls       []call              // of its handler, in their order
	members     map[string][]string // by the id of a node or worker: the members on which its attempts depend
}

// judgeCalls judges the calls of a handler by themselves, whatever DTS says of the task.
func (e evidence) judgeCalls(p *past) (v verdict) {
	begun := make(map[int]bool)
	for i, c := range e.calls {
		if begun[c.attempt] {
			v.add("attempt %d of %s was begun twice", c.attempt, e.id)
		}
		begun[c.attempt] = true
		v = append(v, e.judgeBegin(c, p)...)
		if j := slices.IndexFunc(e.calls[:i], call.isFinal); j >= 0 && !e.mayFollow(c, e.calls[j], p) {
			v.add("attempt %d of %s began after attempt %d, whose answer %q was the last word", c.attempt, e.id, e.calls[j].attempt, e.calls[j].token)
		}
	}
	return v
}

// mayFollow reports whether a call may come after one that was the last word: the end of that can have been lost, or the call is of an attempt
// before it, which was lost before it came to its handler.
func (e evidence) mayFollow(c, last call, p *past) bool {
	between := span{last.begin, c.begin}
	moved := slices.ContainsFunc(e.history, func(a wire.Attempt) bool { return a.Number == last.attempt && hasMoved(a) })
	return moved || // it was asked to as its handler answered
		e.mayBeLost(last.members, between, p) || c.attempt < last.attempt && e.mayBeLost(c.members, between, p)
}

// judgeBegin: a handler is called for an attempt that the task has, and not before its time.
func (e evidence) judgeBegin(c call, p *past) (v verdict) {
	unbounded := e.moves && e.task == nil // nobody knows how many of them moved, which does not count
	if c.attempt < 1 || c.attempt > e.maxAttempts && !unbounded {
		v.add("attempt %d of %s, which has %d at most, was begun", c.attempt, e.id, e.maxAttempts)
	}
	if earliest := p.earliest(e.due); c.begin.Before(earliest) {
		v.add("attempt %d of %s began %s early", c.attempt, e.id, earliest.Sub(c.begin))
	}
	return v
}

// judgeTask judges a task that is listed: all calls are in its history, and it ended as the handlers say.
func (e evidence) judgeTask(p *past) (v verdict) {
	t, begun := e.task, make(map[int]call)
	for _, c := range e.calls {
		begun[c.attempt] = c
		if c.attempt > len(e.history) {
			v.add("attempt %d of %s was begun, and %d are in its history", c.attempt, e.id, len(e.history))
		}
	}
	for i, a := range e.history {
		if a.Number != i+1 {
			v.add("attempt %d in the history of %s has the number %d", i+1, e.id, a.Number)
		}
		v = append(v, e.judgeAttempt(a, begun, p)...)
		v = append(v, e.judgeBackoff(a, begun, p)...)
	}
	never := t.State == wire.StateCancelled && len(e.history) == t.Attempt-1 // the last one was cancelled before it began
	if len(e.history) != t.Attempt && !never {
		v.add("%s is in attempt %d, and has %d in its history", e.id, t.Attempt, len(e.history))
	}
	return append(v, e.judgeEnd(begun)...)
}

// judgeAttempt compares one attempt of a history with the call of its handler.
func (e evidence) judgeAttempt(a wire.Attempt, begun map[int]call, p *past) (v verdict) {
	c, called := begun[a.Number]
	if a.Outcome == nil {
		v.add("attempt %d of %s, which is %s, has no outcome", a.Number, e.id, e.task.State)
		return v
	}
	if runner := e.members[a.Node]; len(runner) > 0 && len(c.members) > 0 && runner[0] != c.members[0] {
		v.add("attempt %d of %s was on %s %s, says its history: %s", a.Number, e.id, a.Node, runner, c)
	}
	switch *a.Outcome {
	case wire.OutcomeSucceeded:
		if c.token == "" || e.behaviour.fails(a.Number) {
			v.add("attempt %d of %s has succeeded, which the handler does not confirm: %s", a.Number, e.id, c)
		}
	case wire.OutcomeFailed:
		if !called || !e.behaviour.fails(a.Number) {
			v.add("attempt %d of %s has failed (%s), which the handler does not confirm: %s", a.Number, e.id, value(a.Error), c)
		}
	case wire.OutcomeTimeout:
		if e.behaviour != hangs {
			v.add("attempt %d of %s ended by its timeout: %s", a.Number, e.id, c)
		}
	case wire.OutcomeMoved:
		if lived := livedFrom(a, c, called, p); !e.moves || !e.asked && !p.asksToMove(e.members[a.Node], lived) {
			v.add("attempt %d of %s has moved, which nobody asked for: %s", a.Number, e.id, c)
		}
	case wire.OutcomeLost, wire.OutcomeInterrupted:
		if lived := livedFrom(a, c, called, p); !e.mayBeLost(e.members[a.Node], lived, p) {
			v.add("attempt %d of %s was lost (%s) on %s %s, and nothing had happened to that from %s to %s: %s",
				a.Number, e.id, value(a.Error), a.Node, e.members[a.Node], lived.from.UTC().Format(stamp), lived.until.UTC().Format(stamp), c)
		}
	}
	return v
}

// judgeBackoff: after a failure the next attempt waits as the policy of the task says.
func (e evidence) judgeBackoff(failed wire.Attempt, begun map[int]call, p *past) (v verdict) {
	next, called := begun[failed.Number+1]
	repeats := failed.Outcome != nil && (*failed.Outcome == wire.OutcomeFailed || *failed.Outcome == wire.OutcomeTimeout)
	if !called || !repeats || failed.FinishedAt == nil {
		return nil
	}
	least := leastWait(failed.Number)
	if earliest := p.earliest(failed.FinishedAt.Add(least)); next.begin.Before(earliest) {
		v.add("attempt %d of %s began %s before its backoff of %s was over", next.attempt, e.id, earliest.Sub(next.begin), least)
	}
	return v
}

// leastWait is the shortest wait after the nth failed attempt of a task.
func leastWait(n int) time.Duration {
	t := task.Task{Attempt: n, MaxAttempts: n + 1}
	t.Retry = task.Retry{Backoff: backoff, MaxAttempts: n + 1}
	due, _ := t.NextAttempt(task.OutcomeFailed, time.Time{}, 0, 0)
	return due.Sub(time.Time{})
}

// mayBeLost reports whether an attempt of the task that one of these members ran, and that lived in a time, may be lost.
func (e evidence) mayBeLost(members []string, lived span, p *past) bool {
	return p.excusesLost(members, lived) || p.excusesTimedOut(members, lived, e.behaviour.timeout())
}

// stamp is how violations and files show times.
const stamp = time.StampMilli

// livedFrom returns the time from the begin of an attempt until Redis took its end.
func livedFrom(a wire.Attempt, c call, called bool, p *past) span {
	s := p.shown(a.StartedAt.Time)
	if a.FinishedAt != nil {
		s.until = p.shown(a.FinishedAt.Time).until
	}
	if called {
		s.from = c.begin
	}
	s.until = later(s.until, c.end)
	return s
}

// judgeEnd: the task ended for a reason, with the result of the call that succeeded.
func (e evidence) judgeEnd(begun map[int]call) (v verdict) {
	t := e.task
	var last wire.Outcome
	if n := len(e.history); n > 0 && e.history[n-1].Outcome != nil {
		last = *e.history[n-1].Outcome
	}
	switch t.State {
	case wire.StateSucceeded:
		if last != wire.OutcomeSucceeded || value(t.Result) != begun[t.Attempt].token {
			v.add("%s has succeeded with %q; its last attempt is %s, and was answered %q", e.id, value(t.Result), last, begun[t.Attempt].token)
		}
	case wire.StateFailed:
		permanently := e.behaviour == permanent && last == wire.OutcomeFailed
		if t.Attempt < e.maxAttempts && !permanently && !e.killedWorkers() {
			v.add("%s has failed after %d of %d attempts; the last one is %s", e.id, t.Attempt, e.maxAttempts, last)
		}
	case wire.StateCancelled:
	default:
		v.add("%s is %s still", e.id, t.State)
	}
	if i := slices.IndexFunc(e.history, isSuccess); i >= 0 && (i < len(e.history)-1 || t.State != wire.StateSucceeded) {
		v.add("%s is %s, and attempt %d of %d has succeeded", e.id, t.State, i+1, len(e.history))
	}
	return v
}

// killedWorkers reports whether so many attempts in a row were lost that their task counts as the cause.
func (e evidence) killedWorkers() bool {
	n := len(e.history) - task.PoisonDeaths
	wasKept := func(a wire.Attempt) bool { return a.Outcome == nil || *a.Outcome != wire.OutcomeLost }
	return n >= 0 && !slices.ContainsFunc(e.history[n:], wasKept)
}

// followsEnd reports whether the attempt of a call came after one with which the task had ended: somebody retried the task,
// or its run had its step begin again.
func (e evidence) followsEnd(c call) bool {
	if c.attempt < 2 || c.attempt-2 >= len(e.history) {
		return false
	}
	before := e.history[c.attempt-2]
	return isSuccess(before) || before.Outcome != nil && *before.Outcome == wire.OutcomeCancelled
}

func isSuccess(a wire.Attempt) bool {
	return a.Outcome != nil && *a.Outcome == wire.OutcomeSucceeded
}

func hasMoved(a wire.Attempt) bool { return a.Outcome != nil && *a.Outcome == wire.OutcomeMoved }

// life returns the time from the first call of a task until the answer with which it ended, if it ended with one.
func (e evidence) life() (_ span, known bool) {
	if e.task == nil || len(e.calls) == 0 || len(e.history) == 0 || len(e.history) != e.task.Attempt {
		return span{}, false
	}
	last := e.history[len(e.history)-1]
	if last.Outcome == nil || *last.Outcome != wire.OutcomeSucceeded && *last.Outcome != wire.OutcomeFailed {
		return span{}, false
	}
	i := slices.IndexFunc(e.calls, func(c call) bool { return c.attempt == last.Number && c.token != "" })
	if i < 0 {
		return span{}, false
	}
	return span{e.calls[0].begin, e.calls[i].end}, true
}

// judgeTouched judges a task of which Redis has lost something: it ends nevertheless, within its attempts, and what living members know is not
// done again. durable: nodes wait for the replica before they begin an attempt that must be the only one.
func (e evidence) judgeTouched(p *past, durable bool) (v verdict) {
	if !slices.Contains([]wire.State{wire.StateSucceeded, wire.StateFailed, wire.StateCancelled}, e.task.State) {
		v.add("%s, of which Redis has lost something, is %s still", e.id, e.task.State)
	}
	begun := make(map[int]call)
	for _, c := range e.calls {
		v = append(v, e.judgeBegin(c, p)...)
		if e.task.State == wire.StateFailed && c.token != "" && !c.behaviour.fails(c.attempt) && p.isTold(c) {
			v.add("%s has failed, although Redis was told again of an attempt that succeeded: %s", e.id, c)
		}
		first, twice := begun[c.attempt]
		switch {
		case !twice:
			begun[c.attempt] = c
		case durable && e.maxAttempts == 1:
			v.add("the only attempt of %s was begun twice, although its begin waits for the replica", e.id)
		case e.followsEnd(c) && p.lostRetry(first, c):
		case !p.excusesDouble(first, c):
			v.add("attempt %d of %s was begun at %s and at %s, although Redis was told again of the first one",
				c.attempt, e.id, first.begin.UTC().Format(stamp), c.begin.UTC().Format(stamp))
		}
	}
	return v
}
