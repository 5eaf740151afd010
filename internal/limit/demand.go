package limit

import (
	"slices"
	"time"
)

// Need says that tasks wait that have the same limits, from narrow to wide, and the same cost. Earlier needs have
// precedence.
type Need struct {
	Limits  []string
	Cost    int // slots and tokens that each task needs of each limit; 0 as 1
	Waiting int
}

func (n Need) cost() int { return max(n.Cost, 1) }

// areTooDear reports whether the tasks of a need can never start, as one of their limits allows less than they cost.
func (t *Table) areTooDear(n Need) bool {
	return n.Cost > 1 && slices.ContainsFunc(n.Limits, func(name string) bool {
		rule, _ := t.For(name)
		return rule.IsTooDear(n.Cost)
	})
}

// demand is what tasks need of a limit.
type demand struct {
	waiting int   // tasks that wait
	want    int   // slots, those that are free included: none for a task that has no room in a limit before
	lots    []lot // the tasks that have room in all limits before, in their order
}

// lot is some tasks that each need so many slots.
type lot struct{ cost, tasks int }

// next returns how many slots are lacking for the next task, if so many are free.
func (d demand) next(free int) int {
	for _, l := range d.lots {
		if all := l.cost * l.tasks; all <= free {
			free -= all
			continue
		}
		return l.cost - free%l.cost
	}
	return 0
}

// fit returns how many of the slots that are free the next tasks can use.
func (d demand) fit(free int) (used int) {
	for _, l := range d.lots {
		all := l.cost * l.tasks
		if used+all > free {
			return used + (free-used)/l.cost*l.cost
		}
		used += all
	}
	return used
}

// hasNext reports whether so many slots are enough for the next task.
func (d demand) hasNext(free int) bool { return len(d.lots) > 0 && free >= d.lots[0].cost }

// demands returns what tasks need, by limit. A task asks for a limit only while it has room in those before, so that
// leaders cannot wait for each other in a circle.
func (b *Book) demands(needs []Need, rules *Table, now time.Time) map[string]demand {
	all := make(map[string]demand)
	barred := b.Barred(needs, rules, now)
	for i, need := range needs {
		left := need.Waiting
		if rules.areTooDear(need) {
			continue
		}
		for _, limit := range need.Limits {
			d, s := all[limit], b.of(limit)
			s.used = now
			s.look(need.cost(), now)
			rule, _ := rules.For(limit)
			d.waiting, d.want = d.waiting+need.Waiting, d.want+left*need.cost()
			if left > 0 {
				d.lots = append(d.lots, lot{need.cost(), left})
			}
			all[limit] = d
			if left = min(left, s.free(rule, now)/need.cost()); slices.Contains(barred[i], limit) {
				left = 0
			}
		}
	}
	return all
}

// Barred returns, for each of the needs, the limits that its tasks must leave alone: a need before it has too little,
// and would never have enough if others took that.
func (b *Book) Barred(needs []Need, rules *Table, now time.Time) [][]string {
	barred := make([][]string, len(needs))
	if !slices.ContainsFunc(needs, func(n Need) bool { return n.Cost > 1 }) {
		return barred
	}
	short := make(map[string]bool)
	for i, need := range needs {
		for _, limit := range need.Limits {
			if short[limit] {
				barred[i] = append(barred[i], limit)
			}
		}
		if need.Waiting > 0 && len(barred[i]) == 0 && !rules.areTooDear(need) {
			if limit := b.short(need, rules, now); limit != "" {
				short[limit] = true
			}
		}
	}
	return barred
}

// short returns the first limit that has too little for a task; "" if that limit has nothing free.
func (b *Book) short(need Need, rules *Table, now time.Time) string {
	for _, limit := range need.Limits {
		rule, _ := rules.For(limit)
		free := 0
		if s := b.shares[limit]; s != nil {
			free = s.free(rule, now)
		}
		switch {
		case free == 0:
			return ""
		case free < need.cost():
			return limit
		}
	}
	return ""
}
