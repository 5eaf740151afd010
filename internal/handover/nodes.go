package handover

import (
	"cmp"
	"maps"
	"slices"

	"github.com/dts-sched/dts/internal/task"
)

// wakeLimit is the most nodes that are chosen to take from a queue. For more it is as well to wake all.
const wakeLimit = 16

// candidate is a node that serves a queue and has free slots.
type candidate struct {
	Node
	free int // slots, without those for which it was chosen
}

// Choose returns nodes that serve a queue, run the types of so many deliveries, and are likely to have as many free
// slots together, the freest most often; none to wake all. draw returns a random number below n.
func (p *Planner) Choose(queue string, byType map[string]int, draw func(n int) int) []string {
	if _, node := task.SplitNodeQueue(queue); node != "" {
		return []string{node}
	}
	var all []*candidate
	for _, n := range p.fleet.Workers {
		if _, serves := n.Queues[queue]; serves && n.Running < n.Capacity {
			all = append(all, &candidate{n, n.Capacity - n.Running})
		}
	}
	var chosen []string
	for _, taskType := range rarestFirst(all, byType) {
		some, enough := chooseFor(able(all, taskType), byType[taskType], draw)
		if !enough {
			return nil
		}
		chosen = append(chosen, some...)
	}
	slices.Sort(chosen)
	if chosen = slices.Compact(chosen); len(chosen) > wakeLimit {
		return nil
	}
	return chosen
}

// able returns the nodes that run a type.
func able(all []*candidate, taskType string) []*candidate {
	var some []*candidate
	for _, c := range all {
		if len(c.Types) == 0 || slices.Contains(c.Types, taskType) {
			some = append(some, c)
		}
	}
	return some
}

// rarestFirst returns the types in the order in which nodes are chosen for them: those that the fewest nodes run come
// first.
func rarestFirst(all []*candidate, byType map[string]int) []string {
	types := slices.Sorted(maps.Keys(byType))
	slices.SortStableFunc(types, func(a, b string) int { return cmp.Compare(len(able(all, a)), len(able(all, b))) })
	return types
}

// chooseFor chooses nodes for deliveries that all of them run, and takes their slots. enough is false if there are too
// few slots, or too many nodes are needed.
func chooseFor(able []*candidate, deliveries int, draw func(n int) int) (chosen []string, enough bool) {
	total := 0
	for _, c := range able {
		total += c.free
	}
	for deliveries > 0 && total > 0 && len(chosen) <= wakeLimit {
		i := pick(able, draw(total))
		c := able[i]
		used := min(c.free, deliveries)
		chosen = append(chosen, c.ID)
		total -= c.free
		deliveries -= used
		c.free, able = c.free-used, slices.Delete(able, i, i+1)
	}
	return chosen, deliveries <= 0
}

// pick returns the place of the candidate that has the nth of all free slots, from 0.
func pick(all []*candidate, n int) int {
	for i, c := range all {
		if n < c.free {
			return i
		}
		n -= c.free
	}
	return len(all) - 1
}
