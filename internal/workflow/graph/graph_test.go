package graph

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

var update = flag.Bool("update", false, "write the drawings in testdata anew")

// of returns steps: "join: a b = active" needs a and b, and is active in its run.
func of(lines ...string) (steps []Step) {
	for _, line := range lines {
		line, state, _ := strings.Cut(line, " = ")
		id, needs, _ := strings.Cut(line, ":")
		steps = append(steps, Step{ID: id, Needs: strings.Fields(needs), State: state})
	}
	return steps
}

func many(prefix string, n int, behind string) (steps []Step) {
	for i := range n {
		steps = append(steps, of(fmt.Sprintf("%s%d:%s", prefix, i, behind))...)
	}
	return steps
}

func TestDraw_IsAsInTestdata(t *testing.T) {
	t.Parallel()
	warehouse := of(
		"extract_orders = succeeded", "extract_customers = succeeded", "extract_stock = succeeded",
		"extract_rates = succeeded",
		"validate: extract_orders extract_customers extract_stock extract_rates = succeeded",
		"quarantine: validate = skipped", "transform: validate = active", "dimensions: validate = failed",
		"load: transform dimensions = blocked", "refresh: load = blocked", "approve: load = blocked",
		"tell: load = cancelled", "report: approve validate = upstream_failed",
	)
	wide := append(many("s", 12, ""), of("join: s0 s1 s2 s3 s4 s5 s6 s7 s8 s9 s10 s11", "alone: s11")...)
	var tangle []Step
	for i := range 8 {
		for j := range 8 {
			s := Step{ID: fmt.Sprintf("t%d%d", i, j)}
			if i > 0 {
				s.Needs = []string{fmt.Sprintf("t%d%d", i-1, (3*j)%8), fmt.Sprintf("t%d%d", i-1, (3*j+1)%8)}
			}
			tangle = append(tangle, s)
		}
	}
	for name, c := range map[string]struct {
		steps []Step
		o     Options
	}{
		"chain":           {of("a", "b:a", "c:b"), Options{}},
		"independent":     {of("a", "b", "c"), Options{}},
		"fan_out":         {of("a", "b:a", "c:a", "d:a"), Options{}},
		"diamond":         {of("a", "b:a", "c:a", "d:b c"), Options{}},
		"crossed":         {of("a", "b", "x: b", "y: a"), Options{}},
		"two_chains":      {of("a1", "a2:a1", "a3:a2", "b1", "b2:b1", "b3:b2"), Options{}},
		"over_layers":     {of("a", "b:a", "c:b", "d: a c"), Options{}},
		"warehouse":       {warehouse, Options{}},
		"warehouse_ascii": {warehouse, Options{ASCII: true}},
		"warehouse_32":    {warehouse, Options{Width: 32}},
		"wide":            {wide, Options{}},
		"wide_list":       {wide, Options{Width: 36}},
		"tangle":          {tangle, Options{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Draw(c.steps, c.o)
			file := filepath.Join("testdata", name+".txt")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil || got != string(want) {
				t.Errorf("%v: the drawing is\n%s\nwant\n%s", err, got, want)
			}
			checkDrawing(t, c.steps, c.o, got)
		})
	}
}

// checkDrawing checks that each step is there once, behind what it needs, and that no row is too wide.
func checkDrawing(t *testing.T, steps []Step, o Options, drawing string) {
	t.Helper()
	row := map[string]int{}
	for i, line := range strings.Split(drawing, "\n") {
		if columns := utf8.RuneCountInString(line); columns > cmp.Or(o.Width, DefaultWidth) {
			t.Errorf("a row has %d columns: %s", columns, line)
		}
		if o.ASCII && strings.IndexFunc(line, func(r rune) bool { return r >= utf8.RuneSelf }) >= 0 {
			t.Errorf("a row is not ASCII: %s", line)
		}
		for _, word := range strings.Fields(line) {
			if slices.ContainsFunc(steps, func(s Step) bool { return s.ID == word }) {
				if _, twice := row[word]; !twice {
					row[word] = i
				}
			}
		}
	}
	for _, s := range steps {
		at, there := row[s.ID]
		if !there && o.Width == 0 {
			t.Errorf("step %s is missing", s.ID)
		}
		for _, need := range s.Needs {
			if there && row[need] >= at {
				t.Errorf("step %s is above %s, which it needs", s.ID, need)
			}
		}
	}
}

func TestLayout_PutsAStepBehindWhatItNeeds(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 1))
		steps := anySteps(random, 40)
		places := Layout(steps)
		seen := map[Place]bool{}
		for i, p := range places {
			if seen[p] {
				t.Fatalf("seed %d: two steps are in layer %d, row %d", seed, p.Layer, p.Row)
			}
			seen[p] = true
			deepest := -1
			for _, from := range edges(steps)[i] {
				deepest = max(deepest, places[from].Layer)
			}
			if p.Layer != deepest+1 {
				t.Errorf("seed %d: step %s is in layer %d, and what it needs up to %d", seed, steps[i].ID, p.Layer, deepest)
			}
		}
		checkDrawing(t, steps, Options{}, Draw(steps, Options{}))
	}
}

func anySteps(random *rand.Rand, n int) []Step {
	steps := make([]Step, n)
	for i := range steps {
		steps[i].ID = fmt.Sprint("s", i)
		for range random.IntN(3) {
			if i > 0 {
				steps[i].Needs = append(steps[i].Needs, fmt.Sprint("s", max(0, i-1-random.IntN(8))))
			}
		}
	}
	return steps
}

// visible counts how often lines between neighbouring layers cross.
func visible(steps []Step, places []Place) (n int) {
	var lines [][3]int // layer, row above, row below
	for i, needs := range edges(steps) {
		for _, from := range needs {
			if places[i].Layer == places[from].Layer+1 {
				lines = append(lines, [3]int{places[i].Layer, places[from].Row, places[i].Row})
			}
		}
	}
	for i, a := range lines {
		for _, b := range lines[:i] {
			if a[0] == b[0] && (a[1]-b[1])*(a[2]-b[2]) < 0 {
				n++
			}
		}
	}
	return n
}

func TestLayout_ReducesCrossings(t *testing.T) {
	t.Parallel()
	straight := of("a", "b", "c", "x: c", "y: a", "z: b", "p: y", "q: x", "r: z")
	if n := visible(straight, Layout(straight)); n != 0 {
		t.Errorf("three chains cross %d times", n)
	}
	before, after := 0, 0
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 2))
		steps := anySteps(random, 60)
		random.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
		places := Layout(steps)
		after += visible(steps, places)
		rows := map[int]int{}
		for i, p := range places { // in the order of the definition
			places[i].Row = rows[p.Layer]
			rows[p.Layer]++
		}
		before += visible(steps, places)
	}
	if after > before/2 {
		t.Errorf("lines cross %d times, and %d times in the order of the definition", after, before)
	}
}

// The largest workflows are drawn as well.
func TestDraw_TakesAThousandSteps(t *testing.T) {
	t.Parallel()
	chain := many("s", 1000, "")
	for i := 1; i < len(chain); i++ {
		chain[i].Needs = []string{chain[i-1].ID, chain[i/2].ID, chain[0].ID}
	}
	side := append(many("s", 999, ""), Step{ID: "join"})
	for _, s := range side[:999] {
		side[999].Needs = append(side[999].Needs, s.ID)
	}
	for _, steps := range [][]Step{chain, side} {
		checkDrawing(t, steps, Options{}, Draw(steps, Options{}))
	}
}
