package schedule

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/robfig/cron/v3"
)

// field describes one column of an expression and parses it.
type field struct {
	name      string // used in error messages and as an input of the hash behind H
	low, high int    // the lowest and the highest value
	names     string // names of the values from low on, three letters each; "": none
	write     string // for error messages: what is valid as an item
	plain     string // for error messages: which values are valid in a range, or in front of a step, W, L or #; "": write
	hashHigh  int    // the highest value that H may stand for; 0: high
	option    cron.ParseOption
}

var (
	secondField = field{name: "second", high: 59, write: "0 to 59", option: cron.Second}
	minuteField = field{name: "minute", high: 59, write: "0 to 59", option: cron.Minute}
	hourField   = field{name: "hour", high: 23, write: "0 to 23", option: cron.Hour}
	domField    = field{name: "day of month", low: 1, high: 31, write: "1 to 31, L, L-3, 15W or LW", plain: "1 to 31",
		option: cron.Dom, hashHigh: 28} // every month has a day 28
	monthField = field{name: "month", low: 1, high: 12, write: "1 to 12 or JAN to DEC", option: cron.Month,
		names: "JANFEBMARAPRMAYJUNJULAUGSEPOCTNOVDEC"}
	dowField = field{name: "day of week", high: 6, write: "0 to 7, SUN to SAT, 5L or 5#2", plain: "0 to 7 or SUN to SAT",
		option: cron.Dow, names: "SUNMONTUEWEDTHUFRISAT"}
	yearField = field{name: "year", low: firstYear, high: lastYear, write: "1970 to 2099"}
)

// sunday is the second number of Sunday, besides 0.
const sunday = 7

// valueRange is every step-th value from low to high, both included. The high of a range of weekdays may be sunday, or a
// day of the next week.
type valueRange struct{ low, high, step int }

// parse parses a comma-separated list of items. It calls special first, unless that is nil: special returns true if it
// has parsed the item itself. The result is the set of the plain values, and whether the list allows every value.
//
// parse checks each item and renders it anew before robfig's parser turns it into a set, because that parser accepts
// empty items and steps that are too large, and does not accept 7 for Sunday.
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

// fault adds the name of the field to an error.
func (f field) fault(err error) error { return fmt.Errorf("%s: %w", f.name, err) }

