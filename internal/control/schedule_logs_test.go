package control

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// writeTick lets the task of a tick write lines, and end.
func (w *world) writeTick(tick string, lines int) {
	w.t.Helper()
	run := w.begun(task.Ref{Namespace: nightly.Namespace, ID: nightly.ID + "@" + tick})
	log := make([]tasks.Line, lines)
	for i := range log {
		log[i] = tasks.Line{Stream: "stdout", Text: fmt.Sprintf("%s line %d", tick, i+1)}
	}
	testkit.Must(w.t, run.Log(w.ctx, 1, log))
	testkit.Must(w.t, run.Finish(w.ctx, task.Succeeded, task.OutcomeSucceeded, "", ""))
}

// scheduleLogs reads all pages, and returns their texts and the tasks that are forgotten.
func (w *world) scheduleLogs(q LogQuery, ticks int) (texts, forgotten []string) {
	w.t.Helper()
	for cursor := ""; ; {
		page, err := w.ReadScheduleLogs(w.ctx, me, nightly.ID, q, ticks, cursor)
		testkit.Must(w.t, err)
		if len(page.Lines) > q.Limit {
			w.t.Fatalf("a page has %d lines", len(page.Lines))
		}
		part := make([]string, len(page.Lines))
		for i, l := range page.Lines {
			part[i] = l.Text
			if tick, _, _ := strings.Cut(l.Text, " "); l.Task != nightly.ID+"@"+tick {
				w.t.Errorf("%q is said to be of %s", l.Text, l.Task)
			}
		}
		texts, forgotten = slices.Concat(part, texts), slices.Concat(page.Forgotten, forgotten)
		if cursor = page.Previous; cursor == "" {
			return texts, forgotten
		}
	}
}

func TestReadScheduleLogs_JoinsTheNewestTicks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ticks := w.hourly(4, func(d *schedule.Definition) { d.Overlap = schedule.OverlapAllow })
	w.fire(nightly)
	lines := map[string]int{ticks[0]: 2, ticks[1]: 5, ticks[2]: 0, ticks[3]: 3}
	for _, tick := range ticks {
		w.writeTick(tick, lines[tick])
	}
	want := func(n int) (all []string) {
		for _, tick := range ticks[4-n:] {
			for i := range lines[tick] {
				all = append(all, fmt.Sprintf("%s line %d", tick, i+1))
			}
		}
		return all
	}
	for n := 1; n <= 4; n++ {
		for limit := 1; limit <= 12; limit++ {
			if got, gone := w.scheduleLogs(LogQuery{Limit: limit}, n); !slices.Equal(got, want(n)) || len(gone) > 0 {
				t.Errorf("%d ticks by %d: %q, forgotten %v; want %q", n, limit, got, gone, want(n))
			}
		}
	}
	got, _ := w.scheduleLogs(LogQuery{Limit: 2, Text: "LINE 2"}, 4)
	if want := []string{ticks[0] + " line 2", ticks[1] + " line 2", ticks[3] + " line 2"}; !slices.Equal(got, want) {
		t.Errorf("filtered: %q, want %q", got, want)
	}
}

// A tick that fires between two pages moves no line to another page, and a run by hand has its place.
func TestReadScheduleLogs_PagesAreThoseOfTheirFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ticks := w.hourly(2, func(d *schedule.Definition) { d.Overlap = schedule.OverlapAllow })
	w.fire(nightly)
	for _, tick := range ticks {
		w.writeTick(tick, 2)
	}
	first, err := w.ReadScheduleLogs(w.ctx, me, nightly.ID, LogQuery{Limit: 1}, 2, "")
	testkit.Must(t, err)
	entry, err := w.TriggerSchedule(w.ctx, me, nightly.ID)
	testkit.Must(t, err)
	w.writeTick(entry.Name, 1)
	rest, err := w.ReadScheduleLogs(w.ctx, me, nightly.ID, LogQuery{Limit: 100}, 2, first.Previous)
	testkit.Must(t, err)
	if len(rest.Lines) != 3 || rest.Lines[0].Text != ticks[0]+" line 1" || rest.Previous != "" {
		t.Errorf("the second page is %+v", rest)
	}
	got, _ := w.scheduleLogs(LogQuery{Limit: 1}, 2)
	if want := []string{ticks[1] + " line 1", ticks[1] + " line 2", entry.Name + " line 1"}; !slices.Equal(got, want) {
		t.Errorf("read anew: %q, want %q", got, want)
	}
}

func TestReadScheduleLogs_NamesTasksThatAreForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ticks := w.hourly(3, func(d *schedule.Definition) { d.Overlap = schedule.OverlapAllow })
	w.fire(nightly)
	for _, tick := range ticks {
		w.writeTick(tick, 1)
	}
	gone := nightly.ID + "@" + ticks[1]
	testkit.Must(t, w.ForgetTask(w.ctx, me, gone))
	got, forgotten := w.scheduleLogs(LogQuery{Limit: 1}, 3)
	want := []string{ticks[0] + " line 1", ticks[2] + " line 1"}
	if !slices.Equal(got, want) || !slices.Equal(forgotten, []string{gone}) {
		t.Errorf("%q, forgotten %q", got, forgotten)
	}
}

func TestReadScheduleLogs_RefusesWhatIsNoCursor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.hourly(1, nil)
	w.fire(nightly)
	many, odd := logPosition{left: 99, name: "n"}, logPosition{left: 1, name: "n", before: "x y"}
	for _, cursor := range []string{"x", "MQ", many.cursor(), odd.cursor()} {
		_, err := w.ReadScheduleLogs(w.ctx, me, nightly.ID, LogQuery{Limit: 1}, 1, cursor)
		if task.CodeOf(err) != task.CodeInvalid {
			t.Errorf("%q: %v", cursor, err)
		}
	}
	_, err := w.ReadScheduleLogs(w.ctx, me, "none", LogQuery{Limit: 1}, 1, "")
	if task.CodeOf(err) != schedule.CodeNotFound {
		t.Errorf("of no schedule: %v", err)
	}
}
