package tasks

import (
	"context"
	"time"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// Extended is the result of extending the lease of a run. Err is ErrStale if the run does not hold its attempt any more, ErrOver if
// its time is over and no leader has ended it yet, or an error of Redis. Cancelled says that the task was asked to stop, and
// Moving that it was asked to move.
type Extended struct {
	Now       time.Time // by the clock of Redis
	Cancelled bool
	Moving    bool
	Err       error
	missing   bool // there is no such task
}

// ExtendEach extends the leases of runs by RunLease from now, in one round trip, and returns a result for each, in order. A run
// whose begin Redis has lost begins again, unless another run has begun the attempt. If Redis has lost the task, too, and another primary
// has taken over within the last minute, the task is restored.
func (s *Tasks) ExtendEach(ctx context.Context, runs []*Run) []Extended {
	return s.ExtendFor(ctx, s.runLease, runs)
}

// ExtendFor is ExtendEach for a lease of that length, which ends at the run's Limit if it has one.
func (s *Tasks) ExtendFor(ctx context.Context, lease time.Duration, runs []*Run) []Extended {
	return withRestored(ctx, s, runs, func(places []int) []Extended {
		some := make([]*Run, len(places))
		for k, i := range places {
			some[k] = runs[i]
		}
		return s.extendKnown(ctx, lease, some)
	}, func(e Extended) gap { return gapOf(e.missing, e.Err) }, func(err error) Extended { return Extended{Err: err} })
}

// Current reports for each run whether Redis shows it as the one that runs its task. Error: CodeUnavailable.
func (s *Tasks) Current(ctx context.Context, runs []*Run) ([]bool, error) {
	refs := refsOf(runs)
	shown, err := s.getEach(ctx, s.l.DB, refs, true)
	if err != nil {
		return nil, err
	}
	run := make(map[task.Ref]string, len(shown))
	for _, t := range shown {
		if t.State == task.Running {
			run[t.Ref] = t.Run
		}
	}
	current := make([]bool, len(runs))
	for i, r := range runs {
		current[i] = run[r.Task.Ref] == r.Task.Run
	}
	return current, nil
}

// extendKnown is ExtendFor for tasks that exist.
func (s *Tasks) extendKnown(ctx context.Context, lease time.Duration, runs []*Run) []Extended {
	refs := refsOf(runs)
	extended, lost := make([]Extended, len(runs)), make(map[int]bool)
	runParts(ctx, s.l.Vital, s.parts(refs), func(p part) lua.ExtendRuns {
		call := lua.ExtendRuns{States: p.keys.States(), Wake: s.l.WakeOf(refs[p.places[0]]), Lease: lease, Runs: nil}
		for _, i := range p.places {
			t := runs[i].Task
			call.Runs = append(call.Runs, lua.ExtendRunsRun{
				Member: t.Ref, Attempt: t.Attempt, Run: lua.RunToken(t.Run), Queued: t.QueuedAt, Started: t.StartedAt, Limit: runs[i].Limit,
			})
		}
		return call
	}, func(i, k int, r redisx.Result[lua.ExtendRunsReply]) {
		if extended[i].Err = r.Err; r.Err == nil {
			answer := r.Reply.Answers[k]
			extended[i] = Extended{
				Now: r.Reply.Now, Cancelled: answer.Cancelled, Moving: answer.Moving, Err: s.refusedReport(runs[i].Task, answer.Refused),
				missing: answer.Refused.Code == lua.CodeNotFound,
			}
			if answer.Unbegun {
				lost[s.noticeLostBegin(runs[i], r.Reply.Now)] = true
			}
		}
	})
	s.l.RecordLosses(ctx, lost)
	return extended
}
