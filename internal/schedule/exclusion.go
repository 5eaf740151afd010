package schedule

import (
	"fmt"
	"strings"
	"time"
)

// exclusion is times at which a schedule's ticks do not run: whole days, or those that an expression names.
type exclusion struct {
	text        string
	first, last int64       // days, both included
	cron        *expression // nil: the days
}

// parseExclusion reads a date, a range of dates or a cron expression.
func parseExclusion(text, name string) (exclusion, error) {
	if strings.ContainsAny(strings.TrimSpace(text), " \t@") {
		e, err := parseExpression(text, name)
		if err != nil {
			return exclusion{}, err
		}
		if !e.hasSeconds {
			e.second = 1<<60 - 1 // any second of the minute
		}
		return exclusion{text: text, cron: e}, nil
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
		err = fmt.Errorf("%s is before %s", to, from)
	}
	return exclusion{text: text, first: first, last: last}, err
}

func parseDate(text string) (int64, error) {
	date, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return 0, fmt.Errorf("%q is not a date; write 2026-12-25, 2026-12-24/2027-01-02 or a cron expression", text)
	}
	return dayNumber(date.Date()), nil
}

// covers says whether it excludes that second of wall-clock time.
func (e *exclusion) covers(wall int64) bool {
	if e.cron != nil {
		return e.cron.matches(wall)
	}
	day, _ := divide(wall, secondsADay)
	return e.first <= day && day <= e.last
}
