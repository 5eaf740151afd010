package crontab

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// column is one of the five columns of times.
type column struct {
	name      string
	low, high int
	names     []string // of the values from low on
}

var columns = []column{
	{name: "minute", high: 59},
	{name: "hour", high: 23},
	{name: "day of month", low: 1, high: 31},
	{name: "month", low: 1, high: 12, names: []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}},
	{name: "day of week", high: 7, names: []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}},
}

// item is an item of a list: *, a value or a range, with or without a step.
var item = regexp.MustCompile(`^(?:(\*)|([0-9A-Za-z]+)(?:-([0-9A-Za-z]+))?)(?:/([0-9]+))?$`)

// values is what an item means: each step-th value from low to high.
type values struct{ low, high, step int }

// check refuses what cron refuses, and what it might read in another way than DTS.
func (c column) check(list string) error {
	for text := range strings.SplitSeq(list, ",") {
		if _, err := c.parse(text); err != nil {
			return err
		}
	}
	return nil
}

func (c column) parse(text string) (v values, err error) {
	m := item.FindStringSubmatch(text)
	switch {
	case strings.Contains(text, "~"):
		return v, fmt.Errorf("%q is random: write H, as in H(0-29), into the schedule yourself", text)
	case m == nil:
		return v, fmt.Errorf("%q is not a value, a range or a * of cron", text)
	case m[1] == "" && m[3] == "" && m[4] != "":
		return v, fmt.Errorf("%q has a step behind a single value, which crons read in different ways: write a range", text)
	}
	v = values{c.low, c.high, 1}
	if m[1] == "" {
		if v.low, err = c.value(m[2]); err != nil {
			return v, err
		}
		if v.high = v.low; m[3] != "" {
			v.high, err = c.value(m[3])
		}
	}
	if err == nil && m[4] != "" {
		v.step, err = strconv.Atoi(m[4])
	}
	switch {
	case err != nil:
		return v, err
	case v.step < 1:
		return v, errors.New("a step must be at least 1")
	case v.high < v.low:
		return v, fmt.Errorf("the range %q ends before it begins", text)
	}
	return v, nil
}

// value reads a number or a name.
func (c column) value(text string) (int, error) {
	if i := slices.Index(c.names, strings.ToLower(text)); i >= 0 {
		return c.low + i, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < c.low || n > c.high {
		return 0, fmt.Errorf("%q must be %d to %d%s", text, c.low, c.high, c.orNames())
	}
	return n, nil
}

func (c column) orNames() string {
	if len(c.names) == 0 {
		return ""
	}
	return fmt.Sprintf(", or %s to %s", c.names[0], c.names[len(c.names)-1])
}

// isAny says that a column restricts nothing.
func isAny(list string) bool {
	for text := range strings.SplitSeq(list, ",") {
		if text == "*" || text == "*/1" {
			return true
		}
	}
	return false
}

// weekdays returns the days of the week that are not in a list, from 0, Sunday.
func weekdays(list string) (others []string, err error) {
	var in [8]bool
	for text := range strings.SplitSeq(list, ",") {
		v, err := columns[4].parse(text)
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(text, "*") { // * means 0 to 6, or else a step could find Sunday at 7
			v.high = 6
		}
		for day := v.low; day <= v.high; day += v.step {
			in[day] = true
		}
	}
	in[0] = in[0] || in[7]
	for day := range 7 {
		if !in[day] {
			others = append(others, strconv.Itoa(day))
		}
	}
	return others, nil
}
