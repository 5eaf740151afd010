package workflow

// Verdict is how a step of a run ended. The zero value says that it has not.
type Verdict string

// The verdicts.
const (
	Succeeded      Verdict = "succeeded"
	Failed         Verdict = "failed"
	Cancelled      Verdict = "cancelled"
	Skipped        Verdict = "skipped"         // not released: its rule or its condition did not hold
	UpstreamFailed Verdict = "upstream_failed" // not released: something failed that it needs
)

// Rule says which verdicts of what a step needs release it.
type Rule string

// The rules. RuleSuccess is the default.
const (
	RuleSuccess        Rule = "success"                     // none failed, and one succeeded
	RuleAllSuccess     Rule = "all_success"                 // all succeeded
	RuleAllFailed      Rule = "all_failed"                  // all failed
	RuleAllDone        Rule = "all_done"                    // all have ended
	RuleAlways         Rule = "always"                      // as all_done
	RuleAllDoneSuccess Rule = "all_done_min_one_success"    // all have ended, none was skipped, and one succeeded
	RuleAllSkipped     Rule = "all_skipped"                 // all were skipped
	RuleOneSuccess     Rule = "one_success"                 // one succeeded; does not wait for the others
	RuleOneFailed      Rule = "one_failed"                  // one failed; does not wait for the others
	RuleFailure        Rule = "failure"                     // all have ended, and one failed
	RuleOneDone        Rule = "one_done"                    // one succeeded or failed; does not wait for the others
	RuleNoneFailed     Rule = "none_failed"                 // all have ended, and none failed
	RuleMinOneSuccess  Rule = "none_failed_min_one_success" // as success
	RuleNoneSkipped    Rule = "none_skipped"                // all have ended, and none was skipped
)

// Rules lists every rule.
var Rules = []Rule{
	RuleSuccess, RuleAllSuccess, RuleAllFailed, RuleAllDone, RuleAlways, RuleAllDoneSuccess, RuleAllSkipped,
	RuleOneSuccess, RuleOneFailed, RuleFailure, RuleOneDone, RuleNoneFailed, RuleMinOneSuccess, RuleNoneSkipped,
}

// Needs counts the verdicts of what a step needs.
type Needs struct {
	Succeeded int // or failed, where that is allowed
	Failed    int // or cancelled, or upstream_failed
	Skipped   int // or not chosen by what decides
	Undecided int
}

// add counts a verdict.
func (n *Needs) add(v Verdict, allowFailure bool) {
	switch {
	case v == "":
		n.Undecided++
	case v == Skipped:
		n.Skipped++
	case v == Succeeded, v == Failed && allowFailure:
		n.Succeeded++
	default:
		n.Failed++
	}
}

// Decision is what a rule says of a step. The zero value says that more verdicts are needed.
type Decision struct {
	Release bool
	Verdict Verdict // of a step that is never released: Skipped or UpstreamFailed
}

var (
	undecided      = Decision{}
	release        = Decision{Release: true}
	skip           = Decision{Verdict: Skipped}
	upstreamFailed = Decision{Verdict: UpstreamFailed}
)

// Decide returns what a rule says. It is a function of the final verdicts, whatever their order: it decides before all
// are there only if no further one can change the decision.
func (r Rule) Decide(n Needs) Decision {
	if d, decides := early[r]; decides {
		if decision := d(n); decision != undecided {
			return decision
		}
	}
	if n.Undecided > 0 {
		return undecided
	}
	return final[r](n)
}

// early are the decisions that need not wait for all verdicts.
var early = map[Rule]func(Needs) Decision{
	RuleSuccess:        func(n Needs) Decision { return when(n.Failed > 0, upstreamFailed) },
	RuleMinOneSuccess:  func(n Needs) Decision { return when(n.Failed > 0, upstreamFailed) },
	RuleAllSuccess:     func(n Needs) Decision { return when(n.Failed > 0, upstreamFailed) },
	RuleNoneFailed:     func(n Needs) Decision { return when(n.Failed > 0, upstreamFailed) },
	RuleAllFailed:      func(n Needs) Decision { return when(n.Succeeded+n.Skipped > 0, skip) },
	RuleAllDoneSuccess: func(n Needs) Decision { return when(n.Skipped > 0, skip) },
	RuleAllSkipped:     func(n Needs) Decision { return when(n.Succeeded+n.Failed > 0, skip) },
	RuleNoneSkipped:    func(n Needs) Decision { return when(n.Skipped > 0, skip) },
	RuleOneSuccess:     func(n Needs) Decision { return when(n.Succeeded > 0, release) },
	RuleOneFailed:      func(n Needs) Decision { return when(n.Failed > 0, release) },
	RuleOneDone:        func(n Needs) Decision { return when(n.Succeeded+n.Failed > 0, release) },
}

// final are the decisions when all verdicts are there, and there was no early one.
var final = map[Rule]func(Needs) Decision{
	RuleSuccess:        func(n Needs) Decision { return either(n.Succeeded > 0, release, skip) },
	RuleMinOneSuccess:  func(n Needs) Decision { return either(n.Succeeded > 0, release, skip) },
	RuleAllSuccess:     func(n Needs) Decision { return either(n.Skipped == 0, release, skip) },
	RuleNoneFailed:     func(Needs) Decision { return release },
	RuleAllFailed:      func(Needs) Decision { return release },
	RuleAllDone:        func(Needs) Decision { return release },
	RuleAlways:         func(Needs) Decision { return release },
	RuleAllDoneSuccess: func(n Needs) Decision { return either(n.Succeeded > 0, release, upstreamFailed) },
	RuleAllSkipped:     func(Needs) Decision { return release },
	RuleNoneSkipped:    func(Needs) Decision { return release },
	RuleOneSuccess:     func(n Needs) Decision { return either(n.Failed > 0, upstreamFailed, skip) },
	RuleOneFailed:      func(Needs) Decision { return skip },
	RuleOneDone:        func(Needs) Decision { return skip },
	RuleFailure:        func(n Needs) Decision { return either(n.Failed > 0, release, skip) },
}

func when(holds bool, d Decision) Decision { return either(holds, d, undecided) }

func either(holds bool, d, other Decision) Decision {
	if holds {
		return d
	}
	return other
}
