package schedules_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/layout"
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
	for _, limit := range []int{1, 5, 100} {
		got := listAll(t, w, limit)
		if len(got) != len(want)+1 || got[0] != "default2/nightly" || got[1] != "default/"+want[0] {
			t.Errorf("of all namespaces, limit %d: %v", limit, got)
		}
	}
	filter := schedules.Filter{Labels: map[string]string{"odd": "1"}, Paused: new(true)}
	if got := list(filter, 2); !slices.Equal(got, []string{"s03", "s09", "s15", "s21"}) {
		t.Errorf("filtered: %v", got)
	}
}

// listAll lists the schedules of all namespaces, page by page.
func listAll(t *testing.T, w *storetest.World, limit int) (names []string) {
	t.Helper()
	for cursor := ""; ; {
		page, err := w.Schedules.List(w.Ctx, schedules.Filter{Namespace: "*"}, limit, cursor)
		testkit.Must(t, err)
		for _, s := range page.Schedules {
			names = append(names, s.Namespace+"/"+s.ID)
		}
		if cursor = page.NextCursor; cursor == "" {
			return names
		}
	}
}

func TestList_ReadsManyNamesAtOnceWhenNothingMatches(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	for i := range 40 {
		w.Put(storetest.Daily(func(d *schedule.Definition) { d.ID = fmt.Sprintf("s%02d", i) }))
	}
	filter := schedules.Filter{Namespace: "default", Owner: "nobody"}
	testkit.Must(t, w.DB.ConfigResetStat(w.Ctx).Err())
	page, err := w.Schedules.List(w.Ctx, filter, 1, "")
	if len(page.Schedules) > 0 || page.NextCursor != "" || err != nil {
		t.Errorf("got %+v, %v", page, err)
	}
	stats := w.DB.InfoMap(w.Ctx, "commandstats").Val()["Commandstats"]["cmdstat_zrangebylex"]
	if !strings.HasPrefix(stats, "calls=4,") { // of two partitions, for one name and then for the others
		t.Errorf("names were read with %s", stats)
	}
}

func TestList_EndsAPageOfSchedulesThatTakesLong(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	const count = layout.ReadChunk + 10
	for i := range count {
		w.Put(storetest.Daily(func(d *schedule.Definition) { d.ID = fmt.Sprintf("s%02d", i) }))
	}
	w.PageTime = 0 // all takes too long
	seen, pages := make(map[string]bool), 0
	for cursor := ""; pages == 0 || cursor != ""; pages++ {
		page, err := w.Schedules.List(w.Ctx, schedules.Filter{Namespace: "default"}, 500, cursor)
		testkit.Must(t, err)
		for _, s := range page.Schedules {
			seen[s.ID] = true
		}
		cursor = page.NextCursor
	}
	if len(seen) != count || pages != 6 { // of ten each, as the first portion of a page
		t.Errorf("%d schedules in %d pages, want %d in 6", len(seen), pages, count)
	}
}

func TestList_EndsAPageOfLargeSchedulesEarly(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	const count = 30
	payload := json.RawMessage(`"` + strings.Repeat("x", task.PayloadLimit-2) + `"`)
	for i := range count {
		w.Put(storetest.Daily(func(d *schedule.Definition) { d.ID, d.Task.Payload = fmt.Sprintf("s%02d", i), payload }))
	}
	seen := 0
	for cursor := ""; ; {
		page, err := w.Schedules.List(w.Ctx, schedules.Filter{Namespace: "default"}, 500, cursor)
		testkit.Must(t, err)
		seen += len(page.Schedules)
		if bytes := len(page.Schedules) * task.PayloadLimit; bytes > layout.PageBytes+task.PayloadLimit {
			t.Errorf("%d bytes in one page", bytes)
		}
		if cursor = page.NextCursor; cursor == "" {
			break
		}
	}
	if seen != count {
		t.Errorf("%d of %d schedules", seen, count)
	}
}

func TestHistoryPage_EndsEarlyAndLosesNone(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	const count = 20
	for i := range count {
		payload := json.RawMessage(fmt.Sprintf(`"%02d%s"`, i, strings.Repeat("x", task.PayloadLimit-4)))
		w.Put(storetest.Daily(func(d *schedule.Definition) { d.Task.Payload = payload }))
	}
	ref := storetest.Nightly
	var numbers []int
	for before, more := count, true; more; {
		var page []schedule.Revision
		var err error
		page, more, err = w.Schedules.HistoryPage(w.Ctx, ref, count, before)
		testkit.Must(t, err)
		if bytes := len(page) * task.PayloadLimit; bytes > layout.PageBytes+task.PayloadLimit {
			t.Errorf("%d bytes in one page", bytes)
		}
		for _, r := range page {
			numbers, before = append(numbers, r.Number), r.Number
		}
	}
	if len(numbers) != count-1 || numbers[0] != count-1 || numbers[count-2] != 1 {
		t.Errorf("revisions %v, want %d to 1", numbers, count-1)
	}
}
