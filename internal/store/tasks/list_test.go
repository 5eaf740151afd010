package tasks_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// createAll creates tasks in one call.
func createAll(t *testing.T, w *storetest.World, defs []task.Definition) {
	t.Helper()
	for _, c := range w.Tasks.Create(w.Ctx, defs) {
		testkit.Must(t, c.Err)
	}
}

// readPages reads all pages of a list.
func readPages(t *testing.T, w *storetest.World, f tasks.Filter, limit int) []tasks.Page {
	t.Helper()
	var pages []tasks.Page
	for cursor := ""; ; {
		page, err := w.Tasks.List(w.Ctx, f, limit, cursor)
		testkit.Must(t, err)
		pages = append(pages, page)
		if cursor = page.NextCursor; cursor == "" {
			return pages
		}
	}
}

func TestList_ShowsTheNewestFirstAndLosesNoneBetweenPages(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	var defs []task.Definition
	due := time.Now().Add(time.Hour).UTC()
	for i := range 230 {
		d := task.Definition{Ref: task.Ref{ID: fmt.Sprintf("t%03d", i)}, Type: "http", RunAt: due} // all with one score
		if i%3 == 0 {
			d.Owner = "me"
		}
		defs = append(defs, d)
	}
	defs = append(defs, task.Definition{Ref: task.Ref{ID: "elsewhere", Namespace: "other"}, Type: "http", RunAt: due})
	createAll(t, w, defs)
	for _, f := range []tasks.Filter{
		{Namespace: "default"}, {Namespace: "default", Owner: "me"},
		{Namespace: "default", States: []task.State{task.Scheduled}},
	} {
		var got, want []string
		for _, page := range readPages(t, w, f, 7) {
			for _, listed := range page.Tasks {
				got = append(got, listed.ID)
			}
		}
		for i := 229; i >= 0; i-- {
			if f.Owner == "" || i%3 == 0 {
				want = append(want, fmt.Sprintf("t%03d", i))
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", f, diff)
		}
	}
}

func TestList_RefusesAnInvalidCursor(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	_, err := w.Tasks.List(w.Ctx, tasks.Filter{Namespace: "default"}, 7, "nonsense!")
	if task.CodeOf(err) != task.CodeInvalid {
		t.Errorf("got %v, want CodeInvalid", err)
	}
}

func TestList_EndsAPageOfLargeTasksEarlyAndLosesNone(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := storetest.New(t)
	const count = layout.ReadChunk + 10
	payload := longPayload("x")
	var defs []task.Definition
	for i := range count {
		ref := task.Ref{ID: fmt.Sprintf("t%02d", i)}
		defs = append(defs, task.Definition{Ref: ref, Type: "http", Payload: payload, Delay: time.Hour})
	}
	createAll(t, w, defs)
	seen := map[string]bool{}
	pages := readPages(t, w, tasks.Filter{Namespace: "default"}, 500)
	for _, page := range pages {
		bytes := 0
		for _, listed := range page.Tasks {
			seen[listed.ID] = true
			bytes += len(listed.Payload)
		}
		if bytes > layout.PageBytes+task.PayloadLimit {
			t.Errorf("%d tasks of %d bytes in all in one page", len(page.Tasks), bytes)
		}
	}
	if len(seen) != count || len(pages) < 2 {
		t.Errorf("%d of %d tasks in %d pages", len(seen), count, len(pages))
	}
}

// Each byte of these results takes six in an answer.
func TestList_CountsTextAsItIsAnswered(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := storetest.New(t)
	const count = layout.PageBytes/(6*task.ResultLimit) + 10
	for i := range count {
		ref := w.Create(task.Definition{Ref: task.Ref{Namespace: "default", ID: fmt.Sprint("t", i)}}).Ref
		result := strings.Repeat("\x01", task.ResultLimit)
		testkit.Must(t, w.Begin(ref).Finish(w.Ctx, task.Succeeded, task.OutcomeSucceeded, result, ""))
	}
	pages := readPages(t, w, tasks.Filter{Namespace: "default"}, 500)
	if len(pages) != 2 || len(pages[0].Tasks)+len(pages[1].Tasks) != count {
		t.Errorf("%d pages, the first has %d of %d tasks", len(pages), len(pages[0].Tasks), count)
	}
}

// What a filter leaves out is not sent: payloads are long.
func TestList_MovesNoPayloadsToFilter(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	payload := longPayload("x")
	short := json.RawMessage(`"` + strings.Repeat("x", task.InlinePayloadLimit-2) + `"`)
	var defs []task.Definition
	for i := range 20 {
		defs = append(defs,
			task.Definition{Ref: task.Ref{ID: fmt.Sprint("long", i)}, Type: "http", Payload: payload, Delay: time.Hour},
			task.Definition{Ref: task.Ref{ID: fmt.Sprint("short", i)}, Type: "http", Payload: short, Delay: time.Hour})
	}
	mine := task.Definition{Ref: task.Ref{ID: "mine"}, Type: "http", Payload: short, Owner: "me", Delay: time.Hour}
	defs = append(defs, mine)
	createAll(t, w, defs)
	before := sent(t, w)
	page, err := w.Tasks.List(w.Ctx, tasks.Filter{Namespace: "default", Owner: "me"}, 10, "")
	if err != nil || len(page.Tasks) != 1 || string(page.Tasks[0].Payload) != string(short) {
		t.Fatalf("%d tasks, %v", len(page.Tasks), err)
	}
	if n := sent(t, w) - before; n > 15*task.InlinePayloadLimit {
		t.Errorf("Redis sent %d bytes for one task with a payload of %d", n, len(short))
	}
}

// A brief list with errors has these, and moves neither payloads nor results.
func TestList_MovesNoPayloadsForErrors(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	for i := range 5 {
		ref := w.Create(task.Definition{Ref: task.Ref{ID: fmt.Sprint("t", i)}, Payload: longPayload("x")}).Ref
		result := strings.Repeat("y", task.ResultLimit)
		testkit.Must(t, w.Begin(ref).Finish(w.Ctx, task.Failed, task.OutcomeFailed, result, "it is broken"))
	}
	w.Create(task.Definition{Ref: task.Ref{ID: "new"}, Payload: longPayload("x")})
	gone := w.Create(task.Definition{Ref: task.Ref{ID: "gone"}, Payload: longPayload("x")}).Ref
	_, err := w.Tasks.Cancel(w.Ctx, gone, "ann")
	testkit.Must(t, err)
	why := map[task.State]string{task.Failed: "it is broken", task.Cancelled: "cancelled by ann"}
	before := sent(t, w)
	page, err := w.Tasks.List(w.Ctx, tasks.Filter{Namespace: "default", Brief: true, LastEnds: true}, 10, "")
	if err != nil || len(page.Tasks) != 7 {
		t.Fatalf("%d tasks, %v", len(page.Tasks), err)
	}
	for _, listed := range page.Tasks {
		if listed.Error != why[listed.State] || listed.Payload != nil || listed.Result != "" {
			t.Errorf("%s: error %q, result %.10q, payload %.10q", listed.ID, listed.Error, listed.Result, listed.Payload)
		}
	}
	if n := sent(t, w) - before; n > task.ResultLimit {
		t.Errorf("Redis sent %d bytes", n)
	}
}

func TestLastEnds_AreThoseOfTasksThatHaveOne(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	failed := w.Create(task.Definition{Ref: task.Ref{ID: "a"}}).Ref
	waits := w.Create(task.Definition{Ref: task.Ref{ID: "b"}}).Ref
	putOff := w.Create(task.Definition{Ref: task.Ref{ID: "c"}}).Ref
	testkit.Must(t, w.Begin(failed).Finish(w.Ctx, task.Failed, task.OutcomeFailed, "", "it is broken"))
	testkit.Must(t, w.Begin(putOff).Reattempt(w.Ctx, time.Hour, task.OutcomeSnoozed, ""))
	got, err := w.Tasks.LastEnds(w.Ctx, []task.Ref{failed, waits, putOff, {Namespace: "default", ID: "nobody"}})
	want := map[task.Ref]tasks.LastEnd{failed: {Error: "it is broken"}, putOff: {Outcome: task.OutcomeSnoozed}}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := w.Tasks.LastEnds(w.Ctx, nil); err != nil || len(got) > 0 {
		t.Errorf("of no tasks: %v, %v", got, err)
	}
}

// runs is a hook that counts the pipelines of scripts.
type runs struct{ atomic.Int64 }

func (r *runs) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r *runs) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (r *runs) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if cmds[0].Name() == "evalsha" {
			r.Add(1)
		}
		return next(ctx, cmds)
	}
}