// parseItem parses one item: *, a value, a range or a hash, with or without a step. name is the input of the hash.
func (f field) parseItem(item, name string) (valueRange, error) {
	base, step, hasStep := strings.Cut(item, "/")
	if item == "" {
		return valueRange{}, errors.New("the list has an empty item; write values separated by single commas, without spaces")
	}
	r, err := f.parseBase(base, step, hasStep)
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

// parseBase parses the part of an item in front of the step. A single value with a step means the range from that value
// to the highest one.
func (f field) parseBase(base, step string, hasStep bool) (valueRange, error) {
	if isStar(base) {
		return valueRange{low: f.low, high: f.high}, nil
	}
	if isHash(base) {
		return f.parseHash(base)
	}
	if low, high, isRange := strings.Cut(base, "-"); isRange {
		return f.parseRange(low, high, step)
	}
	valid := f.write
	if hasStep {
		valid = f.plain
	}
	low, err := f.parseValueOr(base, valid)
	if f.isDow() && low == sunday {
		low = 0
	}
	if hasStep {
		return valueRange{low: low, high: f.high}, err
	}
	return valueRange{low: low, high: low}, err
}

// parseRange parses a range with both of its ends. One of weekdays may go on in the next week, as FRI-MON. The step behind
// it, "" for none, counts for advice only.
func (f field) parseRange(from, to, step string) (valueRange, error) {
	r, err := f.parseEnds(from, to)
	if err == nil && r.low > r.high && f.isDow() {
		r.high += sunday
	}
	if err == nil && r.low > r.high {
		return r, fmt.Errorf("the range %s-%s ends before it begins; write %s", from, to, f.acrossTheEnd(r, step))
	}
	return r, err
}

// parseEnds parses the ends of a range. It may end before it begins.
func (f field) parseEnds(from, to string) (valueRange, error) {
	low, err := f.parseValue(from)
	if err != nil {
		return valueRange{}, err
	}
	high, err := f.parseValue(to)
	if err != nil {
		return valueRange{}, err
	}
	if f.isDow() { // Sunday is 0 at the beginning of a range, and 7 at its end
		if high == 0 && low > 0 {
			high = sunday
		}
		if low == sunday && high < sunday {
			low = 0
		}
	}
	return valueRange{low: low, high: high}, nil
}

// acrossTheEnd writes what a range that ends before it begins is likely to mean: it goes on behind the highest value with the
// lowest one. Years do not go on: their ends were exchanged.
func (f field) acrossTheEnd(r valueRange, step string) string {
	if f.name == yearField.name {
		return spanText(r.high, r.low)
	}
	n, err := f.parseStep(step)
	if err != nil || n == 1 {
		return spanText(r.low, f.high) + "," + spanText(f.low, r.high)
	}
	count := f.high - f.low + 1
	var values []string
	for v := r.low; v <= r.high+count; v += n {
		values = append(values, strconv.Itoa(f.low+(v-f.low)%count))
	}
	return strings.Join(values, ",")
}

// spanText writes a range, a single value if both ends are the same.
func spanText(low, high int) string {
	if low == high {
		return strconv.Itoa(low)
	}
	return fmt.Sprintf("%d-%d", low, high)
}

// parseHash parses H or H(0-29) and returns the range from which pick chooses a value.
func (f field) parseHash(base string) (valueRange, error) {
	if f.name == yearField.name {
		return valueRange{}, errors.New("the years cannot be chosen by H; write 1970 to 2099")
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
		return valueRange{}, fmt.Errorf("%q is invalid; write H, H/15, H(0-29) or H(0-29)/10", base)
	}
	r, err := f.parseEnds(from, to)
	if err == nil && r.low > r.high {
		return r, fmt.Errorf("the range %s-%s ends before it begins, and H chooses from a range that does not; write H(%d-%d) or H(%d-%d)",
			from, to, r.low, f.high, f.low, r.high)
	}
	return r, err
}

// parseValue parses a number or a name.
func (f field) parseValue(text string) (int, error) { return f.parseValueOr(text, f.plain) }

// parseValueOr is parseValue whose error says what else is valid.
func (f field) parseValueOr(text, valid string) (int, error) {
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
		return 0, fmt.Errorf("%q is invalid; write %s", text, cmp.Or(valid, f.write))
	case n < f.low:
		return 0, fmt.Errorf("%d is less than %d", n, f.low)
	case n > high:
		return 0, fmt.Errorf("%d is more than %d", n, high)
	}
	return n, nil
}

// parseStep parses the step of an item. It refuses a step that is greater than the number of values: */90 in the minutes
// would mean every hour.
func (f field) parseStep(text string) (int, error) {
	step, err := parseNumber(text)
	count := f.high - f.low + 1
	switch {
	case err != nil:
		return 0, fmt.Errorf("the step %q is invalid; write 1 to %d", text, count)
	case step == 0:
		return 0, errors.New("the step is 0; it must be at least 1")
	case step > count:
		return 0, fmt.Errorf("the step %d is more than %d, the number of values", step, count)
	}
	return step, nil
}

// parseNumber parses a number of 1 to 6 digits, without a sign or spaces.
func parseNumber(text string) (int, error) {
	if text == "" || len(text) > 6 || strings.Trim(text, "0123456789") != "" {
		return 0, strconv.ErrSyntax
	}
	return strconv.Atoi(text)
}

// isStar reports whether the item is * or ?, with or without a step.
func isStar(text string) bool {
	base, _, _ := strings.Cut(text, "/")
	return base == "*" || base == "?"
}

func isHash(base string) bool { return base == "H" || strings.HasPrefix(base, "H(") }

func (f field) isDow() bool { return f.option == cron.Dow }

// render writes a range in the form that robfig's parser accepts.
func (f field) render(r valueRange) string {
	if f.isDow() && r.high >= sunday {
		var days []string
		for day := r.low; day <= r.high; day += r.step {
			days = append(days, strconv.Itoa(day%sunday))
		}
		return strings.Join(days, ",")
	}
	return fmt.Sprintf("%d-%d/%d", r.low, r.high, r.step)
}

// toSet returns the set of the values of rendered ranges, computed by robfig's parser.
func (f field) toSet(plain []string) (uint64, error) {
	if len(plain) == 0 {
		return 0, nil
	}
	parsed, err := cron.NewParser(f.option).Parse(strings.Join(plain, ","))
	if err != nil {
		return 0, f.fault(err)
	}
	s := parsed.(*cron.SpecSchedule) // Parse returns another type for @every only, which render does not write
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
