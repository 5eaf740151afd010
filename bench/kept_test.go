package main

import (
	"math"
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

// The counts are those of a whole run, as INFO commandstats has them.
func TestKeptRow_ReportsOneMoreCommandOfACall(t *testing.T) {
	t.Parallel()
	stages := new(path).stages()
	reported := func(more string) error {
		calls := make(map[string]float64)
		for _, s := range stages {
			calls[s.name] = math.Round(kept.commands[s.name] * keptTasks)
		}
		if more != "" {
			calls[more] += keptTasks / keptCall
		}
		var f figures
		new(path).addCommands(&f, calls)
		f.add(keptCPUFigure, kept.cpu, "x")
		summaries, err := summarize([]figures{f}, keptRow().smoke)
		if err != nil {
			t.Fatal(err)
		}
		return failures([]result{{row: keptRow(), summaries: summaries}}, true)
	}
	if err := reported(""); err != nil {
		t.Errorf("without a change: %v", err)
	}
	for _, s := range stages {
		err := reported(s.name)
		if err == nil || !strings.HasPrefix(err.Error(), "kept: "+commandsOf(s.name)+" is ") {
			t.Errorf("with one more command in each call of %s: %v", s.name, err)
		}
	}
}

func TestSettledRatio_TakesTheSecondSetIfTheFirstIsTooHigh(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sets  []float64 // the ratio of each repetition of a set
		want  float64
		calls int
	}{
		"the first is low":        {[]float64{0.7, 2}, 0.7, keptSet},
		"the first is high":       {[]float64{2, 0.7}, 0.7, 2 * keptSet},
		"both are high":           {[]float64{3, 2, 0.7}, 2, 2 * keptSet},
		"the second is higher":    {[]float64{2, 3, 0.7}, 3, 2 * keptSet},
		"the first is just right": {[]float64{1, 0.7}, 1, keptSet},
	} {
		calls := 0
		got, own, err := settledRatio(1, func() (float64, float64, error) {
			calls++
			return c.sets[(calls-1)/keptSet] * 10, 10, nil
		})
		if err != nil || got != c.want || own != c.want*10 || calls != c.calls {
			t.Errorf("%s: %v and %v after %d repetitions, %v", name, got, own, calls, err)
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
