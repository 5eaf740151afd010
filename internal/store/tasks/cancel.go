package tasks

import (
	"context"
	"time"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

var cancelCodes = map[lua.Code]task.Code{lua.CodeNotFound: task.CodeTaskNotFound, lua.CodeState: task.CodeFinished}

// Cancel ends a waiting task, and asks the worker of a running one to stop it; the state of the result tells which. A
// cancelled task stays as it is. by is who asks for it, "" if nobody knows. Errors: CodeTaskNotFound, CodeFinished,
// CodeInvalid for the name, CodeUnreadable for the state, CodeUnavailable.
func (s *Tasks) Cancel(ctx context.Context, ref task.Ref, by string) (task.Task, error) {
	if err := task.ValidateRef(ref); err != nil {
		return task.Task{}, err
	}
	reply, err := redisx.Run(ctx, s.l.DB, lua.Cancel{
		Defs: s.l.KeysOf(ref).Defs(), Member: ref, By: by,
		Events: s.l.Keys.Events(), Control: s.l.Keys.Control(), Wake: s.l.WakeOf(ref),
	})
	if err != nil {
		return task.Task{}, publicError(err, cancelCodes, ref)
	}
	t := s.Decode(ref, lua.ReadTasksTask(reply))
	if t.State == task.Unreadable { // the script has changed nothing
		return task.Task{}, unreadable(t)
	}
	return t, nil
}

var retryCodes = map[lua.Code]task.Code{lua.CodeNotFound: task.CodeTaskNotFound, lua.CodeState: task.CodeNotFinished}

// Retry is RetryIn without a delay, whenever the task ended.
func (s *Tasks) Retry(ctx context.Context, ref task.Ref) (task.Task, error) {
	return s.RetryIn(ctx, ref, 0, time.Time{})
}

// RetryIn puts a task that has ended back on the wheel, due after delay, with its full number of attempts again. The
// numbers of the attempts continue, so that every delivery has a unique name. A task that did not end at that time
// stays as it is; the zero time stands for any.
// Errors: CodeTaskNotFound, CodeNotFinished, CodeInvalid for the name, CodeUnreadable for the definition or the state,
// CodeUnavailable.
func (s *Tasks) RetryIn(ctx context.Context, ref task.Ref, delay time.Duration, ended time.Time) (task.Task, error) {
	return s.retry(ctx, ref, delay, ended, "")
}

// RerunIn is RetryIn, at once, for a run of a workflow, with what is asked of it, as workflow.Ask.Encode writes it.
func (s *Tasks) RerunIn(ctx context.Context, run task.Ref, ask string, ended time.Time) (task.Task, error) {
	return s.retry(ctx, run, 0, ended, ask)
}

func (s *Tasks) retry(
	ctx context.Context, ref task.Ref, delay time.Duration, ended time.Time, ask string,
) (task.Task, error) {
	t, err := s.get(ctx, ref, true)
	switch {
	case err != nil:
		return task.Task{}, err
	case t.Damage != "":
		return task.Task{}, unreadable(t)
	}
	k := s.l.KeysOf(ref)
	reply, err := redisx.Run(ctx, s.l.DB, lua.Retry{
		States: k.States(),
		Member: ref, Attempts: t.Policy().MaxAttempts, Delay: delay, Ended: ended, Tick: tickOf(ref),
		Ask: ask, Events: s.l.Keys.Events(), Wake: s.l.WakeOf(ref),
	})
	if err != nil {
		return task.Task{}, publicError(err, retryCodes, ref)
	}
	return s.Decode(ref, lua.ReadTasksTask(reply)), nil
}

var askCodes = map[lua.Code]task.Code{lua.CodeNotFound: task.CodeTaskNotFound, lua.CodeState: task.CodeNotRunning}

// AskRun asks something of a run of a workflow that runs, as workflow.Ask.Encode writes it. Its leader does it. With
// workflow.NoAsk it only plans the run, which may wait for its begin. Errors: CodeTaskNotFound, CodeNotRunning,
// CodeUnavailable; also if its leader has not done much that was asked before.
func (s *Tasks) AskRun(ctx context.Context, run task.Ref, ask string) error {
	return s.askRun(ctx, run, ask, false)
}

// AskEarly is AskRun also of a run that has not begun: its leader does it when the run begins. Errors: as of AskRun.
func (s *Tasks) AskEarly(ctx context.Context, run task.Ref, ask string) error {
	return s.askRun(ctx, run, ask, true)
}

func (s *Tasks) askRun(ctx context.Context, run task.Ref, ask string, early bool) error {
	_, err := redisx.Run(ctx, s.l.DB, lua.AskRun{
		States: s.l.KeysOf(run).States(), Member: run, Ask: ask, Early: early, Wake: s.l.WakeOf(run),
	})
	if redisx.RefusedWith(err, lua.CodeFull) {
		const message = "much was asked of run %q that its leader has not done yet: try again in some seconds"
		return task.Errorf(task.CodeUnavailable, message, run.ID)
	}
	return publicError(err, askCodes, run)
}

// unreadable is the error, with CodeUnreadable, for what cannot be done with a task because of its damage.
func unreadable(t task.Task) error {
	return task.Errorf(task.CodeUnreadable, "task %q cannot be read: %s (see dtsctl doctor)", t.ID, t.Damage)
}

// tickOf is the time of the tick whose task has that name; the zero time for any other task.
func tickOf(ref task.Ref) time.Time {
	_, name, ok := schedule.OfTask(ref)
	if !ok {
		return time.Time{}
	}
	tick, _, err := schedule.ParseTickName(name)
	if err != nil {
		return time.Time{}
	}
	return tick
}

// Forgetting says how long the names of deleted tasks stay taken.
type Forgetting struct {
	Remember time.Duration // after the end of a task, at least
	Names    int           // of all partitions, at most
}

// Forget deletes a task that ended at that time, before its retention is over. It reports whether it did: a task that
// has another end, or none, stays. Error: CodeUnavailable.
func (s *Tasks) Forget(ctx context.Context, ref task.Ref, ended time.Time, how Forgetting) (bool, error) {
	reply, err := redisx.Run(ctx, s.l.DB, lua.Forget{
		States: s.l.KeysOf(ref).States(), Remember: how.Remember, RememberLimit: how.Names / s.l.Partitions(),
		Limit: forgetNames, Wake: s.l.Keys.Wake(s.l.PartitionOf(ref)), Tasks: []lua.ForgetTask{{Member: ref, Ended: ended}},
	})
	if err != nil {
		return false, layout.Unavailable(err)
	}
	return reply.Deleted[0], nil
}

// forgetNames is how many names of deleted tasks are looked at with each task that is deleted, as there can be too
// many.
const forgetNames = 2
