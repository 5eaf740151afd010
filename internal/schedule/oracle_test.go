package schedule

import (
	"strconv"
	"strings"
	"time"
)

// This file is the oracle: a second, slow implementation that shares nothing with the first. It reads an expression
// value by value, and walks through real time with the clock of the zone before its eyes.

// oracleCron is an expression as the oracle understands it.
type oracleCron struct {
	second, minute, hour [60]bool
	dom, month, dow      string
	year                 string
	anySecond            bool
	day                  time.Time // the last day that was asked for, and the answer
	onDay                bool
}

func newOracleCron(text string) *oracleCron {
	f := strings.Fields(text)
	o := &oracleCron{year: "*"}
	switch len(f) {
	case 5:
		f = append([]string{"0"}, f...)
		o.anySecond = true
	case 7:
		o.year = f[6]
	}
	for v := range 60 {
		o.second[v] = oracleList(f[0], v, 59)
		o.minute[v] = oracleList(f[1], v, 59)
		o.hour[v] = v < 24 && oracleList(f[2], v, 23)
	}
	o.dom, o.month, o.dow = f[3], oracleNumbers(f[4], 1, "JAN,FEB,MAR,APR,MAY,JUN,JUL,AUG,SEP,OCT,NOV,DEC"),
		oracleNumbers(f[5], 0, "SUN,MON,TUE,WED,THU,FRI,SAT")
	return o
}

func oracleNumbers(text string, first int, names string) string {
	for i, name := range strings.Split(names, ",") {
		text = strings.ReplaceAll(text, name, strconv.Itoa(first+i))
	}
	return text
}

// oracleList says whether a value is in a list such as 1,5-9,10/5,*/7; top is the highest that there is.
func oracleList(list string, v, top int) bool {
	for _, item := range strings.Split(list, ",") {
		base, stepText, stepped := strings.Cut(item, "/")
		step := 1
		if stepped {
			step, _ = strconv.Atoi(stepText)
		}
		low, high := 0, top
		if base == "*" || base == "?" {
			if top == 31 || top == 12 {
				low = 1
			}
			if top == lastYear {
				low = firstYear
			}
		} else {
			lowText, highText, isRange := strings.Cut(base, "-")
			low, _ = strconv.Atoi(lowText)
			switch {
			case isRange:
				high, _ = strconv.Atoi(highText)
			case !stepped:
				high = low
			}
		}
		if v >= low && v <= high && (v-low)%step == 0 {
			return true
		}
	}
	return false
}

func oracleFree(list string) bool {
	for _, item := range strings.Split(list, ",") {
		if item == "*" || item == "?" || item == "*/1" {
			return true
		}
	}
	return false
}

// isDay says whether a date is one of the expression's, by looking at the calendar around it.
func (o *oracleCron) isDay(day time.Time) bool {
	if !oracleList(o.month, int(day.Month()), 12) || o.year != "*" && !oracleList(o.year, day.Year(), lastYear) {
		return false
	}
	dom, dow := oracleDom(o.dom, day), oracleDow(o.dow, day)
	switch {
	case oracleFree(o.dom) && oracleFree(o.dow):
		return true
	case oracleFree(o.dom):
		return dow
	case oracleFree(o.dow):
		return dom
	}
	return dom || dow
}

