package chaos

import (
	"slices"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
)

// idOf is the id of the task of a tick.
func (s *ticking) idOf(tick time.Time) string {
	return s.id + "@" + strings.Replace(tick.UTC().Format("20060102T150405.000Z"), ".000", "", 1)
}

// judgeLedger: each tick has one record, which gives a reason if it did not fire, and there are no others.
func (s *ticking) judgeLedger(ledger []wire.LedgerEntry, p *past) (v verdict) {
	recorded := make(map[time.Time]bool)
	for _, e := range ledger {
		at := e.Tick.UTC()
		if recorded[at] {
			v.add("%s: the tick %s has two records", s.id, at)
		}
		recorded[at] = true
		v = append(v, s.judgeRecord(e, p)...)
	}
	for _, at := range s.expected() {
		if !recorded[at.UTC()] {
			v.add("%s: the tick %s has no record", s.id, at)
		}
		delete(recorded, at.UTC())
	}
	for at := range recorded {
		v.add("%s: there is a record of %s, which is no tick", s.id, at)
	}
	return v
}

// judgeRecord: a record names the task of its tick, and has an outcome that the schedule and what happened allow.
func (s *ticking) judgeRecord(e wire.LedgerEntry, p *past) (v verdict) {
	if e.Task != nil && *e.Task != s.idOf(e.Tick.Time) {
		v.add("%s: the task of the tick %s is %s", s.id, e.Tick, *e.Task)
	}
	allowed := false
	switch e.Outcome {
	case wire.TickOutcomeFired:
		allowed = e.Task != nil
	case wire.TickOutcomeMissed:
		allowed = e.Task == nil && s.mayMiss(e, p)
	case wire.TickOutcomeSkippedOverlap:
		allowed = e.Task == nil && s.overlap == wire.OverlapSkip
	case wire.TickOutcomeReplaced:
		allowed = s.overlap == wire.OverlapReplace
	}
	if !allowed {
		v.add("%s, with overlap %s: the tick %s is %s: %s (decided %d ms late; the task is %q)",
			s.id, s.overlap, e.Tick, e.Outcome, value(e.Reason), e.LateMs, value(e.Task))
	}
	return v
}

// mayMiss reports whether a tick may be missed: clients had paused the schedule, or nobody could fire it in time. Time that the clock of Redis
// jumped over does not make it late, but for a leader that has not seen the jump.
func (s *ticking) mayMiss(e wire.LedgerEntry, p *past) bool {
	late := time.Duration(e.LateMs) * time.Millisecond
	open := span{earlier(p.shown(e.Tick.Time).from, p.earliest(e.Tick.Time)), p.shown(e.DecidedAt.Time).until}
	explained := late-p.farthest() > lateAfter && p.explainsMiss(open) || late > lateAfter && p.hidesJump(open)
	return explained || s.wasPaused(e.Tick.Time, e.DecidedAt.Time, p)
}

// wasPaused reports whether a tick that was decided at a time counts as paused. Several pauses are one if nobody decided anything between them,
// as resume_schedule.lua says.
func (s *ticking) wasPaused(tick, decided time.Time, p *past) bool {
	for i, first := range s.pauses {
		for j, last := range s.pauses[i:] {
			joined := span{p.onRedis(first).from, p.onRedis(last).until}
			if joined.contains(tick) && (j == 0 || decided.After(p.onRedis(last).from)) {
				return true
			}
		}
	}
	return false
}

// judgeTick judges the task of a tick.
func (s *ticking) judgeTick(e wire.LedgerEntry, task evidence, p *past, durable bool) (v verdict) {
	if task.task == nil && !p.full {
		v.add("%s: the task of the tick %s, which was %s, is not there", s.id, e.Tick, e.Outcome)
	}
	if p.isTouched(task.calls, nil) {
		if task.task != nil {
			v = append(v, task.judgeTouched(p, durable)...)
		}
		return v
	}
	v = append(v, task.judgeCalls(p)...)
	if task.task == nil {
		if e.Outcome == wire.TickOutcomeFired && len(task.calls) == 0 {
			v.add("%s: the tick %s has fired, and its task was never run", s.id, e.Tick)
		}
		return v
	}
	v = append(v, task.judgeTask(p)...)
	if task.task.State == wire.StateCancelled && e.Outcome != wire.TickOutcomeReplaced {
		v.add("%s was cancelled, and its tick is %s", task.id, e.Outcome)
	}
	return v
}

