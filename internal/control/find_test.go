package control

import (
	"fmt"
	"slices"
	"testing"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// putIn stores a schedule in a namespace.
func (w *world) putIn(namespace, id string) {
	w.t.Helper()
	d := daily(func(d *schedule.Definition) { d.Ref = task.Ref{Namespace: namespace, ID: id} })
	_, err := w.PutSchedule(w.ctx, Caller{Namespace: namespace}, d, PutOptions{})
	testkit.Must(w.t, err)
}

// refsOf are the names of tasks.
func refsOf(tasks []task.Task) string {
	refs := []string{}
	for _, one := range tasks {
		refs = append(refs, one.Ref.String())
	}
	return fmt.Sprint(refs)
}

func TestFindTasks_LooksIntoAllNamespaces(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, namespace := range []string{"b", "a", "c"} {
		w.submit([]task.Definition{{Ref: task.Ref{Namespace: namespace, ID: "order"}, Type: "http"}})
	}
	w.submit([]task.Definition{{Ref: task.Ref{Namespace: "a", ID: "order-2"}, Type: "http"}})
	for id, want := range map[string]string{"order": "[a:order b:order c:order]", "order-2": "[a:order-2]", "orde": "[]"} {
		found, err := w.FindTasks(w.ctx, me, id, 3)
		testkit.Must(t, err)
		if got := refsOf(found.Tasks); got != want || found.More != 0 || found.Partly {
			t.Errorf("%s: %s, want %s; %d more, partly: %t", id, got, want, found.More, found.Partly)
		}
	}
	found, err := w.FindTasks(w.ctx, me, "order", 2)
	if got := refsOf(found.Tasks); err != nil || got != "[a:order b:order]" || found.More != 1 {
		t.Errorf("up to two: %s, %d more, %v", got, found.More, err)
	}
	if _, err := w.FindTasks(w.ctx, me, "no id", 2); task.CodeOf(err) != task.CodeInvalid {
		t.Errorf("what is no id: %v", err)
	}
}

func TestFindSchedules_TakesTheBeginningOfAnID(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, name := range []string{"b:night", "a:nightly", "a:nighttime", "a:nigh", "a:day"} {
		ref, err := task.ParseRef(name)
		testkit.Must(t, err)
		w.putIn(ref.Namespace, ref.ID)
	}
	for prefix, want := range map[string]string{
		"night": "[a:nightly a:nighttime b:night] false", "nightl": "[a:nightly] false", "x": "[] false",
		"n": "[a:nigh a:nightly a:nighttime] true", "no id:": "[] false",
	} {
		found, err := w.FindSchedules(w.ctx, me, prefix, 3)
		testkit.Must(t, err)
		if got := fmt.Sprint(found.Refs, found.More); got != want || found.Partly {
			t.Errorf("%s: %s, want %s; partly: %t", prefix, got, want, found.Partly)
		}
	}
	if _, err := w.FindSchedules(w.ctx, me, "", 3); task.CodeOf(err) != task.CodeInvalid {
		t.Errorf("without a prefix: %v", err)
	}
}

// Who asks for one task wants to know of all namespaces; who types an id, of those that were used last.
func TestFindTasks_LooksIntoSomeNamespaces(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	old := task.Ref{Namespace: "used-before", ID: "old"}
	w.submit([]task.Definition{{Ref: old, Type: "http"}, {Ref: task.Ref{Namespace: "n7", ID: "new"}, Type: "http"}})
	w.db.ZIncrBy(w.ctx, string(w.store.Keys.Namespaces()), -1e6, old.Namespace)
	var names []string
	for i := range taskNamespaces {
		names = append(names, fmt.Sprintf("n%d", i))
	}
	testkit.Must(t, w.store.NoteNamespaces(w.ctx, names))
	for id, want := range map[string]string{"old": "[]", "new": "[n7:new]"} {
		found, err := w.FindTasks(w.ctx, me, id, 10)
		testkit.Must(t, err)
		if got := refsOf(found.Tasks); got != want || !found.Partly {
			t.Errorf("%s: found %s, want %s; partly: %t", id, got, want, found.Partly)
		}
	}
	if got, err := w.GetTask(w.ctx, Caller{Namespace: EveryNamespace}, "old"); err != nil || got.Ref != old {
		t.Errorf("the one task: %s, %v", got.Ref, err)
	}
}

// A namespaces key that is damaged keeps no page from being made.
func TestFind_LeavesOutWhatIsDamaged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	testkit.Must(t, w.db.Set(w.ctx, string(w.store.Keys.Namespaces()), "no set", 0).Err())
	ctx, left := redisx.LeavingOut(w.ctx)
	_, err := w.FindTasks(ctx, me, "order", 10)
	_, err2 := w.FindSchedules(ctx, me, "order", 10)
	if err != nil || err2 != nil || len(left.Texts()) != 1 {
		t.Errorf("%v, %v; left out: %q", err, err2, left.Texts())
	}
	if _, err := w.FindTasks(w.ctx, me, "order", 10); task.CodeOf(err) != task.CodeUnreadable {
		t.Errorf("of who needs all: %v", err)
	}
}

func TestFindSchedules_LooksIntoSomeNamespaces(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.putIn("used-before", "nightly")
	w.db.ZIncrBy(w.ctx, string(w.store.Keys.Namespaces()), -1e6, "used-before")
	var names []string
	for i := range nameNamespaces {
		names = append(names, fmt.Sprintf("n%d", i))
	}
	testkit.Must(t, w.store.NoteNamespaces(w.ctx, names))
	w.putIn("n7", "night")
	found, err := w.FindSchedules(w.ctx, me, "night", 10)
	testkit.Must(t, err)
	if got := fmt.Sprint(found.Refs); got != "[n7:night]" || !found.Partly {
		t.Errorf("found %s, partly: %t", got, found.Partly)
	}
}

func TestLatestNamespaces_AreThoseUsedLast(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := string(w.store.Keys.Namespaces())
	for i := range LatestNamespacesLimit + 1 {
		testkit.Must(t, w.db.ZAdd(w.ctx, key, z(float64(i), fmt.Sprintf("n%02d", i))).Err())
	}
	for range 2 { // the second answer needs no Redis
		names, more, err := w.LatestNamespaces(w.ctx, me)
		testkit.Must(t, err)
		if len(names) != LatestNamespacesLimit || slices.Contains(names, "n00") || !slices.IsSorted(names) || !more {
			t.Errorf("%v, more: %t", names, more)
		}
		testkit.Must(t, w.db.Del(w.ctx, key).Err())
	}
}
