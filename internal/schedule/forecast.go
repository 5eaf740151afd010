package schedule

import (
	"cmp"
	"math/bits"
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/task"
)

// How much a forecast tells about its hottest minutes.
const (
	hottestMinutes = 10
	hotSchedules   = 5
)

// Forecast counts what all schedules together are going to fire.
type Forecast struct {
	From      time.Time // a whole minute
	PerMinute []int
	Schedules int // how many were counted
	Total     int
	Hottest   []HotMinute // the minutes with the most, greatest first
}

// HotMinute is a minute in which much fires.
type HotMinute struct {
	Minute    time.Time
	Fires     int
	Schedules []HotSchedule // those that make the most of it, greatest first
}

// HotSchedule is a schedule's part in a hot minute.
type HotSchedule struct {
	Ref   task.Ref
	Fires int
}

// Forecaster adds up a Forecast.
type Forecaster struct {
	from      time.Time
	perMinute []int
	added     []forecasted // to be asked again about the hottest minutes
}

type forecasted struct {
	ref   task.Ref
	table *Timetable
	after time.Time
}

// NewForecast begins a forecast of that many minutes, the first of them the one that from is in.
func NewForecast(from time.Time, minutes int) *Forecaster {
	return &Forecaster{from: from.UTC().Truncate(time.Minute), perMinute: make([]int, max(minutes, 0))}
}

// Add counts the ticks of one schedule after that time. Excluded ones do not fire and are not counted.
func (f *Forecaster) Add(ref task.Ref, t *Timetable, after time.Time) {
	f.added = append(f.added, forecasted{ref, t, after})
	t.count(f.from, after, f.perMinute)
}

// Forecast is the sum of what was added.
func (f *Forecaster) Forecast() Forecast {
	sum := Forecast{From: f.from, PerMinute: slices.Clone(f.perMinute), Schedules: len(f.added)}
	for _, fires := range f.perMinute {
		sum.Total += fires
	}
	for _, minute := range f.hottest() {
		sum.Hottest = append(sum.Hottest, f.hot(minute))
	}
	return sum
}

// hottest is the minutes in which most fires, greatest first, and earlier ones before later ones.
func (f *Forecaster) hottest() []int {
	var minutes []int
	for minute, fires := range f.perMinute {
		if fires > 0 {
			minutes = append(minutes, minute)
		}
	}
	slices.SortStableFunc(minutes, func(a, b int) int { return cmp.Compare(f.perMinute[b], f.perMinute[a]) })
	return minutes[:min(len(minutes), hottestMinutes)]
}

// hot counts again what each schedule fires in one minute: keeping that for every minute would cost more than all
// the rest.
func (f *Forecaster) hot(minute int) HotMinute {
	h := HotMinute{Minute: f.from.Add(time.Duration(minute) * time.Minute), Fires: f.perMinute[minute]}
	for _, s := range f.added {
		var fires [1]int
		if s.table.count(h.Minute, s.after, fires[:]); fires[0] > 0 {
			h.Schedules = append(h.Schedules, HotSchedule{s.ref, fires[0]})
		}
	}
	slices.SortFunc(h.Schedules, func(a, b HotSchedule) int {
		return cmp.Or(cmp.Compare(b.Fires, a.Fires), cmp.Compare(a.Ref.String(), b.Ref.String()))
	})
	h.Schedules = slices.Clip(h.Schedules[:min(len(h.Schedules), hotSchedules)])
	return h
}

// count adds the ticks after that time that run to the counts of minutes, the first of which begins at from.
//
// Within a whole minute it counts and does not walk, wherever that gives the same.
func (t *Timetable) count(from, after time.Time, perMinute []int) {
	until := from.Add(time.Duration(len(perMinute)) * time.Minute)
	if after.Before(from) {
		after = from.Add(-1)
	}
	for {
		at, ok := t.next(after)
		if !ok || !at.Before(until) {
			return
		}
		begin := at.Truncate(time.Minute)
		fires, counted := 0, false
		if after.Before(begin) {
			fires, counted = t.countMinute(begin)
		}
		after = begin.Add(time.Minute - 1)
		if !counted {
			fires, after = t.countTick(at), at
		}
		perMinute[at.Sub(from)/time.Minute] += fires
	}
}

// countTick is 1 for a tick that runs, and 0 for one that is excluded.
func (t *Timetable) countTick(at time.Time) int {
	if t.exclusionOf(at) != nil {
		return 0
	}
	return 1
}

// countMinute is the ticks that run in a minute that has at least one; false: they have to be walked, because the zone's
// clock is put forward at its beginning or back in it, or something tells its seconds apart.
func (t *Timetable) countMinute(begin time.Time) (int, bool) {
	s := t.zone.at(begin.Unix())
	end := begin.Unix() + 60
	if len(t.rules) != 1 || s.offset%60 != 0 || begin.Unix() <= s.from || end > s.end || !t.hasWhole(begin) {
		return 0, false
	}
	if x := t.exclusionOf(begin); x != nil {
		return 0, true
	}
	switch r := t.rules[0].(type) {
	case cronRule:
		return bits.OnesCount64(r.second), true
	case everyRule:
		return r.countMinute(begin), true
	}
	return 0, false
}

func (r everyRule) countMinute(begin time.Time) int {
	before, _ := divide(begin.UnixMilli()-1-r.anchor, r.interval)
	until, _ := divide(begin.UnixMilli()+59_999-r.anchor, r.interval)
	return int(until - before)
}

// hasWhole says whether nothing tells the seconds of a minute apart: not the schedule's start or end, and no
// exclusion.
func (t *Timetable) hasWhole(begin time.Time) bool {
	if t.start.After(begin) || !t.end.IsZero() && t.end.Before(begin.Add(time.Minute)) {
		return false
	}
	for _, x := range t.exclusions {
		if x.cron != nil && x.cron.second != everything.second {
			return false
		}
	}
	return true
}
