package tasks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/calls"
	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// ReportAgain reports the ends again that this node has reported within the last minute in which Redis took writes, after another primary has taken
// over that may lack them, but those of which Redis was told again since a time by the clock of this node. Redis accepts an end if it has lost it, and
// no other run has begun the attempt. It returns how many Redis had lost, and the errors with which ends could not be reported. One of those is logged,
// too.
func (s *Tasks) ReportAgain(ctx context.Context, since time.Time) (lost int, failed Failures) {
	failed = make(Failures)
	refused := make(map[task.Ref]bool) // what follows would be refused, too
	noticed := make(map[int]bool)      // losses, by partition
	for _, round := range rounds(s.recent.notAgain(since)) {
		ends := slices.DeleteFunc(round, func(e *recentEnd) bool { return refused[e.Run.Task.Ref] })
		begin := clock.Now()
		again, recorded := s.reportAgain(ctx, ends, noticed, failed)
		lost += len(recorded)
		for _, e := range ends {
			refused[e.Run.Task.Ref] = true
		}
		for _, e := range again {
			delete(refused, e.Run.Task.Ref)
		}
		s.recent.setAgain(again, recorded, begin)
	}
	s.l.RecordLosses(ctx, noticed)
	if err := failed.Err(); err != nil {
		s.l.Log.WarnContext(ctx, "cannot restore the ends of some attempts", "error", err)
	}
	return lost, failed
}

// reportAgain reports ends of different tasks again, and returns those that it could report, and those of them that Redis had lost. It does not wait
// for long: a silent server of a cluster must not keep the others from hearing what follows. It adds the partitions of those to noticed, and errors
// to failed.
func (s *Tasks) reportAgain(ctx context.Context, ends []*recentEnd, noticed map[int]bool, failed Failures) (again, lost []*recentEnd) {
	ctx, cancel := context.WithTimeout(ctx, s.runLease/3)
	defer cancel()
	reports := make([]End, len(ends))
	for i, e := range ends {
		reports[i] = e.End
	}
	for i, f := range s.finishKnown(ctx, s.l.Vital, reports) {
		p := s.l.PartitionOf(reports[i].Run.Task.Ref)
		switch {
		case f.err == nil && f.recorded:
			lost = append(lost, ends[i])
			noticed[p] = true
			s.l.NoticeLoss(p, ends[i].at, f.at, "the end of an attempt of "+reports[i].Run.Task.Ref.String())
		case f.err != nil && !errors.Is(f.err, ErrStale):
			failed.Add(p, f.err)
			continue
		}
		again = append(again, ends[i])
	}
	return again, lost
}

// Failures are the errors of calls for several tasks, one for each partition with any: ErrBehind only if there is no other.
type Failures map[int]error

// Add adds the error of a call for a task of that partition.
func (f Failures) Add(partition int, err error) { f[partition] = worse(f[partition], err) }

// AddAll adds others.
func (f Failures) AddAll(others Failures) {
	for partition, err := range others {
		f.Add(partition, err)
	}
}

// Err returns one of the errors, ErrBehind only if there is no other; nil if there are none.
func (f Failures) Err() error {
	var failed error
	for _, err := range f {
		failed = worse(failed, err)
	}
	return failed
}

// worse returns the error to report of two, of which a may be nil.
func worse(a, b error) error {
	if a != nil && errors.Is(b, ErrBehind) {
		return a
	}
	return b
}

// rounds separates the ends of several attempts of one task: each round has one of them at most, the earlier ones first.
func rounds(ends []*recentEnd) [][]*recentEnd {
	var all [][]*recentEnd
	next := make(map[task.Ref]int, len(ends)) // the round of the next end
	for _, e := range ends {
		n := next[e.Run.Task.Ref]
		next[e.Run.Task.Ref]++
		if n == len(all) {
			all = append(all, nil)
		}
		all[n] = append(all[n], e)
	}
	return all
}

// gap is what Redis has lost that a call needs, by its result.
type gap int

const (
	noGap    gap = iota
	lostTask     // the task of the run
	lostEnd      // the end of the attempt before
)

// gapOf is the gap of a call that failed so.
func gapOf(missing bool, err error) gap {
	switch {
	case missing:
		return lostTask
	case errors.Is(err, ErrBehind):
		return lostEnd
	}
	return noGap
}

// withRestored makes calls for runs. If Redis may have lost writes, it restores the tasks that are missing, ends the attempts before that nobody
// has told the end of, and makes the calls for them again; in a cluster, for each partition concurrently, so that a silent server delays only its own.
// failed is the result for a task of which it is not known whether it could be restored.
func withRestored[R any](ctx context.Context, s *Tasks, runs []*Run, call func(places []int) []R, gapOf func(R) gap, failed func(error) R) []R {
	r := &restoring[R]{s: s, runs: runs, call: call, gapOf: gapOf, failed: failed, results: make([]R, len(runs))}
	all := make([]int, len(runs))
	for i := range all {
		all[i] = i
	}
	called := !s.l.MayHaveLost()
	if called {
		if r.record(all); !s.l.MayHaveLost() {
			return r.results
		} // another primary has taken over since, and may have answered
	}
	apart := map[int][]int{0: all}
	if s.l.DB.Sharded() {
		apart = s.byPartition(refsOf(runs))
	}
	some := make([]func(), 0, len(apart))
	for _, places := range apart {
		some = append(some, func() {
			if !called {
				r.record(places)
			}
			r.restore(ctx, places)
		})
	}
	calls.Do(some...)
	return r.results
}

