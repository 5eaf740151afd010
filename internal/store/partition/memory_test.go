package partition_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// forgetful keeps no tasks, but their names.
var forgetful = partition.Keep{Remember: time.Hour, Names: 1000}

// sweepAll sweeps all partitions, and returns the sums.
func sweepAll(w *storetest.World, t *testing.T, keep partition.Keep) (sum partition.Swept) {
	t.Helper()
	for p := range w.Partitions.Count() {
		swept, err := w.Partitions.At(p).Lead(storetest.Fence).Sweep(w.Ctx, keep, 100)
		testkit.Must(t, err)
		sum.Deleted, sum.Forgotten, sum.Early = sum.Deleted+swept.Deleted, sum.Forgotten+swept.Forgotten, sum.Early+swept.Early
		sum.Shortest = max(sum.Shortest, swept.Shortest)
	}
	w.CheckSets()
	return sum
}

// finish creates a task, runs it and returns it as it ended.
func finish(w *storetest.World, t *testing.T, d task.Definition) task.Task {
	t.Helper()
	w.Create(d)
	testkit.Must(t, w.Begin(d.Ref).Finish(w.Ctx, task.Succeeded, task.OutcomeSucceeded, "", ""))
	return w.Get(d.Ref)
}

func TestSweep_RemembersTheNamesOfTasksThatItDeletes(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	long := json.RawMessage(`"` + strings.Repeat("x", 2*task.InlinePayloadLimit) + `"`)
	for name, payload := range map[string]json.RawMessage{"short": json.RawMessage(`{"n":1}`), "long": long} {
		d := task.Definition{Ref: task.Ref{Namespace: "default", ID: name}, Type: "http", Payload: payload}
		ended := finish(w, t, d)
		if swept := sweepAll(w, t, forgetful); swept.Deleted != 1 || w.Get(d.Ref).State != task.None {
			t.Fatalf("%s: deleted %d, the task is %q", name, swept.Deleted, w.Get(d.Ref).State)
		}
		for _, create := range []func(def task.Definition) tasks.Created{
			func(def task.Definition) tasks.Created { return w.Tasks.Create(w.Ctx, []task.Definition{def})[0] },
			func(def task.Definition) tasks.Created { return w.Tasks.Preview(w.Ctx, []task.Definition{def})[0] },
		} {
			again := create(d)
			if again.Err != nil || !again.Existed || !again.Deleted || again.Task.State != task.Succeeded || string(again.Task.Payload) != string(payload) ||
				!again.Task.CreatedAt.Equal(ended.CreatedAt) || !again.Task.FinishedAt.Equal(ended.FinishedAt) {
				t.Errorf("%s, submitted again: %+v", name, again)
			}
			other := d
			other.Owner = "somebody"
			if got := create(other); task.CodeOf(got.Err) != task.CodeTaskConflict {
				t.Errorf("%s, submitted with other content: %+v", name, got)
			}
		}
		if w.Get(d.Ref).State != task.None {
			t.Errorf("%s: the task is there again", name)
		}
	}
}

// Leaders of all releases keep the SHA-1 that the submission left, as that of what is stored has the trace in it.
func TestSweep_RemembersATaskWithoutItsTrace(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	trace := func(n int) string { return fmt.Sprintf("00-%032d-%016d-01", n, n) }
	d := task.Definition{Ref: task.Ref{Namespace: "default", ID: "a"}, Type: "http", Trace: trace(1)}
	finish(w, t, d)
	if swept := sweepAll(w, t, forgetful); swept.Deleted != 1 {
		t.Fatalf("deleted %d", swept.Deleted)
	}
	for _, d.Trace = range []string{trace(1), trace(2), ""} {
		if again := w.Tasks.Create(w.Ctx, []task.Definition{d})[0]; again.Err != nil || !again.Deleted {
			t.Errorf("in the trace %q: %+v", d.Trace, again)
		}
	}
}

// The state of a task that told its progress in words, or has a checkpoint, has a longer form.
func TestSweep_RemembersTasksWithNotesAndCheckpoints(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	for name, state := range map[string]task.State{"succeeded": task.Succeeded, "failed": task.Failed, "cancelled": task.Cancelled} {
		d := task.Definition{Ref: task.Ref{Namespace: "default", ID: name}, Type: "http"}
		w.Create(d)
		run := w.Begin(d.Ref)
		testkit.Must(t, run.Progress(w.Ctx, 40, "rows copied"))
		testkit.Must(t, run.Save(w.Ctx, json.RawMessage(`{"row":5}`)))
		testkit.Must(t, run.Finish(w.Ctx, state, task.OutcomeFailed, "", "over"))
		if swept := sweepAll(w, t, forgetful); swept.Deleted != 1 {
			t.Fatalf("%s: deleted %d", name, swept.Deleted)
		}
		if again := w.Tasks.Create(w.Ctx, []task.Definition{d})[0]; again.Err != nil || !again.Deleted || again.Task.State != state {
			t.Errorf("%s, submitted again: %+v", name, again)
		}
	}
}

