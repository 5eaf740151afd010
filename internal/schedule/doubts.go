package schedule

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Doubts returns a sentence for each cron expression of a valid definition that looks as if it was written for Quartz
// or AWS, where it would mean something else. The definition is valid as it is.
func (d Definition) Doubts() []string {
	var doubts []string
	for i, r := range d.Rules {
		field := "cron"
		if len(d.Rules) > 1 {
			field = fmt.Sprintf("specs[%d].cron", i)
		}
		doubts = append(doubts, doubtsAbout(field, r.Cron)...)
	}
	for i, text := range d.Exclude {
		if strings.ContainsAny(strings.TrimSpace(text), " \t") { // else it is a date
			doubts = append(doubts, doubtsAbout(fmt.Sprintf("exclude[%d]", i), text)...)
		}
	}
	return doubts
}

// What may be meant otherwise. The first value is the place.
const (
	sixFields = "%s: of six fields, the first is the second here, and ? means every value in any field; " +
		"in AWS, the first is the minute, and the last the year: write five fields without the year, or all seven"
	weekdayNumbers = "%s: the day of week %s means %s here, where Sunday is 0 or 7; " +
		"in Quartz and AWS, where Sunday is 1, it means %s: write names of weekdays"
	starElsewhere = "%s: ? means every %s here, as * does; " +
		"in Quartz and AWS, it may only stand for a day: write * if every %[2]s is meant"
)

// doubtsAbout returns what may be meant by the expression at a place otherwise.
func doubtsAbout(place, text string) []string {
	columns, err := splitExpression(text)
	if err != nil || strings.HasPrefix(strings.TrimSpace(text), "@") {
		return nil
	}
	dom, dow := 2, 4
	if len(columns) > 5 {
		dom, dow = 3, 5
	}
	if len(columns) == 6 && (columns[2] == "?" || columns[4] == "?") { // those of AWS for days
		return []string{fmt.Sprintf(sixFields, place)}
	}
	var doubts []string
	names := []field{secondField, minuteField, hourField, domField, monthField, dowField, yearField}[3-dom:]
	for i, column := range columns {
		if i != dom && i != dow && strings.Contains(column, "?") {
			doubts = append(doubts, fmt.Sprintf(starElsewhere, place, names[i].name))
		}
	}
	here, there, differ := bothReadings(columns[dow])
	if differ && (len(columns) == 7 || columns[dom] == "?" || columns[dow] == "?") {
		doubts = append(doubts, fmt.Sprintf(weekdayNumbers, place, columns[dow], here, there))
	}
	return doubts
}

// weekdayNumber is a number that names a weekday, with what stands in front of it: a step and the n of #n name none.
var weekdayNumber = regexp.MustCompile(`[/#]?[0-9]+`)

// bothReadings writes a list of weekdays with names, as DTS and as Quartz and AWS read it. differ is false if it has no
// number, or one that is valid in DTS only.
func bothReadings(list string) (here, there string, differ bool) {
	valid := true
	name := func(first int) string {
		return weekdayNumber.ReplaceAllStringFunc(list, func(number string) string {
			n, err := strconv.Atoi(number)
			if err != nil { // with / or #
				return number
			}
			valid = valid && n > 0
			n = (n - first + 7) % 7
			return dowField.names[3*n : 3*n+3]
		})
	}
	here, there = name(0), name(1)
	return here, there, valid && here != there
}
