package limits

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"testing"

	"github.com/dts-sched/dts/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// search is a size, and the promises that a failover that loses writes may break. doc.go has the numbers of states.
type search struct {
	size Size
	lost []Promise
}

// small are the searches of every run of the tests, large those of the long form.
var (
	small = []search{
		{size: Size{Partitions: 2, Tasks: 1, Limits: 1, Slots: 1, Again: true, Fair: true}},
		{size: Size{Partitions: 2, Tasks: 2, Limits: 1, Slots: 1, Again: true, Fair: true}},
		{size: Size{Partitions: 2, Tasks: 1, Limits: 1, Slots: 1, Again: true, Copies: true}},
		{size: Size{Partitions: 2, Tasks: 1, Limits: 1, Slots: 1, Expires: true, Stale: 1}},
		{size: Size{Partitions: 2, Tasks: 2, Limits: 1, Slots: 2, Again: true, Changes: true}},
		{size: Size{Partitions: 2, Tasks: 1, Limits: 1, Slots: 1, Cancels: true, Silent: true}},
		{size: Size{Partitions: 2, Tasks: 1, Limits: 2, Slots: 1, Again: true, Lives: true, Fair: true}},
		{size: Size{Partitions: 1, Tasks: 2, Limits: 1, Slots: 1, Burst: 1, Copies: true}},
		{size: Size{Partitions: 2, Tasks: 1, Limits: 1, Slots: 4, Costs: [3]uint8{3, 2}, Again: true, Fair: true}},
		{size: Size{
			Partitions: 2, Tasks: 2, Limits: 1, Slots: 2, Costs: [3]uint8{2, 1}, Again: true, Lives: true, Fair: true,
		}},
		{size: Size{
			Partitions: 2, Tasks: 1, Limits: 1, Slots: 3, Costs: [3]uint8{2, 1}, Burst: 2, Again: true, Lives: true, Fair: true,
		}},
		{
			size: Size{Partitions: 2, Tasks: 1, Limits: 1, Slots: 1, Lag: 1, Loses: ThePartition, Prompt: true},
			lost: []Promise{Capped, Counted},
		},
		{
			size: Size{Partitions: 2, Tasks: 1, Limits: 1, Slots: 1, Lag: 1, Loses: ThePartition},
			lost: []Promise{Within, Capped, Counted, Shared},
		},
		{
			size: Size{Partitions: 2, Tasks: 1, Limits: 1, Slots: 1, Lag: 1, Loses: TheHome, Prompt: true},
			lost: []Promise{Counted},
		},
		{
			size: Size{Partitions: 2, Tasks: 1, Limits: 1, Slots: 1, Lag: 1, Loses: TheHome},
			lost: []Promise{Within, Counted, Shared},
		},
	}
	large = []search{
		{size: Size{Partitions: 3, Tasks: 1, Limits: 1, Slots: 1, Fair: true}},
		{size: Size{Partitions: 3, Tasks: 2, Limits: 1, Slots: 1, Again: true, Fair: true}},
		{size: Size{Partitions: 3, Tasks: 2, Limits: 1, Slots: 2, Again: true, Lives: true, Fair: true}},
		{size: Size{Partitions: 2, Tasks: 1, Limits: 1, Slots: 1, Burst: 1, Again: true, Fair: true}},
		{size: Size{Partitions: 2, Tasks: 1, Limits: 1, Slots: 1, Again: true, Expires: true, Stale: 2}},
		{size: Size{Partitions: 2, Tasks: 1, Limits: 1, Slots: 2, Again: true, Copies: true, Changes: true}},
		{size: Size{Partitions: 3, Tasks: 1, Limits: 1, Slots: 2, Again: true, Changes: true}},
		{size: Size{Partitions: 2, Tasks: 1, Limits: 2, Slots: 1, Again: true, Cancels: true, Fair: true}},
		{size: Size{
			Partitions: 3, Tasks: 1, Limits: 1, Slots: 3, Costs: [3]uint8{3, 2, 1}, Again: true, Lives: true, Fair: true,
		}},
		{size: Size{Partitions: 2, Tasks: 2, Limits: 1, Slots: 3, Costs: [3]uint8{2, 1}, Again: true, Changes: true}},
		{size: Size{Partitions: 2, Tasks: 1, Limits: 1, Slots: 2, Costs: [3]uint8{2, 1}, Again: true, Copies: true}},
		{size: Size{
			Partitions: 2, Tasks: 1, Limits: 2, Slots: 2, Costs: [3]uint8{2, 1}, Again: true, Lives: true, Fair: true,
		}},
		{size: Size{
			Partitions: 3, Tasks: 1, Limits: 1, Slots: 4, Costs: [3]uint8{2, 1, 1}, Burst: 2, Again: true, Lives: true,
			Fair: true,
		}},
		{
			size: Size{Partitions: 2, Tasks: 1, Limits: 1, Slots: 1, Again: true, Lag: 4, Loses: ThePartition, Prompt: true},
			lost: []Promise{Capped, Counted, Shared},
		},
		{
			size: Size{Partitions: 2, Tasks: 1, Limits: 1, Slots: 1, Again: true, Lag: 4, Loses: ThePartition},
			lost: []Promise{Within, Capped, Counted, Shared},
		},
		{
			size: Size{Partitions: 2, Tasks: 1, Limits: 1, Slots: 1, Again: true, Lag: 3, Loses: TheHome, Prompt: true},
			lost: []Promise{Counted, Shared},
		},
		{
			size: Size{Partitions: 2, Tasks: 1, Limits: 1, Slots: 1, Lag: 2, Loses: Everything, Prompt: true},
			lost: []Promise{Capped, Counted},
		},
		{
			size: Size{Partitions: 2, Tasks: 1, Limits: 1, Slots: 1, Lag: 2, Loses: Everything},
			lost: []Promise{Within, Capped, Counted, Shared},
		},
	}
)

// searching has a place for each search at a time: more would take no less time, but more memory.
var searching = make(chan struct{}, runtime.GOMAXPROCS(0))

func TestModel_KeepsLimits(t *testing.T) {
	t.Parallel()
	searches := small
	if testkit.Long() {
		searches = slices.Concat(small, large)
	}
	for _, s := range searches {
		t.Run(fmt.Sprintf("%+v", s.size), func(t *testing.T) {
			t.Parallel()
			searching <- struct{}{}
			r := (&Model{Size: s.size}).Explore()
			<-searching
			s.judge(t, r)
		})
	}
}

// judge fails the test unless exactly those promises are broken that may be.
func (s *search) judge(t *testing.T, r Report) {
	t.Helper()
	t.Logf("%d states, %d steps, the farthest after %d", r.States, r.Steps, r.Depth)
	for _, p := range slices.Sorted(maps.Keys(r.Broken)) {
		if !slices.Contains(s.lost, p) {
			t.Errorf("it does not hold that %s. The shortest way:\n%s", p, r.Broken[p])
		}
	}
	for _, p := range s.lost {
		if r.Broken[p] == nil {
			t.Errorf("it always holds that %s: say so where it says what a failover may lose", p)
		}
	}
}
