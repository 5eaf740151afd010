package tasks_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// saved brings a task to its first attempt, which has saved a checkpoint.
func saved(t *testing.T, w *storetest.World, id string) *tasks.Run {
	t.Helper()
	run := w.Begin(w.Bring(id, task.Scheduled))
	testkit.Must(t, run.Save(w.Ctx, json.RawMessage(`{ "row": 1 }`)))
	testkit.Must(t, run.Save(w.Ctx, json.RawMessage(`{ "row": 5 }`)))
	return run
}

// checkpoint is that of a task, and that which its next attempt gets; "" for none.
func checkpoints(w *storetest.World, ref task.Ref) (read, begun string) {
	read = string(w.Get(ref).Checkpoint)
	return read, string(w.Begin(ref).Task.Checkpoint)
}

func TestSave_IsThereForTheNextAttemptHoweverThisOneEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*testing.T, *storetest.World, *tasks.Run){
		"failed": func(t *testing.T, w *storetest.World, r *tasks.Run) {
			testkit.Must(t, r.Reattempt(w.Ctx, 0, task.OutcomeFailed, "x"))
		},
		"lost": func(t *testing.T, w *storetest.World, r *tasks.Run) {
			w.Lapse(r.Task.Ref)
			testkit.Must(t, w.Leader(r.Task.Ref).Reap(w.Ctx, w.Get(r.Task.Ref), w.DB.Time(w.Ctx).Val(), time.Time{}, partition.Loss{Reason: "lost"}))
		},
		"failed for good": func(t *testing.T, w *storetest.World, r *tasks.Run) {
			testkit.Must(t, r.Finish(w.Ctx, task.Failed, task.OutcomeFailed, "", "x"))
			_, err := w.Tasks.Retry(w.Ctx, r.Task.Ref)
			testkit.Must(t, err)
		},
		"cancelled": func(t *testing.T, w *storetest.World, r *tasks.Run) {
			_, err := w.Tasks.Cancel(w.Ctx, r.Task.Ref, "")
			testkit.Must(t, errors.Join(err, r.Finish(w.Ctx, task.Cancelled, task.OutcomeCancelled, "", "x")))
			_, err = w.Tasks.Retry(w.Ctx, r.Task.Ref)
			testkit.Must(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := storetest.New(t)
			run := saved(t, w, "a")
			end(t, w, run)
			read, begun := checkpoints(w, run.Task.Ref)
			if want := `{"row":5}`; read != want || begun != want {
				t.Errorf("it reads %q, the next attempt gets %q, want %q", read, begun, want)
			}
			testkit.Must(t, w.Tasks.RunOf(w.Get(run.Task.Ref)).Reattempt(w.Ctx, 0, task.OutcomeFailed, "x"))
			if _, begun := checkpoints(w, run.Task.Ref); begun != `{"row":5}` {
				t.Errorf("the one after that, which saved none, gets %q", begun)
			}
			w.CheckSets()
		})
	}
}

// A task that was tried once has no checkpoint unless its state says that it may have: success is quick for all others.
func TestSave_IsGoneWhenTheTaskSucceeds(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	first := saved(t, w, "a")
	testkit.Must(t, first.Progress(w.Ctx, 40, ""))
	testkit.Must(t, first.Finish(w.Ctx, task.Succeeded, task.OutcomeSucceeded, "done", ""))
	second := saved(t, w, "b")
	testkit.Must(t, second.Reattempt(w.Ctx, 0, task.OutcomeFailed, "x"))
	testkit.Must(t, w.Begin(second.Task.Ref).Finish(w.Ctx, task.Succeeded, task.OutcomeSucceeded, "done", ""))
	for _, ref := range []task.Ref{first.Task.Ref, second.Task.Ref} {
		if got := w.Get(ref); got.State != task.Succeeded || got.Result != "done" || got.Checkpoint != nil {
			t.Errorf("%s is %+v", ref, got)
		}
		if n := w.DB.HLen(w.Ctx, string(w.KeysOf(ref).Checkpoints())).Val(); n != 0 {
			t.Errorf("%d checkpoints are left", n)
		}
	}
	if got := w.Get(first.Task.Ref).Progress; got != 40 {
		t.Errorf("the progress is %d, want 40", got)
	}
}

