package control

import (
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
)

// namespaces are those recorded, by name.
func (w *world) namespaces() []layout.Namespace {
	w.t.Helper()
	found, err := w.store.Namespaces(w.ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	return found
}

func TestSubmit_RecordsTheNamespacesOfWhatWasAccepted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := time.Now().Add(-time.Second)
	_, err := w.SubmitEach(w.ctx, Caller{Namespace: "a"}, []task.Definition{
		{Type: "http"}, {Ref: task.Ref{Namespace: "b"}, Type: "http"}, {Ref: task.Ref{Namespace: "refused"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	d := daily(nil)
	d.Namespace = "c"
	if _, err := w.PutSchedule(w.ctx, Caller{Namespace: "c"}, d, PutOptions{DryRun: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.PutSchedule(w.ctx, Caller{Namespace: "d"}, daily(func(d *schedule.Definition) { d.Namespace = "d" }), PutOptions{}); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, n := range w.namespaces() {
		names = append(names, n.Name)
		if n.LastSubmittedAt.Before(before) {
			t.Errorf("%s was last used at %s", n.Name, n.LastSubmittedAt)
		}
	}
	if got := len(names); got != 3 || names[0] != "a" || names[1] != "b" || names[2] != "d" {
		t.Errorf("recorded %v, want [a b d]", names)
	}
}

func TestSubmit_RecordsANamespaceOnceAMinute(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 2 {
		if _, err := w.Submit(w.ctx, me, task.Definition{Type: "http"}); err != nil {
			t.Fatal(err)
		}
		if n := len(w.namespaces()); n != 1 {
			t.Fatalf("%d namespaces are recorded", n)
		}
	}
	if err := w.db.Del(w.ctx, string(w.store.Keys.Namespaces())).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Submit(w.ctx, me, task.Definition{Type: "http"}); err != nil {
		t.Fatal(err)
	}
	if n := len(w.namespaces()); n != 0 {
		t.Error("it was recorded again within a minute")
	}
}
