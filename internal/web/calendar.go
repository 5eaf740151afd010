package web

import (
	"fmt"
	"html/template"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/schedule"
)

// The calendar has a column for each week and a cell for each day, in UTC as days are counted.
const (
	calendarDays = 90
	cellPitch    = 20
	cellSize     = 17
	cellLeft     = 30 // of the first column
	cellTop      = 16 // of the first row
	daysToLookAt = 7  // in the list beside the calendar
)

// calendar is what became of the ticks of many days.
type calendar struct {
	Width, Height       int
	Shows               int // how many days
	Months              []calendarLabel
	Days                []calendarLabel
	Good, Skipped, None template.HTMLAttr // of days without a tick that was missed or whose run failed
	Failed, Crosses     template.HTMLAttr
	Missed              template.HTMLAttr
	LookAt              []dayToLookAt
	More                int // further such days
}

// calendarLabel is a text in a calendar.
type calendarLabel struct {
	X, Y int
	Text string
}

// dayToLookAt is a day on which something failed, or did not run.
type dayToLookAt struct {
	Date time.Time
	Mark mark
	What string
}

// calendarOf draws the days up to one.
func (v *visit) calendarOf(days []schedule.Day, today time.Time) calendar {
	last := today.UTC().Truncate(24 * time.Hour)
	first := last.AddDate(0, 0, 1-calendarDays)
	counts := make(map[time.Time]map[schedule.Result]int, len(days))
	for _, d := range days {
		counts[d.Date.UTC()] = d.Counts
	}
	monday := first.AddDate(0, 0, -weekday(first))
	weeks := daysBetween(monday, last)/7 + 1
	c := calendar{Shows: calendarDays, Height: cellTop + 7*cellPitch, Width: cellLeft + weeks*cellPitch}
	for i, name := range []template.HTML{v.T("Mon"), v.T("Wed"), v.T("Fri"), v.T("Sun")} {
		c.Days = append(c.Days, calendarLabel{0, cellTop + 2*i*cellPitch + 12, string(name)})
	}
	var good, skipped, none, failed, crosses, missed strings.Builder
	for day := first; !day.After(last); day = day.AddDate(0, 0, 1) {
		x, y := cellLeft+daysBetween(monday, day)/7*cellPitch, cellTop+weekday(day)*cellPitch
		if day.Day() == 1 {
			c.Months = append(c.Months, calendarLabel{x, 10, v.month(day.Month())})
		}
		n := counts[day]
		switch {
		case n[schedule.ResultFailed] > 0:
			fmt.Fprintf(&failed, "M%d %dh%dv%dh-%dz", x, y, cellSize, cellSize, cellSize)
			fmt.Fprintf(&crosses, "M%d %dl7 7m0-7l-7 7", x+5, y+5)
		case n[schedule.ResultMissed] > 0:
			fmt.Fprintf(&missed, "M%d %dh15v15h-15z", x+1, y+1)
		case n[schedule.ResultSkipped] > 0:
			fmt.Fprintf(&good, "M%d %dh%dv7h-%dz", x, y, cellSize, cellSize)
			fmt.Fprintf(&skipped, "M%d %dh%dv8h-%dz", x, y+9, cellSize, cellSize)
		case len(n) > 0:
			fmt.Fprintf(&good, "M%d %dh%dv%dh-%dz", x, y, cellSize, cellSize, cellSize)
		default:
			fmt.Fprintf(&none, "M%d %dh3v3h-3z", x+7, y+7)
		}
	}
	c.Good, c.Skipped, c.None = pathOf(good.String()), pathOf(skipped.String()), pathOf(none.String())
	c.Failed, c.Crosses, c.Missed = pathOf(failed.String()), pathOf(crosses.String()), pathOf(missed.String())
	c.lookAt(v, days, first)
	return c
}

// lookAt lists the days on which something failed or did not run, the newest first.
func (c *calendar) lookAt(v *visit, days []schedule.Day, first time.Time) {
	for i := len(days) - 1; i >= 0; i-- {
		d := days[i]
		bad, gone, left := d.Counts[schedule.ResultFailed], d.Counts[schedule.ResultMissed], d.Counts[schedule.ResultSkipped]
		if d.Date.Before(first) || bad+gone+left == 0 {
			continue
		}
		if len(c.LookAt) == daysToLookAt {
			c.More++
			continue
		}
		look := dayToLookAt{Date: d.Date, Mark: mark{"skip", "t-warn"}}
		if gone > 0 {
			look.Mark = mark{"missed", "t-bad"}
		}
		if bad > 0 {
			look.Mark = mark{"fail", "t-bad"}
		}
		var parts []string
		for _, r := range []schedule.Result{schedule.ResultFailed, schedule.ResultMissed, schedule.ResultSkipped} {
			if n := d.Counts[r]; n > 0 {
				parts = append(parts, fmt.Sprintf("%d %s", n, v.ResultName(r)))
			}
		}
		look.What = v.List(parts)
		c.LookAt = append(c.LookAt, look)
	}
}

// weekday is 0 for Monday.
func weekday(t time.Time) int { return (int(t.Weekday()) + 6) % 7 }

// daysBetween is how many days one midnight is after another.
func daysBetween(a, b time.Time) int { return int(b.Sub(a).Hours()) / 24 }

// month is a month in three letters or signs.
func (v *visit) month(m time.Month) string {
	return string([]template.HTML{
		v.T("Jan"), v.T("Feb"), v.T("Mar"), v.T("Apr"), v.T("May"), v.T("Jun"), v.T("Jul"), v.T("Aug"), v.T("Sep"),
		v.T("Oct"), v.T("Nov"), v.T("Dec"),
	}[m-1])
}
