package chaos

import (
	"slices"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/store/layout"
)

func TestLimits_AreJudgedByTheCallsOfTheHandlers(t *testing.T) {
	t.Parallel()
	one := []string{"key:a"}
	// tasks are two of a limit, one after the other, and one without limits.
	tasks := func() []limited {
		return []limited{
			{id: "x", cost: 1, limits: one, ready: at(1), calls: []call{called(1, 1, 2, "x")}},
			{id: "y", cost: 1, limits: one, ready: at(1), calls: []call{called(1, 2.1, 3, "y")}},
			{id: "free", cost: 1, ready: at(1), calls: []call{called(1, 1.5, 9, "free")}},
		}
	}
	together := func(all []limited) { all[1].calls[0] = called(1, 1.5, 3, "y") }
	changed := func(p *past, from, to int) {
		p.rules = []ruled{{between(-99, -98), rule{slots: from}, "key:a"}, {between(1, 1.1), rule{slots: to}, "key:a"}}
	}
	const raised, lowered = 2, 1
	for name, test := range map[string]struct {
		change func(all []limited, p *past)
		want   string
	}{
		"as it was": {func([]limited, *past) {}, ""},
		"two at once": {func(all []limited, _ *past) {
			together(all)
		}, "key:a has 1 slots, and tasks held 2"},
		"two slots at once": {func(all []limited, _ *past) { all[0].cost = 2 }, "key:a has 1 slots, and tasks held 2"},
		"two at once, after a loss": {func(all []limited, p *past) {
			together(all)
			p.lost = []loss{{span: between(0, 0.9)}}
		}, "tasks held 2"},
		"two at once, after a loss, and a leader died": {func(all []limited, p *past) {
			together(all)
			p.lost, p.harms = []loss{{span: between(0, 0.9)}}, []harm{{span: between(0.5, 0.6), name: "kill", member: "node1"}}
		}, ""},
		"two at once, after a loss elsewhere, and a leader died": {func(all []limited, p *past) {
			together(all)
			elsewhere := []int{(homeOf("key:a") + 1) % layout.DefaultPartitions}
			for slices.Contains([]int{partitionOf("x"), partitionOf("y"), homeOf("key:a")}, elsewhere[0]) {
				elsewhere[0] = (elsewhere[0] + 1) % layout.DefaultPartitions
			}
			p.lost = []loss{{between(0, 0.9), elsewhere}}
			p.harms = []harm{{span: between(0.5, 0.6), name: "kill", member: "node1"}}
		}, "tasks held 2"},
		"two at once, long after a loss in which a leader died": {func(all []limited, p *past) {
			together(all)
			p.lost = []loss{{span: between(-30, -29)}}
			p.harms = []harm{{span: between(-29.5, -29), name: "kill", member: "node1"}}
		}, "tasks held 2"},
		"two at once, as Redis lost the start of one": {func(all []limited, p *past) {
			together(all)
			p.lost = []loss{{span: between(0.9, 1.2)}}
		}, ""},
		"two at once, before a loss": {func(all []limited, p *past) {
			together(all)
			p.lost = []loss{{span: between(5, 6)}}
		}, "tasks held 2"},
		"two at once, as the limit was raised": {func(all []limited, p *past) {
			together(all)
			changed(p, lowered, raised)
		}, ""},
		"two at once, just after the limit was lowered": {func(all []limited, p *past) {
			together(all)
			changed(p, raised, lowered)
		}, ""},
		"two at once, long after the limit was lowered": {func(all []limited, p *past) {
			all[0].calls[0], all[1].calls[0] = called(1, 20, 22, "x"), called(1, 21, 22, "y")
			changed(p, raised, lowered)
			all[0].ready, all[1].ready = at(20), at(21)
		}, "tasks held 2"},
		"two at once, long after a change that Redis has lost": {func(all []limited, p *past) {
			all[0].calls[0], all[1].calls[0] = called(1, 20, 22, "x"), called(1, 21, 22, "y")
			changed(p, raised, lowered)
			p.harms = []harm{{span: between(1, 2), name: losing}}
		}, ""},
		"two at once, as the attempt of the first one had ended": {func(all []limited, _ *past) {
			all[0].calls[0].end, all[0].ended = at(9), []wire.Attempt{attempted(1, wire.OutcomeLost, 1, 2)}
		}, ""},
		"late": {func(all []limited, _ *past) {
			all[1].calls[0] = called(1, 6, 7, "y")
		}, "y waited from"},
		"late, as others": {func(all []limited, _ *past) {
			all[1].calls[0], all[2].calls[0] = called(1, 6, 7, "y"), called(1, 3, 9, "free")
		}, ""},
		"late, as its slot was taken": {func(all []limited, _ *past) {
			all[0].calls[0], all[1].calls[0] = called(1, 1, 20, "x"), called(1, 21, 22, "y")
		}, ""},
		"late, as its slots are kept for a larger one": {func(all []limited, p *past) {
			all[0].calls[0], all[1].calls[0] = called(1, 7.1, 8, "x"), called(1, 6.6, 7, "y")
			all[2] = limited{id: "z", cost: 1, limits: one, ready: at(1), calls: []call{called(1, 1, 6.5, "z")}}
			all[0].cost, p.rules[0].slots = 2, 2
		}, ""},
		"late, as its slot is kept for one that waits for a second limit": {func(all []limited, p *past) {
			all[1].calls[0] = called(1, 6, 7, "y")
			all[2] = limited{id: "w", cost: 1, limits: []string{"key:b"}, ready: at(1), calls: []call{called(1, 1, 6, "w")}}
			all[0].limits, all[0].calls[0] = []string{"key:b", "key:a"}, called(1, 8, 9, "x")
		}, ""},
		"late, though the second limit of another one is free": {func(all []limited, p *past) {
			all[1].calls[0] = called(1, 6, 7, "y")
			all[0].limits, all[0].calls[0] = []string{"key:b", "key:a"}, called(1, 8, 9, "x")
			all[0].place = &place{} // it may have to wait for its members
		}, "y waited from"},
		"late, as something happened": {func(all []limited, p *past) {
			all[1].calls[0], p.harms = called(1, 6, 7, "y"), []harm{{span: between(4, 5), name: "kill"}}
		}, ""},
		"late, as a node was drained": {func(all []limited, p *past) {
			all[1].calls[0], p.harms = called(1, 6, 7, "y"), []harm{{span: between(4, 5), name: draining}}
		}, "y waited from"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all, p := tasks(), &past{rules: []ruled{{between(-99, -98), rule{slots: 1}, "key:*"}}}
			for i := range all {
				all[i].p = p
			}
			test.change(all, p)
			expect(t, judgeLimits(all, p), test.want)
		})
	}
}