func TestSave_IsGoneWhenThePayloadChanges(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	run := saved(t, w, "a")
	testkit.Must(t, run.Reattempt(w.Ctx, time.Hour, task.OutcomeFailed, "x"))
	before := w.Get(run.Task.Ref).Definition
	testkit.Must(t, w.Requeue(before, "other", 0))
	if got := string(w.Get(run.Task.Ref).Checkpoint); got != `{"row":5}` {
		t.Errorf("after a change of the queue it is %q", got)
	}
	before.Queue = "other"
	after := before
	after.Payload = json.RawMessage(`{"other":"work"}`)
	_, err := w.Tasks.Change(w.Ctx, before, after, tasks.NewDue{}, 0)
	testkit.Must(t, err)
	if got := w.Get(run.Task.Ref); got.Checkpoint != nil {
		t.Errorf("after a change of the payload it is %q", got.Checkpoint)
	}
}

func TestSave_RefusesWhatIsTooLongOrNoJSON(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	run := saved(t, w, "a")
	longest := `"` + strings.Repeat("x", task.CheckpointLimit-2) + `"`
	for _, invalid := range []string{"", "{", "1 2", "nothing", longest[:1] + "x" + longest[1:]} {
		if err := run.Save(w.Ctx, json.RawMessage(invalid)); task.CodeOf(err) != task.CodeInvalid {
			t.Errorf("%.20q: %v, want it refused", invalid, err)
		}
	}
	if got := string(w.Get(run.Task.Ref).Checkpoint); got != `{"row":5}` {
		t.Errorf("it is %q now", got)
	}
	testkit.Must(t, run.Save(w.Ctx, json.RawMessage(" "+longest+"\n")))
	if got := string(w.Get(run.Task.Ref).Checkpoint); got != longest {
		t.Errorf("it has %d bytes, want the longest that is allowed", len(got))
	}
}

func TestSave_OfARunThatIsNotCurrentIsRefused(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	stale := saved(t, w, "a")
	testkit.Must(t, stale.Reattempt(w.Ctx, 0, task.OutcomeFailed, "x"))
	refused := func(when string) {
		t.Helper()
		if err := stale.Save(w.Ctx, json.RawMessage(`"stale"`)); !errors.Is(err, tasks.ErrStale) {
			t.Errorf("%s: %v, want %v", when, err, tasks.ErrStale)
		}
	}
	refused("its attempt has ended")
	w.Begin(stale.Task.Ref)
	refused("the next attempt runs")
	if got := string(w.Get(stale.Task.Ref).Checkpoint); got != `{"row":5}` {
		t.Errorf("the checkpoint is %s", got)
	}
}

// Only progress may be reported by attempt alone.
func TestSaveAndLog_WithoutARunAreRefused(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	nobody := *w.Begin(w.Bring("a", task.Scheduled))
	nobody.Task.Run = ""
	for what, err := range map[string]error{
		"save": nobody.Save(w.Ctx, json.RawMessage(`1`)), "log": nobody.Log(w.Ctx, 1, []tasks.Line{{Stream: "stdout", Text: "x"}}),
	} {
		if !errors.Is(err, tasks.ErrStale) {
			t.Errorf("%s: %v, want %v", what, err, tasks.ErrStale)
		}
	}
}

func TestProgress_KeepsAnyNote(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	run := w.Begin(w.Bring("a", task.Scheduled))
	for _, note := range []string{"", "40 rows", "a:b 0%20 +\u00a0\u2028 ü 你", strings.Repeat("x", task.ProgressNoteLimit)} {
		testkit.Must(t, run.Progress(w.Ctx, 40, note))
		if got := w.Get(run.Task.Ref); got.Progress != 40 || got.ProgressNote != note {
			t.Errorf("it is %d %%, %q, want 40 %%, %q", got.Progress, got.ProgressNote, note)
		}
	}
	testkit.Must(t, run.Progress(w.Ctx, 50, strings.Repeat("x", task.ProgressNoteLimit+1)))
	if got := w.Get(run.Task.Ref).ProgressNote; len(got) > task.ProgressNoteLimit || !strings.HasSuffix(got, task.CutMark) {
		t.Errorf("a note that is too long is %q", got)
	}
	testkit.Must(t, run.Finish(w.Ctx, task.Succeeded, task.OutcomeSucceeded, "", ""))
	if got := w.Get(run.Task.Ref); got.Progress != 50 || got.ProgressNote == "" {
		t.Errorf("after its end it is %d %%, %q", got.Progress, got.ProgressNote)
	}
}
