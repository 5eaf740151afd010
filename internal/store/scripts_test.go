package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// apply applies an action to a task, whatever its state, and returns the error of that.
func apply(t *testing.T, w *storetest.World, ref task.Ref, action task.Action) error {
	t.Helper()
	current := w.Get(ref)
	run := w.Tasks.RunOf(current)
	run.Task.Ref = ref
	if current.State != task.Running { // a worker that never began the attempt
		run.Task.Run, run.Task.Attempt = "node-b#7", max(current.Attempt, 1)
	}
	switch action {
	case task.ActCreate:
		return w.Tasks.Create(w.Ctx, []task.Definition{{Ref: ref, Type: "shell"}})[0].Err
	case task.ActChange:
		current.Ref = ref
		return w.Requeue(current.Definition, "other", current.Attempt)
	case task.ActClaim:
		for _, d := range w.Claim(ref) {
			if d.Ref == ref {
				return nil
			}
		}
		return errors.New("not claimed")
	case task.ActTakeBack:
		err := w.Leader(ref).TakeBack(w.Ctx, []task.Delivery{{Ref: ref, Attempt: max(current.Attempt, 1)}}, false)
		if err == nil && w.Get(ref).State == current.State {
			return errors.New("not taken back")
		}
		return err
	case task.ActBegin:
		_, err := w.Tasks.Begin(w.Ctx, ref, max(current.Attempt, 1), "node-a#2")
		return err
	case task.ActReport:
		return errors.Join(run.Progress(w.Ctx, 40, "two words"), run.Log(w.Ctx, 1, []tasks.Line{{Stream: "stdout", Text: "hello"}}), run.Save(w.Ctx, []byte(`{"row": 5}`)))
	case task.ActSucceed:
		return run.Finish(w.Ctx, task.Succeeded, task.OutcomeSucceeded, "done", "")
	case task.ActReattempt:
		return run.Reattempt(w.Ctx, time.Hour, task.OutcomeFailed, "boom")
	case task.ActFail:
		return run.Finish(w.Ctx, task.Failed, task.OutcomeFailed, "", "boom")
	case task.ActStop:
		return run.Finish(w.Ctx, task.Cancelled, task.OutcomeCancelled, "", "stopped")
	case task.ActCancel:
		_, err := w.Tasks.Cancel(w.Ctx, ref, "")
		return err
	case task.ActMove:
		_, err := w.Tasks.Move(w.Ctx, run, tasks.Asked{})
		return err
	case task.ActRetry:
		_, err := w.Tasks.Retry(w.Ctx, ref)
		return err
	case task.ActExpire:
		swept, err := w.Leader(ref).Sweep(w.Ctx, partition.Keep{}, 100)
		if err == nil && swept.Deleted == 0 {
			return errors.New("no task was forgotten")
		}
		return err
	}
	t.Fatalf("the test does not know how to apply %q", action)
	return nil
}

// Every state meets every action on a real Redis, and the result is what the state table says. A refused action leaves
// Redis as it was, byte for byte.
func TestScripts_ObeyTheStateTable(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	for _, from := range append([]task.State{task.None}, task.States...) {
		for _, action := range task.Actions {
			t.Run(fmt.Sprintf("%s/%s", orNone(from), action), func(t *testing.T) {
				w := storetest.On(t, db)
				defer func() { db.FlushAll(context.WithoutCancel(w.Ctx)) }()
				ref := w.Bring("a", from)
				before := redistest.Dump(t, db)
				err := apply(t, w, ref, action)
				w.CheckSets()
				to, allowed := task.Next(from, action)
				if allowed {
					if err != nil {
						t.Fatalf("the table allows it, but: %v", err)
					}
					if got := w.Get(ref).State; got != to {
						t.Fatalf("state is %q, the table says %q", got, to)
					}
					return
				}
				again := from == task.Cancelled && action == task.ActCancel // succeeds and changes nothing
				if err == nil && !again {
					t.Error("the table forbids it, but there was no error")
				}
				if diff := cmp.Diff(before, redistest.Dump(t, db)); diff != "" {
					t.Errorf("refused, but Redis changed (-before +after):\n%s", diff)
				}
			})
		}
	}
}

func orNone(s task.State) string {
	if s == task.None {
		return "none"
	}
	return string(s)
}

// resend makes go-redis send every EVALSHA twice and return the second reply, as after a reply that got lost.
type resend struct{}

func (resend) DialHook(next redis.DialHook) redis.DialHook { return next }

func (resend) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "evalsha" {
			if err := next(ctx, redis.NewCmd(ctx, cmd.Args()...)); redis.HasErrorPrefix(err, "NOSCRIPT") {
				return next(ctx, cmd)
			}
		}
		return next(ctx, cmd)
	}
}

func (resend) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		twins := make([]redis.Cmder, len(cmds))
		for i, cmd := range cmds {
			twins[i] = redis.NewCmd(ctx, cmd.Args()...)
		}
		if cmds[0].Name() == "evalsha" {
			_ = next(ctx, twins)
		}
		return next(ctx, cmds)
	}
}

// Every script may run twice: the task is then in the state to which one run brings it, is listed once, and no attempt
// is recorded twice.
func TestScripts_MayRunTwice(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	for _, from := range append([]task.State{task.None}, task.States...) {
		for _, action := range task.Actions {
			to, allowed := task.Next(from, action)
			if !allowed {
				continue
			}
			t.Run(fmt.Sprintf("%s/%s", orNone(from), action), func(t *testing.T) {
				db.FlushAll(t.Context())
				w := storetest.On(t, db)
				ref := w.Bring("a", from)
				before := ended(t, w, ref)

				twice := redistest.Open(t, "redis://"+addr(db)+"/0")
				twice.AddHook(resend{})
				err := apply(t, storetest.On(t, twice), ref, action)
				if err != nil && action != task.ActClaim && action != task.ActRetry && action != task.ActExpire {
					t.Errorf("the second run fails: %v", err)
				}
				w.CheckSets()
				if got := w.Get(ref); got.State != to {
					t.Errorf("state is %q, want %q", got.State, to)
				} else if action == task.ActClaim && got.Attempt != 1 {
					t.Errorf("attempt is %d after one claim", got.Attempt)
				}
				added := ended(t, w, ref) - before
				ends := []task.Action{task.ActSucceed, task.ActFail, task.ActReattempt, task.ActStop}
				if slices.Contains(ends, action) && added != 1 {
					t.Errorf("%d attempts were recorded, want 1", added)
				}
			})
		}
	}
}

// ended counts the attempts of a task that have ended.
func ended(t *testing.T, w *storetest.World, ref task.Ref) int {
	t.Helper()
	attempts, err := w.Tasks.Attempts(w.Ctx, ref)
	if task.CodeOf(err) != task.CodeTaskNotFound {
		testkit.Must(t, err)
	}
	n := 0
	for _, a := range attempts {
		if !a.FinishedAt.IsZero() {
			n++
		}
	}
	return n
}

func addr(db *redisx.DB) string {
	return db.UniversalClient.(*redis.Client).Options().Addr
}
