package cluster

import (
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/clock"
)

// View is the list of nodes at the time of one heartbeat. It does not change; each heartbeat creates a new View.
type View struct {
	// At is the time of the heartbeat by Redis's clock. It is zero before the first heartbeat.
	At time.Time
	// Nodes are the nodes on the list, sorted by id. That of a Registry has no dead ones.
	Nodes []Node

	cordons cordons

	self Node
	seen time.Time // when the heartbeat was answered, by this node's clock
}

// Now is the time by Redis's clock, as far as this node can tell: since At, it has measured the time itself.
func (v View) Now() time.Time {
	if v.seen.IsZero() {
		return v.At
	}
	return v.At.Add(clock.Since(v.seen))
}

// Alive returns the sorted ids of the nodes with the role that accept work: they are alive and not draining. The
// role "" means any role. This node is included if it has the role, even while it drains; its roles are known
// after its first heartbeat.
func (v View) Alive(role string) []string {
	var ids []string
	for _, n := range v.Nodes {
		if n.State == StateAlive && n.ID != v.self.ID && n.Has(role) {
			ids = append(ids, n.ID)
		}
	}
	if v.self.ID != "" && v.self.Has(role) {
		ids = append(ids, v.self.ID)
	}
	slices.Sort(ids)
	return ids
}

// Gone reports whether a node is not on the list, or dead there.
func (v View) Gone(id string) bool {
	return id != v.self.ID && !slices.ContainsFunc(v.Nodes, func(n Node) bool { return n.ID == id && n.State != StateDead })
}

// CordonOf returns the cordon of a node, which need not be on the list; nil if it has none.
func (v View) CordonOf(id, name string) *Cordon {
	return v.cordons.of(Node{ID: id, Name: name}, v.Now())
}

// cordoned returns the ids of the nodes that are cordoned. Watch signals when they change.
func (v View) cordoned() (ids []string) {
	for _, n := range v.Nodes {
		if n.Cordon != nil {
			ids = append(ids, n.ID)
		}
	}
	return ids
}

// HasOlder reports whether nodes live of a release whose scripts note no tasks for the index of lists.
func (v View) HasOlder() bool {
	return slices.ContainsFunc(v.Nodes, func(n Node) bool { return n.Via == "" && n.State != StateDead && !n.NotesRows })
}

// liveStates returns the states of all nodes that are not dead, by id. Watch signals when they change.
func (v View) liveStates() map[string]string {
	states := map[string]string{}
	for _, n := range v.Nodes {
		if n.State != StateDead {
			states[n.ID] = n.State
		}
	}
	return states
}
