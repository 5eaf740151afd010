package tasks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// Errors of a worker that may not begin an attempt or report on it.
var (
	// ErrLeftover is returned if the attempt of a delivery cannot begin any more. The delivery can be dropped.
	ErrLeftover = errors.New("the task is not queued for this attempt")
	// ErrStale is returned if the attempt has ended or another run has it. Nothing was written.
	ErrStale = errors.New("the attempt has ended or another run has it")
	// ErrCancelled is returned if the task was asked to stop: its attempt must end as cancelled.
	ErrCancelled = errors.New("the task was asked to stop")
)

// DefaultRunLease is how long a worker's word holds that it runs an attempt. The worker extends it three times in this time;
// the leader ends runs whose lease is over.
const DefaultRunLease = 3 * time.Second

// RunLease is how long the lease of a run lasts.
func (s *Tasks) RunLease() time.Duration { return s.runLease }

// batchLimit is the most tasks in one run of a script: a script holds up all others.
const batchLimit = 64

// Run is an attempt that this worker began. Every script of a report compares the run token in Task with the one in
// Redis, so only the holder of the token can report.
type Run struct {
	s    *Tasks
	keys lua.Partition
	Task task.Task
}

// Start is an attempt to begin. Run is a token that the caller makes for this run: "<node>#" and something that is unique on
// the node.
type Start struct {
	Ref     task.Ref
	Attempt int
	Run     string
}

// Begun is the result of a Start. Err is ErrLeftover if the task is not queued for that attempt, or an error of Redis, after
// which the attempt may have begun.
type Begun struct {
	Run *Run
	Err error
}

// BeginEach starts attempts on a node, in one round trip, and returns a result for each, in order. The same Start sent again
// succeeds again; one with another token does not.
func (s *Tasks) BeginEach(ctx context.Context, node string, starts []Start) []Begun {
	refs := make([]task.Ref, len(starts))
	for i, start := range starts {
		refs[i] = start.Ref
	}
	var calls []lua.Begin
	groups := s.groups(refs)
	for _, g := range groups {
		call := lua.Begin{States: g.keys.States(), Node: lua.NodeID(node), Lease: s.runLease, Events: s.l.Keys.Events(), Attempts: nil}
		for _, i := range g.places {
			call.Attempts = append(call.Attempts, lua.BeginAttempt{
				Member: starts[i].Ref, Attempt: starts[i].Attempt, Run: lua.RunToken(starts[i].Run),
			})
		}
		calls = append(calls, call)
	}
	begun := make([]Begun, len(starts))
	for n, result := range redisx.RunEach[lua.BeginReply](ctx, s.l.DB, calls) {
		for k, i := range groups[n].places {
			if begun[i].Err = result.Err; result.Err == nil {
				begun[i] = s.begun(starts[i], groups[n].keys, result.Reply.Answers[k])
			}
		}
	}
	return begun
}

// begun decodes one answer of begin.
func (s *Tasks) begun(start Start, keys lua.Partition, answer lua.BeginAnswer) Begun {
	if code := answer.Refused.Code; code != "" {
		return Begun{Err: fmt.Errorf("task %s, attempt %d: %w: %s", start.Ref, start.Attempt, ErrLeftover, code)}
	}
	t, err := codec.DecodeTask(start.Ref, codec.Record{Definition: answer.Record, Payload: answer.Payload, State: answer.State})
	if err != nil {
		return Begun{Err: err}
	}
	return Begun{Run: &Run{s: s, keys: keys, Task: t}}
}

// Begin starts one attempt, as BeginEach does. The node is the part of the run token before "#".
func (s *Tasks) Begin(ctx context.Context, ref task.Ref, attempt int, run string) (*Run, error) {
	node, _, _ := strings.Cut(run, "#")
	begun := s.BeginEach(ctx, node, []Start{{Ref: ref, Attempt: attempt, Run: run}})[0]
	return begun.Run, begun.Err
}

