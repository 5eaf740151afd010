package chaos

import (
	"context"
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/clock"
)

// longestJump is less than the time limit of a handler, which a jump ahead uses up.
const longestJump = 20 * time.Second

// jump is a time in which the clock of Redis was ahead of the machine's, or behind it.
type jump struct {
	span

	ahead time.Duration
}

// jump has the clock of Redis jump, and jump back.
func (s standalone) jump(ctx context.Context, r *round, ahead, lasts time.Duration) {
	from := time.Now()
	s.MoveClock(ahead)
	_ = clock.Sleep(ctx, lasts)
	s.MoveClock(0)
	r.past.addJump(jump{span{from, time.Now()}, ahead})
}

// earliest returns when something may begin that is due at a time. What became due while the clock of Redis was ahead stays due when it jumps
// back.
func (p *past) earliest(due time.Time) time.Time {
	first := due
	for _, j := range p.jumps {
		early := due.Add(-j.ahead)
		if early.Before(j.from) {
			early = j.from // the clock jumped over it
		}
		if j.ahead > 0 && early.Before(j.until) {
			first = earlier(first, early)
		}
	}
	return first
}

// shown returns the first and the last time at which the clock of Redis may have shown a time.
func (p *past) shown(at time.Time) span {
	s := span{at, at}
	for _, j := range p.jumps {
		if moment := at.Add(-j.ahead); j.contains(moment) {
			s = span{earlier(s.from, moment), later(s.until, moment)}
		}
	}
	return s
}

// onRedis returns a time of the machine as the clock of Redis may have shown it, at the widest.
func (p *past) onRedis(s span) span {
	wide := s
	for _, j := range p.jumps {
		if j.overlaps(s) {
			wide = span{wide.from.Add(min(j.ahead, 0)), wide.until.Add(max(j.ahead, 0))}
		}
	}
	return wide
}

// hidesJump reports whether a leader may have started after a jump ahead in a time, or so shortly before that it had not asked for the time yet: it
// takes what Redis shows then for the time that has passed.
func (p *past) hidesJump(open span) bool {
	return slices.ContainsFunc(p.jumps, func(j jump) bool {
		return j.ahead > 0 && j.overlaps(open) && slices.ContainsFunc(p.harms, func(h harm) bool {
			restarted := slices.Contains([]string{"kill", "stop", "rolling-restart"}, h.name) && slices.Contains(p.leaders, h.member)
			return restarted && h.overlaps(open) && h.until.After(j.from.Add(-time.Second))
		})
	})
}

// farthest is the greatest difference of the clock of Redis.
func (p *past) farthest() (ahead time.Duration) {
	for _, j := range p.jumps {
		ahead = max(ahead, j.ahead)
	}
	return ahead
}
