package chaos

import (
	"testing"

	"github.com/dts-sched/dts/internal/api/wire"
)

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

func TestNodes_AreJudgedByTheCallsOfTheHandlers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		slots int // of the first of three tasks
		want  string
	}{
		"as it was": {4, ""},
		"too many":  {5, "webworker has 6 slots, and tasks held 7"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := make([]limited, 3)
			for i := range all {
				c := called(1, float64(i), 9, "x")
				c.members = []string{"webworker", "node1"}
				all[i] = limited{id: "x", calls: []call{c}}
			}
			all[0].place = &place{slots: test.slots}
			expect(t, judgeNodes(all, &past{}), test.want)
		})
	}
}

func TestMoves_AreJudgedByWhoCalledTheHandler(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		to   string
		next call
		harm string
		want string
	}{
		"as it was":          {"", call{begin: at(3), members: []string{"node2"}}, "", ""},
		"nowhere":            {"", call{begin: at(3), members: []string{"node1"}}, "", "goes on there"},
		"late":               {"", call{begin: at(5), members: []string{"node1"}}, "", ""},
		"as a node died":     {"", call{begin: at(3), members: []string{"node1"}}, "kill", ""},
		"as a node drained":  {"", call{begin: at(3), members: []string{"node1"}}, draining, ""},
		"as it was told":     {"node2", call{begin: at(3), members: []string{"node2"}}, "", ""},
		"other than told":    {"node3", call{begin: at(3), members: []string{"node2"}}, "", "from node1 to node3"},
		"nobody knows where": {"node3", call{begin: at(3)}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first := called(1, 1, 2, "")
			first.members, test.next.attempt = []string{"node1"}, 2
			p := &past{}
			if test.harm != "" {
				p.harms = []harm{{span: between(1, 2), name: test.harm, member: "node3"}}
			}
			task := limited{
				id: "x", calls: []call{first, test.next}, ended: []wire.Attempt{attempted(1, wire.OutcomeMoved, 1, 2)},
			}
			expect(t, task.judgeMoves(test.to, p), test.want)
		})
	}
}
