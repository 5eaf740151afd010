package chaos

import (
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
)

func TestLimits_AreJudgedByTheCallsOfTheHandlers(t *testing.T) {
	t.Parallel()
	one := map[string]int{"key:a": 1}
	// tasks are two of a limit, one after the other, and one without limits.
	tasks := func() []limited {
		return []limited{
			{id: "x", slots: one, ready: at(1), calls: []call{called(1, 1, 2, "x")}},
			{id: "y", slots: one, ready: at(1), calls: []call{called(1, 2.1, 3, "y")}},
			{id: "free", ready: at(1), calls: []call{called(1, 1.5, 9, "free")}},
		}
	}
	for name, test := range map[string]struct {
		change func(all []limited, p *past)
		want   string
	}{
		"as it was": {func([]limited, *past) {}, ""},
		"two at once": {func(all []limited, _ *past) {
			all[1].calls[0] = called(1, 1.5, 3, "y")
		}, "key:a has 1 slots, and 2 tasks ran"},
		"two at once, after a loss": {func(all []limited, p *past) {
			all[1].calls[0], p.lost = called(1, 1.5, 3, "y"), []loss{{span: between(0, 1)}}
		}, ""},
		"two at once, before a loss": {func(all []limited, p *past) {
			all[1].calls[0], p.lost = called(1, 1.5, 3, "y"), []loss{{span: between(5, 6)}}
		}, "2 tasks ran"},
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
		"late, as something happened": {func(all []limited, p *past) {
			all[1].calls[0], p.harms = called(1, 6, 7, "y"), []harm{{span: between(4, 5), name: "kill"}}
		}, ""},
		"late, as a node was drained": {func(all []limited, p *past) {
			all[1].calls[0], p.harms = called(1, 6, 7, "y"), []harm{{span: between(4, 5), name: draining}}
		}, "y waited from"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all, p := tasks(), &past{}
			test.change(all, p)
			expect(t, judgeLimits(all, p), test.want)
		})
	}
}

func TestPlace_IsJudgedByWhoCalledTheHandler(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		on     string
		drains []drained
		want   string
	}{
		"as it was":          {"node1", nil, ""},
		"elsewhere":          {"node2", nil, "may run on [node1]"},
		"not known":          {"", nil, ""},
		"drained":            {"node1", []drained{{between(2, 9), "node1"}}, "had confirmed"},
		"drained just then":  {"node1", []drained{{between(4.5, 9), "node1"}}, ""},
		"drained before":     {"node1", []drained{{between(1, 4), "node1"}}, ""},
		"another is drained": {"node1", []drained{{between(2, 9), "node2"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := called(1, 5, 6, "x")
			if test.on != "" {
				c.members = []string{test.on}
			}
			task := limited{id: "x", place: &place{members: []string{"node1"}}, calls: []call{c}}
			expect(t, task.judgePlace(&past{drains: test.drains}), test.want)
		})
	}
}

func TestLimited_FindsTheLongestTimeWithFreeSlots(t *testing.T) {
	t.Parallel()
	task := limited{slots: map[string]int{"a": 2, "b": 1}}
	holds := map[string][]hold{
		"a": {{span: between(0, 3)}, {span: between(1, 2)}},
		"b": {{span: between(4, 5)}, {span: between(8, 9)}},
	}
	if got, want := task.longestFree(between(0, 9), holds), 3*time.Second; got != want {
		t.Errorf("the longest time is %s, want %s", got, want)
	}
}
