package chaos

import (
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
)

// record is what a ledger says of a tick, and what is known of the task that it names. If it names none, Redis may have
// lost that the tick fired: its task may be there nevertheless, as a worker that ran it told of it again.
type record struct {
	wire.LedgerEntry

	task evidence
}

// begun is when the tick was first decided, by the clock of Redis. A tick that waited and then got a task counts as decided when it got that.
func (r record) begun() time.Time {
	return r.Tick.Add(time.Duration(r.LateMs) * time.Millisecond)
}

// live returns the longest time in which the task of the tick can have counted as live; false if the tick has none.
func (r record) live(p *past) (_ span, known bool) {
	if r.Task == nil && r.task.task == nil {
		return span{}, false
	}
	life := span{earlier(r.begun(), r.DecidedAt.Time), never}
	if t := r.task.task; t != nil {
		life.from = earlier(life.from, t.CreatedAt.Time)
		if t.FinishedAt != nil {
			life.until = t.FinishedAt.Time
		}
	}
	return span{p.shown(life.from).from, p.shown(life.until).until}, true
}

// judgeReasons: a tick is skipped or waits only if the task of another one is live, and is replaced only by a later one. Redis may have lost why.
func (s *ticking) judgeReasons(records []record, p *past) (v verdict) {
	for _, r := range records {
		decided := p.shown(r.DecidedAt.Time)
		if p.isLossy(span{decided.from.Add(-lateFor), decided.until}) {
			continue
		}
		switch r.Outcome {
		case wire.TickOutcomeSkippedOverlap:
			if !isBusy(records, r, decided, p) {
				v.add("%s: the tick %s was skipped at %s (%s), when no other task was live", s.id, r.Tick, decided.from.UTC().Format(stamp), value(r.Reason))
			}
		case wire.TickOutcomeReplaced:
			v = append(v, s.judgeReplaced(records, r, p)...)
		}
	}
	return v
}

func (s *ticking) judgeReplaced(records []record, r record, p *past) (v verdict) {
	replaced := p.shown(r.DecidedAt.Time)
	if life, ok := r.live(p); ok && !life.overlaps(replaced) {
		v.add("%s: the tick %s was replaced at %s, when its task had ended", s.id, r.Tick, replaced.from.UTC().Format(stamp))
	} else if !ok && !isBusy(records, r, p.shown(r.begun()), p) {
		v.add("%s: the tick %s waited from %s on, when no other task was live", s.id, r.Tick, r.begun().UTC().Format(stamp))
	}
	gaveWay := slices.ContainsFunc(records, func(o record) bool {
		return o.Tick.After(r.Tick.Time) && replaced.overlaps(span{p.shown(o.Tick.Time).from, p.shown(o.DecidedAt.Time).until})
	})
	if !gaveWay {
		v.add("%s: the tick %s was replaced at %s (%s), when no later one was decided", s.id, r.Tick, replaced.from.UTC().Format(stamp), value(r.Reason))
	}
	return v
}

// isBusy reports whether the task of another tick can have been live at a time.
func isBusy(records []record, own record, at span, p *past) bool {
	return slices.ContainsFunc(records, func(o record) bool {
		life, ok := o.live(p)
		return ok && !o.Tick.Equal(own.Tick.Time) && life.overlaps(at)
	})
}
