package schedule

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// InWords says in words when each rule of a valid Spec ticks. The words stand behind "It ticks".
func (s Spec) InWords() []string {
	words := make([]string, len(s.Rules))
	for i, r := range s.Rules {
		switch {
		case r.Cron != "":
			words[i] = cronInWords(r.Cron)
		case s.StartAt.IsZero():
			words[i] = "every " + inWords(r.Every) + ", counted from when the schedule was created"
		default:
			words[i] = "every " + inWords(r.Every) + ", counted from start_at"
		}
	}
	return words
}

// cronInWords says when a valid expression ticks.
func cronInWords(text string) string {
	columns, err := splitExpression(text)
	if err != nil {
		return ""
	}
	c := allColumns(columns)
	parts := []string{clockInWords(c[0], c[1], c[2]), daysInWords(c[3], c[5])}
	if !isAny(c[4]) {
		parts = append(parts, "in "+monthField.inWords(c[4]))
	}
	if !isAny(c[6]) {
		parts = append(parts, "in "+yearField.inWords(c[6]))
	}
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), ", ")
}

// isAny reports whether a column has an item that allows every value.
func isAny(column string) bool {
	return slices.ContainsFunc(strings.Split(column, ","), func(item string) bool {
		return item == "*" || item == "?" || item == "*/1" || item == "?/1"
	})
}

// clockTimes is how many times of the day are named one by one.
const clockTimes = 6

// clockInWords says at which times of a day there is a tick.
func clockInWords(second, minute, hour string) string {
	if times := timesOfDay(second, minute, hour); len(times) > 0 {
		return "at " + joinWords(times)
	}
	var parts []string
	if second != "0" {
		parts = append(parts, secondField.everyInWords(second))
	}
	if second == "0" || !isAny(minute) {
		parts = append(parts, minuteField.everyInWords(minute))
	}
	if !isAny(hour) {
		parts = append(parts, "in "+hourField.inWords(hour))
	} else if single(minute) {
		parts = append(parts, "of every hour")
	}
	return strings.Join(parts, " ")
}

// timesOfDay lists the times of a day if they are few: numbers of hours at one minute and second.
func timesOfDay(second, minute, hour string) (times []string) {
	hours := strings.Split(hour, ",")
	if !single(second) || !single(minute) || len(hours) > clockTimes || !slices.ContainsFunc(hours, single) {
		return nil
	}
	for _, h := range hours {
		if !single(h) {
			return nil
		}
		n, _ := strconv.Atoi(h)
		m, _ := strconv.Atoi(minute)
		s, _ := strconv.Atoi(second)
		at := fmt.Sprintf("%02d:%02d", n, m)
		if s > 0 {
			at += fmt.Sprintf(":%02d", s)
		}
		times = append(times, at)
	}
	return times
}

// single reports whether a column is one number.
func single(column string) bool {
	_, err := parseNumber(column)
	return err == nil
}

// daysInWords says on which days there are ticks; "" for all.
func daysInWords(dom, dow string) string {
	var days []string
	if !isAny(dom) {
		days = append(days, "on "+itemsInWords(dom, domInWords))
	}
	if !isAny(dow) {
		days = append(days, "on "+itemsInWords(dow, dowInWords))
	}
	return strings.Join(days, ", and also ")
}

// domInWords writes an item of the days of a month.
func domInWords(item string) string {
	switch {
	case item == "L":
		return "the last day of the month"
	case item == "LW":
		return "the last weekday of the month (Monday to Friday)"
	case strings.HasPrefix(item, "L-"):
		return "the day " + strings.TrimPrefix(item, "L-") + " before the last of the month"
	case strings.HasSuffix(item, "W"):
		return "the Monday to Friday nearest to day " + strings.TrimSuffix(item, "W") + " of the month"
	}
	return domField.itemInWords(item, "day ", "days ") + " of the month"
}

var weekdays = []string{"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"}

var months = []string{
	"January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
	"December",
}