func oracleDom(list string, day time.Time) bool {
	last := time.Date(day.Year(), day.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day()
	for _, item := range strings.Split(list, ",") {
		switch {
		case item == "L":
			if day.Day() == last {
				return true
			}
		case item == "LW":
			if oracleNearest(day, last) {
				return true
			}
		case strings.HasSuffix(item, "W"):
			n, _ := strconv.Atoi(strings.TrimSuffix(item, "W"))
			if n <= last && oracleNearest(day, n) {
				return true
			}
		case strings.HasPrefix(item, "L-"):
			n, _ := strconv.Atoi(item[2:])
			if day.Day() == last-n {
				return true
			}
		default:
			if oracleList(item, day.Day(), 31) {
				return true
			}
		}
	}
	return false
}

// oracleNearest looks for the working day around day n of the month, farther and farther away.
func oracleNearest(day time.Time, n int) bool {
	for away := range 3 {
		for _, d := range []int{n - away, n + away} {
			try := time.Date(day.Year(), day.Month(), d, 0, 0, 0, 0, time.UTC)
			if try.Month() == day.Month() && try.Weekday() != time.Saturday && try.Weekday() != time.Sunday {
				return try.Equal(day)
			}
		}
	}
	return false
}

func oracleDow(list string, day time.Time) bool {
	for _, item := range strings.Split(list, ",") {
		if before, ok := strings.CutSuffix(item, "L"); ok {
			n, _ := strconv.Atoi(before)
			if int(day.Weekday()) == n%7 && day.AddDate(0, 0, 7).Month() != day.Month() {
				return true
			}
			continue
		}
		if before, nth, ok := strings.Cut(item, "#"); ok {
			n, _ := strconv.Atoi(before)
			k, _ := strconv.Atoi(nth)
			sameMonth := day.AddDate(0, 0, -7*(k-1)).Month() == day.Month()
			if int(day.Weekday()) == n%7 && sameMonth && day.AddDate(0, 0, -7*k).Month() != day.Month() {
				return true
			}
			continue
		}
		if oracleList(item, int(day.Weekday()), 6) || day.Weekday() == time.Sunday && oracleList(item, 7, 6) {
			return true
		}
		if oracleWeekend(item, int(day.Weekday())) {
			return true
		}
	}
	return false
}

// oracleWeekend says whether a weekday is in a range such as 5-1, which goes on in the next week.
func oracleWeekend(item string, day int) bool {
	days, step, _ := strings.Cut(item, "/")
	lowText, highText, _ := strings.Cut(days, "-")
	low, _ := strconv.Atoi(lowText)
	high, err := strconv.Atoi(highText)
	if err != nil || low <= high {
		return false
	}
	wide := strconv.Itoa(low) + "-" + strconv.Itoa(high+7)
	if step != "" {
		wide += "/" + step
	}
	return oracleList(wide, day, 13) || oracleList(wide, day+7, 13)
}

func (o *oracleCron) onDate(wall time.Time) bool {
	day := time.Date(wall.Year(), wall.Month(), wall.Day(), 0, 0, 0, 0, time.UTC)
	if !day.Equal(o.day) {
		o.day, o.onDay = day, o.isDay(day)
	}
	return o.onDay
}

// covers says whether the expression, as an exclusion, covers a time of the wall clock.
func (o *oracleCron) covers(wall time.Time) bool {
	return o.minute[wall.Minute()] && o.hour[wall.Hour()] && (o.anySecond || o.second[wall.Second()]) && o.onDate(wall)
}

// wallOf is what the zone's clock shows, written as if it were UTC.
func wallOf(instant time.Time, loc *time.Location) time.Time {
	_, offset := instant.In(loc).Zone()
	return instant.UTC().Add(time.Duration(offset) * time.Second)
}

// shown is a wall time that a walk has seen, or has seen passed over, for the first time.
type shown struct {
	instant, wall        time.Time
	hour, minute, second int  // of wall
	jumped               bool // the clock went past it without showing it
}

// walk goes from one instant to another, step by step, and notes when the clock shows what it has not shown before.
func walk(loc *time.Location, from, until time.Time, step time.Duration) []shown {
	var list []shown
	highest := wallOf(from, loc)
	for at := from.Add(step); !at.After(until); at = at.Add(step) {
		wall := wallOf(at, loc)
		for highest.Before(wall) {
			highest = highest.Add(step)
			hour, minute, second := highest.Clock()
			list = append(list, shown{at, highest, hour, minute, second, highest.Before(wall)})
		}
	}
	return list
}

// fires lists when the expression fires on a walk in minutes or seconds.
func (o *oracleCron) fires(list []shown, step time.Duration) []time.Time {
	var fires []time.Time
	for i := range list {
		s := &list[i]
		if !o.minute[s.minute] || !o.hour[s.hour] || !o.onDate(s.wall) {
			continue
		}
		for second, on := range o.second {
			if !on || step == time.Second && second != s.second {
				continue
			}
			at := s.instant
			if step == time.Minute && !s.jumped {
				at = at.Add(time.Duration(second) * time.Second)
			}
			if len(fires) == 0 || !fires[len(fires)-1].Equal(at) {
				fires = append(fires, at)
			}
		}
	}
	return fires
}
