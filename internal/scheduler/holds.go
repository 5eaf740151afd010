package scheduler

import (
	"context"
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/limits"
	"github.com/dts-sched/dts/internal/store/partition"
)

// holds is why the ticks of all schedules were held back, for the ledger. Why those of one schedule were is in its hash.
type holds struct {
	crowded bool      // Redis is almost full
	until   time.Time // when that ended last, by the clock of Redis; zero: all that was held back is decided
}

// holdAll notes that the ticks of all schedules are held back.
func (h *holds) holdAll() { h.crowded = true }

// release notes that ticks are held back no longer because Redis is almost full.
func (h *holds) release(now time.Time) {
	if h.crowded {
		h.crowded, h.until = false, now
	}
}

// decidedAll notes that all that was held back is decided.
func (h *holds) decidedAll() { h.crowded, h.until = false, time.Time{} }

// explain says in the agenda why ticks were held back, if that was later than for want of room in their queue.
func (h holds) explain(a *partition.Agenda) {
	if h.until.After(a.HeldUntil) {
		a.Held, a.HeldUntil = "held back while Redis was almost full", h.until
	}
}

// enter reserves a place in the queue of a schedule if the plan fires ticks. They count as one: those that were missed are due one after the
// other. An agenda without a queue was read while no queue had a limit. Error: limits.CodeFull.
func (t *term) enter(ctx context.Context, a partition.Agenda, plan schedule.Plan) (*limits.Place, error) {
	if a.Queue == "" || !slices.ContainsFunc(plan.Decisions, func(d schedule.Decision) bool { return d.Action == schedule.ActFire }) {
		return nil, nil
	}
	return t.s.limits.Enter(ctx, a.Queue)
}
