package handover

import (
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/limit"
)

// SetLimits tells the limits. Where there are some, Limits or Book must be asked before each Grant.
func (p *Planner) SetLimits(limits *limit.Table) {
	p.limits = limits
	for partition := range p.books {
		p.wakes[partition] = true
	}
}

// Book returns what is known of the limits in a partition; nil if there are no limits. The caller makes the calls that
// the book asks for, and tells it what came of them.
func (p *Planner) Book(partition int) *limit.Book {
	book := p.books[partition]
	if book == nil && p.limits.Text() != "" {
		book = limit.NewBook()
		p.books[partition] = book
	}
	return book
}

// Limits returns the book of a partition, if there is one, and what its waiting tasks need of the limits.
func (p *Planner) Limits(partition int) (book *limit.Book, needs []limit.Need, table *limit.Table) {
	if book = p.Book(partition); book == nil {
		return nil, nil, nil
	}
	_, needs = p.line(partition)
	return book, needs, p.limits
}

// ForgetLimits has the leader of a partition count anew who holds slots, as Redis may have lost writes.
func (p *Planner) ForgetLimits(partition int) {
	if b := p.books[partition]; b != nil {
		b.Forget()
		p.wakes[partition] = true
	}
}

// SlotsFreed tells that tasks of a partition have ended that held slots of a limit.
func (p *Planner) SlotsFreed(partition int, name string, n int) {
	if b := p.books[partition]; b != nil {
		b.Freed(name, n)
		p.wakes[partition] = true
	}
}

// LimitWoken tells that the home of a limit wants the leader of a partition to ask it.
func (p *Planner) LimitWoken(partition int, name string) {
	if b := p.books[partition]; b != nil {
		b.Wake(name)
		p.wakes[partition] = true
	}
}

// line returns the keys with limits whose tasks wait in a partition, and what these need, as far as their queues have
// room: slots and tokens of a limit are not to wait for workers. Keys of a pool come in their turn. Of several pools,
// the one comes first whose next such tasks have waited longest.
func (p *Planner) line(partition int) (turns []*turn, needs []limit.Need) {
	var flows []*flow
	first := make(map[*flow]*turn)
	for _, f := range p.flows {
		if i := slices.IndexFunc(f.order, func(t *turn) bool { return t.limits != nil && t.waits(partition) }); i >= 0 {
			first[f], flows = f.order[i], append(flows, f)
		}
	}
	slices.SortFunc(flows, func(a, b *flow) int {
		return first[a].oldest(partition).Compare(first[b].oldest(partition))
	})
	for _, f := range flows {
		room := f.part()
		for _, t := range f.order {
			if t.limits != nil && t.waits(partition) {
				turns = append(turns, t)
				needs = append(needs, t.need(min(max(t.number(partition), 1), room)))
			}
		}
	}
	return turns, needs
}

// need is what some tasks of the key need of limits.
func (t *turn) need(tasks int) limit.Need {
	return limit.Need{Limits: t.limits, Cost: t.cost, Waiting: tasks}
}

// grantSlots adds what a claim may use of limits.
func (p *Planner) grantSlots(partition int, g *Grant, now time.Time) {
	book, needs, table := p.Limits(partition)
	if book == nil {
		return
	}
	g.Limits, g.Slots = table, book.Grants(needs, table, now)
}

// noteSlots notes what a claim has used of limits, and how many tasks wait for them.
func (p *Planner) noteSlots(partition int, g Grant, o Outcome, now time.Time) {
	book := p.books[partition]
	if book == nil || g.Limits == nil {
		return
	}
	if o.Backlog == nil {
		book.ClaimFailed(g.Slots)
		return
	}
	book.Claimed(o.Slots, now)
	for lane, n := range o.Numbers {
		if t := p.flow(lane.pool()).of(lane.Fair); t != nil {
			t.setNumber(partition, n)
		}
	}
}

// rooms is how many tasks have room in the limits while turns are planned.
type rooms struct {
	p    *Planner
	now  time.Time
	used map[place]int // slots that were taken
	// barred are, by partition, the keys that may not take what is free of some limits: another one comes first, and needs
	// more than there is. A partition that was not looked at is missing.
	barred   map[int]map[*turn][]string
	hasCosts bool // tasks wait that need several slots
}

// place is a limit in a partition.
type place struct {
	partition int
	limit     string
}

// rooms returns the rooms of this moment. They hold until the planner is told what waits, or what there is of limits.
func (p *Planner) rooms(now time.Time) *rooms {
	r := &rooms{p: p, now: now, barred: make(map[int]map[*turn][]string)}
	for _, f := range p.flows {
		r.hasCosts = r.hasCosts || f.costs > 0
	}
	return r
}

// again returns a copy with nothing taken; nil, which is for tasks without limits, for nil.
func (r *rooms) again() *rooms {
	if r == nil {
		return nil
	}
	return &rooms{p: r.p, now: r.now, barred: r.barred, hasCosts: r.hasCosts}
}

// of returns how many tasks of a key have room in a partition.
func (r *rooms) of(partition int, t *turn) int {
	b := r.p.books[partition]
	switch {
	case b == nil && r.p.limits.Text() == "": // a claim finds that the limits of these tasks are no more
		return ClaimLimit
	case b == nil:
		return 0
	}
	room, barred := ClaimLimit, r.barredIn(partition)[t]
	for _, name := range t.limits {
		if slices.Contains(barred, name) {
			return 0
		}
		used := r.used[place{partition, name}]
		room = min(room, b.RoomBeside(name, t.cost, used, r.p.limits, r.now))
	}
	return room
}

// asks adds the partitions whose leader has something to ask before it can claim tasks of a key.
func (r *rooms) asks(t *turn, partitions map[int]bool) {
	for _, w := range t.line {
		if b := r.p.books[w.partition]; b != nil && b.MustJoinLine(t.need(1), r.p.limits, r.now) {
			partitions[w.partition] = true
		}
	}
}

// barredIn returns what is barred in a partition. That is nothing while each task needs one slot.
func (r *rooms) barredIn(partition int) map[*turn][]string {
	barred, known := r.barred[partition]
	if known || !r.hasCosts {
		return barred
	}
	barred = make(map[*turn][]string)
	turns, needs := r.p.line(partition)
	for i, limits := range r.p.books[partition].Barred(needs, r.p.limits, r.now) {
		if limits != nil {
			barred[turns[i]] = limits
		}
	}
	r.barred[partition] = barred
	return barred
}

// has reports whether a task of a key has room in some partition.
func (r *rooms) has(t *turn) bool {
	for _, w := range t.line {
		if r.of(w.partition, t) > 0 {
			return true
		}
	}
	return false
}

// take takes the room for a task of a partition; false if there is none.
func (r *rooms) take(partition int, t *turn) bool {
	if r.of(partition, t) <= 0 {
		return false
	}
	if r.used == nil {
		r.used = make(map[place]int)
	}
	for _, name := range t.limits {
		r.used[place{partition, name}] += t.cost
	}
	return true
}
