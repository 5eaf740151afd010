package tasks_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
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

// stateless are tasks whose state is lost, or that nobody can read.
var stateless = map[string]struct {
	prepare func(w *storetest.World, ref task.Ref) // before the damage
	state   string                                 // what the state is then; "" for none
	damage  string                                 // what a reader is told
}{
	"succeeded, without its state": {succeed, "", "its state is lost"},
	"failed, without its state":    {fail, "", "its state is lost"},
	"running, without its state":   {func(w *storetest.World, ref task.Ref) { w.Begin(ref) }, "", "its state is lost"},
	"queued, without its state":    {func(w *storetest.World, ref task.Ref) { w.Claim(ref) }, "", "its state is lost"},
	"succeeded, as queued x":       {succeed, "queued x", `its state "queued x"`},
	"succeeded, as scheduled x":    {succeed, "scheduled x", `its state "scheduled x"`},
	"succeeded, as running":        {succeed, "running", `its state "running"`},
	"waiting, as scheduled x":      {func(*storetest.World, task.Ref) {}, "scheduled -1", `its state "scheduled -1"`},
}

func succeed(w *storetest.World, ref task.Ref) {
	_ = w.Begin(ref).Finish(w.Ctx, task.Succeeded, task.OutcomeSucceeded, `"paid"`, "")
}

func fail(w *storetest.World, ref task.Ref) {
	_ = w.Begin(ref).Finish(w.Ctx, task.Failed, task.OutcomeFailed, "", "boom")
}

// A task that may have run must not run again, nor become cancelled, only because its state is lost: it is refused, and
// nothing is written.
func TestTask_IsRefusedWithoutAState(t *testing.T) {
	t.Parallel()
	for name, c := range stateless {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := storetest.New(t)
			ref := task.Ref{Namespace: "default", ID: "a"}
			before := w.Create(task.Definition{Ref: ref}).Definition
			c.prepare(w, ref)
			states := string(w.KeysOf(ref).States())
			testkit.Must(t, w.DB.HDel(w.Ctx, states, ref.String()).Err())
			if c.state != "" {
				testkit.Must(t, w.DB.HSet(w.Ctx, states, ref.String(), c.state).Err())
			}
			kept := redistest.Dump(t, w.DB)
			if got := w.Get(ref); got.State != task.Unreadable || !strings.HasPrefix(got.Damage, c.damage) {
				t.Errorf("it is %s, with the damage %q", got.State, got.Damage)
			}
			if _, err := w.Tasks.Cancel(w.Ctx, ref, ""); task.CodeOf(err) != task.CodeUnreadable {
				t.Errorf("Cancel: %v", err)
			}
			if _, err := w.Tasks.Retry(w.Ctx, ref); task.CodeOf(err) != task.CodeUnreadable {
				t.Errorf("Retry: %v", err)
			}
			if c.state == "" {
				if err := w.Requeue(before, "other", 0); task.CodeOf(err) != task.CodeNotWaiting {
					t.Errorf("Change: %v", err)
				}
			}
			if diff := cmp.Diff(kept, redistest.Dump(t, w.DB)); diff != "" {
				t.Errorf("Redis is changed (-before +after):\n%s", diff)
			}
		})
	}
}

// What was never claimed has no state. It can be changed and cancelled wherever it waits.
func TestTask_NeedsNoStateWhileItWaits(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	for _, ready := range []string{"", "default", "default noop", lua.Unnamed} {
		ref := task.Ref{Namespace: "default", ID: "a" + strconv.Itoa(len(ready))}
		before := w.Create(task.Definition{Ref: ref, Type: "noop", Delay: time.Hour}).Definition
		if k := w.KeysOf(ref); ready != "" {
			testkit.Must(t, w.DB.ZRem(w.Ctx, string(k.Wheel()), ref.String()).Err())
			testkit.Must(t, w.DB.ZAdd(w.Ctx, string(k.Ready(ready)), redis.Z{Score: 1, Member: ref.String()}).Err())
		}
		if got := w.Get(ref); got.State != task.Scheduled || got.Damage != "" {
			t.Errorf("under %q: it is %s, with the damage %q", ready, got.State, got.Damage)
		}
		testkit.Must(t, w.Requeue(before, "other", 0))
		got, err := w.Tasks.Cancel(w.Ctx, ref, "")
		if err != nil || got.State != task.Cancelled {
			t.Errorf("under %q: cancelled, it is %s, %v", ready, got.State, err)
		}
	}
}

// A set of the wrong type does not tell who waits there. It is no reason to take those for lost that nothing says were
// claimed.
func TestTask_MayWaitInASetThatIsDamaged(t *testing.T) {
	t.Parallel()
	for _, ready := range []string{"default", "default noop", lua.Unnamed} {
		w := storetest.New(t)
		waits, ended := task.Ref{Namespace: "default", ID: "a"}, w.Bring("b", task.Succeeded)
		before := w.Create(task.Definition{Ref: waits, Type: "noop"}).Definition
		testkit.Must(t, w.DB.ZRem(w.Ctx, string(w.KeysOf(waits).Wheel()), waits.String()).Err())
		for _, ref := range []task.Ref{waits, ended} {
			testkit.Must(t, w.DB.HDel(w.Ctx, string(w.KeysOf(ref).States()), ref.String()).Err())
			testkit.Must(t, w.DB.Set(w.Ctx, string(w.KeysOf(ref).Ready(ready)), "garbage", 0).Err())
		}
		if got := w.Get(waits); got.State != task.Scheduled || got.Damage != "" || got.DueAt.IsZero() {
			t.Errorf("%q: the one that waits is %s, due at %s, with the damage %q", ready, got.State, got.DueAt, got.Damage)
		}
		if got := w.Get(ended); got.State != task.Unreadable {
			t.Errorf("%q: the one that ended is %s", ready, got.State)
		}
		if _, err := w.Tasks.Cancel(w.Ctx, ended, ""); task.CodeOf(err) != task.CodeUnreadable {
			t.Errorf("%q: cancel of the one that ended: %v", ready, err)
		}
		testkit.Must(t, w.Requeue(before, "other", 0))
		if got, err := w.Tasks.Cancel(w.Ctx, waits, ""); err != nil || got.State != task.Cancelled {
			t.Errorf("%q: cancelled, it is %s, %v", ready, got.State, err)
		}
	}
}

// Whoever asks for one task is told which key is damaged.
func TestGet_NamesTheKeyOfStatesThatIsNone(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	ref := task.Ref{Namespace: "default", ID: "a"}
	w.Create(task.Definition{Ref: ref})
	kind, _ := contract.KindOf("states")
	key := storetest.KeyOf(t, kind, w.PartitionOf(ref), "")
	storetest.Spoil(t, w.DB, kind, key)
	ctx, _ := redisx.LeavingOut(w.Ctx)
	got, err := w.Tasks.Get(ctx, ref)
	want := "its state cannot be read: the key " + key + " has the wrong type"
	if err != nil || got.State != task.Unreadable || got.Damage != want {
		t.Errorf("it is %s with the damage %q, %v; want %q", got.State, got.Damage, err, want)
	}
}
