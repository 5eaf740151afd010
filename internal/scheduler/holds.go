package scheduler

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/limits"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/task"
)

// holdsLimit is the number of schedules that are remembered as held back.
const holdsLimit = 10_000

// holds is why ticks were held back, for the ledger.
type holds struct {
	crowded bool              // Redis is almost full: the ticks of all schedules are held back
	until   time.Time         // when that ended last, by the clock of Redis; zero: all that was held back is decided
	queues  map[task.Ref]hold // of single schedules, as their queue was full
}

// hold is why ticks of a schedule were held back, and when last, by the clock of Redis.
type hold struct {
	reason string
	until  time.Time
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

// reason returns why ticks of a schedule were held back, and up to which; "" if none were.
func (h *holds) reason(a partition.Agenda) (reason string, until time.Time) {
	if full := h.queues[a.Ref]; full.until.After(h.until) {
		return full.reason, full.until
	}
	if h.until.IsZero() {
		return "", time.Time{}
	}
	return "held back while Redis was almost full", h.until
}

// decided notes that the ticks of a schedule are decided up to a time.
func (h *holds) decided(ref task.Ref, upto time.Time) {
	if full, ok := h.queues[ref]; ok && !upto.Before(full.until) {
		delete(h.queues, ref)
	}
}

// holdBack returns the plan for a schedule whose queue is full: it decides no tick until later, so only those go on that wait for the task
// before them. When there is room, the misfire policy decides about the others.
func (h *holds) holdBack(a partition.Agenda) schedule.Plan {
	if len(h.queues) >= holdsLimit {
		clear(h.queues)
	}
	h.queues[a.Ref] = hold{fmt.Sprintf("held back while the queue %s was full", a.Queue), a.Now}
	return schedule.Plan{Upto: a.Cursor, Next: a.Now.Add(schedule.HoldPause)}
}

// enter reserves a place in the queue of a schedule if the plan fires ticks. They count as one: those that were missed are due one after the
// other. An agenda without a queue was read while no queue had a limit. Error: limits.CodeFull.
func (t *term) enter(ctx context.Context, a partition.Agenda, plan schedule.Plan) (*limits.Place, error) {
	if a.Queue == "" || !slices.ContainsFunc(plan.Decisions, func(d schedule.Decision) bool { return d.Action == schedule.ActFire }) {
		return nil, nil
	}
	return t.s.limits.Enter(ctx, a.Queue)
}
