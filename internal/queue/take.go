package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// look marks those of the next lookLimit queues that hold deliveries; those whose server does not say, after a rest. It finds what other
// programs did: an asynq client that enqueued, or one that resumed a queue. A leader announces a delivery of DTS again that
// nobody takes.
func (c *Consumer) look(ctx context.Context) { c.lookAt(ctx, c.sources.next(lookLimit)) }

// lookAt is look for some queues.
func (c *Consumer) lookAt(ctx context.Context, queues []string) {
	lengths := redisx.CallEach(ctx, &c.errands, redisx.Calls[int64]{
		Keys: pendingOf(queues),
		Do:   func(places []int) []redisx.Result[int64] { return lengthsOf(ctx, c.o.DB, redisx.Pick(queues, places)) },
		Late: func(i int) { c.sources.rest(queues[i]) },
		After: func(i int, length redisx.Result[int64]) {
			if c.checked(ctx, queues[i:i+1], []error{length.Err}, lookFails); length.Err == nil {
				c.sources.wake(queues[i])
			}
		},
	})
	c.checked(ctx, queues, errorsOf(lengths), lookFails)
	for i, length := range lengths {
		if length.Err == nil && length.Reply > 0 {
			c.sources.mark(queues[i])
		}
	}
}

// What the log says of queues that cannot be read.
const (
	lookFails = "cannot look at the queues"
	takeFails = "cannot take deliveries"
)

// Take takes up to n deliveries, but not more than 64, without waiting. It shares n among the queues that hold any, by
// their weights. Whatever is returned must be passed to End. If Redis fails, Take returns fewer or none, and logs it; a queue that failed
// rests for a while. In a cluster, Take does not wait for a server that is silent: what it takes from there when that answers goes back.
func (c *Consumer) Take(ctx context.Context, n int) []*Taken {
	if !c.beginTake() {
		return nil
	}
	defer c.endTake()
	portions := c.sources.share(min(n, batchLimit))
	calls, queues := make([]lua.Take, len(portions)), make([]string, len(portions))
	for i, p := range portions {
		calls[i], queues[i] = c.taking(p), p.queue
	}
	start := clock.Now()
	ctx = context.WithoutCancel(ctx) // what Redis hands over must not be lost because ctx ends while the reply is on its way
	results := redisx.CallEach(ctx, &c.errands, redisx.Calls[lua.TakeReply]{
		Keys: pendingOf(queues),
		Do: func(places []int) []redisx.Result[lua.TakeReply] {
			return redisx.RunEach[lua.TakeReply](ctx, c.o.DB, redisx.Pick(calls, places))
		},
		Late: func(i int) { c.sources.rest(queues[i]) },
		After: func(i int, r redisx.Result[lua.TakeReply]) {
			if c.checked(ctx, queues[i:i+1], []error{r.Err}, takeFails); r.Err == nil {
				c.sources.wake(queues[i])
				c.giveBackAll(c.hold(c.received(queues[i], r, start)))
			}
		},
	})
	c.checked(ctx, queues, errorsOf(results), takeFails)
	var all []*Taken
	for i, r := range results {
		if r.Err == nil {
			all = append(all, c.received(queues[i], r, start)...)
		}
	}
	return c.hold(all)
}

// taking is the call that takes a portion.
func (c *Consumer) taking(p portion) lua.Take {
	k, name := lua.AsynqQueue(p.queue), c.queueOf(p.queue)
	return lua.Take{
		Pending: k.Pending(), Paused: k.Paused(), Active: k.Active(), Deadline: k.Deadline(), Awaited: k.Awaited(), Called: k.Called(),
		Skipped: k.Skipped(), Limit: p.limit, Lease: takeLease, Queue: name, Types: c.types, Leaders: c.keys.Leaders(), Arrivals: c.keys.Arrivals(name),
	}
}

// received returns what a take from a queue has taken, and records what is left.
func (c *Consumer) received(queue string, r redisx.Result[lua.TakeReply], start time.Time) []*Taken {
	if !r.Reply.Paused {
		c.sources.took(queue, len(r.Reply.Taken), r.Reply.Passed, r.Reply.Left)
	}
	all := make([]*Taken, len(r.Reply.Taken))
	name, node := task.SplitNodeQueue(c.queueOf(queue))
	for i, d := range r.Reply.Taken {
		all[i] = &Taken{Queue: name, Placed: node != "", id: d.ID, encoded: d.Msg, queue: queue, at: start}
	}
	return all
}

// giveBackAll ends deliveries that were taken too late: their slots may be in use.
func (c *Consumer) giveBackAll(taken []*Taken) {
	for _, t := range taken {
		c.End(t, ErrGiveBack)
	}
}

// checked evaluates what reading queues came to. One that failed rests, the longer the more often it has failed in a row; one whose server has not
// answered yet rests already.
func (c *Consumer) checked(ctx context.Context, queues []string, errs []error, what string) {
	var failure error
	least := 0 // failures in a row
	for i, err := range errs {
		switch {
		case err == nil:
			c.sources.answered(queues[i])
		case !errors.Is(err, redisx.ErrLate):
			n := c.sources.failed(queues[i])
			time.AfterFunc(pauseAfter(n), func() { c.sources.wake(queues[i]) })
			if failure == nil || n < least {
				failure, least = fmt.Errorf("queue %s: %w", queues[i], err), n
			}
		}
	}
	c.note(ctx, failure, least, what)
}

// pendingOf returns the lists of queues, by which they have their servers.
func pendingOf(asynqNames []string) []string {
	keys := make([]string, len(asynqNames))
	for i, name := range asynqNames {
		keys[i] = string(lua.AsynqQueue(name).Pending())
	}
	return keys
}
