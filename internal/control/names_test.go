package control

import (
	"errors"
	"fmt"
	"testing"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestSubmit_RefusesFurtherNamesThatNobodyServes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.nodes = fleet{aNode("alive", []string{"http"}, "default")}
	list := func(n int) {
		names := []any{"default waits", "waits"}
		for i := len(names); i < n; i++ {
			names = append(names, fmt.Sprint("queue", i))
		}
		for p := range w.store.Partitions.Count() {
			testkit.Must(t, w.db.SAdd(w.ctx, fmt.Sprintf("dts:{%d}:backlog", p), names...).Err())
		}
		w.fullNames = fullNames{}
	}
	for _, c := range []struct {
		names       int
		what        string
		taskType    string
		queue       string
		want, field string
	}{
		{task.WaitingNamesLimit - 1, "a type that nobody runs", "other", "", "", ""},
		{task.WaitingNamesLimit, "a type that nobody runs", "other", "", "too_many_names", "type"},
		{task.WaitingNamesLimit, "a queue that nobody serves", "http", "other", "too_many_names", "queue"},
		{task.WaitingNamesLimit, "what is served", "http", "default", "", ""},
		{task.WaitingNamesLimit, "a type of which tasks wait", "waits", "", "", ""},
		{task.WaitingNamesLimit, "a queue of which tasks wait", "other", "waits", "", ""},
	} {
		list(c.names)
		d := task.Definition{Type: c.taskType, Queue: c.queue}
		_, err := w.Submit(w.ctx, me, d)
		preview, failed := w.PreviewEach(w.ctx, me, []task.Definition{d})
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
	}
}