// restoring is the state of withRestored. Places are indices of runs and results.
type restoring[R any] struct {
	s       *Tasks
	runs    []*Run
	call    func(places []int) []R
	gapOf   func(R) gap
	failed  func(error) R
	results []R
}

// record makes the calls for the runs at some places, and keeps the results.
func (r *restoring[R]) record(places []int) {
	for k, result := range r.call(places) {
		r.results[places[k]] = result
	}
}

// restore fills the gaps of the calls at some places, and makes those again.
func (r *restoring[R]) restore(ctx context.Context, places []int) {
	if lost, runs := r.with(places, lostTask); len(lost) > 0 {
		var restored []int
		for k, err := range r.s.restore(ctx, runs) {
			if err != nil {
				r.results[lost[k]] = r.failed(err)
				continue
			}
			restored = append(restored, lost[k])
		}
		r.record(restored)
	}
	if r.s.l.AwaitsReports() {
		return
	}
	if lost, runs := r.with(places, lostEnd); len(lost) > 0 {
		r.s.endBefore(ctx, runs)
		r.record(lost)
	}
}

// with returns which of some places have a gap that can be mended, and their runs.
func (r *restoring[R]) with(places []int, what gap) (lost []int, runs []*Run) {
	for _, i := range places {
		if r.gapOf(r.results[i]) == what && r.runs[i].Task.Type != "" {
			lost, runs = append(lost, i), append(runs, r.runs[i])
		}
	}
	return lost, runs
}

// unknownRun is the token of a run of which only that is known that it has ended: no node made it.
const unknownRun = "#"

// endBefore ends the attempts before those of runs as lost that have not ended as far as Redis knows: they have, and nobody has told how. Nobody
// claims the attempts of the runs for a while.
func (s *Tasks) endBefore(ctx context.Context, runs []*Run) {
	refs, newest := refsOf(runs), make(map[task.Ref]*Run, len(runs))
	for _, r := range runs {
		newest[r.Task.Ref] = r
	}
	for ended := true; ended; {
		shown, err := s.getEach(ctx, s.l.Vital, refs, true)
		if err != nil {
			s.l.Log.WarnContext(ctx, "cannot end attempts whose ends Redis has lost", "error", err)
		}
		var ends []End
		for _, t := range shown {
			if r := s.notEnded(t, newest[t.Ref]); r != nil {
				ends = append(ends, End{Run: r, State: task.Scheduled, Outcome: task.OutcomeLost, Reason: "Redis lost how it ended", Delay: s.runLease})
			}
		}
		ended = slices.ContainsFunc(s.finish(ctx, s.l.Vital, ends), func(f finished) bool { return f.recorded })
	}
}

// notEnded returns the run of the attempt of a task that Redis shows as the next one to end, if it is before that of newest; else nil, as of a task of
// the same name that was created later.
func (s *Tasks) notEnded(shown task.Task, newest *Run) *Run {
	if shown.CreatedAt.After(newest.Task.QueuedAt) {
		return nil
	}
	if shown.Damage == stateLost {
		shown.State = task.Scheduled // all that Redis knew of the attempts is lost
	}
	switch shown.State {
	case task.Scheduled:
		shown.Attempt++
		fallthrough
	case task.Queued:
		shown.Run, shown.QueuedAt, shown.StartedAt = unknownRun, newest.Task.QueuedAt, time.Time{}
	case task.Running:
	default:
		return nil
	}
	if shown.Attempt >= newest.Task.Attempt {
		return nil
	}
	return s.RunOf(shown)
}

// restore writes the tasks of runs again, as they were when the attempts were claimed, where Redis has lost them. What Redis refuses to restore is
// missing still. It returns an error for each run, in order: one of Redis.
func (s *Tasks) restore(ctx context.Context, runs []*Run) []error {
	refs := refsOf(runs)
	failures := make([]error, len(runs))
	from, noticed := make(map[int]time.Time), make(map[int]bool) // by partition: the first claim, and whether it lost something
	runParts(ctx, s.l.Vital, s.parts(refs), func(p part) lua.Restore {
		call := lua.Restore{Defs: p.keys.Defs(), Tasks: nil}
		for _, i := range p.places {
			call.Tasks = append(call.Tasks, restored(runs[i].Task))
			partition := s.l.PartitionOf(refs[i])
			if at := runs[i].Task.QueuedAt; from[partition].IsZero() || at.Before(from[partition]) {
				from[partition] = at
			}
		}
		return call
	}, func(i, k int, r redisx.Result[lua.RestoreReply]) {
		failures[i] = r.Err
		if k == 0 && r.Err == nil && r.Reply.Restored > 0 { // the first one stands for all of the call
			partition := s.l.PartitionOf(refs[i])
			noticed[partition] = true
			s.l.NoticeLoss(partition, from[partition], r.Reply.Now, fmt.Sprintf("%d tasks that run or ran", r.Reply.Restored))
		}
	})
	s.l.RecordLosses(ctx, noticed)
	return failures
}

// restored is a task as it was when its newest attempt was claimed.
func restored(t task.Task) lua.RestoreTask {
	def, _ := codec.EncodeDefinition(t.Definition) // which was decoded from what can be encoded
	queued := task.Task{
		Definition: t.Definition, // of which the mark of the state follows
		State:      task.Queued, Attempt: t.Attempt, MaxAttempts: t.MaxAttempts,
		FirstDueAt: t.FirstDueAt, DueAt: t.DueAt, QueuedAt: t.QueuedAt,
	}
	return lua.RestoreTask{Member: t.Ref, Created: t.CreatedAt, Def: def, State: codec.FormatState(queued), Tick: tickOf(t.Ref)}
}
