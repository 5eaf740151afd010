package route

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// asked returns the nodes to which a task goes that was given up, from the words of the documentation: the node that is
// named, else all but the one that it leaves. If there are none, or it has waited long enough, all nodes are.
func asked(m Move, nodes []Candidate, waited time.Duration) []Candidate {
	named := slices.DeleteFunc(slices.Clone(nodes), func(c Candidate) bool {
		return m.To == "" || c.ID != m.To && c.Name != m.To || c.ID == m.From
	})
	others := slices.DeleteFunc(slices.Clone(nodes), func(c Candidate) bool { return c.ID == m.From })
	switch {
	case waited >= 10*time.Second || len(others) == 0:
		return nodes
	case len(named) > 0:
		return named
	}
	return others
}

func TestReach_PlacesWhatWasGivenUp(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	moved, waited := 0, 0
	for i := range 20_000 {
		nodes, turns := someNodes(r), someTurns(r)
		by, of := someRoute(r, i)
		of.Waited = time.Duration(r.IntN(12)) * time.Second
		m := Move{From: []string{"id-0", "id-1", "gone"}[r.IntN(3)], To: []string{"", "id-1", "name-2", "gone"}[r.IntN(4)]}
		if r.IntN(5) == 0 {
			m = Move{}
		}
		got, next := Reach{Route: by, Move: m}.Place(of, nodes, turns)
		want, wantNext := by.Place(of, nodes, turns)
		if m != (Move{}) {
			some := asked(m, nodes, of.Waited)
			want, wantNext = by.Place(of, some, turns)
			if want.Node == "" && len(some) < len(nodes) {
				want, wantNext = Place{For: m.To, Still: 10*time.Second - of.Waited}, turns
				waited++
			}
			if want.Node != "" && len(some) < len(nodes) {
				moved++
			}
		}
		if got != want || next.Name != wantNext.Name || next.ID != wantNext.ID {
			t.Fatalf("%v of %+v among %+v: %+v, want %+v", by, m, nodes, got, want)
		}
	}
	if moved < 1000 || waited < 1000 {
		t.Errorf("%d went elsewhere, %d waited: too few to say something", moved, waited)
	}
}

func TestParseReach_ReadsMoves(t *testing.T) {
	t.Parallel()
	own := Reach{Route: Route{By: Failover, Order: []string{"a", "b"}}}
	for _, m := range []Move{{}, {From: "n-1"}, {From: "n-1", To: "reports_2.eu"}} {
		for _, r := range []Reach{{Move: m}, {Route: own.Route, Move: m}} {
			word := r.String()
			got, err := ParseReach(word)
			if err != nil || got.String() != word || got.Move != m || got.Route.By != r.Route.By {
				t.Errorf("%q is read as %+v: %v", word, got, err)
			}
			if r.IsZero() != (m == Move{} && r.Route.By == "") {
				t.Errorf("%q says nothing: %v", word, r.IsZero())
			}
		}
	}
}