// RunOf returns the run whose token is t.Run, without a call to Redis.
func (s *Tasks) RunOf(t task.Task) *Run { return &Run{s: s, keys: s.l.KeysOf(t.Ref), Task: t} }

// group is some tasks of one partition, by their places in a list.
type group struct {
	keys   lua.Partition
	places []int
}

// groups groups tasks by partition, at most batchLimit in a group.
func (s *Tasks) groups(refs []task.Ref) []group {
	var groups []group
	for p, places := range s.byPartition(refs) {
		for part := range slices.Chunk(places, batchLimit) {
			groups = append(groups, group{keys: s.l.Keys.Partition(p), places: part})
		}
	}
	return groups
}

// End is the end of an attempt, and what becomes of its task.
type End struct {
	Run     *Run
	State   task.State // of the task from now on: a final one, or Scheduled for a further attempt
	Outcome task.Outcome
	Result  string        // cut to its limit; "" for none
	Reason  string        // the error, cut to its limit; "" for none
	Delay   time.Duration // until the further attempt is due
}

// FinishEach reports the ends of attempts in one round trip, and returns an error for each, in order: ErrStale; ErrCancelled,
// if the task was asked to stop and State is neither Succeeded nor Cancelled; or an error of Redis.
func (s *Tasks) FinishEach(ctx context.Context, ends []End) []error {
	refs := make([]task.Ref, len(ends))
	for i, e := range ends {
		refs[i] = e.Run.Task.Ref
	}
	var calls []lua.Finish
	groups := s.groups(refs)
	for _, g := range groups {
		call := lua.Finish{States: g.keys.States(), Events: s.l.Keys.Events(), Wake: s.l.Keys.Wake(), Ends: nil}
		for _, i := range g.places {
			call.Ends = append(call.Ends, finishEnd(ends[i]))
		}
		calls = append(calls, call)
	}
	errs := make([]error, len(ends))
	for n, result := range redisx.RunEach[lua.FinishReply](ctx, s.l.DB, calls) {
		for k, i := range groups[n].places {
			if errs[i] = result.Err; result.Err != nil {
				continue
			}
			answer := result.Reply.Answers[k]
			s.WarnIfPaused(ctx, refs[i], answer.Paused)
			errs[i] = refusedReport(ends[i].Run.Task, answer.Refused.Code)
		}
	}
	return errs
}

func finishEnd(e End) lua.FinishEnd {
	t := e.Run.Task
	return lua.FinishEnd{
		Member: t.Ref, Attempt: t.Attempt, Run: lua.RunToken(t.Run), State: e.State, Outcome: e.Outcome,
		Result: task.Cut(e.Result, task.ResultLimit), Reason: task.Cut(e.Reason, task.ErrorLimit), Delay: e.Delay,
		Retention: t.EffectiveRetention(e.State),
	}
}

// Finish reports that the attempt ended with outcome o and that the task ends in the state end, as FinishEach does.
func (r *Run) Finish(ctx context.Context, end task.State, o task.Outcome, result, reason string) error {
	return r.s.FinishEach(ctx, []End{{Run: r, State: end, Outcome: o, Result: result, Reason: reason}})[0]
}

// Reattempt reports that the attempt ended with outcome o and that the next one is due after delay, as FinishEach does.
func (r *Run) Reattempt(ctx context.Context, delay time.Duration, o task.Outcome, reason string) error {
	return r.s.FinishEach(ctx, []End{{Run: r, State: task.Scheduled, Outcome: o, Reason: reason, Delay: delay}})[0]
}

// Extended is the result of extending the lease of a run. Err is ErrStale if the run does not hold its attempt any more, or
// an error of Redis. Cancelled says that the task was asked to stop.
type Extended struct {
	Cancelled bool
	Err       error
}

