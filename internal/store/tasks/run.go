package tasks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
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
	// ErrForeignType is returned if the node does not run tasks of the type. The attempt has not begun: another node may begin it.
	ErrForeignType = errors.New("this node does not run tasks of the type")
	// ErrStale is returned if the attempt has ended or another run has it. Nothing was written.
	ErrStale = errors.New("the attempt has ended or another run has it")
	// ErrBehind is returned if Redis, which may have lost writes, shows an earlier attempt of the task, or not the task. Nothing was written;
	// repeat the report, as Redis learns from another node how that attempt ended, or of the task.
	ErrBehind = errors.New("what came before the attempt is not known to Redis yet")
	// ErrCancelled is returned if the task was asked to stop: its attempt must end as cancelled.
	ErrCancelled = errors.New("the task was asked to stop")
	// ErrTick is returned if a further attempt could last until the next tick of the task's schedule: the task must end as failed.
	ErrTick = errors.New("a further attempt could last until the next tick")
	// ErrOver is returned if the lease of a run cannot be extended because its time is over.
	ErrOver = errors.New("the time of the attempt is over")
)

// DefaultRunLease is how long a worker's word holds that it runs an attempt. The worker extends it three times in this time;
// the leader ends runs whose lease is over.
const DefaultRunLease = 3 * time.Second

// RunLease is how long the lease of a run lasts.
func (s *Tasks) RunLease() time.Duration { return s.runLease }

// Run is an attempt that this worker began. Every script of a report compares the run token in Task with the one in
// Redis, so only the holder of the token can report.
type Run struct {
	s    *Tasks
	keys lua.Partition
	Task task.Task
	// Limit is when the lease ends at the latest, however often it is extended; zero for no limit. A worker that is not of this program
	// has one, as nobody else ends what it does not end in time.
	Limit time.Time
	// Lease is how long the worker's word holds that it runs the attempt; 0 means RunLease.
	Lease time.Duration
	// Foreign says that one of asynq's own servers runs the attempt, which does not report its begin.
	Foreign bool
}

// RunOf returns the run whose token is t.Run, without a call to Redis.
func (s *Tasks) RunOf(t task.Task) *Run { return &Run{s: s, keys: s.l.KeysOf(t.Ref), Task: t} }

// refsOf names the tasks of runs, in order.
func refsOf(runs []*Run) []task.Ref {
	refs := make([]task.Ref, len(runs))
	for i, r := range runs {
		refs[i] = r.Task.Ref
	}
	return refs
}

// Node is the node, or the worker, that made the run token.
func (r *Run) Node() string { return codec.NodeOf(r.Task.Run) }

// report sends a report. If Redis has lost that the run began, as in a failover, the run begins again, as extending its lease does, and
// reports then. Errors: ErrStale, ErrBehind, ErrOver, or an error of Redis.
func (r *Run) report(ctx context.Context, send func() error) error {
	err := send()
	var refusal *redisx.Refusal
	if errors.As(err, &refusal) && notBegun(refusal) {
		if again := r.s.ExtendFor(ctx, cmp.Or(r.Lease, r.s.runLease), []*Run{r})[0]; again.Err != nil {
			return again.Err
		}
		err = send()
	}
	return r.reportError(err)
}

// notBegun reports whether a script refused a report because Redis does not know that the attempt has begun.
func notBegun(r *redisx.Refusal) bool {
	state := task.State(r.Detail)
	return r.Code == lua.CodeNotFound || r.Code == lua.CodeState && (state == task.Queued || state == task.Scheduled)
}

// Progress reports the attempt's progress in percent, and what it is at, cut to its limit. Errors: CodeInvalid, and those of a report.
func (r *Run) Progress(ctx context.Context, percent int, note string) error {
	if err := checkPercent(percent); err != nil {
		return err
	}
	return r.report(ctx, func() error {
		return r.s.progress(ctx, r.Task.Ref, r.Task.Attempt, lua.RunToken(r.Task.Run), percent, note)
	})
}

// Line is one line of output to log.
type Line struct {
	Stream string // stdout or stderr
	Text   string
}

// Log appends lines to the task's log. first is the number of the first line within this attempt, from 1; lines that the
// log has already are not appended again. If first is 0, they are appended whatever the log has. Errors: those of a report.
func (r *Run) Log(ctx context.Context, first int, lines []Line) error {
	t := r.Task
	written := make([]lua.LogLine, len(lines))
	for i, l := range lines {
		written[i] = lua.LogLine(l)
	}
	return r.report(ctx, func() error {
		_, err := redisx.Run(ctx, r.s.l.DB, lua.Log{
			States: r.keys.States(), Log: r.keys.Log(t.Ref), Member: t.Ref, Attempt: t.Attempt, Run: lua.RunToken(t.Run),
			First: first, Events: r.s.l.Keys.Events(), Lines: written,
		})
		return err
	})
}

// reportError translates the refusal of a report. Other errors stay as they are.
func (r *Run) reportError(err error) error {
	var refusal *redisx.Refusal
	if !errors.As(err, &refusal) {
		return err
	}
	return r.s.refusedReport(r.Task, lua.Refused{Code: refusal.Code, Detail: refusal.Detail})
}

// refusedReport is the error of a report that a script refused: ErrCancelled, ErrTick, ErrOver, ErrBehind or ErrStale; nil if it did not.
func (s *Tasks) refusedReport(t task.Task, refused lua.Refused) error {
	switch refused.Code {
	case "":
		return nil
	case lua.CodeCancelled:
		return fmt.Errorf("task %s: %w", t.Ref, ErrCancelled)
	case lua.CodeTick:
		return fmt.Errorf("task %s: %w", t.Ref, ErrTick)
	case lua.CodeOver:
		return fmt.Errorf("task %s, attempt %d: %w", t.Ref, t.Attempt, ErrOver)
	}
	if refused.Code == lua.CodeNotFound && t.Type == "" && s.l.AwaitsReports() {
		return fmt.Errorf("task %s: %w: it is not there", t.Ref, ErrBehind)
	}
	if current, err := strconv.Atoi(refused.Detail); refused.Code == lua.CodeStale && err == nil && current < t.Attempt && s.l.MayHaveLost() {
		return fmt.Errorf("task %s, attempt %d: %w: %d is current", t.Ref, t.Attempt, ErrBehind, current)
	}
	return fmt.Errorf("task %s, attempt %d: %w: %s", t.Ref, t.Attempt, ErrStale, refused.Code)
}

// TellWorker has the worker of a run look whether it still holds its attempt. If the message is lost, the worker finds out when it
// extends the lease.
func (s *Tasks) TellWorker(ctx context.Context, run *Run) {
	message := task.Delivery{Ref: run.Task.Ref, Attempt: run.Task.Attempt}.String()
	if err := s.l.DB.Publish(ctx, string(s.l.Keys.Control()), message).Err(); err != nil {
		s.l.Log.DebugContext(ctx, "cannot tell a worker that its attempt has ended", "delivery", message, "error", err)
	}
}

// ListenStops calls stop for every attempt that is asked to stop, until ctx ends; then it returns nil. It calls connected
// whenever the subscription is established: earlier requests may have been missed (see ExtendEach).
func (s *Tasks) ListenStops(ctx context.Context, connected func(), stop func(ref task.Ref, attempt int)) error {
	onMessage := func(_, payload string) {
		if ref, attempt, err := task.ParseDelivery(payload); err == nil {
			stop(ref, attempt)
		}
	}
	return s.l.Vital.ListenShared(ctx, redisx.Listener{Connected: func(string) { connected() }, Message: onMessage}, string(s.l.Keys.Control()))
}
