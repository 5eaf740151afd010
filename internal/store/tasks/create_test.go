package tasks_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func TestCreate_ReturnsWhatIsInRedis(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	jitter := 0.0
	def := task.Definition{
		Ref: task.Ref{Namespace: "shop", ID: "order-1"}, Type: "http", Queue: "critical",
		Payload: json.RawMessage(`{ "url": "http://x/" }`), Delay: time.Minute, Timeout: 3 * time.Second,
		Retry:     task.Retry{MaxAttempts: 3, Backoff: task.Backoff{Initial: time.Second, Factor: 3, Max: time.Hour, Jitter: &jitter}},
		Retention: time.Hour, Owner: "me", Labels: map[string]string{"b": "2", "a": "1"},
	}
	created := w.Create(def)
	got := w.Get(def.Ref)
	if diff := cmp.Diff(created, got); diff != "" {
		t.Errorf("the result is not what is in Redis (-result +redis):\n%s", diff)
	}
	if diff := cmp.Diff(def.Normalize(), got.Definition); diff != "" {
		t.Errorf("the definition changed (-want +got):\n%s", diff)
	}
	if string(got.Payload) != `{"url":"http://x/"}` || !got.DueAt.Equal(got.CreatedAt.Add(time.Minute)) {
		t.Errorf("payload %s, due %s after creation", got.Payload, got.DueAt.Sub(got.CreatedAt))
	}
}

func TestCreate_TheSameIDWithTheSameContentIsTheSameTask(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	def := task.Definition{Ref: task.Ref{Namespace: "default", ID: "once"}, Type: "http", Delay: time.Hour}
	w.Create(def)
	again := w.Tasks.Create(w.Ctx, []task.Definition{def})[0]
	if again.Err != nil || !again.Existed {
		t.Errorf("existed %v, error %v", again.Existed, again.Err)
	}
	other := def
	other.Owner = "another"
	if c := w.Tasks.Create(w.Ctx, []task.Definition{other})[0]; task.CodeOf(c.Err) != task.CodeTaskConflict {
		t.Errorf("other content: %v, want a conflict", c.Err)
	}
	testkit.Must(t, w.Requeue(w.Get(def.Ref).Definition, "slow", 0))
	if c := w.Tasks.Create(w.Ctx, []task.Definition{def})[0]; c.Err != nil || c.Task.Queue != "slow" {
		t.Errorf("after a change, the first submission repeated: queue %q, error %v", c.Task.Queue, c.Err)
	}
}

// A failover may lose the task, or somebody may delete it, between the answer that it exists and the look at it.
func TestCreate_ATaskThatIsGoneWhenItIsReadIsCreatedAgain(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	after := make(map[string]func()) // by the name of a script
	db, err := redisx.Open(t.Context(), redisx.Options{URL: server.URL(), Observe: func(script string, _ time.Duration, _ string) {
		if f := after[script]; f != nil {
			f()
		}
	}})
	testkit.Must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	w := storetest.On(t, db)
	d := task.Definition{Ref: task.Ref{Namespace: "default", ID: "a"}, Type: "http"}
	w.Create(d)
	remove := func() {
		testkit.Must(t, db.Del(t.Context(), string(w.KeysOf(d.Ref).Defs()), string(w.KeysOf(d.Ref).Wheel())).Err())
	}
	after["create"] = func() { delete(after, "create"); remove() }
	if got := w.Tasks.Create(w.Ctx, []task.Definition{d})[0]; got.Err != nil || got.Existed || w.Get(d.Ref).State != task.Scheduled {
		t.Errorf("got %+v, want a new task", got)
	}
	other := storetest.On(t, server.DB(t))
	after["create"], after["read_tasks"] = remove, func() { other.Create(d) }
	if got := w.Tasks.Create(w.Ctx, []task.Definition{d})[0]; task.CodeOf(got.Err) != task.CodeUnavailable {
		t.Errorf("if it is gone again: %v, want CodeUnavailable", got.Err)
	}
}

