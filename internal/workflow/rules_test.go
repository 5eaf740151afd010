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

// What a rule says, as a word.
const (
	goes  = "release"
	skips = "skipped"
	up    = "upstream_failed"
	waits = "wait"
)

func (d Decision) word() string {
	switch {
	case d.Release:
		return goes
	case d.Verdict != "":
		return string(d.Verdict)
	}
	return waits
}

// For each rule: when it releases a step, when it waits, and what becomes of the step otherwise.
func TestDecide_SaysWhatItsRowSays(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rule          Rule
		s, f, k, open int
		want          string
	}{
		{RuleSuccess, 2, 0, 0, 0, goes},
		{RuleSuccess, 1, 0, 1, 0, goes},
		{RuleSuccess, 1, 0, 0, 1, waits},
		{RuleSuccess, 0, 1, 0, 1, up},
		{RuleSuccess, 0, 0, 2, 0, skips},
		{RuleAllSuccess, 2, 0, 0, 0, goes},
		{RuleAllSuccess, 0, 1, 0, 1, up},
		{RuleAllSuccess, 0, 1, 1, 0, up},
		{RuleAllSuccess, 1, 0, 1, 0, skips},
		{RuleAllSuccess, 0, 0, 1, 1, waits},
		{RuleAllFailed, 0, 2, 0, 0, goes},
		{RuleAllFailed, 0, 1, 0, 1, waits},
		{RuleAllFailed, 1, 0, 0, 1, skips},
		{RuleAllFailed, 0, 0, 1, 1, skips},
		{RuleAllDone, 1, 1, 1, 0, goes},
		{RuleAllDone, 1, 1, 0, 1, waits},
		{RuleAlways, 0, 1, 1, 0, goes},
		{RuleAlways, 1, 0, 0, 1, waits},
		{RuleAllDoneSuccess, 1, 1, 0, 0, goes},
		{RuleAllDoneSuccess, 1, 0, 0, 1, waits},
		{RuleAllDoneSuccess, 1, 0, 1, 1, skips},
		{RuleAllDoneSuccess, 0, 2, 0, 0, up},
		{RuleAllSkipped, 0, 0, 2, 0, goes},
		{RuleAllSkipped, 0, 0, 1, 1, waits},
		{RuleAllSkipped, 1, 0, 0, 1, skips},
		{RuleAllSkipped, 0, 1, 0, 1, skips},
		{RuleOneSuccess, 1, 0, 0, 1, goes},
		{RuleOneSuccess, 0, 1, 0, 1, waits},
		{RuleOneSuccess, 0, 1, 1, 0, up},
		{RuleOneSuccess, 0, 0, 2, 0, skips},
		{RuleOneFailed, 0, 1, 0, 1, goes},
		{RuleOneFailed, 1, 0, 0, 1, waits},
		{RuleOneFailed, 2, 0, 0, 0, skips},
		{RuleFailure, 1, 1, 0, 0, goes},
		{RuleFailure, 0, 1, 0, 1, waits},
		{RuleFailure, 1, 0, 1, 0, skips},
		{RuleOneDone, 1, 0, 0, 1, goes},
		{RuleOneDone, 0, 1, 0, 1, goes},
		{RuleOneDone, 0, 0, 1, 1, waits},
		{RuleOneDone, 0, 0, 2, 0, skips},
		{RuleNoneFailed, 1, 0, 1, 0, goes},
		{RuleNoneFailed, 0, 0, 2, 0, goes},
		{RuleNoneFailed, 1, 0, 0, 1, waits},
		{RuleNoneFailed, 0, 1, 0, 1, up},
		{RuleMinOneSuccess, 1, 0, 1, 0, goes},
		{RuleMinOneSuccess, 1, 0, 0, 1, waits},
		{RuleMinOneSuccess, 0, 1, 0, 1, up},
		{RuleMinOneSuccess, 0, 0, 2, 0, skips},
		{RuleNoneSkipped, 1, 1, 0, 0, goes},
		{RuleNoneSkipped, 1, 1, 0, 1, waits},
		{RuleNoneSkipped, 0, 0, 1, 1, skips},
	} {
		n := Needs{Succeeded: c.s, Failed: c.f, Skipped: c.k, Undecided: c.open}
		if got := c.rule.Decide(n).word(); got != c.want {
			t.Errorf("%s of %+v: %s, want %s", c.rule, n, got, c.want)
		}
	}
}

