package api

import (
	"math"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/rollup"
	"github.com/dts-sched/dts/internal/task"
)

// ReadStats answers GET /v1/stats.
func (e *endpoints) ReadStats(c echo.Context, params ReadStatsParams) error {
	ctx, left := leavingOut(c)
	since, err := task.ParseDuration("since", params.Since)
	if err != nil {
		return err
	}
	stats, err := e.Control.ReadStats(ctx, callerOf(c), control.StatsFilter{Since: since, Queue: params.Queue})
	if err != nil {
		return err
	}
	return e.ok(c, wire.Stats{
		From: wire.At(stats.From), Until: wire.At(stats.Until), Length: task.FormatDuration(stats.Length),
		Queues: each(stats.Queues, queueStatsOf), Periods: each(stats.Periods, periodOf), Warnings: left.Texts(),
	})
}

// ListFailures answers GET /v1/failures.
func (e *endpoints) ListFailures(c echo.Context, params ListFailuresParams) error {
	ctx, left := leavingOut(c)
	since, err := task.ParseDuration("since", params.Since)
	if err != nil {
		return err
	}
	failures, err := e.Control.ListFailures(ctx, callerOf(c), control.FailureFilter{
		Since: since, Queue: params.Queue, Schedule: params.Schedule,
	})
	if err != nil {
		return err
	}
	return e.ok(c, wire.FailureList{
		From: wire.At(failures.From), Until: wire.At(failures.Until), Failures: each(failures.Causes, failureOf),
		Untold: failures.Untold, Warnings: left.Texts(),
	})
}

func queueStatsOf(q control.QueueStats) wire.QueueStats {
	return wire.QueueStats{Name: q.Name, Counts: countsOf(q.Counts)}
}

func periodOf(p control.Period) wire.Period {
	out := wire.Period{At: wire.At(p.At), Counts: countsOf(p.Counts)}
	if p.Sampled {
		out.Running, out.Capacity = &p.Running, &p.Capacity
	}
	return out
}

func countsOf(q rollup.Queue) wire.Counts {
	return wire.Counts{
		Begun: q.Begun, Ended: q.Ended(), Succeeded: q.Succeeded, Failed: q.Failed, Timeout: q.Timeout,
		Cancelled: q.Cancelled,
		Lost:      q.Lost, Snoozed: q.Snoozed, Dead: q.Dead, LateP50: lateness(q.Late, .5), LateP99: lateness(q.Late, .99),
		LateMax: lateness(q.Late, 1), Waiting: q.Waiting, Oldest: inMilliseconds(q.Oldest),
	}
}

// lateness is how late that share of the attempts began at most; nil if none began.
func lateness(h rollup.Histogram, share float64) *string {
	if h.Total() == 0 {
		return nil
	}
	return new(inMilliseconds(h.Quantile(share)))
}

// inMilliseconds writes a duration in whole milliseconds.
func inMilliseconds(d time.Duration) string { return task.FormatDuration(d.Round(time.Millisecond)) }

func failureOf(f control.Failure) wire.Failure {
	return wire.Failure{
		Error: f.Text, Namespace: f.Namespace, Count: f.Count, Dead: f.Dead, Queues: list(f.Queues),
		Schedules: list(f.Schedules),
		Types:     list(f.Types), Example: wire.FailureExample{Task: f.Example.Task.ID, Attempt: f.Example.Attempt},
		First: wire.At(f.First), Last: wire.At(f.Last),
	}
}

// paceOf rounds what a queue did to one digit behind the point.
func paceOf(p control.Pace) wire.Pace {
	rounded := func(n float64) float64 { return math.Round(n*10) / 10 }
	return wire.Pace{Begun: rounded(p.Begun), Ended: rounded(p.Ended), Bad: rounded(p.Bad),
		LateP99: lateness(p.Late, .99)}
}
