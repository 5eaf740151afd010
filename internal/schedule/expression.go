package schedule

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"
)

// expression is a parsed cron expression: sets of seconds, minutes and hours, and the days on which they count.
type expression struct {
	second, minute, hour uint64 // bit n: the value n
	calendar
	hasSeconds bool // the text had a field for seconds
}

// descriptors maps each descriptor, in capitals, to the expression of 5 fields that it stands for.
var descriptors = map[string]string{
	"@YEARLY":   "0 0 1 1 *",
	"@ANNUALLY": "0 0 1 1 *",
	"@MONTHLY":  "0 0 1 * *",
	"@WEEKLY":   "0 0 * * 0",
	"@DAILY":    "0 0 * * *",
	"@MIDNIGHT": "0 0 * * *",
	"@HOURLY":   "0 * * * *",
}

// parseExpression parses a descriptor, or a cron expression of 5 fields (minute, hour, day of month, month, day of week),
// 6 fields (the second first) or 7 fields (the second first, the year last). The values of H are derived from name. An
// expression that matches no time at all is an error. Errors say what would be valid; they are shown to people.
func parseExpression(text, name string) (*expression, error) {
	columns, err := splitExpression(text)
	if err != nil {
		return nil, err
	}
	e := &expression{hasSeconds: len(columns) > 5}
	if err := e.parseColumns(allColumns(columns), name); err != nil {
		return nil, adviseOnAWS(columns, name, err)
	}
	if _, ok := e.next(-1); !ok {
		return nil, errors.New("never ticks: the day does not exist in any of the months and years; write a day that does")
	}
	return e, nil
}

// allColumns adds the fields that an expression leaves out.
func allColumns(columns []string) []string {
	if len(columns) == 5 {
		columns = append([]string{"0"}, columns...)
	}
	if len(columns) == 6 {
		columns = append(slices.Clip(columns), "*")
	}
	return columns
}

// adviseOnAWS adds to the error of an expression that its six fields may be those of AWS, if these are valid.
func adviseOnAWS(columns []string, name string, err error) error {
	if len(columns) != 6 || new(expression).parseColumns(append([]string{"0"}, columns...), name) != nil {
		return err
	}
	return fmt.Errorf("%w; the first of six fields is the second here; "+
		"in AWS, it is the minute, and the last is the year: then put a 0 in front", err)
}

// parseColumns parses all seven fields.
func (e *expression) parseColumns(columns []string, name string) error {
	var err error
	clockFields := []struct {
		field field
		set   *uint64
	}{{secondField, &e.second}, {minuteField, &e.minute}, {hourField, &e.hour}, {monthField, &e.months}}
	for i, column := range []int{0, 1, 2, 4} {
		f := clockFields[i]
		if *f.set, _, err = f.field.parse(columns[column], name, nil); err != nil {
			return err
		}
	}
	if e.dom, e.anyDom, err = domField.parse(columns[3], name, e.specialDom); err != nil {
		return err
	}
	if e.dow, e.anyDow, err = dowField.parse(columns[5], name, e.specialDow); err != nil {
		return err
	}
	e.years, err = parseYears(columns[6])
	return err
}

// splitExpression splits the text into 5 to 7 fields, in capitals: an expression does not depend on the case.
func splitExpression(text string) ([]string, error) {
	if len(text) > ExpressionLimit {
		return nil, fmt.Errorf("is %d characters long, at most %d are allowed", len(text), ExpressionLimit)
	}
	for _, r := range text {
		if r != '\t' && (r < ' ' || r > '~') {
			return nil, fmt.Errorf("the character %q is invalid; write printable ASCII characters only", r)
		}
	}
	text = strings.Trim(strings.ToUpper(text), " \t")
	switch {
	case text == "":
		return nil, errors.New("is empty; write 5 fields: minute, hour, day of month, month, day of week")
	case strings.HasPrefix(text, "TZ=") || strings.HasPrefix(text, "CRON_TZ="):
		return nil, errors.New("must not name the time zone; use the field timezone")
	case strings.HasPrefix(text, "@"):
		return splitDescriptor(text)
	}
	columns := strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == '\t' })
	if len(columns) < 5 || len(columns) > 7 {
		return nil, fmt.Errorf("has %d fields; write 5 (minute, hour, day of month, month, day of week), "+
			"6 (the second first) or 7 (the second first, the year last)", len(columns))
	}
	return columns, nil
}

// splitDescriptor returns the fields that a descriptor, in capitals, stands for.
func splitDescriptor(text string) ([]string, error) {
	if strings.HasPrefix(text, "@EVERY") {
		return nil, errors.New("@every is not a cron expression; use the field every")
	}
	expanded, ok := descriptors[text]
	if !ok {
		return nil, fmt.Errorf("%s is invalid; write @yearly, @annually, @monthly, @weekly, @daily, @midnight or @hourly",
			strings.ToLower(text))
	}
	return strings.Fields(expanded), nil
}

// next returns the first wall time after the given one that the expression matches (seconds since 1970-01-01 00:00 on the
// wall clock). It returns false if none follows within 400 years, after which the Gregorian calendar repeats.
func (e *expression) next(wall int64) (int64, bool) {
	day, second := divide(wall+1, secondsADay)
	y, m, d := civil(day)
	if e.hasDay(y, m, d) {
		if s, ok := e.clockFrom(second); ok {
			return day*secondsADay + s, true
		}
	}
	day, ok := e.dayAfter(y, m, d)
	if !ok {
		return 0, false
	}
	first, _ := e.clockFrom(0)
	return day*secondsADay + first, true
}

// clockFrom returns the first second of a day, not before the given one, that the expression matches.
func (e *expression) clockFrom(second int64) (int64, bool) {
	h, m, s := int(second/3600), int(second/60%60), int(second%60)
	if e.hour>>h&1 == 1 {
		if e.minute>>m&1 == 1 {
			if s, ok := bitFrom(e.second, s); ok {
				return clockOf(h, m, s), true
			}
		}
		if m, ok := bitFrom(e.minute, m+1); ok {
			return clockOf(h, m, bits.TrailingZeros64(e.second)), true
		}
	}
	h, ok := bitFrom(e.hour, h+1)
	return clockOf(h, bits.TrailingZeros64(e.minute), bits.TrailingZeros64(e.second)), ok
}

// clockOf returns the second of the day.
func clockOf(h, m, s int) int64 { return int64(h*3600 + m*60 + s) }

// matches reports whether the expression matches the wall time.
func (e *expression) matches(wall int64) bool {
	day, second := divide(wall, secondsADay)
	return e.hasClock(second) && e.hasDay(civil(day))
}

// hasClock reports whether the expression matches the second of a day.
func (e *expression) hasClock(second int64) bool {
	return (e.hour>>(second/3600))&(e.minute>>(second/60%60))&(e.second>>(second%60))&1 == 1
}

// contains reports whether e matches every time that o matches. It may return false where that is in fact true: see
// calendar.contains.
func (e *expression) contains(o *expression) bool {
	return o.second&^e.second == 0 && o.minute&^e.minute == 0 && o.hour&^e.hour == 0 && e.calendar.contains(&o.calendar)
}

// bitFrom returns the lowest bit of the set that is not below bit n. It returns false if there is none.
func bitFrom(set uint64, n int) (int, bool) {
	set = set >> n << n // n may be 64
	return bits.TrailingZeros64(set), set != 0
}
