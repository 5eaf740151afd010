package control

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/store/schedules"
	"github.com/dts-sched/dts/internal/task"
)

// NextRequest asks for ticks of a schedule.
type NextRequest struct {
	ID    string
	Times schedule.Spec // with Rules: their ticks, and no such schedule need exist; else those of the definition in force
	// Revision asks for the ticks that the schedule would have if that revision were put now; 0: the one in force.
	Revision int
	After    time.Time // the zero time means now
	Count    int
}

// Next returns the next ticks of a schedule, or those of other times, and the coming clock change of its zone. Errors:
// schedule.CodeNotFound, schedule.CodeRevisionNotFound; CodeInvalid for other times.
func (c *Control) Next(ctx context.Context, who Caller, r NextRequest) (schedule.NextTicks, error) {
	if _, err := c.begin(ctx, who, "previewSchedule", who.Ref(r.ID)); err != nil {
		return schedule.NextTicks{}, err
	}
	if len(r.Times.Rules) > 0 {
		return c.nextOf(ctx, who.Ref(r.ID), r)
	}
	s, now, err := c.store.Schedules.Read(ctx, who.Ref(r.ID))
	if err != nil {
		return schedule.NextTicks{}, err
	}
	if r.Revision > 0 {
		d, _, err := c.definitionOf(ctx, s.Ref, r.Revision)
		if err != nil {
			return schedule.NextTicks{}, err
		}
		s = PutOptions{}.preview(d, s, now, "")
	}
	table, err := schedule.Compile(s.Spec, s.Ref, s.CreatedAt)
	if err != nil {
		return schedule.NextTicks{}, unusable(s, err)
	}
	next := table.NextTicks(r.after(now), r.Count)
	if !s.EndedAt.IsZero() {
		next.Ticks, next.Transition = nil, nil
	}
	if s.MaxRuns > 0 {
		next.Ticks = upToRuns(next.Ticks, s.MaxRuns-s.Runs)
	}
	return next, nil
}

// nextOf returns the next ticks of the times of a request. The name counts, as it decides what H stands for.
func (c *Control) nextOf(ctx context.Context, ref task.Ref, r NextRequest) (schedule.NextTicks, error) {
	now, err := c.store.Now(ctx, 0)
	if err != nil {
		return schedule.NextTicks{}, err
	}
	table, err := schedule.Compile(r.Times, ref, now)
	if err != nil {
		return schedule.NextTicks{}, err
	}
	return table.NextTicks(r.after(now), r.Count), nil
}

func (r NextRequest) after(now time.Time) time.Time {
	if r.After.IsZero() {
		return now
	}
	return r.After
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

// Forecast is what comes.
type Forecast struct {
	schedule.Forecast
	// Delayed are the tasks that wait for their time, by the minute in which they are due. It has fewer minutes than
	// PerMinute if they are too many, and then Coming names no later ones either.
	Delayed []int
	Coming  []Coming // of the minutes that were asked for, the earliest first
	LeftOut int      // of Coming, beyond its limit
}

// Coming is what comes: the ticks of a schedule, or a task that waits for its time.
type Coming struct {
	Ref   task.Ref
	At    time.Time // the first tick, or when the task is due
	Ticks int       // 0: it is a task
}

// comingLimit is how many schedules and tasks a forecast names at most.
const comingLimit = 200

// Forecast counts the coming ticks of all schedules of the caller's namespace, which may be EveryNamespace, and the
// tasks that wait for their time, minute by minute, and names what comes in the first minutes. Paused schedules do not
// count. Errors: CodeInvalid for hours if that takes longer than 15 s, CodeUnavailable, or that of ctx.
func (c *Control) Forecast(ctx context.Context, who Caller, hours, named int) (Forecast, error) {
	if _, err := c.begin(ctx, who, "forecast"); err != nil {
		return Forecast{}, err
	}
	ticks, coming, err := c.forecast(ctx, who, hours, named, forecastBudget)
	if err != nil {
		return Forecast{}, err
	}
	delayed, tasks, err := c.store.Coming(ctx, who.Namespace, ticks.From, len(ticks.PerMinute), named)
	f := Forecast{Forecast: ticks, Delayed: delayed}
	f.name(coming, tasks)
	return f, err
}

// Upcoming is the next ticks of several schedules.
type Upcoming = schedules.Upcoming

// NextTicks returns the next count ticks of the schedules of the caller's namespace, which may be EveryNamespace.
// Error: CodeUnavailable.
func (c *Control) NextTicks(ctx context.Context, who Caller, count int) (Upcoming, error) {
	if _, err := c.begin(ctx, who, "nextTicks"); err != nil {
		return Upcoming{}, err
	}
	return c.store.Schedules.Upcoming(ctx, who.Namespace, count)
}

// name sets Coming to the first of some ticks and tasks.
func (f *Forecast) name(ticks []schedule.Coming, tasks []layout.Delayed) {
	all := make([]Coming, 0, len(ticks)+len(tasks))
	for _, s := range ticks {
		all = append(all, Coming{s.Ref, s.First, s.Ticks})
	}
	for _, t := range tasks {
		all = append(all, Coming{t.Ref, t.At, 0})
	}
	slices.SortFunc(all, func(a, b Coming) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Ref.String(), b.Ref.String()))
	})
	f.Coming = all[:min(len(all), comingLimit)]
	f.LeftOut = len(all) - len(f.Coming)
}

// forecast counts one forecast at a time, so that however many are asked for, they take one processor.
func (c *Control) forecast(
	ctx context.Context, who Caller, hours, named int, budget time.Duration,
) (counted schedule.Forecast, coming []schedule.Coming, _ error) {
	end, err := c.forecasts.take(ctx, c.store.DB.Link().Answers)
	if err != nil {
		return counted, nil, err
	}
	defer end()
	f, err := c.forecaster(ctx, who, hours)
	if err != nil {
		return counted, nil, err
	}
	limited, cancel := context.WithTimeoutCause(ctx, budget, errBudget)
	defer cancel()
	counted, err = f.Forecast(limited)
	if err == nil && named > 0 {
		coming, err = f.Coming(limited, named)
	}
	if errors.Is(err, errBudget) {
		const text = "to count the ticks of %d hours takes longer than %s: ask for fewer hours, or for one namespace"
		return counted, nil, task.Invalid("hours", text, hours, budget)
	}
	return counted, coming, err
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
