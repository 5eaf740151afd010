package schedule

import (
	"fmt"
	"time"

	"github.com/dts-sched/dts/internal/task"
)

// Compile makes the timetable of s. Intervals without a StartAt count from created, which may be zero for a
// definition that does not exist yet; ref is what H in an expression and the jitter are derived from.
// It refuses, as a *task.Error that names the field, what is malformed and what can never tick at any time.
func Compile(s Spec, ref task.Ref, created time.Time) (*Timetable, error) {
	t := &Timetable{name: ref.String(), start: s.StartAt.UTC(), end: s.EndAt.UTC()}
	steps := []func() error{
		func() (err error) { t.zone, err = loadZone(s.Timezone); return err },
		func() error { return t.addRules(s, created) },
		func() error { return t.addExclusions(s.Exclude) },
		func() error { return t.setJitter(s.Jitter) },
		t.checkSpan,
		t.checkTicks,
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func (t *Timetable) addRules(s Spec, created time.Time) error {
	if len(s.Rules) == 0 {
		return task.Invalid("cron", "give cron, every or specs")
	}
	if len(s.Rules) > RulesLimit {
		return task.Invalid("specs", "are %d, at most %d are allowed", len(s.Rules), RulesLimit)
	}
	anchor := created
	if !s.StartAt.IsZero() {
		anchor = s.StartAt
	}
	for i, r := range s.Rules {
		path := ""
		if len(s.Rules) > 1 {
			path = fmt.Sprintf("specs[%d]", i)
		}
		made, err := t.newRule(r, path, anchor.UnixMilli())
		if err != nil {
			return err
		}
		t.rules = append(t.rules, made)
	}
	return nil
}

// newRule makes one rule; path is where it stands among several.
func (t *Timetable) newRule(r Rule, path string, anchor int64) (rule, error) {
	fieldName := func(name string) string {
		if path == "" {
			return name
		}
		return path + "." + name
	}
	switch {
	case r.Cron != "" && r.Every != 0:
		return nil, task.Invalid(fieldName("every"), "cannot stand beside cron; use specs for the union of both")
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

func checkInterval(d time.Duration) error {
	switch {
	case d < IntervalMin:
		return fmt.Errorf("%s is less than %s", d, IntervalMin)
	case d > IntervalLimit:
		return fmt.Errorf("%s is more than %s", d, IntervalLimit)
	case d%time.Millisecond != 0:
		return fmt.Errorf("%s is not in whole milliseconds", d)
	}
	return nil
}

func (t *Timetable) addExclusions(texts []string) error {
	if len(texts) > ExcludeLimit {
		return task.Invalid("exclude", "has %d entries, at most %d are allowed", len(texts), ExcludeLimit)
	}
	for i, text := range texts {
		e, err := parseExclusion(text, t.name)
		if err == nil && t.isCoveredBy(e) {
			err = fmt.Errorf("%q covers every time that is asked for, so that nothing would run", text)
		}
		if err != nil {
			return task.Invalid(fmt.Sprintf("exclude[%d]", i), "%s", err.Error())
		}
		t.exclusions = append(t.exclusions, e)
	}
	return nil
}

// isCoveredBy says whether an exclusion names all times that the rules name. (That a clock which is put forward may
// carry one of them out of it is nothing that anybody would ask for.) An interval comes at any time of day,
// sooner or later, or at least that is not known.
func (t *Timetable) isCoveredBy(x exclusion) bool {
	if x.cron == nil {
		return false
	}
	for _, r := range t.rules {
		covered := &everything
		if r, ok := r.(cronRule); ok {
			covered = r.expression
		}
		if !x.cron.contains(covered) {
			return false
		}
	}
	return true
}

var everything = expression{
	second: 1<<60 - 1, minute: 1<<60 - 1, hour: 1<<24 - 1,
	calendar: calendar{months: 1<<13 - 2, anyDom: true, anyDow: true},
}

func (t *Timetable) setJitter(d time.Duration) error {
	switch {
	case d < 0 || d > JitterLimit:
		return task.Invalid("jitter", "%s is not between 0 and %s", d, JitterLimit)
	case d%time.Millisecond != 0:
		return task.Invalid("jitter", "%s is not in whole milliseconds", d)
	}
	t.jitter = int(d.Milliseconds())
	return nil
}

func (t *Timetable) checkSpan() error {
	if year := t.start.Year(); year < 1 || year > endOfYears {
		return task.Invalid("start_at", "the year %d is out of bounds", year)
	}
	if year := t.end.Year(); year < 1 || year > endOfYears {
		return task.Invalid("end_at", "the year %d is out of bounds", year)
	}
	if !t.end.IsZero() && t.end.Before(t.start) {
		return task.Invalid("end_at", "%s is before start_at", stamp(t.end))
	}
	return nil
}

// checkTicks refuses what never ticks at any time, or only where it is excluded.
func (t *Timetable) checkTicks() error {
	from := t.earliest()
	if _, ok := t.next(from); !ok {
		if t.end.IsZero() {
			return task.Invalid(t.ruleField(), "never ticks after start_at %s", stamp(t.start))
		}
		return task.Invalid("end_at", "no tick comes before %s, or none after start_at", stamp(t.end))
	}
	if !t.runsAfter(from) {
		return task.Invalid("exclude", "covers every tick, so that nothing would run")
	}
	return nil
}

// earliest is a time before all ticks that matter. Without a start, those of 400 years before the end are enough.
func (t *Timetable) earliest() time.Time {
	switch {
	case !t.start.IsZero():
		return t.start.Add(-1)
	case !t.end.IsZero():
		return t.end.AddDate(-400, 0, 0)
	}
	return time.Unix(-1, 0)
}
