package workflow

import "math/bits"

// outcomes is a set of what a step may count as for those that need it.
type outcomes uint8

const (
	maySucceed outcomes = 1 << iota
	mayFail
	maySkip
)

// Which combinations of outcomes can be among what a step needs: all rules ask only which of them there are.
var combinations = []struct {
	of    outcomes
	needs Needs
}{
	{maySucceed, Needs{Succeeded: 1}},
	{mayFail, Needs{Failed: 1}},
	{maySkip, Needs{Skipped: 1}},
	{maySucceed | mayFail, Needs{Succeeded: 1, Failed: 1}},
	{maySucceed | maySkip, Needs{Succeeded: 1, Skipped: 1}},
	{mayFail | maySkip, Needs{Failed: 1, Skipped: 1}},
	{maySucceed | mayFail | maySkip, Needs{Succeeded: 1, Failed: 1, Skipped: 1}},
}

// possible returns what a rule can decide, if what the step needs may come out so.
func (r Rule) possible(needs []outcomes) (decisions []Decision) {
	for _, c := range combinations {
		if canBe(needs, c.of) {
			decisions = append(decisions, r.Decide(c.needs))
		}
	}
	return decisions
}

// canBe reports whether needs can come out so that just these outcomes are among them: each need has one of them, and
// each of them is that of a need of its own. By Hall's theorem, that is possible if any k of them are open to at least
// k needs.
func canBe(needs []outcomes, want outcomes) bool {
	for some := outcomes(1); some <= want; some++ {
		if some&want != some {
			continue
		}
		open := 0
		for _, n := range needs {
			if n&some != 0 {
				open++
			}
		}
		if open < bits.OnesCount8(uint8(some)) || some == want && open < len(needs) {
			return false
		}
	}
	return true
}
