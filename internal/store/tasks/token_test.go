package tasks_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// A node that knows nothing of the run but its token can do with it what the one can that began it.
func TestToken_IsAllThatAnotherNodeNeeds(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	ref := w.Bring("a", task.Queued)
	run := w.Tasks.BeginEach(w.Ctx, tasks.Runner{Node: "py.1", Lease: time.Minute}, []tasks.Start{{Ref: ref, Attempt: 1, Run: "py.1#X"}})[0].Run
	run.Limit = run.Task.StartedAt.Add(time.Hour)
	other, err := storetest.On(t, w.DB).Tasks.RunWith(ref, 1, run.Token())
	testkit.Must(t, err)
	if other.Node() != "py.1" || !other.Limit.Equal(run.Limit) || !other.Task.StartedAt.Equal(run.Task.StartedAt) || !other.Task.QueuedAt.Equal(run.Task.QueuedAt) {
		t.Errorf("it is a run of %s, %+v", other.Node(), other)
	}
	testkit.Must(t, errors.Join(
		other.Progress(w.Ctx, 40, ""), other.Save(w.Ctx, []byte(`1`)),
		other.Log(w.Ctx, 0, []tasks.Line{{Stream: "stdout", Text: "a"}}), other.Log(w.Ctx, 0, []tasks.Line{{Stream: "stdout", Text: "b"}}),
		w.Tasks.ExtendFor(w.Ctx, time.Minute, []*tasks.Run{other})[0].Err,
	))
	if page, err := w.Tasks.Logs(w.Ctx, ref, tasks.LogQuery{Limit: 10}); err != nil || len(page.Lines) != 2 || page.Lines[1].Cursor != "1-2" {
		t.Errorf("the log is %+v, %v", page, err)
	}
}

func TestToken_OfAnotherAttemptOrMadeUpIsRefused(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	a, b := w.Begin(w.Bring("a", task.Scheduled)), w.Begin(w.Bring("b", task.Scheduled))
	token := a.Token()
	signature := token[strings.LastIndex(token, "~")+1:]
	for name, c := range map[string]struct {
		ref     task.Ref
		attempt int
		token   string
	}{
		"another task":      {b.Task.Ref, 1, token},
		"another attempt":   {a.Task.Ref, 2, token},
		"none":              {a.Task.Ref, 1, ""},
		"the run token":     {a.Task.Ref, 1, a.Task.Run},
		"another run":       {a.Task.Ref, 1, strings.Replace(token, "node-a#1", "node-a#2", 1)},
		"another signature": {a.Task.Ref, 1, strings.TrimSuffix(token, signature) + strings.Repeat("A", len(signature))},
		"no signature":      {a.Task.Ref, 1, strings.TrimSuffix(token, signature)},
	} {
		if _, err := w.Tasks.RunWith(c.ref, c.attempt, c.token); task.CodeOf(err) != task.CodeInvalid {
			t.Errorf("%s: %v, want it refused", name, err)
		}
	}
	if _, err := w.Tasks.RunWith(a.Task.Ref, 1, token); err != nil {
		t.Errorf("the token itself: %v", err)
	}
}

func TestExtendFor_EndsAtTheLimit(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	run := w.Begin(w.Bring("a", task.Scheduled))
	held := func() float64 {
		return w.DB.ZScore(w.Ctx, string(w.KeysOf(run.Task.Ref).Held()), run.Task.Ref.String()).Val()
	}
	run.Limit = run.Task.StartedAt.Add(time.Hour)
	got := w.Tasks.ExtendFor(w.Ctx, 2*time.Hour, []*tasks.Run{run})[0]
	if got.Err != nil || got.Now.Before(run.Task.StartedAt) || held() != float64(run.Limit.UnixMilli()) {
		t.Errorf("before the limit: %+v, leased until %f, want %d", got, held(), run.Limit.UnixMilli())
	}
	run.Limit = run.Task.StartedAt
	before := held()
	if err := w.Tasks.ExtendFor(w.Ctx, time.Hour, []*tasks.Run{run})[0].Err; !errors.Is(err, tasks.ErrOver) || held() != before {
		t.Errorf("after the limit: %v, want %v; leased until %f, before %f", err, tasks.ErrOver, held(), before)
	}
	testkit.Must(t, run.Finish(w.Ctx, task.Failed, task.OutcomeTimeout, "", "too late")) // until a leader ends it, it may report
}
