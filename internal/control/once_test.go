package control

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/why"
)

// newKnowing is a world in which all nodes know keys.
func newKnowing(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	testkit.Must(t, w.store.Advance(w.ctx, func(context.Context) ([]cluster.Node, error) { return nil, nil }))
	return w
}

// withKey is a submission with a key, which has that name within it.
func withKey(name string, o task.Once) task.Definition {
	o.Key = "mine"
	return task.Definition{Ref: task.Ref{ID: name}, Type: "http", Once: &o}
}

// A task with a key that waits for another one says so, and only its payload and its queue can be changed.
func TestWhyTask_TellsOfAnotherOneWithTheKey(t *testing.T) {
	t.Parallel()
	w := newKnowing(t)
	var counted []string
	w.keyed = func(mode task.OnceMode, o task.OnceOutcome) { counted = append(counted, string(mode)+" "+string(o)) }
	w.nodes = fleet{worker("node", 0, nil, "default")}
	latest := task.Once{Mode: task.OnceLatest}
	first, err := w.Submit(w.ctx, me, withKey("a", latest))
	testkit.Must(t, err)
	w.begun(first.Task.Ref)
	second, err := w.Submit(w.ctx, me, withKey("b", latest))
	testkit.Must(t, err)
	if second.Task.ID != "mine@kb" || second.Once.Outcome != task.OnceDelayed || second.Once.After != "mine@ka" {
		t.Errorf("%s is %+v", second.Task.ID, second.Once)
	}
	if diff := cmp.Diff([]string{"latest created", "latest delayed"}, counted); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
	if r := w.expectTask("mine@kb", why.SameKey); !strings.Contains(r.Detail, "mine@ka") {
		t.Errorf("it says %q", r.Detail)
	}
	if got, err := w.GetTask(w.ctx, me, "mine@kb"); err != nil || got.After != "mine@ka" || !got.WaitsForAnother() {
		t.Errorf("it waits for %q, %v", got.After, err)
	}
	if got, err := w.GetTask(w.ctx, me, "mine@ka"); err != nil || got.After != "" || got.WaitsForAnother() {
		t.Errorf("the first one waits for %q, %v", got.After, err)
	}
	changed, err := w.ChangeTask(w.ctx, me, "mine@kb", TaskChange{Payload: json.RawMessage(`{"n":1}`)})
	if err != nil || string(changed.Payload) != `{"n":1}` || changed.DueAt.Before(time.Now().Add(time.Hour)) {
		t.Errorf("the changed task is %+v, %v", changed, err)
	}
	now := time.Duration(0)
	if _, err := w.ChangeTask(w.ctx, me, "mine@kb", TaskChange{Delay: &now}); err != nil {
		t.Errorf("no delay: %v", err)
	}
	later := time.Minute
	_, err = w.ChangeTask(w.ctx, me, "mine@kb", TaskChange{Delay: &later})
	if task.CodeOf(err) != task.CodeInvalid || !strings.Contains(err.Error(), "leave out delay and run_at") {
		t.Errorf("a time of its own: %v", err)
	}
}

// Of a batch, each submission knows what became of those before it; the names of tasks follow from the key.
func TestSubmitEach_DecidesAboutAKeyInOrder(t *testing.T) {
	t.Parallel()
	w := newKnowing(t)
	singleton := task.Once{Mode: task.OnceSingleton}
	answers := w.submit([]task.Definition{withKey("a", singleton), withKey("", singleton), {Type: "http"}})
	for i, want := range []task.OnceOutcome{task.OnceCreated, task.OnceExisting, ""} {
		if got := answers[i]; got.Err != nil || got.Once.Outcome != want || want != "" && got.Task.ID != "mine@ka" {
			t.Errorf("%d: %s is %+v, %v", i, got.Task.ID, got.Once, got.Err)
		}
	}
	other := withKey("a", singleton)
	other.Owner = "ann"
	if _, err := w.Submit(w.ctx, me, other); task.CodeOf(err) != task.CodeTaskConflict {
		t.Errorf("the same id with other content: %v", err)
	}
	if got, err := w.Submit(w.ctx, me, withKey("a", singleton)); err != nil || !got.Existed {
		t.Errorf("a repetition: %+v, %v", got, err)
	}
}
