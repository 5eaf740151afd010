package schedule

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/robfig/cron/v3"
)

// field is one column of an expression.
type field struct {
	name      string // for people, and for the hash that H stands for
	low, high int
	names     string // three letters each, of the values from low on
	write     string // what may be written
	hashHigh  int    // the highest value that H stands for; 0: high
	option    cron.ParseOption
}

var (
	secondField = field{name: "second", high: 59, write: "0 to 59", option: cron.Second}
	minuteField = field{name: "minute", high: 59, write: "0 to 59", option: cron.Minute}
	hourField   = field{name: "hour", high: 23, write: "0 to 23", option: cron.Hour}
	domField    = field{name: "day of month", low: 1, high: 31, write: "1 to 31, L, L-3, 15W or LW", option: cron.Dom,
		hashHigh: 28} // a day that every month has
	monthField = field{name: "month", low: 1, high: 12, write: "1 to 12 or JAN to DEC", option: cron.Month,
		names: "JANFEBMARAPRMAYJUNJULAUGSEPOCTNOVDEC"}
	dowField = field{name: "day of week", high: 6, write: "0 to 7, SUN to SAT, 5L or 5#2", option: cron.Dow,
		names: "SUNMONTUEWEDTHUFRISAT"}
	yearField = field{name: "year", low: firstYear, high: lastYear, write: "1970 to 2099"}
)

// sunday is the second number of that day.
const sunday = 7

// valueRange is every step-th value from low to high. A run of weekdays may end with sunday.
type valueRange struct{ low, high, step int }

// parse reads a list of items. What is special about days is tried first, if there is anything: it says whether it
// has taken the item. The result is the set of plain values, and whether the list is no restriction at all.
//
// Every item is checked here, and written anew before robfig's parser turns it into a set: that one accepts
// empty items and large steps, and does not know 7 for Sunday.
func (f field) parse(list, name string, special func(item string) (bool, error)) (set uint64, anyValue bool, _ error) {
	var plain []string
	for item := range strings.SplitSeq(list, ",") {
		if special != nil {
			taken, err := special(item)
			if err != nil {
				return 0, false, f.fault(err)
			}
			if taken {
				continue
			}
		}
		r, err := f.parseItem(item, name)
		if err != nil {
			return 0, false, f.fault(err)
		}
		anyValue = anyValue || isStar(item) && r.step == 1
		plain = append(plain, f.render(r))
	}
	set, err := f.toSet(plain)
	return set, anyValue, err
}

func (f field) fault(err error) error { return fmt.Errorf("%s: %w", f.name, err) }

// parseItem reads one item: *, a value, a range or a hash, with a step or without.
func (f field) parseItem(item, name string) (valueRange, error) {
	base, step, hasStep := strings.Cut(item, "/")
	if item == "" {
		return valueRange{}, errors.New("an item of the list is empty")
	}
	r, err := f.parseBase(base, hasStep)
	if err != nil {
		return valueRange{}, err
	}
	r.step = 1
	if hasStep {
		if r.step, err = f.parseStep(step); err != nil {
			return valueRange{}, err
		}
	}
	if isHash(base) {
		r = f.pick(r, hasStep, name)
	}
	return r, nil
}

// parseBase reads what stands in front of the step. A value with a step runs up to the highest one.
func (f field) parseBase(base string, hasStep bool) (valueRange, error) {
	if isStar(base) {
		return valueRange{low: f.low, high: f.high}, nil
	}
	if isHash(base) {
		return f.parseHash(base)
	}
	if low, high, isRange := strings.Cut(base, "-"); isRange {
		return f.parseRange(low, high)
	}
	low, err := f.parseValue(base)
	if f.isDow() && low == sunday {
		low = 0
	}
	if hasStep {
		return valueRange{low: low, high: f.high}, err
	}
	return valueRange{low: low, high: low}, err
}

