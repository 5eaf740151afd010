package control

import (
	"context"
	"errors"
	"time"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
)

// Next returns the next count ticks of a schedule after a time, the zero time meaning now, and the coming clock change
// of its zone. Error: schedule.CodeNotFound.
func (c *Control) Next(
	ctx context.Context, who Caller, id string, after time.Time, count int,
) (schedule.NextTicks, error) {
	if _, err := c.begin(ctx, who, "previewSchedule", who.Ref(id)); err != nil {
		return schedule.NextTicks{}, err
	}
	s, now, err := c.store.Schedules.Read(ctx, who.Ref(id))
	if err != nil {
		return schedule.NextTicks{}, err
	}
	table, err := schedule.Compile(s.Spec, s.Ref, s.CreatedAt)
	if err != nil {
		return schedule.NextTicks{}, unusable(s, err)
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

// NextOf is Next for times that no schedule need have. The id counts, as it decides about H. Error: CodeInvalid.
func (c *Control) NextOf(
	ctx context.Context, who Caller, id string, times schedule.Spec, after time.Time, count int,
) (schedule.NextTicks, error) {
	if _, err := c.begin(ctx, who, "previewSchedule", who.Ref(id)); err != nil {
		return schedule.NextTicks{}, err
	}
	now, err := c.store.Now(ctx, 0)
	if err != nil {
		return schedule.NextTicks{}, err
	}
	table, err := schedule.Compile(times, who.Ref(id), now)
	if err != nil {
		return schedule.NextTicks{}, err
	}
	if after.IsZero() {
		after = now
	}
	return table.NextTicks(after, count), nil
}

// unusable is the error for a definition in Redis that names no times, although it can be read: it is CodeUnreadable.
func unusable(s schedule.Schedule, err error) error {
	const text = "the definition of schedule %s cannot be used: %v: dtsctl doctor tells more"
	return task.Errorf(task.CodeUnreadable, text, s.Ref, err)
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

// forecastBudget is how long a forecast may count. It is less than the deadline of a request, so that the answer says
// what to ask instead.
const forecastBudget = 15 * time.Second

// errBudget is the cause of the end of a forecast that has counted too long.
var errBudget = errors.New("the forecast takes too long")

// delayedMinutes is for how many minutes ahead a forecast counts tasks that wait for their time.
const delayedMinutes = 60

// Forecast is what comes.
type Forecast struct {
	schedule.Forecast
	// Delayed are the tasks that wait for their time, by the minute in which they are due: of the first hour, or less if
	// they are many.
	Delayed []int
}

// Forecast counts the coming ticks of all schedules of the caller's namespace, which may be EveryNamespace, and the
// tasks that wait for their time, minute by minute. Paused schedules do not count. Errors: CodeInvalid for hours if
// that takes longer than 15 s, CodeUnavailable, or that of ctx.
func (c *Control) Forecast(ctx context.Context, who Caller, hours int) (Forecast, error) {
	if _, err := c.begin(ctx, who, "forecast"); err != nil {
		return Forecast{}, err
	}
	ticks, err := c.forecast(ctx, who, hours, forecastBudget)
	if err != nil {
		return Forecast{}, err
	}
	delayed, _, err := c.store.Coming(ctx, who.Namespace, ticks.From, delayedMinutes)
	return Forecast{ticks, delayed}, err
}

// forecast counts one forecast at a time, so that however many are asked for, they take one processor.
func (c *Control) forecast(
	ctx context.Context, who Caller, hours int, budget time.Duration,
) (schedule.Forecast, error) {
	end, err := c.forecasts.take(ctx, c.store.DB.Link().Answers)
	if err != nil {
		return schedule.Forecast{}, err
	}
	defer end()
	f, err := c.forecaster(ctx, who, hours)
	if err != nil {
		return schedule.Forecast{}, err
	}
	limited, cancel := context.WithTimeoutCause(ctx, budget, errBudget)
	defer cancel()
	counted, err := f.Forecast(limited)
	if errors.Is(err, errBudget) {
		const text = "to count the ticks of %d hours takes longer than %s: ask for fewer hours, or for one namespace"
		return counted, task.Invalid("hours", text, hours, budget)
	}
	return counted, err
}

// forecaster has the schedules that count.
func (c *Control) forecaster(ctx context.Context, who Caller, hours int) (*schedule.Forecaster, error) {
	now, err := c.store.Now(ctx, 0) // by the minute, any clock will do
	if err != nil {
		return nil, err
	}
	f := schedule.NewForecast(now.Truncate(time.Minute), hours*60)
	return f, c.store.Schedules.Each(ctx, who.Namespace, func(s schedule.Schedule) {
		if !s.PausedAt.IsZero() || !s.EndedAt.IsZero() {
			return
		}
		table, err := schedule.Compile(s.Spec, s.Ref, s.CreatedAt)
		if err != nil {
			redisx.LeaveOut(ctx, "schedule %s is left out, as its times cannot be computed: %v", s.Ref, err)
			return
		}
		f.Add(s.Ref, table, now)
	})
}
