package model

import (
	"fmt"
	"slices"
	"testing"

	"github.com/dts-sched/dts/internal/testkit"
)

// lostSteps is what the loss of writes about a run and its steps may break. It breaks Reasoned as well if it loses all
// from the release of a step to its begin.
var lostSteps = []Promise{Final, BegunOnce, Held, ReleasedOnce}

// smallRuns and largeRuns are searches with runs of workflows.
var (
	smallRuns = []search{
		{size: Size{Steps: 2, Attempts: 1, Leaders: 1, Workers: 1}},
		{size: Size{Steps: 1, Attempts: 1, Leaders: 1, Workers: 1, Cancels: true}},
		{size: Size{Steps: 1, Attempts: 1, Leaders: 1, Workers: 1, Retries: true}},
		{size: Size{Steps: 1, Attempts: 1, Leaders: 1, Workers: 1, Signals: true}},
		{size: Size{Steps: 1, Attempts: 1, Leaders: 1, Workers: 1, Lag: 2}, lost: lostSteps},
	}
	largeRuns = []search{
		{size: Size{Steps: 2, Attempts: 1, Leaders: 1, Workers: 1, Cancels: true}},
		{size: Size{Steps: 1, Attempts: 1, Leaders: 1, Workers: 1, Cancels: true, Retries: true}},
		{size: Size{Steps: 1, Attempts: 1, Leaders: 1, Workers: 1, Cancels: true, Retries: true, Signals: true}},
		{size: Size{Steps: 1, Attempts: 2, Leaders: 1, Workers: 1}},
		{size: Size{Steps: 1, Attempts: 1, Leaders: 2, Workers: 1}},
		{size: Size{Steps: 1, Attempts: 1, Leaders: 1, Workers: 1, Copies: true}},
		{
			size: Size{Steps: 1, Attempts: 1, Leaders: 1, Workers: 1, Lag: 5},
			lost: append([]Promise{Reasoned}, lostSteps...),
		},
		{size: Size{Steps: 2, Attempts: 1, Leaders: 1, Workers: 1, Retries: true}},
		{size: Size{Steps: 2, Apart: true, Attempts: 1, Leaders: 1, Workers: 1}},
	}
)

// The same for runs of workflows, which the planner and the scripts carry on.
func TestModel_RunsKeepTheirPromises(t *testing.T) {
	t.Parallel()
	searches := smallRuns
	if testkit.Long() {
		searches = slices.Concat(smallRuns, largeRuns)
	}
	for _, s := range searches {
		t.Run(fmt.Sprintf("%+v", s.size), func(t *testing.T) {
			t.Parallel()
			searching <- struct{}{}
			m := &Model{Size: s.size}
			r := m.Explore()
			<-searching
			s.judge(t, r)
			s.replay(t, m, r)
		})
	}
}
