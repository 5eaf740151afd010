package chaos

import (
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
)

const (
	// decidedWithin is how long after its time, and after all that happened meanwhile, a tick may be undecided: a partition stands without a
	// leader for two to three leases at most, and the machine may be busy.
	decidedWithin = 20 * time.Second
	// begunWithin is the same for the begin of its task, whose delivery may have been with a worker that died: it has a lease of 20 s, or of 30 s from the last beat of the worker.
	begunWithin = 40 * time.Second
)

// deadline returns until when something that is due at a time has to happen: within a time after that, and after each of the delays that begin before it
// has to have happened.
func deadline(due time.Time, within time.Duration, delays []span) time.Time {
	limit := due.Add(within)
	for longer := true; longer; {
		longer = false
		for _, d := range delays {
			if next := d.until.Add(within); d.overlaps(span{due, limit}) && next.After(limit) {
				limit, longer = next, true
			}
		}
	}
	return limit
}

// delays are the times in which the ticks of the schedule may have had to wait.
func (s *ticking) delays(p *past) (all []span) {
	for _, h := range p.harms {
		all = append(all, h.span)
	}
	for _, pause := range s.pauses {
		all = append(all, p.onRedis(pause))
	}
	return all
}

// judgeLateness: ticks are decided soon, and those of a probe, for which there are workers always, begin soon. Of ticks that wait for the task before
// them the ledger does not say when they were first decided.
func (s *ticking) judgeLateness(records []record, p *past) (v verdict) {
	delays := s.delays(p)
	for _, r := range records {
		waits := s.overlap == wire.OverlapQueue || s.overlap == wire.OverlapReplace
		if limit, decided := deadline(r.Tick.Time, decidedWithin, delays), p.shown(r.DecidedAt.Time).from; !waits && decided.After(limit) {
			v.add("%s: the tick %s was decided (%s) at %s, and had to be by %s", s.id, r.Tick, r.Outcome, decided.UTC().Format(stamp), limit.UTC().Format(stamp))
		}
		if !s.probes() || len(r.task.calls) == 0 {
			continue
		}
		if limit, begin := deadline(r.Tick.Time, begunWithin+p.farthest(), delays), r.task.calls[0].begin; begin.After(limit) {
			v.add("%s: the task of the tick %s began at %s, and had to by %s", s.id, r.Tick, begin.UTC().Format(stamp), limit.UTC().Format(stamp))
		}
	}
	return v
}

// explainsMiss reports whether nobody may have been able to decide a tick in a time: Redis was away or refused it, or each leader was harmed. A harm has
// an effect for a while.
func (p *past) explainsMiss(open span) bool {
	harmed := make(map[string]bool)
	for _, h := range p.harms {
		if !open.overlaps(span{h.from, h.until.Add(lateAfter)}) {
			continue
		}
		if h.member == "" && (h.away || h.name == filling) {
			return true
		}
		harmed[h.member] = harmed[h.member] || h.name != draining
	}
	return !slices.ContainsFunc(p.leaders, func(name string) bool { return !harmed[name] })
}
