package schedules_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/schedules"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestList_LosesNoScheduleBetweenPages(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	var want []string
	for i := range 23 {
		id := fmt.Sprintf("s%02d", i)
		w.Put(storetest.Daily(func(d *schedule.Definition) {
			d.ID, d.Labels = id, map[string]string{"odd": fmt.Sprint(i % 2)}
		}))
		if i%3 == 0 {
			w.Pause(task.Ref{Namespace: "default", ID: id})
		}
		want = append(want, id)
	}
	w.Put(storetest.Daily(func(d *schedule.Definition) { d.Namespace = "default2" }))
	list := func(f schedules.Filter, limit int) []string {
		f.Namespace = "default"
		var ids []string
		for cursor := ""; ; {
			page, err := w.Schedules.List(w.Ctx, f, limit, cursor)
			testkit.Must(t, err)
			for _, s := range page.Schedules {
				ids = append(ids, s.ID)
			}
			if cursor = page.NextCursor; cursor == "" {
				return ids
			}
		}
	}
	for _, limit := range []int{1, 4, 23, 100} {
		if diff := cmp.Diff(want, list(schedules.Filter{}, limit)); diff != "" {
			t.Errorf("limit %d (-want +got):\n%s", limit, diff)
		}
	}
	filter := schedules.Filter{Labels: map[string]string{"odd": "1"}, Paused: new(true)}
	if got := list(filter, 2); !slices.Equal(got, []string{"s03", "s09", "s15", "s21"}) {
		t.Errorf("filtered: %v", got)
	}
}
