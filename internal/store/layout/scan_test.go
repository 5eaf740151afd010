package layout

import (
	"slices"
	"testing"
	"time"
)

func TestScan_AsksForMoreOfManySets(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limit, sets int
		first       bool
		want        []int
	}{
		"few sets":            {50, 100, true, []int{50, 500, 1000, 2000, 4000, 5000, 5000, 2450}},
		"few sets, next page": {50, 100, false, []int{50, 500, 1000, 2000, 4000, 5000, 5000, 2450}},
		"many sets":           {1, 16_000, true, []int{1, 2000, 4000, 5000, 5000, 3999}},
		"many, next page":     {1, 16_000, false, []int{2000, 4000, 5000, 5000, 4000}},
		"very many":           {500, 1_000_000, false, []int{5000, 5000, 5000, 5000}},
	} {
		scan := (&Layout{PageTime: time.Hour}).NewScan(c.limit, c.sets, c.first)
		var got []int
		for !scan.Over() {
			n := scan.Next()
			scan.Read(n)
			got = append(got, n)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}
