package graph

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestFold_JoinsStepsThatAreAlike(t *testing.T) {
	t.Parallel()
	steps := of("split", "a1:split", "a2:split = failed", "b:split", "join:a1 a2", "last:join b", "a3:split", "also:a3")
	want := of("split", "a1:split", "b:split", "join:a1", "last:join b", "a3:split", "also:a3")
	folded, groups := Fold(steps)
	if diff := cmp.Diff(want, folded, cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([][]int{{0}, {1, 2}, {3}, {4}, {5}, {6}, {7}}, groups); diff != "" {
		t.Error(diff)
	}
	_, groups = Fold(append(many("part", 998, "first"), of("first")...))
	if len(groups) != 2 || len(groups[0]) != 998 {
		t.Errorf("a fan of 998 steps became %d groups", len(groups))
	}
}

// A line over several layers has a spot in each of those between, which all lines of its step share.
func TestLayers_HaveSpotsOfLinesThatPass(t *testing.T) {
	t.Parallel()
	got := Layers(of("a", "b:a", "c:b", "d:c a", "e:d a"))
	want := [][]Spot{{{0, false}}, {{1, false}, {0, true}}, {{2, false}, {0, true}}, {{3, false}, {0, true}}, {{4, false}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := Layers(nil); len(got) != 0 {
		t.Errorf("no steps have the layers %v", got)
	}
}
