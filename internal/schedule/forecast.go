package schedule

import (
	"cmp"
	"context"
	"math/bits"
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/task"
)

// Limits of a forecast.
const (
	hottestMinutes = 10 // in Forecast.Hottest
	hotSchedules   = 5  // in HotMinute.Schedules
)

// Forecast counts the future ticks of a set of schedules, minute by minute. Excluded ticks do not count.
type Forecast struct {
	From      time.Time   // the start of the first minute
	PerMinute []int       // ticks by minute
	Schedules int         // the number of schedules
	Total     int         // ticks in all minutes
	Hottest   []HotMinute // the 10 minutes with the most ticks, the greatest first; minutes without ticks are left out
}

// HotMinute is a minute with many ticks.
type HotMinute struct {
	Minute    time.Time
	Fires     int           // ticks in the minute
	Schedules []HotSchedule // the 5 schedules with the most ticks in it, the greatest first
}

// HotSchedule is the share of one schedule in a HotMinute.
type HotSchedule struct {
	Ref   task.Ref
	Fires int
}

// Forecaster computes a Forecast: Add each schedule, then call Forecast.
type Forecaster struct {
	from      time.Time
	perMinute []int
	added     []forecasted
}

// forecasted is a schedule that was added.
type forecasted struct {
	ref   task.Ref
	table *Timetable
	after time.Time
}

// NewForecast returns a Forecaster for the given number of minutes, beginning with the minute that contains from.
func NewForecast(from time.Time, minutes int) *Forecaster {
	return &Forecaster{from: from.UTC().Truncate(time.Minute), perMinute: make([]int, max(minutes, 0))}
}

// Add adds a schedule, whose ticks after the given time count.
func (f *Forecaster) Add(ref task.Ref, t *Timetable, after time.Time) {
	f.added = append(f.added, forecasted{ref, t, after})
}

// Forecast counts the ticks of the schedules that were added, once. Error: the cause of ctx, if that ends meanwhile.
func (f *Forecaster) Forecast(ctx context.Context) (Forecast, error) {
	for _, s := range f.added {
		if err := s.table.count(ctx, f.from, s.after, f.perMinute); err != nil {
			return Forecast{}, err
		}
	}
	sum := Forecast{From: f.from, PerMinute: slices.Clone(f.perMinute), Schedules: len(f.added)}
	for _, fires := range f.perMinute {
		sum.Total += fires
	}
	for _, minute := range f.hottest() {
		hot, err := f.hot(ctx, minute)
		if err != nil {
			return Forecast{}, err
		}
		sum.Hottest = append(sum.Hottest, hot)
	}
	return sum, nil
}

// Coming are the ticks of a schedule in some minutes.
type Coming struct {
	Ref   task.Ref
	First time.Time
	Ticks int
}

// Coming returns the ticks of the schedules that were added, in the first minutes, without order. Error: the cause of
// ctx, if that ends meanwhile.
func (f *Forecaster) Coming(ctx context.Context, minutes int) ([]Coming, error) {
	var all []Coming
	for _, s := range f.added {
		c := Coming{Ref: s.ref}
		perMinute := make([]int, minutes)
		if err := s.table.count(ctx, f.from, s.after, perMinute); err != nil {
			return nil, err
		}
		for _, ticks := range perMinute {
			c.Ticks += ticks
		}
		if c.Ticks > 0 {
			c.First, _ = s.table.nextRun(s.after, nextLimit)
			all = append(all, c)
		}
	}
	return all, nil
}

// hottest returns the numbers of the minutes with the most ticks, the greatest first. Of minutes with the same count, the
// earlier one comes first.
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

// hot returns one minute with its schedules. It counts the ticks of each schedule in that minute again, because to keep
// these counts for every minute would cost more than the rest of the forecast.
func (f *Forecaster) hot(ctx context.Context, minute int) (HotMinute, error) {
	h := HotMinute{Minute: f.from.Add(time.Duration(minute) * time.Minute), Fires: f.perMinute[minute]}
	for _, s := range f.added {
		var fires [1]int
		if err := s.table.count(ctx, h.Minute, s.after, fires[:]); err != nil {
			return h, err
		}
		if fires[0] > 0 {
			h.Schedules = append(h.Schedules, HotSchedule{s.ref, fires[0]})
		}
	}
	slices.SortFunc(h.Schedules, func(a, b HotSchedule) int {
		return cmp.Or(cmp.Compare(b.Fires, a.Fires), cmp.Compare(a.Ref.String(), b.Ref.String()))
	})
	h.Schedules = slices.Clip(h.Schedules[:min(len(h.Schedules), hotSchedules)])
	return h, nil
}

// count adds the ticks after the given time, except excluded ones, to the counts of minutes. The first minute begins at
// from. Where the result is the same, it computes the count of a whole minute instead of walking from tick to tick.
// Error: the cause of ctx, if that ends meanwhile.
func (t *Timetable) count(ctx context.Context, from, after time.Time, perMinute []int) error {
	const interval = 1000 // steps between two looks at ctx, which would take longer than a step
	until := from.Add(time.Duration(len(perMinute)) * time.Minute)
	if after.Before(from) {
		after = from.Add(-1)
	}
	for step := 0; ; step++ {
		if step%interval == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		at, ok := t.next(after)
		if !ok || !at.Before(until) {
			return nil
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

// countTick returns 0 for an excluded tick and 1 for any other.
func (t *Timetable) countTick(at time.Time) int {
	if t.exclusionOf(at) != nil {
		return 0
	}
	return 1
}

// countMinute computes the number of ticks, except excluded ones, in a minute that has at least one tick. It returns false if
// count must walk through the minute: there are several rules, the minute is not as a whole in one stretch and after its
// from, or hasWhole returns false.
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

// countMinute returns the number of ticks of the interval in a minute.
func (r everyRule) countMinute(begin time.Time) int {
	before, _ := divide(begin.UnixMilli()-1-r.anchor, r.interval)
	until, _ := divide(begin.UnixMilli()+59_999-r.anchor, r.interval)
	return int(until - before)
}

// hasWhole reports whether all seconds of a minute are alike: the schedule does not start or end in it, and each exclusion
// contains all of its seconds or none.
func (t *Timetable) hasWhole(begin time.Time) bool {
	if t.start.After(begin) || !t.end.IsZero() && t.end.Before(begin.Add(time.Minute)) {
		return false
	}
	for _, x := range t.exclusions {
		if x.expression != nil && x.expression.second != everything.second {
			return false
		}
	}
	return true
}
