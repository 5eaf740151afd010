package schedule

import (
	"time"

	"github.com/dts-sched/dts/internal/task"
)

// Forecast counts what all schedules together are going to fire.
type Forecast struct {
	From      time.Time // a whole minute
	PerMinute []int
	Schedules int // how many were counted
	Total     int
	Hottest   []Hot // the minutes with the most, greatest first
}

// Hot is a minute in which much fires.
type Hot struct {
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
	forecast Forecast
}

// NewForecast begins a forecast of that many minutes, the first of them the one that from is in.
func NewForecast(from time.Time, minutes int) *Forecaster {
	return &Forecaster{Forecast{From: from.UTC().Truncate(time.Minute), PerMinute: make([]int, minutes)}}
}

// Add counts the ticks of one schedule after that time. Excluded ones do not fire and are not counted.
func (f *Forecaster) Add(ref task.Ref, t *Timetable, after time.Time) {}

// Forecast is the sum of what was added.
func (f *Forecaster) Forecast() Forecast { return f.forecast }
