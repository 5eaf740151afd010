package dts

import (
	"maps"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
)

func runFrom(r *wire.LastRun) *ScheduleRun {
	if r == nil {
		return nil
	}
	return &ScheduleRun{
		Task: r.Task, Tick: r.Tick.Time, Outcome: State(r.Outcome), Attempts: r.Attempts,
		StartedAt: wire.Value(r.StartedAt).Time, EndedAt: r.EndedAt.Time,
	}
}

func tickResultFrom(r wire.TickResult) TickResult {
	by := wire.Value(r.By)
	result := TickResult{
		Tick: r.Tick.Time, Result: RunResult(r.Result), Task: wire.Value(r.Task), Attempts: wire.Value(r.Attempts),
		Triggered: by == wire.TickResultByTrigger, Backfilled: by == wire.TickResultByBackfill,
	}
	if r.DurationMs != nil {
		result.Took = new(time.Duration(*r.DurationMs) * time.Millisecond)
	}
	return result
}

func dayFrom(d wire.TickDay) TickDay {
	date, _ := time.Parse(time.DateOnly, d.Date) // the document says so
	counts := map[RunResult]int{
		RunSucceeded: d.Succeeded, RunFailed: d.Failed, RunCancelled: d.Cancelled,
		RunResult(wire.RunResultMissed): d.Missed, RunResult(wire.RunResultSkippedOverlap): d.SkippedOverlap,
		RunResult(wire.RunResultExcluded): d.Excluded, RunResult(wire.RunResultReplaced): d.Replaced,
	}
	maps.DeleteFunc(counts, func(_ RunResult, n int) bool { return n == 0 })
	return TickDay{Date: date, Counts: counts}
}
