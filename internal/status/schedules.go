package status

import (
	"cmp"
	"fmt"
	"slices"
)

// WorstSchedules returns those of some schedules that need somebody most, up to a number.
func WorstSchedules(all []Schedule, number int) []Schedule {
	slices.SortStableFunc(all, func(a, b Schedule) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(b.Failures, a.Failures))
	})
	return all[:min(len(all), number)]
}

// rank is 0 for the worst.
func (s Schedule) rank() int {
	switch {
	case !s.PausedItself.IsZero():
		return 0
	case !s.DueTick.IsZero():
		return 1
	case s.Failures > 0:
		return 2
	}
	return 3
}

// schedules adds what is wrong with schedules.
func (j *judge) schedules() {
	for _, s := range j.Schedules {
		r := Reason{Kind: "schedule", Namespace: s.Namespace, ID: s.ID}
		name := fmt.Sprintf("The schedule %q", s.ID)
		commands := fmt.Sprintf("%s -n %s", s.ID, s.Namespace)
		switch {
		case !s.PausedItself.IsZero():
			r.Code, r.Severity, r.Since = PausedItself, Bad, s.PausedItself
			r.Detail = fmt.Sprintf("%s is %s.", name, s.Note)
			r.Do = fmt.Sprintf("See why its tasks failed: dtsctl task list --schedule %s --state failed. "+
				"Then resume it: dtsctl schedule resume %s.", commands, commands)
		case !s.DueTick.IsZero() && j.Now.Sub(s.DueTick) >= NotDecided:
			r.Code, r.Severity, r.Since = TicksHeldBack, Bad, s.DueTick
			const text = "The tick of %s of the schedule %q is due, and nobody has decided it."
			r.Detail = fmt.Sprintf(text, moment(s.DueTick), s.ID)
			r.Do = fmt.Sprintf("See why: dtsctl schedule why %s.", commands)
		case s.Failures > 0:
			r.Code, r.Severity, r.Since = Failing, Warn, s.FailingSince
			if s.Failures >= failsInARow {
				r.Severity = Bad
			}
			r.Detail = fmt.Sprintf("%s fails: %s in a row.", name, counted(s.Failures, "task has failed", "tasks have failed"))
			r.Do = fmt.Sprintf("See the errors: dtsctl task list --schedule %s --state failed.", commands)
		}
		if r.Code != "" {
			j.add(r)
		}
		if !s.MissedAt.IsZero() {
			j.add(Reason{
				Code: TicksMissed, Severity: Warn, Since: s.MissedAt, Kind: "schedule", Namespace: s.Namespace, ID: s.ID,
				Detail: fmt.Sprintf("%s has missed at least one tick. The newest missed one is of %s.", name, moment(s.MissedAt)),
				Do:     fmt.Sprintf("See why: dtsctl schedule ledger %s.", commands),
			})
		}
	}
}
