package control

import (
	"cmp"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/fresh"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua/contract"
)

// fillNames has tasks of a namespace wait under n names in each partition. Others are "default waits" and "waits".
func (w *world) fillNames(namespace string, n int) {
	w.t.Helper()
	pipe := w.db.Pipeline()
	for p := range w.store.Partitions.Count() {
		k := w.store.Keys.Partition(p)
		for i, name := range append([]string{"default waits", "waits"}, make([]string, n-2)...) {
			name = cmp.Or(name, fmt.Sprint(namespace, i))
			pipe.SAdd(w.ctx, string(k.Backlog()), name)
			pipe.ZAdd(w.ctx, string(k.Ready(name)), z(1, fmt.Sprint(namespace, ":", i)))
		}
	}
	_, err := pipe.Exec(w.ctx)
	testkit.Must(w.t, err)
	w.crowdedNames = fresh.Value[map[int]layout.WaitingNames]{}
}

func TestSubmit_RefusesFurtherNamesThatNobodyServes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.nodes = fleet{aNode("alive", []string{"http"}, "default")}
	unserved := task.Definition{Ref: task.Ref{ID: "there"}, Type: "other"}
	w.submit([]task.Definition{unserved})
	const half = contract.WaitingNamesLimit / 2
	again, changed := unserved, unserved
	changed.Payload = []byte("1")
	for _, c := range []struct {
		what        string
		names       int
		who         string
		d           task.Definition
		want, field string
	}{
		{"a type that nobody runs, as one may", half - 1, "default", task.Definition{Type: "other"}, "", ""},
		{"a type that nobody runs", half, "default", task.Definition{Type: "other"}, "too_many_names", "type"},
		{"a queue that nobody serves", half, "default", task.Definition{Type: "http", Queue: "other"},
			"too_many_names", "queue"},
		{"what is served", half, "default", task.Definition{Type: "http", Queue: "default"}, "", ""},
		{"a type of which tasks wait", half, "default", task.Definition{Type: "waits"}, "", ""},
		{"a queue of which tasks wait", half, "default", task.Definition{Type: "other", Queue: "waits"}, "", ""},
		{"another namespace", half, "mine", task.Definition{Type: "other"}, "", ""},
		{"the same task again", half, "default", again, "", ""},
		{"another task of that name", half, "default", changed, "task_conflict", ""},
		{"what is due soon", half, "default", task.Definition{Type: "other", Delay: time.Second}, "too_many_names", "type"},
		{"what is due later", half, "default", task.Definition{Type: "other", Delay: time.Hour}, "", ""},
	} {
		w.fillNames("default", c.names)
		who := Caller{Namespace: c.who}
		answer, err := w.Submit(w.ctx, who, c.d)
		preview, failed := w.PreviewEach(w.ctx, who, []task.Definition{c.d})
		testkit.Must(t, failed)
		for _, err := range []error{err, preview[0].Err} {
			var refused *task.Error
			var code, field string
			if errors.As(err, &refused) {
				code, field = string(refused.Code), refused.Field
			}
			if code != c.want || field != c.field {
				t.Errorf("%s, with %d names: %v, want %q for %q", c.what, c.names, err, c.want, c.field)
			}
		}
		if c.d.ID == "there" && err == nil && !answer.Existed {
			t.Errorf("%s is a new task", c.what)
		}
	}
}
