package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"
)

// row is one measurement of the table.
type row struct {
	name   string // as -rows names it
	title  string
	method string // how it is measured, for RESULTS.md
	goals  []goal

	smoke []goal // if set, the row is part of the smoke run, with these bounds

	// stock, if set, names what prepare makes. Rows that follow each other with the same one share Redis and what prepare
	// has started, and each of their prepare functions adds what is not there yet.
	stock string
	// prepare, if set, is called once before the rounds. What it starts ends after the last round.
	prepare func(ctx context.Context, b *bench) error
	// run is one round. Redis is empty at its start, unless the row has prepare.
	run func(ctx context.Context, b *bench) (figures, error)
	// limit is how long a round may take; 0 means roundLimit.
	limit time.Duration
}

// roundLimit is how long a round of most rows may take.
const roundLimit = 5 * time.Minute

// figure is one number of one round.
type figure struct {
	name  string
	value float64
	unit  string
}

// figures are the numbers of a round. Every round of a row has the same ones in the same order.
type figures []figure

func (f *figures) add(name string, value float64, unit string) {
	*f = append(*f, figure{name, value, unit})
}

// value is that of the figure of a name; 0 if there is none.
func (f figures) value(name string) float64 {
	for _, one := range f {
		if one.name == name {
			return one.value
		}
	}
	return 0
}

// goal says between which values a figure is to be.
type goal struct {
	figure    string
	low, high float64 // infinite for no bound
	missed    string  // what whoever misses it is told to do; "" for nothing
}

func atLeast(figure string, low float64) goal {
	return goal{figure: figure, low: low, high: math.Inf(1)}
}

func atMost(figure string, high float64) goal {
	return goal{figure: figure, low: math.Inf(-1), high: high}
}

// met says whether a value is within the bounds.
func (g goal) met(value float64) bool { return g.low <= value && value <= g.high }

func (g goal) String() string {
	switch {
	case math.IsInf(g.low, -1):
		return "≤ " + format(g.high)
	case math.IsInf(g.high, 1):
		return "≥ " + format(g.low)
	}
	return format(g.low) + " to " + format(g.high)
}

// summary is a figure over all rounds.
type summary struct {
	name, unit       string
	median, min, max float64
	goal             *goal
}

// met says whether the goal holds; true without one.
func (s summary) met() bool { return s.goal == nil || s.goal.met(s.median) }

// result is what came of a row.
type result struct {
	row       row
	rounds    int
	took      time.Duration
	others    float64 // share of the machine that other processes used, in the round in which it was largest
	summaries []summary
	err       error // why the row has fewer rounds than it should have
}

// summarize condenses the rounds of a row; goals says which figures have bounds.
func summarize(rounds []figures, goals []goal) ([]summary, error) {
	if len(rounds) == 0 {
		return nil, nil
	}
	var all []summary
	for i, f := range rounds[0] {
		values := make([]float64, len(rounds))
		for n, round := range rounds {
			if len(round) <= i || round[i].name != f.name {
				return nil, fmt.Errorf("round %d has no figure %q in its place", n+1, f.name)
			}
			values[n] = round[i].value
		}
		s := summary{name: f.name, unit: f.unit, median: median(values), min: slices.Min(values), max: slices.Max(values)}
		if at := slices.IndexFunc(goals, func(g goal) bool { return g.figure == f.name }); at >= 0 {
			s.goal = &goals[at]
		}
		all = append(all, s)
	}
	for _, g := range goals {
		if !slices.ContainsFunc(all, func(s summary) bool { return s.name == g.figure }) {
			return nil, fmt.Errorf("no figure %q, which has a goal", g.figure)
		}
	}
	return all, nil
}
