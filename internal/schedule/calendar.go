package schedule

import (
	"errors"
	"fmt"
	"math/bits"
	"strings"
	"time"
)

// The years that an expression can name.
const (
	firstYear = 1970
	lastYear  = 2099
)

// endOfYears is the last year in which anything ticks: names of ticks have four digits for it.
const endOfYears = 9999

const secondsADay = 24 * 60 * 60

// calendar is the days of an expression. Sets of days of a month have bit n for the day n.
type calendar struct {
	months uint64
	years  *[lastYear - firstYear + 1]bool // nil: every year

	anyDom, anyDow bool   // the field is no restriction
	dom            uint64 // days of the month
	beforeLast     uint64 // bit n: the day n days before the last one
	nearest        uint64 // bit n: the weekday (Monday to Friday) nearest to the day n, in the same month
	lastWeekday    bool   // the last Monday to Friday

	dow     uint64    // bit n: the day n of the week, 0 is Sunday
	lastDow uint64    // the last such day of the month
	nthDow  [6]uint64 // the first to the fifth such day of the month
}

// specialDom takes L, L-3, LW and 15W.
func (c *calendar) specialDom(item string) (bool, error) {
	if item == "LW" {
		c.lastWeekday = true
		return true, nil
	}
	if day, ok := strings.CutSuffix(item, "W"); ok {
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
		return true, fmt.Errorf("%q is not understood; write L, LW, or L-1 to L-30", item)
	}
	c.beforeLast |= 1 << n
	return true, nil
}

// specialDow takes 5L, FRIL, 5#2 and FRI#2.
func (c *calendar) specialDow(item string) (bool, error) {
	if day, nth, ok := strings.Cut(item, "#"); ok {
		weekday, err := dowField.parseValue(day)
		if err != nil {
			return true, err
		}
		n, err := parseNumber(nth)
		if err != nil || n < 1 || n > 5 {
			return true, fmt.Errorf("%q is not understood; write #1 to #5 for the first to the fifth of the month", item)
		}
		c.nthDow[n] |= 1 << (weekday % 7)
		return true, nil
	}
	day, ok := strings.CutSuffix(item, "L")
	if !ok {
		return false, nil
	}
	if day == "" {
		return true, errors.New("a day belongs in front of L, such as 5L for the last Friday of the month")
	}
	weekday, err := dowField.parseValue(day)
	if err == nil {
		c.lastDow |= 1 << (weekday % 7)
	}
	return true, err
}

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

// hasDay says whether that day is one of the calendar's.
func (c *calendar) hasDay(y int, m time.Month, d int) bool {
	return c.months>>m&1 == 1 && c.inYear(y) && c.days(y, m)>>d&1 == 1
}

func (c *calendar) inYear(y int) bool {
	return c.years == nil || y >= firstYear && y <= lastYear && c.years[y-firstYear]
}

// dayAfter is the number of the first of the calendar's days after that one, as civil counts them.
func (c *calendar) dayAfter(y int, m time.Month, d int) (int64, bool) {
	past := uint64(1)<<(d+1) - 1 // of the first month
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

// days is the set of the calendar's days in a month, as if it were one of its months.
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

// domDays is the days that the field for the day of the month names, in a month that begins with that weekday.
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

// nearestWeekday is the Monday to Friday nearest to day d that is in the same month.
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

// dowDays is the days that the field for the day of the week names, in a month that begins with that weekday.
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

// week is the set of the seven days from day d on.
func week(d int) uint64 { return 0x7f << d }

// everyWeek is the set of all days with these weekdays, in a month that begins with the weekday first.
func everyWeek(weekdays uint64, first int) uint64 {
	turned := (weekdays>>first | weekdays<<(7-first)) & 0x7f // bit 0: the weekday of day 1
	return turned << 1 * (1 | 1<<7 | 1<<14 | 1<<21 | 1<<28)
}

// contains says whether all days of o are days of c. It compares what was written, not month by month.
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

func isSubset(small, large []bool) bool {
	for i, set := range small {
		if set && !large[i] {
			return false
		}
	}
	return true
}

// civil is the date of a day that is counted from 1970-01-01.
func civil(day int64) (int, time.Month, int) { return time.Unix(day*secondsADay, 0).UTC().Date() }

// dayNumber counts days from 1970-01-01.
func dayNumber(y int, m time.Month, d int) int64 {
	n, _ := divide(time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix(), secondsADay)
	return n
}

// weekdayOf is the weekday of a day, 0 for Sunday: 1970-01-01 was a Thursday.
func weekdayOf(day int64) int {
	_, weekday := divide(day+4, 7)
	return int(weekday)
}

func daysIn(y int, m time.Month) int {
	if m == time.February && y%4 == 0 && (y%100 != 0 || y%400 == 0) {
		return 29
	}
	return int("\x00\x1f\x1c\x1f\x1e\x1f\x1e\x1f\x1f\x1e\x1f\x1e\x1f"[m])
}

// divide rounds down, also below zero.
func divide(a, b int64) (quotient, rest int64) {
	quotient, rest = a/b, a%b
	if rest < 0 {
		quotient, rest = quotient-1, rest+b
	}
	return quotient, rest
}