func (f field) parseRange(from, to string) (valueRange, error) {
	low, err := f.parseValue(from)
	if err != nil {
		return valueRange{}, err
	}
	high, err := f.parseValue(to)
	if err != nil {
		return valueRange{}, err
	}
	if f.isDow() { // Sunday is the first day where a range begins, and the last one where it ends
		if high == 0 && low > 0 {
			high = sunday
		}
		if low == sunday && high < sunday {
			low = 0
		}
	}
	if low > high {
		return valueRange{}, fmt.Errorf("%s-%s runs backwards; write %d-%d,%d-%d", from, to, low, f.high, f.low, high)
	}
	return valueRange{low: low, high: high}, nil
}

// parseHash reads H or H(0-29): the values among which the hash picks.
func (f field) parseHash(base string) (valueRange, error) {
	if f.name == yearField.name {
		return valueRange{}, errors.New("only the other fields can have an H")
	}
	if base == "H" {
		if f.hashHigh > 0 {
			return valueRange{low: f.low, high: f.hashHigh}, nil
		}
		return valueRange{low: f.low, high: f.high}, nil
	}
	inner, closed := strings.CutSuffix(strings.TrimPrefix(base, "H("), ")")
	from, to, isRange := strings.Cut(inner, "-")
	if !closed || !isRange {
		return valueRange{}, fmt.Errorf("%q is not understood; write H, H/15, H(0-29) or H(0-29)/10", base)
	}
	return f.parseRange(from, to)
}

// parseValue reads a number or a name.
func (f field) parseValue(text string) (int, error) {
	if i := strings.Index(f.names, text); len(text) == 3 && i >= 0 && i%3 == 0 {
		return f.low + i/3, nil
	}
	n, err := parseNumber(text)
	high := f.high
	if f.isDow() {
		high = sunday
	}
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q is not understood; write %s", text, f.write)
	case n < f.low:
		return 0, fmt.Errorf("%d is less than %d", n, f.low)
	case n > high:
		return 0, fmt.Errorf("%d is more than %d", n, high)
	}
	return n, nil
}

// parseStep refuses steps that reach nothing: */90 in minutes would silently mean every hour.
func (f field) parseStep(text string) (int, error) {
	step, err := parseNumber(text)
	count := f.high - f.low + 1
	switch {
	case err != nil:
		return 0, fmt.Errorf("the step %q is not a number", text)
	case step == 0:
		return 0, errors.New("a step of 0 does not get on; write at least 1")
	case step > count:
		return 0, fmt.Errorf("a step of %d is more than the %d values there are", step, count)
	}
	return step, nil
}

// parseNumber reads digits and nothing else: no sign, no space, and not so many that they overflow.
func parseNumber(text string) (int, error) {
	if text == "" || len(text) > 6 || strings.Trim(text, "0123456789") != "" {
		return 0, strconv.ErrSyntax
	}
	return strconv.Atoi(text)
}

func isStar(text string) bool {
	base, _, _ := strings.Cut(text, "/")
	return base == "*" || base == "?"
}

func isHash(base string) bool { return base == "H" || strings.HasPrefix(base, "H(") }

func (f field) isDow() bool { return f.option == cron.Dow }

// render writes a run as robfig's parser reads it.
func (f field) render(r valueRange) string {
	if f.isDow() && r.high == sunday {
		var days []string
		for day := r.low; day <= r.high; day += r.step {
			days = append(days, strconv.Itoa(day%7))
		}
		return strings.Join(days, ",")
	}
	return fmt.Sprintf("%d-%d/%d", r.low, r.high, r.step)
}

// toSet has robfig's parser make a set of what render wrote.
func (f field) toSet(plain []string) (uint64, error) {
	if len(plain) == 0 {
		return 0, nil
	}
	parsed, err := cron.NewParser(f.option).Parse(strings.Join(plain, ","))
	if err != nil {
		return 0, f.fault(err)
	}
	s := parsed.(*cron.SpecSchedule) // what Parse returns for anything but @every, which cannot come from render
	switch f.option {
	case cron.Second:
		return s.Second, nil
	case cron.Minute:
		return s.Minute, nil
	case cron.Hour:
		return s.Hour, nil
	case cron.Dom:
		return s.Dom, nil
	case cron.Month:
		return s.Month, nil
	default:
		return s.Dow, nil
	}
}
