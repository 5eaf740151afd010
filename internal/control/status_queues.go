package control

import (
	"context"
	"slices"
	"strings"

	"github.com/dts-sched/dts/internal/status"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/why"
)

// readQueues reads the queues in which tasks wait. Error: CodeUnavailable.
func (c *Control) readQueues(ctx context.Context, how situation, f *status.Facts) error {
	if c.queues == nil {
		return nil
	}
	names, err := c.statuses.queues.Get(ctx, how.seldom(), c.queues.Names)
	if err != nil {
		return layout.Unavailable(err)
	}
	waits, err := c.readWaits(ctx, names)
	if err != nil {
		return err
	}
	f.Queues = c.queuesOf(waits)
	if len(f.Queues) == 0 {
		return nil
	}
	slots := c.foreignSlots(ctx)
	for i := range f.Queues {
		f.Queues[i].Foreign = slots[f.Queues[i].Name] > 0
	}
	return nil
}

// queuesOf returns the queues that asynq knows, and those of which tasks wait in DTS, by name; none if no task waits.
func (c *Control) queuesOf(w waits) []status.Queue {
	byName := make(map[string]*status.Queue)
	of := func(name string) *status.Queue {
		if byName[name] == nil {
			byName[name] = &status.Queue{Name: name}
		}
		return byName[name]
	}
	for _, s := range w.standings {
		if name, node := task.SplitNodeQueue(s.Name); node != "" {
			q := of(name)
			q.Waiting, q.OfAsynq = q.Waiting+s.Pending, q.OfAsynq && s.Pending == 0
			continue
		}
		q := of(s.Name)
		q.Paused, q.PausedAt, q.PausedBy, q.Note = s.Paused, s.PausedAt, s.PausedBy, s.Note
		q.Waiting, q.OfAsynq = q.Waiting+s.Pending, s.OfAsynq && q.Waiting == 0
	}
	for _, set := range w.sets {
		q := of(set.Queue)
		q.Waiting, q.OfAsynq = q.Waiting+set.Number, false
		q.Oldest = earlier(q.Oldest, set.Oldest)
		if set.IsLimited {
			q.Limited += set.Number
		}
		if set.Type != "" {
			c.addLane(q, set)
		}
	}
	var all []status.Queue
	for _, q := range byName {
		all = append(all, *q)
	}
	slices.SortFunc(all, func(a, b status.Queue) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// addLane adds the tasks of one type that wait apart in a partition.
func (c *Control) addLane(q *status.Queue, set layout.ReadySet) {
	i := slices.IndexFunc(q.Lanes, func(l status.Lane) bool { return l.Type == set.Type })
	if i < 0 {
		i = len(q.Lanes)
		q.Lanes = append(q.Lanes, status.Lane{Type: set.Type, Setting: c.types[set.Type].Setting})
	}
	lane := &q.Lanes[i]
	lane.Waiting += set.Number
	lane.Oldest = earlier(lane.Oldest, set.Oldest)
}

// heldOfEach is how many tasks of each partition that hold slots for long are counted.
const heldOfEach = 256

// readHeld reads which tasks have held slots for long, if any queue in which tasks wait has no free slot. Error:
// CodeUnavailable.
func (c *Control) readHeld(ctx context.Context, f *status.Facts) error {
	full := func(q status.Queue) bool { return q.Waiting > 0 && noneFree(status.Serving(f.Nodes, q.Name)) }
	if !slices.ContainsFunc(f.Queues, full) {
		return nil
	}
	running, more, err := c.store.RunningSince(ctx, c.now(ctx, task.Ref{}).Add(-status.HeldAfter), heldOfEach)
	if err != nil || len(running) == 0 {
		return err
	}
	read, err := c.store.Tasks.Briefs(ctx, running)
	if err != nil {
		return err
	}
	holders := holdersAmong(read)
	for i := range f.Queues {
		if q := &f.Queues[i]; full(*q) {
			countHeld(q, status.Serving(f.Nodes, q.Name), holders)
			q.HeldMore = more && q.Held >= heldOfEach
		}
	}
	return nil
}

// noneFree reports whether those who serve a queue have no free slot.
func noneFree(servers []status.Node) bool {
	return !slices.ContainsFunc(servers, func(n status.Node) bool { return n.Running < n.Capacity })
}

// countHeld counts the slots that tasks hold of those who serve a queue.
func countHeld(q *status.Queue, servers []status.Node, holders []why.Running) {
	for _, h := range holders { // those that began first come first
		if !slices.ContainsFunc(servers, func(n status.Node) bool { return n.ID == h.Node }) {
			continue
		}
		if q.Held == 0 {
			q.Holder, q.HeldFrom = h.Ref.ID, h.StartedAt
		}
		q.Held++
	}
}