// What counts is what was submitted, as for a task that is kept.
func TestSweep_RemembersAChangedTaskAsItWasSubmitted(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	ref := task.Ref{Namespace: "default", ID: "a"}
	submitted := task.Definition{Ref: ref, Type: "http", Payload: json.RawMessage(`{}`)}
	made := w.Create(submitted)
	testkit.Must(t, w.Requeue(made.Definition, "other", 0))
	_, err := w.Tasks.Cancel(w.Ctx, ref, "")
	testkit.Must(t, err)
	sweepAll(w, t, forgetful)
	if again := w.Tasks.Create(w.Ctx, []task.Definition{submitted})[0]; !again.Deleted || again.Task.State != task.Cancelled {
		t.Errorf("submitted again: %+v", again)
	}
}

// A release that writes definitions in another form keeps the SHA-1 of the canonical one, as is kept of changed tasks.
func TestSweep_RemembersATaskOfAnotherReleaseByItsCanonicalForm(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	d := task.Definition{Ref: task.Ref{Namespace: "default", ID: "a"}, Type: "http", Payload: json.RawMessage(`{}`)}
	finish(w, t, d)
	def, err := codec.EncodeDefinition(d.Normalize())
	testkit.Must(t, err)
	keys, member := w.KeysOf(d.Ref), d.Ref.String()
	record := strings.Replace(w.DB.HGet(w.Ctx, string(keys.Defs()), member).Val(), "}\n", `,"priority":0}`+"\n", 1)
	testkit.Must(t, w.DB.HSet(w.Ctx, string(keys.Defs()), member, record).Err())
	testkit.Must(t, w.DB.HSet(w.Ctx, string(keys.Originals()), member, codec.Digest(def)).Err())
	sweepAll(w, t, forgetful)
	if again := w.Tasks.Create(w.Ctx, []task.Definition{d})[0]; again.Err != nil || !again.Deleted {
		t.Errorf("submitted again: %+v", again)
	}
}

func TestSweep_ForgetsNamesAfterTheirTimeOnly(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	d := task.Definition{Ref: task.Ref{Namespace: "default", ID: "a"}, Type: "http", Retention: time.Millisecond}
	ended := finish(w, t, d)
	testkit.Eventually(t, "its retention is over", func() bool { return w.DB.Time(w.Ctx).Val().Sub(ended.FinishedAt) > 2*time.Millisecond })
	kept := partition.Keep{Tasks: 1000, Remember: time.Hour, Names: 1000}
	sweepAll(w, t, kept)
	for name, read := range map[string]func() error{
		"task":     func() error { _, err := w.Tasks.Get(w.Ctx, d.Ref); return err },
		"attempts": func() error { _, err := w.Tasks.Attempts(w.Ctx, d.Ref); return err },
		"log":      func() error { _, err := w.Tasks.Logs(w.Ctx, d.Ref, tasks.LogQuery{Limit: 1}); return err },
	} {
		when := ended.FinishedAt.Format(time.RFC3339)
		if err := read(); task.CodeOf(err) != task.CodeTaskNotFound || !strings.Contains(err.Error(), "succeeded at "+when) {
			t.Errorf("%s of a deleted task: %v", name, err)
		}
	}
	if swept := sweepAll(w, t, kept); swept.Forgotten != 0 || !w.Tasks.Create(w.Ctx, []task.Definition{d})[0].Deleted {
		t.Fatalf("forgot %d names within the hour, though only the retention of the task is over", swept.Forgotten)
	}
	kept.Remember = time.Millisecond
	if swept := sweepAll(w, t, kept); swept.Forgotten != 1 || swept.Early != 0 {
		t.Errorf("after the time: %+v", swept)
	}
	if again := w.Tasks.Create(w.Ctx, []task.Definition{d})[0]; again.Err != nil || again.Existed {
		t.Errorf("submitted after the time: %+v", again)
	}
}

func TestSweep_ForgetsTheOldestNamesOfTooMany(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	keep := forgetful
	keep.Names = 3
	const n = 10
	early := 0
	for i := range n {
		finish(w, t, task.Definition{Ref: task.Ref{Namespace: "default", ID: fmt.Sprint("t", i)}})
		swept := sweepAll(w, t, keep)
		early += swept.Early
		if swept.Early > 0 && (swept.Shortest <= 0 || swept.Shortest > time.Minute) {
			t.Errorf("it says that names were remembered for %s", swept.Shortest)
		}
	}
	names, order := 0, 0
	for p := range w.Partitions.Count() {
		k := w.Keys.Partition(p)
		names += int(w.DB.HLen(w.Ctx, string(k.Remembered())).Val())
		order += int(w.DB.LLen(w.Ctx, string(k.RememberedOrder())).Val())
	}
	if names != order || names+early != n || names > keep.Names*w.Partitions.Count() {
		t.Errorf("%d names are remembered, %d in the order, %d were forgotten early", names, order, early)
	}
	last := task.Definition{Ref: task.Ref{Namespace: "default", ID: fmt.Sprint("t", n-1)}, Type: "http"}
	if again := w.Tasks.Create(w.Ctx, []task.Definition{last})[0]; !again.Deleted {
		t.Errorf("the newest one, submitted again: %+v", again)
	}
}

// Nobody can submit those of schedules, whose ledger knows them.
func TestSweep_RemembersNoTasksOfSchedules(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	ref := w.Bring("s@20260101T000000Z", task.Succeeded)
	sweepAll(w, t, forgetful)
	if n := w.DB.HLen(w.Ctx, string(w.KeysOf(ref).Remembered())).Val(); n != 0 || w.Get(ref).State != task.None {
		t.Errorf("%d names are remembered; the task is %q", n, w.Get(ref).State)
	}
}
