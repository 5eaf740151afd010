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

// holdBack returns the plan for a schedule whose queue is full: it decides no tick until later, so only those go on that wait for the task
// before them. When there is room, the misfire policy decides about the others.
func (h *holds) holdBack(a partition.Agenda) schedule.Plan {
	if len(h.queues) >= holdsLimit {
		clear(h.queues)
	}
	h.queues[a.Ref] = fmt.Sprintf("held back while the queue %s was full", a.Queue)
	return schedule.Plan{Upto: a.Cursor, Next: a.Now.Add(holdPause)}
}

// enter reserves a place in the queue of a schedule if the plan fires ticks. They count as one: those that were missed are due one after the
// other. Error: CodeQueueFull.
func (t *term) enter(ctx context.Context, a partition.Agenda, plan schedule.Plan) (*limits.Place, error) {
	if !slices.ContainsFunc(plan.Decisions, func(d schedule.Decision) bool { return d.Action == schedule.ActFire }) {
		return nil, nil
	}
	return t.s.limits.Enter(ctx, a.Queue)
}
