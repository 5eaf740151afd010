package route

import (
	"strings"
	"time"
)

// Move says that a node has given tasks up, so that another one goes on. The zero value: no node has.
type Move struct {
	From string // the id of the node that has given them up
	To   string // the id or the name of the node to which they are to go; "" for any other one
}

// MoveWait is how long a task that was given up waits for the node to which it is to go, or for any but the one that it
// has left, while that has no free slot. Then it goes wherever its reach allows.
const MoveWait = 10 * time.Second

// moveMark is before each part of a move. No selector begins with it, and no node has it in its name.
const moveMark = "^"

// Word returns the word of a reach with the move. rest is its word without.
func (m Move) Word(rest string) string {
	if m == (Move{}) {
		return rest
	}
	return moveMark + m.From + moveMark + m.To + moveMark + rest
}

// cutMove splits a word into a move and the word of the reach without it.
func cutMove(word string) (_ Move, rest string) {
	if parts := strings.SplitN(word, moveMark, 4); len(parts) == 4 && parts[0] == "" {
		return Move{From: parts[1], To: parts[2]}, parts[3]
	}
	return Move{}, word
}

// among returns those nodes to which tasks go first that were given up: the one to which they are to go, if it is among
// the nodes, else all but the one that they have left, else all.
func (m Move) among(nodes []Candidate) []Candidate {
	for _, fits := range []func(c *Candidate) bool{
		func(c *Candidate) bool { return c.Is(m.To) && c.ID != m.From },
		func(c *Candidate) bool { return c.ID != m.From },
	} {
		var some []Candidate
		for i := range nodes {
			if fits(&nodes[i]) {
				some = append(some, nodes[i])
			}
		}
		if len(some) > 0 {
			return some
		}
	}
	return nodes
}

// Is reports whether the node has an id or a name that is not empty.
func (c *Candidate) Is(node string) bool { return node != "" && (c.ID == node || c.Name == node) }

// Place decides where a task goes, as Route.Place does. One that was given up waits for some of the nodes up to
// MoveWait, and one of several slots for a node with as many free ones up to GatherWait: Place.Still says how much of
// that is left. nodes are all that match the selector and have as many slots.
func (r Reach) Place(t Task, nodes []Candidate, turns Turns) (Place, Turns) {
	if r.Holds() == 1 {
		return r.place(t, nodes, turns)
	}
	place, next := r.place(t, r.withRoom(nodes), turns)
	switch still := GatherWait - t.Waited; {
	case place.Node != "":
		return place, next
	case still > 0:
		return Place{For: place.For, Still: still}, turns
	}
	return r.place(t, r.gathering(nodes), turns)
}

// place is Place for nodes that have a free slot only if they have as many as the task needs.
func (r Reach) place(t Task, nodes []Candidate, turns Turns) (Place, Turns) {
	still := MoveWait - t.Waited
	first := r.Move.among(nodes)
	if r.Move == (Move{}) || len(first) == len(nodes) || still <= 0 {
		return r.Route.Place(t, nodes, turns)
	}
	place, next := r.Route.Place(t, first, turns)
	if place.Node != "" {
		return place, next
	}
	return Place{For: r.Move.To, Still: still}, turns
}
