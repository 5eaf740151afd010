package control

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/limit"
	"github.com/dts-sched/dts/internal/route"
	"github.com/dts-sched/dts/internal/status"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/store/rules"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/why"
)

// readQueues reads the queues in which tasks wait, and which limits let some of them not start. Error: CodeUnavailable.
func (c *Control) readQueues(ctx context.Context, how situation, f *status.Facts, u *unread) error {
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
	bars := c.readBars(ctx, waits.sets, u)
	f.Queues = c.queuesOf(waits, bars)
	f.Limits = bars.limits
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
func (c *Control) queuesOf(w waits, b bars) []status.Queue {
	byName, lanes := make(map[string]*status.Queue), make(map[laneOf]int)
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
		if set.Limits != "" {
			q.Limited += set.Number
		}
		c.addLane(q, set, b.of(set), lanes)
	}
	var all []status.Queue
	for _, q := range byName {
		all = append(all, *q)
	}
	slices.SortFunc(all, func(a, b status.Queue) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// laneOf is what tasks have in common that wait apart.
type laneOf struct {
	queue, taskType string
	site            status.Site
	limit           bar
}

// bar is a limit that lets tasks not start.
type bar struct {
	name    string // as somebody has set it; "" for none
	tooDear bool   // as they cost more than it has; else it is paused
}

// lanesMost is how many kinds of tasks that wait apart in a queue the status looks at.
const lanesMost = 1000

// addLane adds the tasks of a set that wait apart: by their type, for a node that may run them, or for a limit. at is
// where the lanes are that it has added.
func (c *Control) addLane(q *status.Queue, set layout.ReadySet, limit bar, at map[laneOf]int) {
	lane := status.Lane{Type: set.Type, Setting: c.types[set.Type].Setting, Site: siteOf(set.Reach)}
	lane.Limit, lane.TooDear = limit.name, limit.tooDear
	if lane.Type == "" && lane.Site == (status.Site{}) && limit == (bar{}) {
		return
	}
	key := laneOf{q.Name, lane.Type, lane.Site, limit}
	i, is := at[key]
	switch {
	case is:
	case len(q.Lanes) == lanesMost:
		return
	default:
		i, q.Lanes = len(q.Lanes), append(q.Lanes, lane)
		at[key] = i
	}
	of := &q.Lanes[i]
	of.Waiting += set.Number
	if of.First == "" || set.Oldest.Before(of.Oldest) {
		of.First, of.Oldest = set.First, set.Oldest
	}
}

// siteOf is what a node must have by a reach. One that nobody can read says nothing here.
func siteOf(reach string) status.Site {
	r, err := route.ParseReach(reach)
	if err != nil || reach == "" {
		return status.Site{}
	}
	return status.Site{Select: r.Select.String(), Order: strings.Join(r.Route.Order, ","), Slots: r.Slots}
}

// bars are the limits that let some tasks not start, as they are paused, or have less than these cost.
type bars struct {
	now    time.Time
	all    limit.Rules
	limits []status.Limit
}

// readBars reads the limits, if tasks wait that have some.
func (c *Control) readBars(ctx context.Context, sets []layout.ReadySet, u *unread) (b bars) {
	if !slices.ContainsFunc(sets, func(s layout.ReadySet) bool { return s.Limits != "" }) {
		return b
	}
	entries, now, err := c.store.Rules.All(ctx)
	if u.note("the limits", err) {
		return b
	}
	b.now, b.all = now, rules.Of(entries)
	for _, e := range entries {
		b.limits = append(b.limits, status.Limit{Name: e.Name.String(), Rule: e.Rule, Pauser: e.Pauser, Note: e.Note})
	}
	return b
}

// of returns the first limit that lets no task of a set start.
func (b bars) of(set layout.ReadySet) bar {
	limits, cost := task.SplitLimits(set.Limits)
	for _, text := range limits {
		name, err := limit.ParseName(text)
		if err != nil {
			continue
		}
		of, _ := b.all.Which(name)
		switch rule := b.all[of]; {
		case rule.Paused.After(b.now):
			return bar{name: of.String()}
		case rule.IsTooDear(cost):
			return bar{of.String(), true}
		}
	}
	return bar{}
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
		q.Held += max(h.Slots, 1)
	}
}