// ExtendEach extends the leases of runs by RunLease from now, in one round trip, and returns a result for each, in order.
func (s *Tasks) ExtendEach(ctx context.Context, runs []*Run) []Extended {
	refs := make([]task.Ref, len(runs))
	for i, r := range runs {
		refs[i] = r.Task.Ref
	}
	var calls []lua.ExtendRuns
	groups := s.groups(refs)
	for _, g := range groups {
		call := lua.ExtendRuns{States: g.keys.States(), Lease: s.runLease, Runs: nil}
		for _, i := range g.places {
			t := runs[i].Task
			call.Runs = append(call.Runs, lua.ExtendRunsRun{Member: t.Ref, Attempt: t.Attempt, Run: lua.RunToken(t.Run)})
		}
		calls = append(calls, call)
	}
	extended := make([]Extended, len(runs))
	for n, result := range redisx.RunEach[lua.ExtendRunsReply](ctx, s.l.DB, calls) {
		for k, i := range groups[n].places {
			if extended[i].Err = result.Err; result.Err == nil {
				answer := result.Reply.Answers[k]
				extended[i] = Extended{Cancelled: answer.Cancelled, Err: refusedReport(runs[i].Task, answer.Refused.Code)}
			}
		}
	}
	return extended
}

// Progress reports the attempt's progress in percent. Errors: ErrStale, CodeInvalid, CodeUnavailable.
func (r *Run) Progress(ctx context.Context, percent int) error {
	err := r.s.progress(ctx, r.Task.Ref, r.Task.Attempt, lua.RunToken(r.Task.Run), percent)
	switch task.CodeOf(err) {
	case task.CodeTaskNotFound, task.CodeNotRunning, task.CodeStaleAttempt:
		return fmt.Errorf("task %s: %w", r.Task.Ref, ErrStale)
	}
	return err
}

// Line is one line of output to log.
type Line struct {
	Stream string // stdout or stderr
	Text   string
}

// Log appends lines to the task's log. first is the number of the first line within this attempt, from 1; lines that the
// log has already are not appended again. Errors: ErrStale, or an error of Redis.
func (r *Run) Log(ctx context.Context, first int, lines []Line) error {
	t := r.Task
	written := make([]lua.LogLine, len(lines))
	for i, l := range lines {
		written[i] = lua.LogLine(l)
	}
	_, err := redisx.Run(ctx, r.s.l.DB, lua.Log{
		States: r.keys.States(), Log: r.keys.Log(t.Ref), Member: t.Ref, Attempt: t.Attempt, Run: lua.RunToken(t.Run),
		First: first, Events: r.s.l.Keys.Events(), Lines: written,
	})
	return r.reportError(err)
}

// reportError translates the refusal of a report. Other errors stay as they are.
func (r *Run) reportError(err error) error {
	var refusal *redisx.Refusal
	if !errors.As(err, &refusal) {
		return err
	}
	return refusedReport(r.Task, refusal.Code)
}

// refusedReport is the error of a report that a script refused with that code: ErrCancelled or ErrStale; nil for "".
func refusedReport(t task.Task, code lua.Code) error {
	switch code {
	case "":
		return nil
	case lua.CodeCancelled:
		return fmt.Errorf("task %s: %w", t.Ref, ErrCancelled)
	}
	return fmt.Errorf("task %s, attempt %d: %w: %s", t.Ref, t.Attempt, ErrStale, code)
}

// ListenStops calls stop for every attempt that is asked to stop, until ctx ends; then it returns nil. It calls connected
// whenever the subscription is established: earlier requests may have been missed (see ExtendEach).
func (s *Tasks) ListenStops(ctx context.Context, connected func(), stop func(ref task.Ref, attempt int)) error {
	onMessage := func(_, payload string) {
		if ref, attempt, err := task.ParseDelivery(payload); err == nil {
			stop(ref, attempt)
		}
	}
	return s.l.DB.Listen(ctx, redisx.Listener{Connected: connected, Message: onMessage}, string(s.l.Keys.Control()))
}
