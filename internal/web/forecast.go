package web

import (
	"context"
	"errors"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/calls"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/edge"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
)

const (
	comingTicks   = 12              // how many ticks the forecast names
	shades        = 5               // of minutes in the map
	rowHeight     = 1.125           // of an hour in the map, in sizes of text
	forecastLimit = 8 * time.Second // less than requestLimit, so that the page says what to ask instead
)

// forecastHours are how far the forecast can look.
var forecastHours = []int{6, 24, 72}

// forecast is what the page of the forecast shows.
type forecast struct {
	Sentence template.HTML
	Wrong    string // why nothing was counted; "" if it was
	Spans    []spanLink
	Rows     []mapRow
	Shades   []shade
	Height   string            // of the map
	Most     int               // in a minute
	Bars     template.HTMLAttr // of the hours
	Hottest  []schedule.HotMinute
	Crowded  bool // the fullest minute has many more ticks than the others
	Next     []schedule.MergedTick
	NextLate bool // as on the overview
}

// spanLink is a link to a forecast of so many hours.
type spanLink struct {
	Hours   int
	Present bool
}

// mapRow is an hour of the map.
type mapRow struct {
	At    time.Time
	Begin bool // of a day, or of the map
	Sum   int
}

// shade is the minutes of the map that have about the same number.
type shade struct {
	Class string
	Path  template.HTMLAttr
}

func readForecast(ctx context.Context, v *visit) (any, string, error) {
	title := string(v.T("Forecast"))
	f := forecast{}
	hours := v.hours()
	for _, h := range forecastHours {
		f.Spans = append(f.Spans, spanLink{h, h == hours})
	}
	limited, cancel := context.WithTimeout(ctx, forecastLimit)
	defer cancel()
	var found control.Forecast
	var next control.Upcoming
	var unread error
	err := calls.Try(
		func() (err error) { found, err = v.site.Control.RecentForecast(limited, v.who, hours); return err },
		func() error { next, unread = v.site.Control.NextTicks(ctx, v.who, comingTicks); return nil },
	)
	switch {
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		f.Wrong = string(v.T("Counting takes longer than %s: choose fewer hours, or one namespace.", v.Took(forecastLimit)))
		return f, title, nil
	case edge.CodeOf(err) == task.CodeInvalid:
		f.Wrong = err.Error()
		return f, title, nil
	case err != nil:
		return nil, "", err
	case unread != nil:
		return nil, "", unread
	}
	f.Next, f.NextLate = next.Ticks, isLate(next)
	v.draw(&f, found)
	f.Sentence = v.forecastSentence(found, f.Crowded)
	return f, title, nil
}

// hours is how far the reader wants to look.
func (v *visit) hours() int {
	for _, h := range forecastHours {
		if v.query.Get("hours") == itoa(h) {
			return h
		}
	}
	return 24
}

// draw makes the map of a forecast.
func (v *visit) draw(f *forecast, found control.Forecast) {
	begin := found.From.In(v.zone)
	first := begin.Minute() // the column of the first minute
	counts := make([]int, len(found.PerMinute))
	for i, n := range found.PerMinute {
		counts[i] = n
		if i < len(found.Delayed) {
			counts[i] += found.Delayed[i]
		}
		f.Most = max(f.Most, counts[i])
	}
	rows := (first + len(counts) + 59) / 60
	sums := make([]int, rows)
	for i, n := range counts {
		sums[(first+i)/60] += n
	}
	for row, sum := range sums {
		at := begin.Add(time.Duration(60*row-first) * time.Minute)
		f.Rows = append(f.Rows, mapRow{At: at, Begin: row == 0 || at.Hour() == 0, Sum: sum})
	}
	f.Height = fmt.Sprintf("%grem", rowHeight*float64(rows))
	f.Shades, f.Bars = shadesOf(counts, first, f.Most), sumBars(sums)
	f.Hottest = found.Hottest
	if len(f.Hottest) > 0 {
		average := float64(found.Total) / float64(max(len(found.PerMinute), 1))
		f.Crowded = f.Hottest[0].Fires >= 10 && float64(f.Hottest[0].Fires) >= 4*average
	}
}

// shadesOf are the minutes, 60 in a row from a first column on, by how many come in them. Minutes of one shade that
// follow each other are one line, which is dashed so that each minute shows.
func shadesOf(counts []int, first, most int) []shade {
	paths := make([]strings.Builder, shades+1)
	for i := 0; i < len(counts); {
		level, column, row := shadeOf(counts[i], most), (first+i)%60, (first+i)/60
		run := 1
		for i+run < len(counts) && column+run < 60 && shadeOf(counts[i+run], most) == level {
			run++
		}
		if level > 0 {
			fmt.Fprintf(&paths[level], "M%d %d.5h%d", column, row, run)
		}
		i += run
	}
	var all []shade
	for level := 1; level <= shades; level++ {
		all = append(all, shade{"h" + itoa(level), pathOf(paths[level].String())})
	}
	return all
}

// shadeOf is the shade of a minute in which n come, of most in the fullest one: 0 for none, else 1 to shades, by its
// logarithm.
func shadeOf(n, most int) int {
	switch {
	case n <= 0:
		return 0
	case n >= most:
		return shades
	}
	return 1 + int(float64(shades-1)*math.Log(float64(n))/math.Log(float64(most)))
}

// sumBars are bars of the hours, one below the other, in percent of the longest.
func sumBars(sums []int) template.HTMLAttr {
	var path strings.Builder
	most := max(slices.Max(append(sums, 0)), 1)
	for row, sum := range sums {
		if sum > 0 {
			fmt.Fprintf(&path, "M0 %d.2h%.1fv.6H0z", row, 100*float64(sum)/float64(most))
		}
	}
	return pathOf(path.String())
}

// forecastSentence says how much comes, and when it is too much.
func (v *visit) forecastSentence(f control.Forecast, crowded bool) template.HTML {
	delayed := 0
	for _, n := range f.Delayed {
		delayed += n
	}
	hours := len(f.PerMinute) / 60
	if f.Total == 0 && delayed == 0 {
		return sentences([]template.HTML{v.T("Nothing comes in the next %d hours.", hours)})
	}
	come := v.T("Ticks in the next %d hours: %d. Schedules: %d.", hours, f.Total, f.Schedules)
	var all []template.HTML
	if len(f.Hottest) > 0 {
		hot := f.Hottest[0]
		fullest := v.T("%d ticks come in the fullest minute, %s.", hot.Fires, v.Minute(hot.Minute))
		if crowded {
			all = append(all, fullest, come)
		} else {
			all = append(all, v.T("No minute has many more ticks than the others."), come, fullest)
		}
	} else {
		all = append(all, come)
	}
	if delayed > 0 {
		all = append(all, v.T("%d tasks wait for their time in it.", delayed))
	}
	return sentences(all)
}

// Hour is the hour of a row of the map.
func (r mapRow) Hour() string { return r.At.Format("15") }

// Day is the day of a row of the map.
func (r mapRow) Day() string { return r.At.Format("01-02") }

// Others is how many ticks of a minute are of schedules that are not named.
func (f forecast) Others(m schedule.HotMinute) int {
	others := m.Fires
	for _, s := range m.Schedules {
		others -= s.Fires
	}
	return others
}
