package route

import "slices"

// Turns says whose turn it is among the nodes of a lane. The zero value is the beginning. It is a value: what Place
// returns shares nothing that is changed later.
type Turns struct {
	Name, ID string         // Round: the node whose turn was last
	Credit   map[string]int // WeightedRound: by id, how far a node is behind its share, in parts of a turn
}

// next returns the node whose turn it is among those with free slots: the next name after the last one, in a circle. So
// the order stays when nodes come and go, and two nodes that stay take turns with each other.
func (t Turns) next(free []*Candidate) (*Candidate, Turns) {
	last := &Candidate{Name: t.Name, ID: t.ID}
	var chosen, first *Candidate
	for _, c := range free {
		if first == nil || byName(c, first) < 0 {
			first = c
		}
		if byName(c, last) > 0 && (chosen == nil || byName(c, chosen) < 0) {
			chosen = c
		}
	}
	if chosen == nil {
		chosen = first
	}
	t.Name, t.ID = chosen.Name, chosen.ID
	return chosen, t
}

// weighted returns the node whose turn it is among those with free slots, by smooth weighted round robin, as nginx has
// it: each turn gives every node its weight as credit, and whoever has the most pays for all. nodes are all that live:
// the others are forgotten. One without a free slot keeps its credit, and gets none.
func (t Turns) weighted(free []*Candidate, nodes []Candidate) (*Candidate, Turns) {
	credit := make(map[string]int, len(nodes))
	for i := range nodes {
		if n := t.Credit[nodes[i].ID]; n != 0 {
			credit[nodes[i].ID] = n
		}
	}
	total := 0
	for _, c := range free {
		credit[c.ID] += c.weight()
		total += c.weight()
	}
	chosen := slices.MaxFunc(free, func(a, b *Candidate) int {
		if a, b := credit[a.ID], credit[b.ID]; a != b {
			return a - b
		}
		return byName(b, a)
	})
	credit[chosen.ID] -= total
	t.Credit = credit
	return chosen, t
}
