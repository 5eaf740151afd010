package task

import (
	"strings"
	"testing"
	"time"
)

// TestTurn_InvalidFieldsAreNamed checks what says when a task has its turn, in submissions and follow-ups.
func TestTurn_InvalidFieldsAreNamed(t *testing.T) {
	cases := map[string]struct {
		d    Definition
		want string // the error; "" for none
	}{
		"nothing":            {Definition{}, ""},
		"greatest":           {Definition{Priority: 9, FairKey: "tenant-7", FairWeight: 100}, ""},
		"a weight of 1":      {Definition{FairKey: "tenant-7", FairWeight: 1}, ""},
		"no priority of 10":  {Definition{Priority: 10}, "priority: 10 must be 0 to 9, the most urgent"},
		"none below 0":       {Definition{Priority: -1}, "priority: -1 must be 0 to 9, the most urgent"},
		"a blank in the key": {Definition{FairKey: "tenant 7"}, `fair_key: "tenant 7" must be 1 to 100 characters of`},
		"a long key":         {Definition{FairKey: strings.Repeat("k", 101)}, "fair_key: is 101 characters long"},
		"a weight of 101":    {Definition{FairKey: "k", FairWeight: 101}, "fair_weight: 101 must be 1 to 100"},
		"a weight below 0":   {Definition{FairKey: "k", FairWeight: -1}, "fair_weight: -1 must be 1 to 100"},
		"no key":             {Definition{FairWeight: 2}, "fair_weight: belongs to fair_key, which is missing"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d := c.d
			d.ID, d.Type = "t", "noop"
			check(t, "submission", d.Normalize().Validate(time.Now()), c.want)
			d.ID = ""
			parent := Definition{Ref: Ref{ID: "t"}, Type: "noop", OnEnd: &FollowUp{When: WhenEnded, Task: d}}
			want := c.want
			if want != "" {
				want = "on_end.task." + want
			}
			check(t, "follow-up", parent.Normalize().Validate(time.Now()), want)
		})
	}
}

func check(t *testing.T, what string, err error, want string) {
	t.Helper()
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("%s: got %v, want %q", what, err, want)
	}
}

// TestTurn_AWeightOf1IsTheDefault: a submission that says so is the same as one that does not.
func TestTurn_AWeightOf1IsTheDefault(t *testing.T) {
	next := Definition{FairKey: "k", FairWeight: 1}
	d := Definition{FairKey: "k", FairWeight: 1, OnEnd: &FollowUp{Task: next}}.Normalize()
	if d.FairWeight != 0 || d.OnEnd.Task.FairWeight != 0 || d.Weight() != 1 {
		t.Errorf("weights %d and %d, which count as %d", d.FairWeight, d.OnEnd.Task.FairWeight, d.Weight())
	}
}
