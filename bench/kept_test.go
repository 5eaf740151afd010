package main

import (
	"slices"
	"strings"
	"testing"
)

func TestKept_BoundsTheCommandsOfEachScript(t *testing.T) {
	t.Parallel()
	for _, s := range new(path).stages() {
		bounded := func(g goal) bool { return g.figure == commandsOf(s.name) }
		if n := kept.commands[s.name]; n == 0 || !slices.ContainsFunc(keptGoals(), bounded) {
			t.Errorf("nothing is kept of the commands of %s", s.name)
		}
	}
}

func TestKeptGoals_AreMissedByOneMoreCommandOfACall(t *testing.T) {
	t.Parallel()
	for _, g := range keptGoals() {
		script, ok := strings.CutPrefix(g.figure, commandsOf(""))
		if !ok {
			continue
		}
		n := kept.commands[script]
		for _, change := range []float64{-1, 0, 1} {
			if got := g.met(n + change/keptCall); got != (change == 0) {
				t.Errorf("%s: with %v commands more in a call, the goal is met: %v", script, change, got)
			}
		}
	}
}

func TestFailures_SayWhatToDoAboutAMissedGoal(t *testing.T) {
	t.Parallel()
	g := goal{figure: commandsOf("begin"), low: 0.95, high: 1.05, missed: keptMissed}
	missed := result{row: row{name: "kept"}, summaries: []summary{{name: g.figure, unit: "a task", median: 1.1, goal: &g}}}
	err := failures([]result{missed}, true)
	const want = "kept: commands: begin is 1.10 a task, must be 0.95 to 1.05. If this change is meant, write"
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v", err)
	}
}
