package tasks_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua/contract"
)

// Neither the begin of a further attempt nor its end needs what the attempt before has left.
func TestBegin_GoesOnPastADamagedHash(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"errors", "results"} {
		w := storetest.New(t)
		ref := task.Ref{Namespace: "default", ID: "a"}
		w.Create(task.Definition{Ref: ref, Retry: task.Retry{MaxAttempts: 3}})
		testkit.Must(t, w.Begin(ref).Reattempt(w.Ctx, 0, task.OutcomeFailed, "boom"))
		kind, _ := contract.KindOf(name)
		storetest.Spoil(t, w.DB, kind, storetest.KeyOf(t, kind, w.PartitionOf(ref), ""))
		w.Claim(ref)
		run, err := w.Tasks.Begin(w.Ctx, ref, 2, "n#2")
		testkit.Must(t, err)
		testkit.Must(t, run.Finish(w.Ctx, task.Succeeded, task.OutcomeSucceeded, "", ""))
	}
}

// The next attempt starts from the beginning.
func TestBegin_LeavesOutACheckpointThatIsNotJSON(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	ref := task.Ref{Namespace: "default", ID: "a"}
	w.Create(task.Definition{Ref: ref, Retry: task.Retry{MaxAttempts: 3}})
	testkit.Must(t, w.Begin(ref).Reattempt(w.Ctx, 0, task.OutcomeFailed, "boom"))
	testkit.Must(t, w.DB.HSet(w.Ctx, string(w.KeysOf(ref).Checkpoints()), ref.String(), "{").Err())
	if run := w.Begin(ref); run.Task.Checkpoint != nil {
		t.Errorf("it begins with the checkpoint %s", run.Task.Checkpoint)
	}
}

// Who was asked to stop has done so: the task is not among those that failed.
func TestBegin_CancelsATaskThatCannotBeRead(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	ref := task.Ref{Namespace: "default", ID: "a"}
	w.Create(task.Definition{Ref: ref})
	w.Claim(ref)
	_, err := w.Tasks.Begin(w.Ctx, ref, 1, "n#1")
	testkit.Must(t, err)
	_, err = w.Tasks.Cancel(w.Ctx, ref, "")
	testkit.Must(t, err)
	testkit.Must(t, w.DB.HSet(w.Ctx, string(w.KeysOf(ref).Defs()), ref.String(), "17").Err())
	if _, err := w.Tasks.Begin(w.Ctx, ref, 1, "n#1"); !errors.Is(err, tasks.ErrLeftover) { // as the reply was lost
		t.Errorf("Begin: %v, want a leftover", err)
	}
	if got := w.Get(ref); got.State != task.Cancelled || got.Outcome != task.OutcomeCancelled {
		t.Errorf("it ended %s, %s", got.State, got.Outcome)
	}
}

// An attempt that began would run with nothing, or with what is no payload.
func TestBegin_FailsATaskThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		damage func(w *storetest.World, ref task.Ref) error
		reason string
	}{
		"a lost payload": {func(w *storetest.World, ref task.Ref) error {
			return w.DB.HDel(w.Ctx, string(w.KeysOf(ref).Payloads()), ref.String()).Err()
		}, "its payload is lost: Redis has the SHA-1 of a long payload, and not the payload; " +
			"while it waits, dtsctl task change ID --payload gives it another"},
		"a payload that is not JSON": {func(w *storetest.World, ref task.Ref) error {
			return w.DB.HSet(w.Ctx, string(w.KeysOf(ref).Payloads()), ref.String(), "{").Err()
		}, "its payload \"{\" is not JSON"},
		"a definition that is not JSON": {func(w *storetest.World, ref task.Ref) error {
			return w.DB.HSet(w.Ctx, string(w.KeysOf(ref).Defs()), ref.String(), "1767366245120{\"type\":\"noop\"\n{}").Err()
		}, "its definition cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := storetest.New(t)
			ref := task.Ref{Namespace: "default", ID: "a"}
			w.Create(task.Definition{Ref: ref, Payload: []byte(`"` + strings.Repeat("x", 2*task.InlinePayloadLimit) + `"`)})
			w.Claim(ref)
			testkit.Must(t, c.damage(w, ref))
			if _, err := w.Tasks.Begin(w.Ctx, ref, 1, "n#1"); !errors.Is(err, tasks.ErrLeftover) {
				t.Errorf("Begin: %v, want a leftover", err)
			}
			got := w.Get(ref)
			if got.State != task.Failed || !strings.HasPrefix(got.Error, c.reason) || got.Attempt != 1 {
				t.Errorf("%s after attempt %d, because %q; want it failed because %q", got.State, got.Attempt, got.Error, c.reason)
			}
		})
	}
}

// Who decodes payloads notices itself that one is no JSON. It does not get one that is lost.
func TestBegin_LeavesThePayloadToWhoDecodesIt(t *testing.T) {
	t.Parallel()
	for payload, handed := range map[string]bool{`{"to": "ada"`: true, `{"to": "ada"}`: true, "@0123456789": false} {
		w := storetest.New(t)
		ref := task.Ref{Namespace: "default", ID: "a"}
		w.Create(task.Definition{Ref: ref, Payload: []byte(`{}`)})
		w.Claim(ref)
		defs := string(w.KeysOf(ref).Defs())
		stored := strings.TrimSuffix(w.DB.HGet(w.Ctx, defs, ref.String()).Val(), "{}") + payload
		testkit.Must(t, w.DB.HSet(w.Ctx, defs, ref.String(), stored).Err())
		starts := []tasks.Start{{Ref: ref, Attempt: 1, Run: "n#1"}}
		begun := w.Tasks.BeginEach(w.Ctx, tasks.Runner{Node: "n", Decodes: true}, starts)[0]
		switch {
		case !handed && !errors.Is(begun.Err, tasks.ErrLeftover):
			t.Errorf("%s: %v, want a leftover", payload, begun.Err)
		case handed && (begun.Err != nil || string(begun.Run.Task.Payload) != payload):
			t.Errorf("%s: %+v, %v", payload, begun.Run, begun.Err)
		}
	}
}
