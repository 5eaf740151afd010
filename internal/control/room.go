package control

import (
	"cmp"
	"context"
	"time"

	"github.com/dts-sched/dts/internal/store/limits"
	"github.com/dts-sched/dts/internal/task"
)

// queueRoom is the places of several tasks in queues that have a capacity.
type queueRoom struct {
	limits *limits.Limits                            // nil: there are none
	now    func(context.Context, task.Ref) time.Time // by the clock of Redis
	places []*limits.Place
	took   []bool
}

func (c *Control) newQueueRoom() *queueRoom { return &queueRoom{limits: c.limits, now: c.now} }

// enter reserves a place for a task that is due now; one that is due later needs none yet. Error: CodeQueueFull.
func (r *queueRoom) enter(ctx context.Context, d task.Definition) error {
	var place *limits.Place
	if r.limits != nil && d.Delay == 0 && (d.RunAt.IsZero() || !d.RunAt.After(r.now(ctx, d.Ref))) {
		var err error
		if place, err = r.limits.Enter(ctx, cmp.Or(d.Queue, task.DefaultQueue)); err != nil {
			return err
		}
	}
	r.places, r.took = append(r.places, place), append(r.took, false)
	return nil
}

// takeAll says that all that entered are in their queues.
func (r *queueRoom) takeAll() {
	for n := range r.took {
		r.took[n] = true
	}
}

// taken says whether the nth task that entered is in its queue.
func (r *queueRoom) taken(n int, yes bool) { r.took[n] = yes }

// leave ends the reservations.
func (r *queueRoom) leave() {
	for n, place := range r.places {
		place.Leave(r.took[n])
	}
}

// SetQueueCapacity says how many tasks may wait in a queue, in DTS and for a worker; 0: any number. Other nodes know it
// after a second. The queue need not exist yet. Errors: CodeInvalid, CodeUnavailable.
func (c *Control) SetQueueCapacity(ctx context.Context, who Caller, name string, capacity int) error {
	if _, err := c.begin(ctx, who, "setQueueCapacity"); err != nil {
		return err
	}
	return c.limits.Set(ctx, name, capacity, who.By())
}

// LimitQueue is SetQueueCapacity by its old name, for callers who ask for that operation.
func (c *Control) LimitQueue(ctx context.Context, who Caller, name string, capacity int) error {
	if _, err := c.begin(ctx, who, "limitQueue"); err != nil {
		return err
	}
	return c.limits.Set(ctx, name, capacity, who.By())
}
