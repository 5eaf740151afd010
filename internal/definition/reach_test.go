package definition_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/definition"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// Each field is read into the reach, and read back in its canonical form.
func TestTask_ReadsWhereItRuns(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{}`:                            `{}`,
		`{"prefer": [], "route": {}}`:   `{}`,
		`{"route": {"by": "any"}}`:      `{}`,
		`{"slots": 1}`:                  `{}`,
		`{"slots": 4}`:                  `{"slots":4}`,
		`{"select": " gpu, zone==eu "}`: `{"select":"gpu,zone=eu"}`,
		`{"prefer": [{"select": "a"}]}`: `{"prefer":[{"select":"a","weight":1}]}`,
		`{"route": {"by": "round"}}`:    `{"route":{"by":"round"}}`,
		`{"route": {"by": "busy_over", "order": ["b", "a"]}}`: `{"route":{"by":"busy_over","order":["b","a"]}}`,
		`{"route": {"by": "hash", "key": "a", "sticky": "require"}, "select": "b", "prefer": [{"select": "c"}]}`: `` +
			`{"prefer":[{"select":"c","weight":1}],"route":{"by":"hash","key":"a","sticky":"require"},"select":"b"}`,
		`{"prefer": [{"select": "c", "weight": 100}]}`: `{"prefer":[{"select":"c","weight":100}]}`,
		`{"route": {"by": "weighted", "load": {"cpu": 0.5, "memory": 0, "slots": 0.25, "response": 1}}}`: `` +
			`{"route":{"by":"weighted","load":{"cpu":0.5,"response":1,"slots":0.25}}}`,
	} {
		var in, out wire.FollowUpTask
		testkit.Must(t, json.Unmarshal([]byte(text), &in))
		d, err := definition.Task(wire.Submission{
			Type: "x", Select: in.Select, Prefer: in.Prefer, Route: in.Route, Slots: in.Slots,
		})
		testkit.Must(t, err)
		out.Select, out.Prefer, out.Route, out.Slots = definition.Reach(d)
		out.Type = "x"
		got, err := json.Marshal(out)
		testkit.Must(t, err)
		var wanted map[string]any
		testkit.Must(t, json.Unmarshal([]byte(want), &wanted))
		wanted["type"] = "x"
		var read map[string]any
		testkit.Must(t, json.Unmarshal(got, &read))
		if diff := cmp.Diff(wanted, read); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

// Of a reach that cannot be read, nothing is shown.
func TestReach_IsNothingIfDamaged(t *testing.T) {
	t.Parallel()
	s, p, r, n := definition.Reach(task.Definition{Reach: "gpu;;nearest"})
	if s != nil || p != nil || r != nil || n != nil {
		t.Errorf("it is read as %v, %v, %v, %v", s, p, r, n)
	}
}

func TestParsePreference_ReadsWhatPreferenceTextWrites(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"10:zone=eu": "10:zone=eu", "gpu": "1:gpu", "3 : a in (b,c)": "3:a in (b,c)", "0:a": "0:a",
	} {
		p, err := definition.ParsePreference(text)
		if got := definition.PreferenceText(p); err != nil || got != want {
			t.Errorf("%q becomes %q, %v", text, got, err)
		}
	}
	for _, text := range []string{"", ":", "a:b", "1:", ":a"} {
		if p, err := definition.ParsePreference(text); err == nil {
			t.Errorf("%q is read as %+v", text, p)
		}
	}
}