// ordinals are how 1 to 5 are counted.
var ordinals = []string{"first", "second", "third", "fourth", "fifth"}

// dowInWords writes an item of the days of a week.
func dowInWords(item string) string {
	if day, nth, ok := strings.Cut(item, "#"); ok {
		n, _ := strconv.Atoi(nth)
		return "the " + ordinals[min(max(n, 1), 5)-1] + " " + dowField.valueInWords(day) + " of the month"
	}
	if day, ok := strings.CutSuffix(item, "L"); ok {
		return "the last " + dowField.valueInWords(day) + " of the month"
	}
	return dowField.itemInWords(item, "", "")
}

// everyInWords writes the seconds or minutes of a column, as in "every 15 minutes" or "at minutes 5 and 35".
func (f field) everyInWords(column string) string {
	if isAny(column) {
		return "every " + f.name
	}
	base, step, hasStep := strings.Cut(column, "/")
	if n, err := strconv.Atoi(step); hasStep && err == nil && isStar(base) && 60%n == 0 {
		return fmt.Sprintf("every %d %ss", n, f.name)
	}
	return "at " + f.inWords(column)
}

// inWords writes a column with the name of its field, as in "hours 7 to 19". Months and years have names of their own.
func (f field) inWords(column string) string {
	one, many := f.name+" ", f.name+"s "
	if f.name == monthField.name || f.name == yearField.name {
		one, many = "", ""
	}
	if !strings.Contains(column, ",") {
		return f.itemInWords(column, one, many)
	}
	return many + itemsInWords(column, func(item string) string { return f.itemInWords(item, "", "") })
}

// itemInWords writes a value, a range or a step, with a word in front: one for one value, many for others.
func (f field) itemInWords(item, one, many string) string {
	base, step, hasStep := strings.Cut(item, "/")
	low, high, isRange := strings.Cut(base, "-")
	n, err := strconv.Atoi(step)
	every := ""
	if hasStep && err == nil && n > 1 {
		every = fmt.Sprintf("every %s %s", ordinal(n), f.unit())
	}
	switch {
	case isHash(base) && every != "":
		return every + " from one on that its id decides"
	case isHash(base):
		return "the " + f.unit() + " that its id decides"
	case isStar(base):
		return cmp.Or(every, "every "+f.unit())
	case isRange && every != "":
		return every + " from " + f.valueInWords(low) + " to " + f.valueInWords(high)
	case isRange:
		return many + f.valueInWords(low) + " to " + f.valueInWords(high)
	case every != "":
		return every + " from " + f.valueInWords(base) + " on"
	case hasStep: // of 1
		return many + f.valueInWords(base) + " to " + f.valueInWords(strconv.Itoa(f.high))
	}
	return one + f.valueInWords(base)
}

// unit is what the values of the field count.
func (f field) unit() string {
	if f.name == domField.name || f.isDow() {
		return "day"
	}
	return f.name
}

// ordinal counts: 2nd, 3rd, 11th.
func ordinal(n int) string {
	end := "th"
	if n%100 < 11 || n%100 > 13 {
		switch n % 10 {
		case 1:
			end = "st"
		case 2:
			end = "nd"
		case 3:
			end = "rd"
		}
	}
	return strconv.Itoa(n) + end
}

// valueInWords writes a number, or the name of a day or a month.
func (f field) valueInWords(text string) string {
	n, err := f.parseValue(text)
	switch {
	case err != nil:
		return text
	case f.isDow():
		return weekdays[n%sunday]
	case f.name == monthField.name:
		return months[n-1]
	}
	return strconv.Itoa(n)
}

// itemsInWords writes the items of a column.
func itemsInWords(column string, word func(string) string) string {
	items := strings.Split(column, ",")
	words := make([]string, len(items))
	for i, item := range items {
		words[i] = word(item)
	}
	return joinWords(words)
}

// joinWords joins with commas, and with "and" before the last.
func joinWords(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}
