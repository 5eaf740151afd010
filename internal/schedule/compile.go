package schedule

import (
	"fmt"
	"time"

	"github.com/dts-sched/dts/internal/task"
)

// Compile builds the timetable of s. Intervals count from s.StartAt, or from created if that is zero; created may be zero
// for a schedule that does not exist yet. The values of H and the jitter are derived from ref.
//
// It returns a *task.Error with CodeInvalid and the field if s is malformed, if it has no tick at any time, or if all its
// ticks are excluded.
func Compile(s Spec, ref task.Ref, created time.Time) (*Timetable, error) {
	t := &Timetable{name: ref.String(), start: s.StartAt.UTC(), end: s.EndAt.UTC()}
	parts := []func() error{
		func() (err error) { t.zone, err = loadZone(s.Timezone); return err },
		func() error { return t.addRules(s, created) },
		func() error { return t.addExclusions(s) },
		func() error { return t.setJitter(s.Jitter) },
		t.checkSpan,
	}
	if err := task.JoinChecks(parts); err != nil {
		return nil, err
	}
	if err := t.checkTicks(); err != nil {
		return nil, err
	}
	return t, nil
}

// addRules parses the rules. Intervals without a start count from created.
func (t *Timetable) addRules(s Spec, created time.Time) error {
	if len(s.Rules) == 0 {
		return task.Invalid("cron", "give cron, every or specs")
	}
	if len(s.Rules) > RulesLimit {
		return task.Invalid("specs", "has %d entries, at most %d are allowed", len(s.Rules), RulesLimit)
	}
	anchor := created
	if !s.StartAt.IsZero() {
		anchor = s.StartAt
	}
	var errs []error
	for i, r := range s.Rules {
		path := ""
		if len(s.Rules) > 1 {
			path = fmt.Sprintf("specs[%d]", i)
		}
		parsed, err := t.newRule(r, path, anchor.UnixMilli())
		if err != nil {
			errs = append(errs, err)
			continue
		}
		t.rules = append(t.rules, parsed)
	}
	return task.Join(errs...)
}

// newRule parses one rule. path is the field of the rule, such as specs[1], or "" for the only rule; errors name it. anchor
// is the time from which an interval counts, in Unix ms.
func (t *Timetable) newRule(r Rule, path string, anchor int64) (rule, error) {
	fieldName := func(name string) string {
		if path == "" {
			return name
		}
		return path + "." + name
	}
	switch {
	case r.Cron != "" && r.Every != 0:
		return nil, task.Invalid(fieldName("every"), "give cron or every, not both; use specs to combine them")
	case r.Cron != "":
		e, err := parseExpression(r.Cron, t.name)
		if err != nil {
			return nil, task.Invalid(fieldName("cron"), "%s", err.Error())
		}
		return cronRule{e, t.zone}, nil
	case r.Every != 0:
		if err := checkInterval(r.Every); err != nil {
			return nil, task.Invalid(fieldName("every"), "%s", err.Error())
		}
		return everyRule{r.Every.Milliseconds(), anchor}, nil
	case path == "":
		return nil, task.Invalid("cron", "give cron, every or specs")
	}
	return nil, task.Invalid(path, "give cron or every")
}

// checkInterval checks the length of an interval.
func checkInterval(d time.Duration) error {
	switch {
	case d < IntervalMin:
		return fmt.Errorf("%s is too short, at least %s is required", d, IntervalMin)
	case d > IntervalLimit:
		return fmt.Errorf("%s is too long, at most %s is allowed", d, IntervalLimit)
	case d%time.Millisecond != 0:
		return fmt.Errorf("%s is not a whole number of milliseconds", d)
	}
	return nil
}

// addExclusions parses the exclusions. It refuses one that covers all times of the rules, if all of those can be read.
func (t *Timetable) addExclusions(s Spec) error {
	if len(s.Exclude) > ExcludeLimit {
		return task.Invalid("exclude", "has %d entries, at most %d are allowed", len(s.Exclude), ExcludeLimit)
	}
	var errs []error
	for i, text := range s.Exclude {
		e, err := parseExclusion(text, t.name)
		if err == nil && len(t.rules) == len(s.Rules) && t.isCoveredBy(e) {
			err = fmt.Errorf("%q excludes every tick; leave at least one that runs", text)
		}
		if err != nil {
			errs = append(errs, task.Invalid(fmt.Sprintf("exclude[%d]", i), "%s", err.Error()))
			continue
		}
		t.exclusions = append(t.exclusions, e)
	}
	return task.Join(errs...)
}

// isCoveredBy reports whether an exclusion contains all times of the rules. It does not consider that a clock change may
// move a tick out of the exclusion: nobody wants a schedule that ticks only then. Intervals are assumed to reach every
// time of day.
func (t *Timetable) isCoveredBy(x exclusion) bool {
	if x.expression == nil {
		return false
	}
	for _, r := range t.rules {
		times := &everything
		if r, ok := r.(cronRule); ok {
			times = r.expression
		}
		if !x.expression.contains(times) {
			return false
		}
	}
	return true
}

// everything matches every second.
var everything = expression{
	second: 1<<60 - 1, minute: 1<<60 - 1, hour: 1<<24 - 1,
	calendar: calendar{months: 1<<13 - 2, anyDom: true, anyDow: true},
}

// setJitter checks and sets the jitter.
func (t *Timetable) setJitter(d time.Duration) error {
	switch {
	case d < 0 || d > JitterLimit:
		return task.Invalid("jitter", "%s must be 0s to %s", d, JitterLimit)
	case d%time.Millisecond != 0:
		return task.Invalid("jitter", "%s is not a whole number of milliseconds", d)
	}
	t.jitter = int(d.Milliseconds())
	return nil
}

// checkSpan checks the start and the end.
func (t *Timetable) checkSpan() error {
	if year := t.start.Year(); year < 1 || year > endOfYears {
		return task.Invalid("start_at", "the year %d must be 1 to %d", year, endOfYears)
	}
	if year := t.end.Year(); year < 1 || year > endOfYears {
		return task.Invalid("end_at", "the year %d must be 1 to %d", year, endOfYears)
	}
	if !t.end.IsZero() && t.end.Before(t.start) {
		return task.Invalid("end_at", "%s is before start_at, %s", stamp(t.end), stamp(t.start))
	}
	return nil
}

// checkTicks refuses a timetable that has no tick at any time, or only excluded ones.
func (t *Timetable) checkTicks() error {
	from := t.earliest()
	if _, ok := t.next(from); !ok {
		if t.end.IsZero() {
			return task.Invalid(t.ruleField(), "never ticks after start_at, %s", stamp(t.start))
		}
		if t.start.IsZero() {
			return task.Invalid("end_at", "%s leaves no tick; choose a later end", stamp(t.end))
		}
		return task.Invalid("end_at", "%s leaves no tick after start_at, %s; choose a later end", stamp(t.end), stamp(t.start))
	}
	if !t.firesAfter(from) {
		return task.Invalid("exclude", "excludes every tick; leave at least one that runs")
	}
	return nil
}

// earliest returns a time from which checkTicks looks for a tick. Without a start, 400 years before the end are enough,
// because the calendar repeats then. Without both, the search begins in 1970.
func (t *Timetable) earliest() time.Time {
	switch {
	case !t.start.IsZero():
		return t.start.Add(-1)
	case !t.end.IsZero():
		return t.end.AddDate(-400, 0, 0)
	}
	return time.Unix(-1, 0)
}
