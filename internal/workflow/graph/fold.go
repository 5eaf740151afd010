package graph

import (
	"fmt"
	"slices"
)

// Fold joins steps that need the same ones and that the same ones need, as those of a fan: a drawing of many steps has
// them as one. It returns the first step of each group, with needs among these, and the indices of the steps of each
// group. States are left out.
func Fold(steps []Step) (folded []Step, groups [][]int) {
	needs := edges(steps)
	behind := make([][]int, len(steps))
	for i, from := range needs {
		for _, f := range from {
			behind[f] = append(behind[f], i)
		}
	}
	groupOf, known := make([]int, len(steps)), map[string]int{}
	for i := range steps {
		from := slices.Sorted(slices.Values(needs[i]))
		key := fmt.Sprint(from, behind[i])
		g, is := known[key]
		if !is {
			g = len(groups)
			known[key], groups = g, append(groups, nil)
		}
		groupOf[i], groups[g] = g, append(groups[g], i)
	}
	folded = make([]Step, len(groups))
	for g, members := range groups {
		folded[g].ID = steps[members[0]].ID
		for _, f := range needs[members[0]] {
			if id := steps[groups[groupOf[f]][0]].ID; !slices.Contains(folded[g].Needs, id) {
				folded[g].Needs = append(folded[g].Needs, id)
			}
		}
	}
	return folded, groups
}