// What is taken is judged by the earliest and the latest moment at which it can have been.
func TestRate_IsJudgedByTheCallsOfTheHandlers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(all []taken, p *past)
		want   string
	}{
		"as it was":       {func([]taken, *past) {}, ""},
		"one more":        {func(all []taken, _ *past) { all[2].tokens++ }, "allows 3.0 tokens from"},
		"earlier":         {func(all []taken, _ *past) { all[2].until = at(1.7) }, "and 3 were taken"},
		"due before":      {func(all []taken, _ *past) { all[2] = taken{between(0.5, 1.7), 1} }, ""},
		"not known since": {func(all []taken, _ *past) { all[2] = taken{span{time.Time{}, at(1.7)}, 1} }, ""},
		"earlier, after loss": {func(all []taken, p *past) {
			all[2].until, p.lost = at(1.7), []loss{{span: between(0, 0.5)}}
		}, ""},
		"lost": {func(all []taken, p *past) {
			all[2].tokens, p.lost = 9, []loss{{span: between(1.9, 3)}}
		}, ""},
		"many more after loss": {func(all []taken, p *past) {
			all[2].tokens, p.lost = 5, []loss{{span: between(0, 0.5)}}
		}, "and 7"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := []taken{{between(1, 1.1), 1}, {between(1, 1.2), 1}, {between(1, 2.0), 1}}
			p := &past{rules: []ruled{{between(-9, -8), rule{slots: 9, rate: 1, burst: 2}, "key:r"}}}
			test.change(all, p)
			expect(t, judgeRate("key:r", all, p), test.want)
		})
	}
}

func TestLimited_FindsTheLongestTimeWithFreeSlots(t *testing.T) {
	t.Parallel()
	p := &past{rules: []ruled{{between(-9, -8), rule{slots: 2}, "key:a"}, {between(-9, -8), rule{slots: 1}, "key:b"}}}
	task := limited{cost: 1, limits: []string{"key:a", "key:b"}}
	holds := map[string][]hold{
		"key:a": {{span: between(0, 3), cost: 1}, {span: between(1, 2), cost: 1}},
		"key:b": {{span: between(4, 5), cost: 1}, {span: between(8, 9), cost: 1}},
	}
	if got, want := task.longestFree(between(0, 9), use{holds, nil, p}), 3*time.Second; got != want {
		t.Errorf("the longest time is %s, want %s", got, want)
	}
}
