package route

import (
	"slices"
	"time"
)

// GatherWait is how long a task of several slots waits for a node with as many free ones. Then it goes to a node with
// fewer, which keeps for it what becomes free: it gathers.
const GatherWait = 10 * time.Second

// withRoom returns the nodes so that those with too few free slots for a task have none.
func (r Reach) withRoom(nodes []Candidate) []Candidate {
	all := slices.Clone(nodes)
	for i := range all {
		if free := all[i].free(); free < r.Holds() {
			all[i].Spare += max(free, 0)
		}
	}
	return all
}

// GatherLimit is how long a node keeps slots for a task, or a task waits for its first slot there. Then it is placed
// anew.
const GatherLimit = time.Minute

// gathering returns the nodes as if each that may keep slots for a task had as many more free ones.
func (r Reach) gathering(nodes []Candidate) []Candidate {
	all, may := slices.Clone(nodes), Gatherers(nodes)
	for i := range all {
		if slices.Contains(may, i) {
			all[i].Spare = -r.Holds()
		} else {
			all[i].Spare += max(all[i].free(), 0)
		}
	}
	return all
}

// Gatherers returns the places of the nodes that may keep what becomes free for a task of several slots: none while
// half of the nodes do so, as tasks of one slot need the others. A node with more tasks than slots keeps some already.
func Gatherers(nodes []Candidate) (places []int) {
	keep := 0
	for i, c := range nodes {
		switch {
		case c.load() > c.Slots:
			keep++
		case !c.Shut && !c.Failed:
			places = append(places, i)
		}
	}
	if 2*keep >= len(nodes) {
		return nil
	}
	return places
}
