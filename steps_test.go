package dts_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts"
)

func step(id string, needs ...string) dts.Step { return dts.Step{ID: id, Type: "noop", Needs: needs} }

// needs is what each step needs.
func needs(steps dts.Steps) map[string][]string {
	all := map[string][]string{}
	for _, s := range steps {
		all[s.ID] = append(all[s.ID], s.Needs...)
	}
	return all
}

func TestSteps_NeedWhatComesBeforeThem(t *testing.T) {
	t.Parallel()
	a, b, c, d := step("a"), step("b"), step("c"), step("d")
	for name, row := range map[string]struct {
		steps dts.Steps
		want  map[string][]string
	}{
		"a chain": {dts.Chain(a, b, c), map[string][]string{"a": nil, "b": {"a"}, "c": {"b"}}},
		"a group": {dts.Group(a, b), map[string][]string{"a": nil, "b": nil}},
		"a chord": {dts.Chord(dts.Group(a, b), c), map[string][]string{"a": nil, "b": nil, "c": {"a", "b"}}},
		"a group in a chain": {
			dts.Chain(a, dts.Group(b, c), d),
			map[string][]string{"a": nil, "b": {"a"}, "c": {"a"}, "d": {"b", "c"}},
		},
		"chains in a group in a chain": {
			dts.Chain(step("first"), dts.Group(dts.Chain(a, b), dts.Chain(c, d)), step("last")),
			map[string][]string{
				"first": nil, "a": {"first"}, "b": {"a"}, "c": {"first"}, "d": {"c"}, "last": {"b", "d"},
			},
		},
		"two groups": {
			dts.Chain(dts.Group(a, b), dts.Group(c, d)),
			map[string][]string{"a": nil, "b": nil, "c": {"a", "b"}, "d": {"a", "b"}},
		},
		"an empty group":  {dts.Chain(a, dts.Group(), b), map[string][]string{"a": nil, "b": {"a"}}},
		"nothing":         {dts.Chain(), map[string][]string{}},
		"needs of others": {dts.Chain(a, step("b", "x")), map[string][]string{"a": nil, "b": {"x", "a"}}},
		"steps with needs of their own": {
			dts.Chain(a, dts.Steps{b, step("c", "b")}, d),
			map[string][]string{"a": nil, "b": {"a"}, "c": {"b"}, "d": {"c"}},
		},
		"the need that is there already": {dts.Chain(a, step("b", "a")), map[string][]string{"a": nil, "b": {"a"}}},
	} {
		if diff := cmp.Diff(row.want, needs(row.steps)); diff != "" {
			t.Errorf("%s needs (-want +got):\n%s", name, diff)
		}
	}
}

func TestChain_ChangesNoStepOfItsParts(t *testing.T) {
	t.Parallel()
	shared := make([]string, 1, 10)
	shared[0] = "x"
	group := dts.Group(dts.Step{ID: "b", Needs: shared}, dts.Step{ID: "c", Needs: shared})
	dts.Chain(step("a"), group)
	if diff := cmp.Diff(map[string][]string{"b": {"x"}, "c": {"x"}}, needs(group)); diff != "" || shared[:2][1] != "" {
		t.Errorf("the group has changed (-want +got):\n%s\nbehind its needs: %q", diff, shared[:2])
	}
}
