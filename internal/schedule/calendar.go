package schedule

import (
	"errors"
	"fmt"
	"math/bits"
	"strings"
	"time"
)

// The range of the year field.
const (
	firstYear = 1970
	lastYear  = 2099
)

// endOfYears is the last year that can have ticks: the name of a tick has four digits for the year.
const endOfYears = 9999

const secondsADay = 24 * 60 * 60

// calendar is the set of days that the day, month, weekday and year fields of an expression name. A set of days of a
// month is a uint64 in which bit n stands for day n.
type calendar struct {
	months uint64
	years  *[lastYear - firstYear + 1]bool // by year - firstYear; nil: every year

	anyDom, anyDow bool   // the field allows every day
	dom            uint64 // plain days of the month
	beforeLast     uint64 // L, L-n: bit n is the day n days before the last day of the month
	nearest        uint64 // nW: bit n is the Monday to Friday nearest to day n, in the same month
	lastWeekday    bool   // LW: the last Monday to Friday of the month

	dow     uint64    // weekdays: bit n is weekday n, 0 is Sunday
	lastDow uint64    // 5L: weekdays of which only the last one of the month counts
	nthDow  [6]uint64 // 5#n: by n from 1 to 5, the weekdays of which only the nth one of the month counts
}

// specialDom parses an item of the day-of-month field that is not a plain value: L, L-3, LW or 15W. It returns false
// for any other item.
func (c *calendar) specialDom(item string) (bool, error) {
	if item == "LW" {
		c.lastWeekday = true
		return true, nil
	}
	if day, ok := strings.CutSuffix(item, "W"); ok {
		if _, err := parseNumber(day); err != nil {
			return true, fmt.Errorf("%q is invalid; W stands behind one day, or behind L alone: write 15W or LW", item)
		}
		n, err := domField.parseValue(day)
		c.nearest |= 1 << n
		return true, err
	}
	rest, ok := strings.CutPrefix(item, "L")
	if !ok {
		return false, nil
	}
	if rest == "" {
		c.beforeLast |= 1
		return true, nil
	}
	n, err := parseNumber(strings.TrimPrefix(rest, "-"))
	if err != nil || rest[0] != '-' || n < 1 || n > 30 {
		return true, fmt.Errorf("%q is invalid; write L, LW, or L-1 to L-30", item)
	}
	c.beforeLast |= 1 << n
	return true, nil
}

// specialDow parses an item of the day-of-week field that is not a plain value: 5L, FRIL, 5#2 or FRI#2. It returns false
// for any other item.
func (c *calendar) specialDow(item string) (bool, error) {
	if day, nth, ok := strings.Cut(item, "#"); ok {
		weekday, err := dowField.parseValue(day)
		if err != nil {
			return true, err
		}
		n, err := parseNumber(nth)
		if err != nil || n < 1 || n > 5 {
			return true, fmt.Errorf("%q is invalid; write #1 to #5 for the first to the fifth of the month", item)
		}
		c.nthDow[n] |= 1 << (weekday % 7)
		return true, nil
	}
	day, ok := strings.CutSuffix(item, "L")
	if !ok {
		return false, nil
	}
	if day == "" {
		return true, errors.New("a weekday must stand before L, such as 5L for the last Friday of the month")
	}
	weekday, err := dowField.parseValue(day)
	if err == nil {
		c.lastDow |= 1 << (weekday % 7)
	}
	return true, err
}

// parseYears parses the year field. It returns nil for every year.
func parseYears(list string) (*[lastYear - firstYear + 1]bool, error) {
	if isStar(list) && len(list) == 1 {
		return nil, nil
	}
	var years [lastYear - firstYear + 1]bool
	for item := range strings.SplitSeq(list, ",") {
		r, err := yearField.parseItem(item, "")
		if err != nil {
			return nil, yearField.fault(err)
		}
		for y := r.low; y <= r.high; y += r.step {
			years[y-firstYear] = true
		}
	}
	return &years, nil
}

// hasDay reports whether the calendar contains the date.
func (c *calendar) hasDay(y int, m time.Month, d int) bool {
	return c.months>>m&1 == 1 && c.inYear(y) && c.days(y, m)>>d&1 == 1
}

func (c *calendar) inYear(y int) bool {
	return c.years == nil || y >= firstYear && y <= lastYear && c.years[y-firstYear]
}

// dayAfter returns the first day of the calendar after the given date, in days since 1970-01-01. It looks 400 years
// ahead, after which the Gregorian calendar repeats, and returns false if it finds no day.
func (c *calendar) dayAfter(y int, m time.Month, d int) (int64, bool) {
	past := uint64(1)<<(d+1) - 1 // days 0 to d of the first month
	for until := min(y+400, endOfYears); y <= until; y, m = y+1, time.January {
		if !c.inYear(y) {
			past = 0
			continue
		}
		for ; m <= time.December; m++ {
			if c.months>>m&1 == 1 {
				if days := c.days(y, m) &^ past; days != 0 {
					return dayNumber(y, m, bits.TrailingZeros64(days)), true
				}
			}
			past = 0
		}
	}
	return 0, false
}

