package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/limits"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/task"
)

const (
	holdPause  = time.Second // after which the ticks of a schedule whose queue is full are planned again
	holdsLimit = 10_000      // schedules of which it is remembered that they were held back
)

// holds is why ticks were held back, for the ledger.
type holds struct {
	all    string              // of all schedules; "" if they were not
	queues map[task.Ref]string // of single schedules, as their queue was full
}

func (h *holds) reason(ref task.Ref) string { return cmp.Or(h.queues[ref], h.all) }

func (h *holds) forget(ref task.Ref) { delete(h.queues, ref) }

// enter reserves a place in the queue of a schedule if the plan fires ticks. They count as one: those that were missed are due one after the
// other. Error: CodeQueueFull.
func (t *term) enter(ctx context.Context, a partition.Agenda, plan schedule.Plan) (*limits.Place, error) {
	if !slices.ContainsFunc(plan.Decisions, func(d schedule.Decision) bool { return d.Action == schedule.ActFire }) {
		return nil, nil
	}
	return t.s.limits.Enter(ctx, a.Queue)
}

// holdBack leaves the ticks of a schedule undecided for a moment, as its queue is full. When there is room, the misfire policy decides about
// them. Errors: ErrFenced, or one of Redis.
func (t *term) holdBack(ctx context.Context, a partition.Agenda, held *holds) error {
	if len(held.queues) >= holdsLimit {
		clear(held.queues)
	}
	held.queues[a.Ref] = fmt.Sprintf("held back while the queue %s was full", a.Queue)
	return t.leader.Postpone(ctx, a.Ref, holdPause)
}
