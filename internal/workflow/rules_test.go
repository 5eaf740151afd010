package workflow

import "testing"

// What is decided early is what the final verdicts decide, whichever come first; and those always decide.
func TestDecide_DependsOnFinalVerdictsOnly(t *testing.T) {
	t.Parallel()
	const most = 6
	for _, rule := range Rules {
		for n := range triples(most) {
			want := rule.Decide(n)
			if want == undecided {
				t.Errorf("%s of %+v decides nothing", rule, n)
			}
			for before := range triples(most) {
				before.Undecided = n.sum() - before.sum()
				if before.Succeeded > n.Succeeded || before.Failed > n.Failed || before.Skipped > n.Skipped {
					continue
				}
				if got := rule.Decide(before); got != undecided && got != want {
					t.Errorf("%s of %+v is %+v, and of %+v, which follows from it, %+v", rule, before, got, n, want)
				}
			}
		}
	}
}

// The planner and the audit have a table each.
func TestDecide_AgreesWithTheAudit(t *testing.T) {
	t.Parallel()
	for _, rule := range Rules {
		for n := range triples(6) {
			d := rule.Decide(n)
			got := fate(d.Verdict)
			if d.Release {
				got = released
			}
			if want := fates[rule](n.Succeeded, n.Failed, n.Skipped); got != want {
				t.Errorf("%s of %+v: %s, and in the audit %s", rule, n, got, want)
			}
		}
	}
}

// The rows say what Airflow 2.10 makes of the same verdicts by the rule of the same name (TriggerRuleDep), except where
// there is a reason to differ: those rows say which.
func TestDecide_BesideAirflow(t *testing.T) {
	t.Parallel()
	const (
		run  = "release"
		skip = "skipped"
		up   = "upstream_failed"
		wait = "wait"
	)
	for _, c := range []struct {
		rule          Rule
		s, f, k, open int
		want, airflow string
	}{
		{RuleAllSuccess, 2, 0, 0, 0, run, run},
		{RuleAllSuccess, 1, 1, 0, 0, up, up},
		{RuleAllSuccess, 1, 0, 1, 0, skip, skip},
		{RuleAllSuccess, 0, 0, 1, 1, wait, skip}, // a failure may follow: Airflow's outcome depends on which comes first
		{RuleAllSuccess, 0, 1, 1, 0, up, skip},   // as above, after the skip
		{RuleAllFailed, 0, 2, 0, 0, run, run},
		{RuleAllFailed, 1, 0, 0, 1, skip, skip},
		{RuleAllFailed, 0, 1, 1, 0, skip, skip},
		{RuleAllDone, 1, 1, 1, 0, run, run},
		{RuleAllDone, 1, 1, 0, 1, wait, wait},
		{RuleAlways, 1, 0, 0, 1, wait, run}, // there it means that nothing is needed: leave out needs
		{RuleAllDoneSuccess, 1, 1, 0, 0, run, run},
		{RuleAllDoneSuccess, 1, 0, 1, 0, skip, skip},
		{RuleAllDoneSuccess, 0, 2, 0, 0, up, up},
		{RuleAllSkipped, 0, 0, 2, 0, run, run},
		{RuleAllSkipped, 1, 0, 0, 1, skip, skip},
		{RuleOneSuccess, 1, 0, 0, 1, run, run},
		{RuleOneSuccess, 0, 1, 1, 0, up, up},
		{RuleOneSuccess, 0, 0, 2, 0, skip, skip},
		{RuleOneFailed, 0, 1, 0, 1, run, run},
		{RuleOneFailed, 2, 0, 0, 0, skip, skip},
		{RuleOneDone, 0, 1, 0, 1, run, run},
		{RuleOneDone, 0, 0, 2, 0, skip, skip},
		{RuleNoneFailed, 1, 0, 1, 0, run, run},
		{RuleNoneFailed, 0, 1, 0, 1, up, up},
		{RuleNoneFailed, 0, 0, 2, 0, run, run},
		{RuleMinOneSuccess, 1, 0, 1, 0, run, run},
		{RuleMinOneSuccess, 0, 0, 2, 0, skip, skip},
		{RuleMinOneSuccess, 1, 1, 0, 0, up, up},
		{RuleNoneSkipped, 1, 1, 0, 0, run, run},
		{RuleNoneSkipped, 0, 0, 1, 1, skip, skip},
		{RuleSuccess, 1, 0, 1, 0, run, skip}, // its default is all_success, which skips what is behind a branch
		{RuleSuccess, 2, 0, 0, 0, run, run},
		{RuleSuccess, 1, 1, 0, 0, up, up},
		{RuleSuccess, 0, 0, 2, 0, skip, skip},
		{RuleFailure, 1, 1, 0, 0, run, ""}, // it has none that waits for all
		{RuleFailure, 0, 1, 0, 1, wait, ""},
		{RuleFailure, 2, 0, 0, 0, skip, ""},
	} {
		got := wait
		switch d := c.rule.Decide(Needs{Succeeded: c.s, Failed: c.f, Skipped: c.k, Undecided: c.open}); {
		case d.Release:
			got = run
		case d.Verdict != "":
			got = string(d.Verdict)
		}
		if got != c.want {
			t.Errorf("%s with %d succeeded, %d failed, %d skipped, %d open: %s, want %s",
				c.rule, c.s, c.f, c.k, c.open, got, c.want)
		}
	}
}

func (n Needs) sum() int { return n.Succeeded + n.Failed + n.Skipped }

// triples returns all counts of up to n verdicts.
func triples(n int) func(yield func(Needs) bool) {
	return func(yield func(Needs) bool) {
		for s := range n + 1 {
			for f := range n + 1 - s {
				for k := range n + 1 - s - f {
					if s+f+k > 0 && !yield(Needs{Succeeded: s, Failed: f, Skipped: k}) {
						return
					}
				}
			}
		}
	}
}
