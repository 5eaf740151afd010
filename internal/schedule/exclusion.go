package schedule

import (
	"fmt"
	"strings"
	"time"
)

// exclusion is a set of times at which the ticks of a schedule do not run: whole days, or the times of an expression.
type exclusion struct {
	text        string      // as it was written
	first, last int64       // days since 1970-01-01, both included; used if expression is nil
	expression  *expression // nil: whole days
}

// parseExclusion parses a date, a range of dates (2026-12-24/2027-01-02) or a cron expression. name is the input of the
// hash behind H. An expression without a field for seconds covers whole minutes.
func parseExclusion(text, name string) (exclusion, error) {
	if strings.ContainsAny(strings.TrimSpace(text), " \t@") {
		e, err := parseExpression(text, name)
		if err != nil {
			return exclusion{}, err
		}
		if !e.hasSeconds {
			e.second = 1<<60 - 1 // any second of the minute
		}
		return exclusion{text: text, expression: e}, nil
	}
	from, to, isRange := strings.Cut(text, "/")
	if !isRange {
		to = from
	}
	first, err := parseDate(from)
	if err != nil {
		return exclusion{}, err
	}
	last, err := parseDate(to)
	if err == nil && last < first {
		err = fmt.Errorf("the end %s is before the beginning %s; write the earlier date first", to, from)
	}
	return exclusion{text: text, first: first, last: last}, err
}

// parseDate parses a date such as 2026-12-25 into days since 1970-01-01.
func parseDate(text string) (int64, error) {
	date, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return 0, fmt.Errorf("%q is not a date; write 2026-12-25, 2026-12-24/2027-01-02 or a cron expression", text)
	}
	return dayNumber(date.Date()), nil
}

// onDay reports whether the exclusion contains a part of the day.
func (e *exclusion) onDay(day int64) bool {
	if e.expression != nil {
		return e.expression.hasDay(civil(day))
	}
	return e.first <= day && day <= e.last
}

// atClock reports whether the exclusion contains a second of a day on which it is.
func (e *exclusion) atClock(second int64) bool {
	return e.expression == nil || e.expression.hasClock(second)
}

// unit returns the length, in seconds, of the longest of day, hour, minute and second that the exclusion contains as a
// whole or not at all.
func (e *exclusion) unit() int64 {
	switch {
	case e.expression == nil:
		return secondsADay
	case e.expression.second != everything.second:
		return 1
	case e.expression.minute != everything.minute:
		return 60
	case e.expression.hour != everything.hour:
		return 60 * 60
	}
	return secondsADay
}

// dayOff holds the exclusions of one day.
type dayOff struct {
	day        int64
	exclusions []*exclusion
}

// dayOffOf returns the exclusions of a day.
func (t *Timetable) dayOffOf(day int64) *dayOff {
	if d := t.recent.Load(); d != nil && d.day == day {
		return d
	}
	d := &dayOff{day: day}
	for i := range t.exclusions {
		if t.exclusions[i].onDay(day) {
			d.exclusions = append(d.exclusions, &t.exclusions[i])
		}
	}
	t.recent.Store(d)
	return d
}

// exclusionOf returns the exclusion that contains the wall time of a tick, or nil if none does.
func (t *Timetable) exclusionOf(at time.Time) *exclusion {
	if len(t.exclusions) == 0 {
		return nil
	}
	day, second := divide(t.zone.wall(at.Unix()), secondsADay)
	for _, x := range t.dayOffOf(day).exclusions {
		if x.atClock(second) {
			return x
		}
	}
	return nil
}
