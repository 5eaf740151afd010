package cluster

import (
	"slices"
	"time"
)

// View is what one beat saw. It does not change; a later beat makes another one.
type View struct {
	// At is when it was seen, by Redis's clock; zero before the first beat.
	At time.Time
	// Nodes are all that are on the list, dead ones too, sorted by id.
	Nodes []Node

	self Node
}

// Alive lists the ids, sorted, of the nodes with that role that take on work: they live and do not drain.
// The role "" means any. This node is always among them if it has the role, even if it drains; its roles are
// known from its first beat on.
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

// IsAlive says whether the node with that id lives; one that drains does. A node that is not on the list
// does not: it left, or it joined after this view was seen. Who judges by IsAlive that work is abandoned
// must therefore use a view that is newer than what it knows of the work.
func (v View) IsAlive(id string) bool {
	if id == v.self.ID {
		return true
	}
	i := slices.IndexFunc(v.Nodes, func(n Node) bool { return n.ID == id })
	return i >= 0 && v.Nodes[i].State != StateDead
}

// standing is what a change of is worth telling: who lives, and which of them drain.
func (v View) standing() map[string]string {
	states := map[string]string{}
	for _, n := range v.Nodes {
		if n.State != StateDead {
			states[n.ID] = n.State
		}
	}
	return states
}