// judgeOverlap: unless the schedule allows it, none of its tasks begins while another one has not ended.
func (s *ticking) judgeOverlap(tasks []evidence, p *past) (v verdict) {
	if s.overlap == wire.OverlapAllow {
		return nil
	}
	for _, running := range tasks {
		life, known := running.life()
		if !known || p.isLossy(life) {
			continue
		}
		for _, other := range tasks {
			if other.id != running.id && len(other.calls) > 0 && life.contains(other.calls[0].begin) && !other.cameLate(other.calls[0]) {
				v.add("%s, with overlap %s: %s began at %s, while %s ran from %s to %s", s.id, s.overlap, other.id, other.calls[0].begin.UTC().Format(stamp),
					running.id, life.from.UTC().Format(stamp), life.until.UTC().Format(stamp))
			}
		}
	}
	return v
}

// onTheWay is how long a call may be on its way to the handler of a busy machine.
const onTheWay = time.Second

// cameLate reports whether a call was over before it came to the handler, which noticed that at once: its attempt had been cancelled.
func (e evidence) cameLate(c call) bool {
	return c.token == "" && !c.end.IsZero() && slices.ContainsFunc(e.history, func(a wire.Attempt) bool {
		return a.Number == c.attempt && a.FinishedAt != nil && a.FinishedAt.Before(c.begin) && c.end.Before(a.FinishedAt.Add(onTheWay))
	})
}

// judgeAudit: the audit says that each tick is accounted for, and does not call proved what Redis has lost.
func (s *ticking) judgeAudit(report wire.AuditReport, calls map[string][]call, p *past) (v verdict) {
	expected := len(s.expected())
	if report.Expected != expected || report.Accounted != expected || report.Proved == (len(report.LostWrites) > 0) {
		v.add("%s: the audit says %+v, of %d ticks", s.id, report, expected)
	}
	if twice := s.firedTwice(calls); report.Proved && len(twice) > 0 {
		v.add("%s: the audit says that it is proved, and these ran twice: %s", s.id, twice)
	}
	for _, l := range report.LostWrites {
		if !p.isLossy(span{l.From.Time, l.To.Time}) {
			v.add("%s: the audit says that Redis lost writes from %s to %s, and it did not", s.id, l.From, l.To)
		}
	}
	for _, l := range p.lost {
		if at, ok := s.firedIn(l.span, calls); ok && len(report.LostWrites) == 0 && !p.silencesAny(l.span) {
			v.add("%s: the audit says nothing of what Redis lost from %s to %s, which is that the tick %s fired", s.id, l.from.UTC().Format(stamp), l.until.UTC().Format(stamp), at)
		}
	}
	return v
}

// firedIn returns a tick whose task began and ended in a time, so that a leader and a worker know of it.
func (s *ticking) firedIn(l span, calls map[string][]call) (time.Time, bool) {
	for _, at := range s.expected() {
		for _, c := range calls[s.idOf(at)] {
			if l.contains(c.begin) && l.contains(c.end) {
				return at, true
			}
		}
	}
	return time.Time{}, false
}

// firedTwice returns the tasks of ticks of which an attempt was begun twice.
func (s *ticking) firedTwice(calls map[string][]call) (twice []string) {
	for _, at := range s.expected() {
		begun := make(map[int]int)
		for _, c := range calls[s.idOf(at)] {
			if begun[c.attempt]++; begun[c.attempt] == 2 {
				twice = append(twice, s.idOf(at))
			}
		}
	}
	return twice
}
