package route

import (
	"math"
	"slices"
	"strings"
	"time"
)

// Candidate is a node that may run a task.
type Candidate struct {
	ID   string // new at each start
	Name string // stays after a restart

	Slots   int  // most tasks that it runs at once, if each holds one
	Running int  // slots of the tasks that it runs
	Waiting int  // slots of deliveries for it alone that it has not begun
	Spare   int  // free slots that are not for this leader: others fill them, or the node cannot take anything now
	Shut    bool // it cannot take anything now
	Failed  bool // it lately kept slots for a task of several in vain

	CPU      float64       // share in use, 0 to 1; NaN if it is not known
	Memory   float64       // share in use, 0 to 1; NaN if it is not known
	Response time.Duration // how long its tasks take, on average; 0 if that is not known

	LastUsed time.Time // of the last hand-over to it; zero for none
	Used     float64   // hand-overs of about an hour before LastUsed, and that one; see HandOver
	Weight   int       // of its turns, and of its idleness; below 1 counts as 1
	Prefer   int       // what Preferences.Sum returns for it
}

// recent is how long a hand-over counts: e times less after each such time. So the number tends towards the hand-overs
// of an hour if they come regularly.
const recent = time.Hour

// HandOver returns the node as it is after a hand-over to it: the delivery waits, and the use counts.
func (c Candidate) HandOver(now time.Time) Candidate {
	c.Used = c.usedBy(now) + 1
	c.Waiting++
	c.LastUsed = now
	return c
}

// usedBy is how much of Used still counts at a time. A clock that was set back changes nothing.
func (c *Candidate) usedBy(now time.Time) float64 {
	return c.Used * math.Exp(-max(now.Sub(c.LastUsed), 0).Hours()/recent.Hours())
}

// load is how many slots the tasks hold that the node has.
func (c *Candidate) load() int { return c.Running + c.Waiting }

// free is how many more slots tasks may get there now. It is negative if the node has too many tasks.
func (c *Candidate) free() int { return c.Slots - c.load() - c.Spare }

// hasRoom reports whether the node has a free slot.
func (c *Candidate) hasRoom() bool { return c.free() > 0 }

// weight is the weight that counts.
func (c *Candidate) weight() int { return max(c.Weight, 1) }

// byName compares two nodes by name, and those of one name by id. No two nodes are equal.
func byName(a, b *Candidate) int {
	if a.Name != b.Name {
		return strings.Compare(a.Name, b.Name)
	}
	return strings.Compare(a.ID, b.ID)
}

// preferred returns the nodes that a rule allows, of those only the ones with the greatest Prefer.
func preferred(nodes []Candidate, allows func(*Candidate) bool) []*Candidate {
	best := make([]*Candidate, 0, len(nodes))
	for i := range nodes {
		c := &nodes[i]
		switch {
		case !allows(c) || len(best) > 0 && c.Prefer < best[0].Prefer:
		case len(best) > 0 && c.Prefer > best[0].Prefer:
			best = append(best[:0], c)
		default:
			best = append(best, c)
		}
	}
	return best
}

// alike reports whether no node is preferred to another one.
func alike(nodes []Candidate) bool {
	return !slices.ContainsFunc(nodes, func(c Candidate) bool { return c.Prefer != nodes[0].Prefer })
}
