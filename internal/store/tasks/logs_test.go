package tasks_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// written brings a task to its third attempt, which is running. The first attempt wrote 400 lines, the second none, the
// third 600. Every third line is on stderr, every seventh says "Error".
func written(t *testing.T, w *storetest.World) task.Ref {
	t.Helper()
	ref := w.Create(task.Definition{
		Ref: task.Ref{Namespace: "default", ID: "a"}, Retry: task.Retry{MaxAttempts: 4},
	}).Ref
	for attempt, n := range []int{400, 0, 600} {
		run := w.Begin(ref)
		lines := make([]tasks.Line, n)
		for i := range lines {
			lines[i] = tasks.Line{Stream: "stdout", Text: fmt.Sprint("line ", i+1)}
			if i%3 == 0 {
				lines[i].Stream = "stderr"
			}
			if i%7 == 0 {
				lines[i].Text += " Error"
			}
		}
		testkit.Must(t, run.Log(w.Ctx, 1, lines))
		if attempt < 2 {
			testkit.Must(t, run.Reattempt(w.Ctx, 0, task.OutcomeFailed, "boom"))
		}
	}
	return ref
}

// expected is what a query finds among all lines.
func expected(all []task.LogLine, q tasks.LogQuery) []task.LogLine {
	newest := 3
	position := func(cursor string) int {
		attempt, line, _ := strings.Cut(cursor, "-")
		a, _ := strconv.Atoi(attempt)
		n, _ := strconv.Atoi(line)
		return a*10_000 + n
	}
	var found []task.LogLine
	for _, l := range all {
		if (q.After == "" || position(l.Cursor) > position(q.After)) &&
			(q.Before == "" || position(l.Cursor) < position(q.Before)) &&
			(q.Attempt == 0 || l.Attempt == q.Attempt) && (!q.Newest || l.Attempt >= newest) &&
			(q.Stream == "" || l.Stream == q.Stream) &&
			(q.Text == "" || strings.Contains(strings.ToLower(l.Text), strings.ToLower(q.Text))) {
			found = append(found, l)
		}
	}
	return found
}

// readAll reads all pages of a query.
func readAll(t *testing.T, w *storetest.World, ref task.Ref, q tasks.LogQuery) []task.LogLine {
	t.Helper()
	var all []task.LogLine
	for {
		page, err := w.Tasks.Logs(w.Ctx, ref, q)
		testkit.Must(t, err)
		if len(page.Lines) > q.Limit {
			t.Fatalf("%+v: a page has %d lines", q, len(page.Lines))
		}
		if q.Backwards {
			all, q.Before = slices.Concat(page.Lines, all), page.First
		} else {
			all, q.After = append(all, page.Lines...), page.Last
		}
		if !page.More {
			return all
		}
	}
}

func TestLogs_AnswersEachQueryAsAScanWould(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	ref := written(t, w)
	all := readAll(t, w, ref, tasks.LogQuery{Limit: 1000})
	if len(all) != 1000 {
		t.Fatalf("%d lines", len(all))
	}
	cursors := []string{"", "", "1-1", "1-200", "1-400", "2-0", "2-7", "3-1", "3-300", "3-600", "4-1"}
	texts := []string{"", "", "error", "LINE 1", "nothing"}
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		q := tasks.LogQuery{
			After: cursors[random.IntN(len(cursors))], Before: cursors[random.IntN(len(cursors))],
			Backwards: random.IntN(2) == 0, Limit: 1 + random.IntN(400), Attempt: random.IntN(5),
			Stream: []string{"", "", "stdout", "stderr"}[random.IntN(4)], Text: texts[random.IntN(len(texts))],
		}
		if q.Newest = random.IntN(4) == 0; q.Newest {
			q.Attempt = 0
		}
		want := expected(all, q)
		if got := readAll(t, w, ref, q); !slices.Equal(got, want) {
			t.Errorf("%+v: %d lines, want %d", q, len(got), len(want))
		}
		if q.Before != "" {
			continue
		}
		start, err := w.Tasks.LogStart(w.Ctx, ref, q)
		testkit.Must(t, err)
		if q.Backwards {
			want = want[max(0, len(want)-q.Limit):]
		}
		q.After, q.Newest, q.Backwards = start, false, false
		if got := readAll(t, w, ref, q); !slices.Equal(got, want) {
			t.Errorf("from the start of %+v: %d lines, want %d", q, len(got), len(want))
		}
	}
}

// A tail of a log reads no more than its lines.
func TestLogs_ReadsATailFromTheEnd(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	ref := written(t, w)
	sent := func() int {
		n, err := strconv.Atoi(w.DB.InfoMap(w.Ctx, "stats").Val()["Stats"]["total_net_output_bytes"])
		testkit.Must(t, err)
		return n
	}
	info := -sent()
	info += sent()
	before := sent()
	page, err := w.Tasks.Logs(w.Ctx, ref, tasks.LogQuery{Backwards: true, Limit: 3})
	testkit.Must(t, err)
	if n := sent() - before - info; n > 1000 {
		t.Errorf("Redis sent %d bytes for 3 lines", n)
	}
	if len(page.Lines) != 3 || page.First != "3-598" || page.Last != "3-600" || !page.More {
		t.Errorf("got %+v", page)
	}
}

func TestLogs_NewestIsTheAttemptThatHasBegun(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	ref := w.Bring("a", task.Scheduled)
	q := tasks.LogQuery{Newest: true, Limit: 10}
	look := func(when string, want ...string) {
		t.Helper()
		var got []string
		for _, l := range readAll(t, w, ref, q) {
			got = append(got, l.Cursor)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", when, got, want)
		}
	}
	look("before the first attempt")
	run := w.Begin(ref)
	testkit.Must(t, run.Log(w.Ctx, 1, []tasks.Line{{Stream: "stdout", Text: "one"}}))
	look("in the first", "1-1")
	testkit.Must(t, run.Reattempt(w.Ctx, 0, task.OutcomeFailed, "boom"))
	look("after it", "1-1")
	w.Claim(ref)
	look("while the second is queued", "1-1")
	run, err := w.Tasks.Begin(w.Ctx, ref, 2, "node-a#2")
	testkit.Must(t, err)
	look("in the second, which has written nothing")
	testkit.Must(t, run.Log(w.Ctx, 1, []tasks.Line{{Stream: "stdout", Text: "two"}}))
	look("in the second", "2-1")
}

func TestLogs_RefusesWhatIsNoCursor(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	ref := w.Bring("a", task.Running)
	for _, cursor := range []string{"x", "1", "1-", "-1", "0-0", "00-000", "1-1 "} {
		for _, q := range []tasks.LogQuery{{After: cursor, Limit: 1}, {Before: cursor, Backwards: true, Limit: 1}} {
			if _, err := w.Tasks.Logs(w.Ctx, ref, q); task.CodeOf(err) != task.CodeInvalid {
				t.Errorf("%+v: %v", q, err)
			}
		}
	}
	_, err := w.Tasks.LogStart(w.Ctx, task.Ref{Namespace: "default", ID: "none"}, tasks.LogQuery{})
	if task.CodeOf(err) != task.CodeTaskNotFound {
		t.Errorf("of no task: %v", err)
	}
}