// airflow is what Airflow makes of the same verdicts by the rule of the same name: see TriggerRuleDep in
// airflow-core/src/airflow/ti_deps/deps/trigger_rule_dep.py. The first word whose condition holds counts, whenever one
// of the needs ends.
var airflow = map[Rule]func(s, f, k, open int) []saying{
	RuleAllSuccess: func(_, f, k, open int) []saying { return []saying{{up, f > 0}, {skips, k > 0}, {goes, open == 0}} },
	RuleAllFailed:  func(s, _, k, open int) []saying { return []saying{{skips, s+k > 0}, {goes, open == 0}} },
	RuleAllDone:    func(_, _, _, open int) []saying { return []saying{{goes, open == 0}} },
	RuleAllDoneSuccess: func(s, _, k, open int) []saying {
		return []saying{{skips, k > 0}, {waits, open > 0}, {goes, s > 0}, {up, true}}
	},
	RuleAllSkipped: func(s, f, _, open int) []saying { return []saying{{skips, s+f > 0}, {goes, open == 0}} },
	RuleOneSuccess: func(s, f, _, open int) []saying {
		return []saying{{goes, s > 0}, {waits, open > 0}, {up, f > 0}, {skips, true}}
	},
	RuleOneFailed:  func(_, f, _, open int) []saying { return []saying{{goes, f > 0}, {skips, open == 0}} },
	RuleOneDone:    func(s, f, _, open int) []saying { return []saying{{goes, s+f > 0}, {skips, open == 0}} },
	RuleNoneFailed: func(_, f, _, open int) []saying { return []saying{{up, f > 0}, {goes, open == 0}} },
	RuleMinOneSuccess: func(s, f, _, open int) []saying {
		return []saying{{up, f > 0}, {waits, open > 0}, {goes, s > 0}, {skips, true}}
	},
	RuleNoneSkipped: func(_, _, k, open int) []saying { return []saying{{skips, k > 0}, {goes, open == 0}} },
	RuleAlways:      func(_, _, _, _ int) []saying { return []saying{{goes, true}} },
}

type saying struct {
	word  string
	holds bool
}

func firstOf(sayings []saying) string {
	for _, s := range sayings {
		if s.holds {
			return s.word
		}
	}
	return waits
}

func TestDecide_DiffersFromAirflowOnPurposeOnly(t *testing.T) {
	t.Parallel()
	for rule, decide := range airflow {
		for n := range triples(5) {
			for n.Undecided = range 3 {
				got, theirs := rule.Decide(n).word(), firstOf(decide(n.Succeeded, n.Failed, n.Skipped, n.Undecided))
				switch {
				case got == theirs:
				case rule == RuleAllSuccess && n.Skipped > 0 && n.Undecided > 0 && got == waits:
					// A failure may follow: Airflow's outcome depends on which of both comes first.
				case rule == RuleAlways && got == waits && n.Undecided > 0:
					// There it means that nothing is needed: leave out needs.
				default:
					t.Errorf("%s of %+v: %s, in Airflow %s", rule, n, got, theirs)
				}
			}
		}
	}
}

// What can be among the needs is found without trying all of it.
func TestCanBe_AgreesWithTryingAll(t *testing.T) {
	t.Parallel()
	const all = maySucceed | mayFail | maySkip
	for a := outcomes(1); a <= all; a++ {
		for b := outcomes(1); b <= all; b++ {
			for c := outcomes(1); c <= all; c++ {
				seen := map[outcomes]bool{}
				for x := outcomes(1); x <= all; x <<= 1 {
					for y := outcomes(1); y <= all; y <<= 1 {
						for z := outcomes(1); z <= all; z <<= 1 {
							seen[x|y|z] = seen[x|y|z] || x&a > 0 && y&b > 0 && z&c > 0
						}
					}
				}
				for want := outcomes(1); want <= all; want++ {
					if got := canBe([]outcomes{a, b, c}, want); got != seen[want] {
						t.Errorf("of %b, %b and %b, %b can be: %t", a, b, c, want, got)
					}
				}
			}
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
