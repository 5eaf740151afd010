package chaos

import (
	"slices"

	"github.com/dts-sched/dts/internal/api/wire"
)

// judgeJob: what was accepted has ended, and as it must; what was cancelled or changed was not begun after that as if it were not.
func (j *job) judge(e evidence, p *past, durable bool) (v verdict) {
	touched := p.isTouched(e.calls, j.answers)
	if !touched || durable {
		v = append(v, j.missed...)
		if e.task == nil && j.accepted && j.remembered == "" {
			v.add("%s was accepted and is not there", j.id)
		}
	}
	if touched {
		if e.task != nil {
			v = append(v, e.judgeTouched(p, durable)...)
		} else if i := slices.IndexFunc(e.calls, p.isTold); i >= 0 && j.accepted && !p.full {
			v.add("%s is not there, although Redis was told again of what ran: %s", j.id, e.calls[i])
		}
		return v
	}
	v = append(v, e.judgeCalls(p)...)
	v = append(v, j.judgeAnswers(e.calls)...)
	state := j.remembered
	if e.task != nil {
		state = e.task.State
		v = append(v, e.judgeTask(p)...)
	} else if state != "" {
		v = append(v, e.judgeRemembered(state, p)...)
	}
	if state != "" {
		v = append(v, j.judgeCancels(state)...)
	}
	return v
}

// judgeCancels: what was cancelled is, and what was asked to stop has stopped or, if it was faster, succeeded.
func (j *job) judgeCancels(state wire.State) (v verdict) {
	if state == wire.StateCancelled && !j.asked {
		v.add("%s was cancelled, which nobody asked for", j.id)
	}
	for _, a := range j.cancels {
		faster := a.state == wire.StateRunning && state == wire.StateSucceeded
		if state != wire.StateCancelled && !faster {
			v.add("%s is %s, although its cancellation was answered with %s in attempt %d", j.id, state, a.state, a.attempt)
		}
	}
	return v
}

// judgeAnswers compares calls with what clients were told before them.
func (j *job) judgeAnswers(calls []call) (v verdict) {
	for _, c := range calls {
		for _, a := range j.cancels {
			if c.begin.After(a.at) && c.attempt > a.attempt {
				v.add("attempt %d of %s began %s after it was cancelled in attempt %d", c.attempt, j.id, c.begin.Sub(a.at), a.attempt)
			}
		}
		for _, a := range j.changes {
			if c.begin.After(a.at) && c.attempt > a.attempt && c.version < a.version {
				v.add("attempt %d of %s ran version %d, %s after the change to version %d", c.attempt, j.id, c.version, c.begin.Sub(a.at), a.version)
			}
		}
	}
	return v
}

// judgeRemembered compares the calls of a task whose history went early with the state in which it ended.
func (e evidence) judgeRemembered(state wire.State, p *past) (v verdict) {
	var last call
	succeeded := false
	for _, c := range e.calls {
		if c.attempt >= last.attempt {
			last = c
		}
		succeeded = succeeded || c.isFinal() && !c.behaviour.fails(c.attempt)
	}
	switch state {
	case wire.StateSucceeded:
		if !succeeded {
			v.add("%s has succeeded, which no handler confirms: %s", e.id, e.calls)
		}
	case wire.StateFailed:
		if !e.confirmsFailure(last) && !e.mayHaveLost(last, p) {
			v.add("%s has failed, which no handler confirms: %s", e.id, e.calls)
		}
	case wire.StateCancelled:
	default:
		v.add("%s is remembered as %s", e.id, state)
	}
	return v
}

// confirmsFailure reports whether a call can have been the last attempt of a task that has failed.
func (e evidence) confirmsFailure(last call) bool {
	gaveUp := last.attempt >= e.maxAttempts || last.isFinal()
	return gaveUp && (last.token == "" || e.behaviour.fails(last.attempt))
}

// mayHaveLost reports whether a task can have failed though its last call does not say so: if that was answered with a success, its attempt was
// lost; if it was not the last attempt, those after it were lost before their handler was called, by whoever had them.
func (e evidence) mayHaveLost(last call, p *past) bool {
	since := span{last.begin, never}
	answered := last.token != "" && !e.behaviour.fails(last.attempt)
	gaveUp := last.attempt >= e.maxAttempts || p.excusesLostOfAny(since)
	return gaveUp && (!answered || e.mayBeLost(last.members, since, p))
}
