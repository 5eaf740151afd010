package control

import (
	"context"
	"time"

	"github.com/dts-sched/dts/internal/schedule"
)

// Next returns the next count ticks of a schedule after a time, the zero time meaning now, and the coming clock change
// of its zone. Error: CodeScheduleNotFound.
func (c *Control) Next(ctx context.Context, who Caller, id string, after time.Time, count int) (schedule.NextTicks, error) {
	s, now, err := c.store.Schedules.Read(ctx, who.Ref(id))
	if err != nil {
		return schedule.NextTicks{}, err
	}
	table, err := schedule.Compile(s.Spec, s.Ref, s.CreatedAt)
	if err != nil {
		return schedule.NextTicks{}, err
	}
	if after.IsZero() {
		after = now
	}
	next := table.NextTicks(after, count)
	if !s.EndedAt.IsZero() {
		next.Ticks, next.Transition = nil, nil
	}
	if s.MaxRuns > 0 {
		next.Ticks = upToRuns(next.Ticks, s.MaxRuns-s.Runs)
	}
	return next, nil
}

// upToRuns returns the ticks up to the one that makes that many runs.
func upToRuns(ticks []schedule.UpcomingTick, runs int) []schedule.UpcomingTick {
	for i, t := range ticks {
		if runs <= 0 {
			return ticks[:i]
		}
		if !t.Excluded {
			runs--
		}
	}
	return ticks
}

// Forecast counts the coming ticks of all schedules of the caller's namespace, which may be EveryNamespace, minute by
// minute. Paused schedules do not count.
func (c *Control) Forecast(ctx context.Context, who Caller, hours int) (schedule.Forecast, error) {
	now, err := c.store.Now(ctx, 0) // by the minute, any clock will do
	if err != nil {
		return schedule.Forecast{}, err
	}
	f := schedule.NewForecast(now.Truncate(time.Minute), hours*60)
	err = c.store.Schedules.Each(ctx, who.Namespace, func(s schedule.Schedule) {
		if !s.PausedAt.IsZero() || !s.EndedAt.IsZero() {
			return
		}
		if table, err := schedule.Compile(s.Spec, s.Ref, s.CreatedAt); err == nil {
			f.Add(s.Ref, table, now)
		}
	})
	if err != nil {
		return schedule.Forecast{}, err
	}
	return f.Forecast(), nil
}