// Each time costs a look at all sets.
func TestList_ReadsMoreEachTimeThatNothingMatches(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	var defs []task.Definition
	for i := range 3400 {
		ref := task.Ref{Namespace: "other", ID: fmt.Sprint("t", i)}
		defs = append(defs, task.Definition{Ref: ref, Type: "http", Delay: time.Hour})
	}
	createAll(t, w, defs)
	w.PageTime = time.Hour
	var reads runs
	w.DB.AddHook(&reads)
	page, err := w.Tasks.List(w.Ctx, tasks.Filter{Namespace: "default"}, 500, "")
	if len(page.Tasks) > 0 || page.NextCursor != "" || err != nil {
		t.Errorf("got %d tasks, cursor %q, %v", len(page.Tasks), page.NextCursor, err)
	}
	if n := reads.Load(); n != 3 { // 500, 1,000 and 2,000
		t.Errorf("%d round trips, want 3", n)
	}
}

// A page must go on all the same: whoever follows its cursor comes to the end.
func TestList_EndsAPageThatTakesLong(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	const count = 4*layout.ReadChunk + 10
	var defs []task.Definition
	for i := range count {
		d := task.Definition{Ref: task.Ref{ID: fmt.Sprintf("t%03d", i)}, Type: "http", Delay: time.Hour}
		if i == 0 || i == count-1 {
			d.Owner = "me"
		}
		defs = append(defs, d)
	}
	createAll(t, w, defs)
	w.PageTime = 0 // all takes too long
	for _, f := range []tasks.Filter{{Namespace: "default"}, {Namespace: "default", Owner: "me"}, {Namespace: "none"}} {
		want := map[string]int{"default": count, "none": 0}[f.Namespace]
		if f.Owner != "" {
			want = 2
		}
		pages := readPages(t, w, f, 500)
		seen := make(map[string]bool)
		for _, page := range pages {
			for _, listed := range page.Tasks {
				seen[listed.ID] = true
			}
		}
		if len(seen) != want || len(pages) != 5 {
			t.Errorf("%+v: %d tasks in %d pages, want %d in 5", f, len(seen), len(pages), want)
		}
	}
}