// days returns the set of days that the day-of-month and day-of-week fields name in the given month. It ignores the
// month and year fields. If both day fields are restricted, a day that matches either one counts.
func (c *calendar) days(y int, m time.Month) uint64 {
	last := daysIn(y, m)
	all := uint64(1)<<(last+1) - 2
	if c.anyDom && c.anyDow {
		return all
	}
	first := weekdayOf(dayNumber(y, m, 1))
	var days uint64
	if !c.anyDom {
		days |= c.domDays(first, last)
	}
	if !c.anyDow {
		days |= c.dowDays(first, last)
	}
	return days & all
}

// domDays returns the days that the day-of-month field names in a month whose first day is the weekday first and whose
// last day is day last.
func (c *calendar) domDays(first, last int) uint64 {
	days := c.dom
	for set := c.beforeLast; set != 0; set &= set - 1 {
		if d := last - bits.TrailingZeros64(set); d >= 1 {
			days |= 1 << d
		}
	}
	for set := c.nearest; set != 0; set &= set - 1 {
		if d := bits.TrailingZeros64(set); d <= last {
			days |= 1 << nearestWeekday(d, first, last)
		}
	}
	if c.lastWeekday {
		days |= 1 << nearestWeekday(last, first, last)
	}
	return days
}

// nearestWeekday returns the Monday to Friday nearest to day d in the same month. For first and last see domDays.
func nearestWeekday(d, first, last int) int {
	switch (first + d - 1) % 7 {
	case 6: // Saturday
		if d == 1 {
			return d + 2
		}
		return d - 1
	case 0: // Sunday
		if d == last {
			return d - 2
		}
		return d + 1
	}
	return d
}

// dowDays returns the days that the day-of-week field names. For first and last see domDays.
func (c *calendar) dowDays(first, last int) uint64 {
	days := everyWeek(c.dow, first)
	for nth, set := range c.nthDow {
		if set != 0 {
			days |= everyWeek(set, first) & week(7*nth-6)
		}
	}
	if c.lastDow != 0 {
		days |= everyWeek(c.lastDow, first) & week(last-6)
	}
	return days
}

// week returns the set of the seven days from day d on.
func week(d int) uint64 { return 0x7f << d }

// everyWeek returns the set of all days with the given weekdays in a month whose first day is the weekday first.
func everyWeek(weekdays uint64, first int) uint64 {
	rotated := (weekdays>>first | weekdays<<(7-first)) & 0x7f // bit 0: the weekday of day 1
	return rotated << 1 * (1 | 1<<7 | 1<<14 | 1<<21 | 1<<28)
}

// contains reports whether every day of o is also a day of c. It compares the fields as they were written and does not
// expand them, so it may return false where every day of o is in fact a day of c.
func (c *calendar) contains(o *calendar) bool {
	if o.months&^c.months != 0 || c.years != nil && (o.years == nil || !isSubset(o.years[:], c.years[:])) {
		return false
	}
	if c.anyDom && c.anyDow {
		return true
	}
	if o.anyDom != c.anyDom || o.anyDow != c.anyDow {
		return false
	}
	rest := o.dom&^c.dom | o.beforeLast&^c.beforeLast | o.nearest&^c.nearest | o.dow&^c.dow | o.lastDow&^c.lastDow
	for n, set := range o.nthDow {
		rest |= set &^ c.nthDow[n]
	}
	return rest == 0 && (c.lastWeekday || !o.lastWeekday)
}

// isSubset reports whether large is true wherever small is.
func isSubset(small, large []bool) bool {
	for i, set := range small {
		if set && !large[i] {
			return false
		}
	}
	return true
}

// civil returns the date of a day given in days since 1970-01-01.
func civil(day int64) (int, time.Month, int) { return time.Unix(day*secondsADay, 0).UTC().Date() }

// dayNumber returns the days from 1970-01-01 to the given date.
func dayNumber(y int, m time.Month, d int) int64 {
	n, _ := divide(time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix(), secondsADay)
	return n
}

// weekdayOf returns the weekday, 0 for Sunday, of a day given in days since 1970-01-01, which was a Thursday.
func weekdayOf(day int64) int {
	_, weekday := divide(day+4, 7)
	return int(weekday)
}

// daysIn returns the number of days in a month.
func daysIn(y int, m time.Month) int {
	if m == time.February && y%4 == 0 && (y%100 != 0 || y%400 == 0) {
		return 29
	}
	return int("\x00\x1f\x1c\x1f\x1e\x1f\x1e\x1f\x1f\x1e\x1f\x1e\x1f"[m])
}

// divide returns the quotient of a and b rounded down, also if a is negative, and the rest, which is at least 0. b must
// be positive.
func divide(a, b int64) (quotient, rest int64) {
	quotient, rest = a/b, a%b
	if rest < 0 {
		quotient, rest = quotient-1, rest+b
	}
	return quotient, rest
}
