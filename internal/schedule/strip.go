package schedule

import (
	"slices"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/task"
)

// Result is what became of a tick, or of a run by hand, in the end or so far.
type Result string

// The results. Those of ticks without a task have the names that they have as outcomes in the ledger.
const (
	ResultSucceeded Result = "succeeded"
	ResultFailed    Result = "failed"
	ResultCancelled Result = "cancelled"
	ResultMissed    Result = "missed"
	ResultSkipped   Result = "skipped_overlap"
	ResultExcluded  Result = "excluded"
	ResultReplaced  Result = "replaced" // it gave way to a later one, or its task was cancelled for that
	ResultRunning   Result = "running"
	ResultWaiting   Result = "waiting" // its task is not running, or it waits for the task before it
	ResultUnknown   Result = "unknown" // it had a task, whose end was not recorded, as by a node of an earlier release
)

// Results lists every result.
var Results = []Result{
	ResultSucceeded, ResultFailed, ResultCancelled, ResultMissed, ResultSkipped, ResultExcluded, ResultReplaced,
	ResultRunning, ResultWaiting, ResultUnknown,
}

// TickResult is a tick, or a run by hand, and what became of it.
type TickResult struct {
	Name      string
	Tick      time.Time
	Result    Result
	HasTask   bool
	Manual    bool      // a client triggered it
	Backfill  bool      // its task was created by a backfill
	Attempts  int       // that were made
	StartedAt time.Time // when the last attempt began; zero if none was running at the end, or nobody knows
	EndedAt   time.Time // zero if it has not ended, or nobody knows
}

// Took returns how long the last attempt took. ok is false if nobody knows.
func (r TickResult) Took() (_ time.Duration, ok bool) {
	if r.StartedAt.IsZero() || r.EndedAt.IsZero() {
		return 0, false
	}
	return r.EndedAt.Sub(r.StartedAt), true
}

// Strip returns what became of some ticks: of the newest n of those entries, which come newest first. The result has
// the oldest first. ends are those of Track. tasks are the tasks of ticks whose end these do not have, by the name of
// the tick: see Unresolved. Those that do not exist any more are missing there.
func Strip(entries []Entry, ends []End, tasks map[string]task.Task, n int) []TickResult {
	entries = entries[:min(n, len(entries))]
	newest := newestEnds(ends)
	strip := make([]TickResult, 0, len(entries))
	for _, e := range slices.Backward(entries) {
		r := TickResult{
			Name: e.Name, Tick: e.Tick, Result: withoutTask(e.Outcome), HasTask: e.HasTask,
			Manual: isManual(e.Name), Backfill: e.Outcome == Backfilled,
		}
		if end, ended := newest[e.Name]; e.HasTask && ended && end.State.Final() {
			r.Result, r.Attempts, r.StartedAt, r.EndedAt = resultOf(end.State), end.Attempts, end.StartedAt(), end.At
		} else if e.HasTask {
			r.follow(tasks[e.Name])
		}
		if e.Outcome == Replaced && r.Result == ResultCancelled {
			r.Result = ResultReplaced
		}
		strip = append(strip, r)
	}
	return strip
}

// Unresolved returns the names of the newest n of those entries whose tasks have not ended, as far as the ends tell.
func Unresolved(entries []Entry, ends []End, n int) []string {
	newest := newestEnds(ends)
	var names []string
	for _, e := range entries[:min(n, len(entries))] {
		if end, ended := newest[e.Name]; e.HasTask && !(ended && end.State.Final()) {
			names = append(names, e.Name)
		}
	}
	return names
}

// newestEnds returns the newest end of each name.
func newestEnds(ends []End) map[string]End {
	newest := make(map[string]End, len(ends))
	for _, e := range ends {
		newest[e.Name] = e
	}
	return newest
}

// follow takes the result from a task; one that does not exist has no state.
func (r *TickResult) follow(t task.Task) {
	r.Result, r.Attempts = resultOf(t.State), t.Attempt
	switch {
	case t.State == task.Running:
		r.StartedAt = t.StartedAt
	case t.State.Final():
		r.StartedAt, r.EndedAt = t.StartedAt, t.FinishedAt
	}
}

// withoutTask is the result of an entry that has no task.
func withoutTask(o Outcome) Result {
	switch o {
	case Missed, SkippedOverlap, Excluded, Replaced:
		return Result(o)
	case Queued:
		return ResultWaiting
	}
	return ResultUnknown
}

// resultOf is the result of a tick whose task has that state.
func resultOf(s task.State) Result {
	switch s {
	case task.Succeeded, task.Failed, task.Cancelled, task.Running:
		return Result(s)
	case task.Scheduled, task.Queued:
		return ResultWaiting
	}
	return ResultUnknown
}

// isManual reports whether a name is that of a run by hand.
func isManual(name string) bool {
	if !strings.HasSuffix(name, ManualSuffix) { // almost all
		return false
	}
	_, manual, err := ParseTickName(name)
	return manual && err == nil
}