func TestCreate_ATimeInThePastMeansNow(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	ref := task.Ref{Namespace: "default", ID: "a"}
	created := w.Create(task.Definition{Ref: ref, RunAt: time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)})
	if !created.DueAt.Equal(created.CreatedAt) {
		t.Errorf("due %s, created %s", created.DueAt, created.CreatedAt)
	}
	if got := w.Claim(ref); len(got) != 1 || !got[0].DueAt.Equal(created.CreatedAt) {
		t.Errorf("claimed %v", got)
	}
	if got := w.Get(ref); !got.DueAt.Equal(created.CreatedAt) {
		t.Errorf("it was due %s, want %s", got.DueAt, created.CreatedAt)
	}
}

// The payload of the first definition is long and gone: what is kept of that definition is its SHA-1.
func TestCreate_AChangedTaskWithALongPayloadIsStillTheSameTask(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	def := task.Definition{
		Ref: task.Ref{Namespace: "shop", ID: "long"}, Type: "http", Delay: time.Hour,
		Payload: json.RawMessage(`"` + strings.Repeat("x", 2*task.InlinePayloadLimit) + `"`),
	}
	before := w.Create(def).Definition
	after := before
	after.Payload = json.RawMessage(`"short"`)
	_, err := w.Tasks.Change(w.Ctx, before, after, tasks.NewDue{}, 0)
	testkit.Must(t, err)
	testkit.Must(t, w.Requeue(after, "other", 0))
	if again := w.Tasks.Create(w.Ctx, []task.Definition{def})[0]; again.Err != nil || !again.Existed {
		t.Errorf("submitted again: existed is %v, %v", again.Existed, again.Err)
	}
	def.Payload = json.RawMessage(`"` + strings.Repeat("y", 2*task.InlinePayloadLimit) + `"`)
	if other := w.Tasks.Create(w.Ctx, []task.Definition{def})[0]; task.CodeOf(other.Err) != task.CodeTaskConflict {
		t.Errorf("submitted with another payload: %v", other.Err)
	}
}

// rewrite replaces a part of the stored definition of a task, as another release may have written it.
func rewrite(w *storetest.World, t *testing.T, ref task.Ref, old, instead string) {
	t.Helper()
	defs := string(w.KeysOf(ref).Defs())
	record := w.DB.HGet(w.Ctx, defs, ref.String()).Val()
	if !strings.Contains(record, old) {
		t.Fatalf("%q is not in %s", old, record)
	}
	testkit.Must(t, w.DB.HSet(w.Ctx, defs, ref.String(), strings.Replace(record, old, instead, 1)).Err())
}

// Nodes of two releases answer a repeat alike, whichever of them has stored the task.
func TestCreate_ComparesTheContentAndNotHowAReleaseWritesIt(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	for name, payload := range map[string]string{"short": `{"n":1}`, "long": `"` + strings.Repeat("x", 2*task.InlinePayloadLimit) + `"`} {
		def := task.Definition{
			Ref: task.Ref{Namespace: "default", ID: name}, Type: "http", Delay: time.Hour, Owner: "me", Payload: json.RawMessage(payload),
		}
		w.Create(def)
		rewrite(w, t, def.Ref, `"delay":3600000,"owner":"me"`, `"owner":"me","priority":0,"delay":3600000,"steps":[]`)
		other := def
		other.Owner = "another"
		for _, create := range []func(context.Context, []task.Definition) []tasks.Created{w.Tasks.Create, w.Tasks.Preview} {
			if again := create(w.Ctx, []task.Definition{def})[0]; again.Err != nil || !again.Existed || again.Task.Owner != "me" || string(again.Task.Payload) != payload {
				t.Errorf("%s, submitted again: existed is %v, %v: %+v", name, again.Existed, again.Err, again.Task)
			}
			if got := create(w.Ctx, []task.Definition{other})[0]; task.CodeOf(got.Err) != task.CodeTaskConflict {
				t.Errorf("%s, submitted with other content: %+v", name, got)
			}
		}
		rewrite(w, t, def.Ref, `"priority":0`, `"priority":5`)
		if got := w.Tasks.Create(w.Ctx, []task.Definition{def})[0]; task.CodeOf(got.Err) != task.CodeTaskConflict {
			t.Errorf("%s, stored with what this release knows nothing of: %+v", name, got)
		}
	}
}