// Tasks of every namespace are listed together, whatever set lists them.
func TestList_ShowsAllNamespaces(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	var want []string
	for _, namespace := range []string{"default", "other"} {
		for _, id := range []string{"waits", "ended"} {
			d := task.Definition{Ref: task.Ref{ID: id, Namespace: namespace}, Type: "http", Delay: time.Hour}
			createAll(t, w, []task.Definition{d})
			want = append(want, d.Ref.String())
			if id == "ended" {
				_, err := w.Tasks.Cancel(w.Ctx, d.Ref, "")
				testkit.Must(t, err)
			}
		}
		testkit.Must(t, w.Layout.NoteNamespaces(w.Ctx, []string{namespace}))
	}
	all := tasks.Filter{Namespace: "*"}
	var got []string
	for _, page := range readPages(t, w, all, 3) {
		for _, listed := range page.Tasks {
			got = append(got, listed.Ref.String())
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for i := range 100 {
		testkit.Must(t, w.Layout.NoteNamespaces(w.Ctx, []string{fmt.Sprint("n", i)}))
	}
	if _, err := w.Tasks.List(w.Ctx, all, 3, ""); task.CodeOf(err) != task.CodeInvalid {
		t.Errorf("of 102 namespaces: %v, want %s", err, task.CodeInvalid)
	}
	all.States = []task.State{task.Scheduled}
	if page, err := w.Tasks.List(w.Ctx, all, 3, ""); err != nil || len(page.Tasks) != 2 {
		t.Errorf("those that wait: %v, %v", page.Tasks, err)
	}
}
