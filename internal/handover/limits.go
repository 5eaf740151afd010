package handover

import (
	"time"

	"github.com/dts-sched/dts/internal/limit"
)

// SetLimits tells the limits. Where there are some, Limits must be asked before each Grant.
func (p *Planner) SetLimits(limits *limit.Table) {
	p.limits = limits
	for partition := range p.books {
		p.wakes[partition] = true
	}
}

// Limits returns what is known of the limits in a partition, and what its waiting tasks need of them; nil if there are
// no limits. The caller makes the calls that the book asks for, and tells it what came of them.
func (p *Planner) Limits(partition int) (book *limit.Book, needs []limit.Need, table *limit.Table) {
	book = p.books[partition]
	if book == nil && p.limits.Text() != "" {
		book = limit.NewBook()
		p.books[partition] = book
	}
	if book == nil {
		return nil, nil, nil
	}
	return book, p.needs(partition), p.limits
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

// needs returns what the tasks need that wait in a partition, as far as their queues have room: slots of a limit are
// not to wait for workers.
func (p *Planner) needs(partition int) (needs []limit.Need) {
	for _, f := range p.flows {
		for _, t := range f.order {
			if t.limits != nil && t.waits(partition) {
				room := f.free + f.reserved // of what is reserved, claims mostly take little
				needs = append(needs, limit.Need{Limits: t.limits, Waiting: min(max(t.number(partition), 1), room)})
			}
		}
	}
	return needs
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
	left map[place]int
}

// place is a limit in a partition.
type place struct {
	partition int
	limit     string
}

func (p *Planner) rooms(now time.Time) *rooms { return &rooms{p: p, now: now} }

// again returns the same rooms, of which nothing is taken; nil, which is for tasks without limits, for nil.
func (r *rooms) again() *rooms {
	if r == nil {
		return nil
	}
	return &rooms{p: r.p, now: r.now}
}

func (r *rooms) of(partition int, limits []string) int {
	room := ClaimLimit
	for i, name := range limits {
		n, known := r.left[place{partition, name}]
		if !known {
			if b := r.p.books[partition]; b != nil {
				n = b.Room(limits[i:i+1], r.p.limits, r.now)
			}
			if r.left == nil {
				r.left = make(map[place]int)
			}
			r.left[place{partition, name}] = n
		}
		room = min(room, n)
	}
	return room
}

// asks adds the partitions whose leader has something to ask before it can claim tasks of a key.
func (r *rooms) asks(t *turn, partitions map[int]bool) {
	for _, w := range t.line {
		if b := r.p.books[w.partition]; b != nil && b.Asks(t.limits, r.p.limits, r.now) {
			partitions[w.partition] = true
		}
	}
}

// has reports whether a task of a key has room in some partition.
func (r *rooms) has(t *turn) bool {
	for _, w := range t.line {
		if r.of(w.partition, t.limits) > 0 {
			return true
		}
	}
	return false
}

// take takes the room for a task of a partition; false if there is none.
func (r *rooms) take(partition int, limits []string) bool {
	if r.of(partition, limits) <= 0 {
		return false
	}
	for _, name := range limits {
		r.left[place{partition, name}]--
	}
	return true
}
