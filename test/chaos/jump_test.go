package chaos

import (
	"context"
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
	r.jumps = append(r.jumps, jump{span{from, time.Now()}, ahead})
}

// earliest returns when something may begin that is due at a time. What became due while the clock of Redis was ahead stays due when it jumps
// back.
func (r *round) earliest(due time.Time) time.Time {
	for _, j := range r.jumps {
		if early := due.Add(-j.ahead); j.ahead > 0 && early.Before(j.until) {
			return early
		}
	}
	return due
}
