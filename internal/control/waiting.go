package control

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
)

// waits is what waits, as one reading tells.
type waits struct {
	sets      []layout.ReadySet // in DTS
	standings []queue.Named     // of queues in asynq, and of those of nodes, whether or not anything waits there
}

// readWaits reads what waits in DTS, and in some queues that asynq knows for a worker. If nothing waits, it returns
// nothing, and takes one round trip. Error: CodeUnavailable.
func (c *Control) readWaits(ctx context.Context, known []string) (w waits, _ error) {
	var pending []string
	if len(known) > 0 {
		pending = c.queues.PendingKeys(known)
	}
	some, err := c.store.AnyWaits(ctx, pending)
	if err != nil || !some {
		return w, err
	}
	if w.sets, err = c.store.ReadyOf(ctx, ""); err != nil || len(known) == 0 {
		return w, err
	}
	w.standings, err = c.queues.Standings(ctx, known)
	return w, err
}

// waitingTasks are due tasks that wait somewhere.
type waitingTasks struct {
	number int
	oldest time.Time // since when the first of them has been due; zero if that is not known
}

// plus returns both together.
func (w waitingTasks) plus(other waitingTasks) waitingTasks {
	return waitingTasks{number: w.number + other.number, oldest: earlier(w.oldest, other.oldest)}
}

// age is for how long the first of them has been due at a time; 0 if that is not known.
func (w waitingTasks) age(now time.Time) time.Duration {
	if w.oldest.IsZero() {
		return 0
	}
	return max(now.Sub(w.oldest), 0).Truncate(time.Millisecond)
}

// byQueue adds up sets of tasks that wait in DTS.
func byQueue(sets []layout.ReadySet) map[string]waitingTasks {
	all := make(map[string]waitingTasks)
	for _, set := range sets {
		all[set.Queue] = all[set.Queue].plus(waitingTasks{number: set.Number, oldest: set.Oldest})
	}
	return all
}

// waiting returns the due tasks that wait, by queue: in DTS, and in asynq for a worker. Error: CodeUnavailable.
func (c *Control) waiting(ctx context.Context) (map[string]waitingTasks, error) {
	var known []string
	if c.queues != nil {
		var err error
		if known, err = c.queues.Names(ctx); err != nil {
			return nil, layout.Unavailable(err)
		}
	}
	w, err := c.readWaits(ctx, known)
	if err != nil {
		return nil, err
	}
	all := byQueue(w.sets)
	return all, c.addPending(ctx, all, w.standings)
}

// addPending adds what waits in asynq. Error: CodeUnavailable.
func (c *Control) addPending(ctx context.Context, all map[string]waitingTasks, standings []queue.Named) error {
	pending := make(map[string]int)
	for _, s := range standings {
		if s.Pending > 0 {
			pending[s.Name] = s.Pending
		}
	}
	if len(pending) == 0 {
		return nil
	}
	nexts, err := c.queues.Nexts(ctx, slices.Collect(maps.Keys(pending)))
	if err != nil {
		return err
	}
	due := c.dueTimes(ctx, nexts)
	for name, n := range pending {
		one := waitingTasks{number: n, oldest: nexts[name].Since}
		if at, known := due[nexts[name].Delivery]; known {
			one.oldest = at
		}
		of, _ := task.SplitNodeQueue(name)
		all[of] = all[of].plus(one)
	}
	return nil
}

// dueTimes returns since when deliveries have been due, by their ids, as far as they are of DTS and that can be read.
func (c *Control) dueTimes(ctx context.Context, deliveries map[string]queue.Next) map[string]time.Time {
	var refs []task.Ref
	for _, d := range deliveries {
		if ref, _, err := task.ParseDelivery(d.Delivery); err == nil {
			refs = append(refs, ref)
		}
	}
	due := make(map[string]time.Time, len(refs))
	found, err := c.store.Tasks.Briefs(ctx, refs)
	if err != nil {
		return due
	}
	for _, t := range found {
		due[task.Delivery{Ref: t.Ref, Attempt: t.Attempt}.String()] = t.DueAt
	}
	return due
}
