package route

import (
	"slices"
	"time"
)

// GatherWait is how long a task of several slots waits for a node with as many free ones. Then it goes to a node with
// fewer, which keeps for it what becomes free.
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

// gathering returns the nodes as if each that may keep slots for a task had as many more free ones. One that has more
// tasks than slots keeps some already.
func (r Reach) gathering(nodes []Candidate) []Candidate {
	all := slices.Clone(nodes)
	for i := range all {
		if all[i].MayGather() {
			all[i].Spare = -r.Holds()
		} else {
			all[i].Spare += max(all[i].free(), 0)
		}
	}
	return all
}

// MayGather reports whether the node may keep what becomes free for one task of several slots.
func (c Candidate) MayGather() bool { return !c.Shut && c.load() <= c.Slots }
