package tasks_test

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// Scripts keep what they found out about an item of a call for the next one. These tests compare calls with many
// items, in an order in which neighbours differ and what was before comes again, with calls of one item each.

// neighbours is a place for tasks of one partition. Times in it are whole hours from base.
type neighbours struct {
	*storetest.World
	t    *testing.T
	base time.Time
}

var msPattern = regexp.MustCompile(`\b1\d{12}`)

// hours replaces the times in a text by whole hours from base.
func (w *neighbours) hours(text string) string {
	return msPattern.ReplaceAllStringFunc(text, func(ms string) string {
		n, err := strconv.ParseFloat(ms, 64)
		testkit.Must(w.t, err)
		return fmt.Sprintf("<%vh>", math.Round((n-float64(w.base.UnixMilli()))/float64(time.Hour.Milliseconds())))
	})
}

// content is what Redis has of the partition, but for the lease of its leader and the number of its wake-ups.
func (w *neighbours) content() map[string]string {
	content := make(map[string]string)
	for key, entry := range redistest.Dump(w.t, w.DB) {
		isOther := strings.Contains(key, ":lease") || strings.HasSuffix(key, ":wakes")
		if isOther || !strings.Contains(key, "{0}") {
			continue
		}
		e, ok := entry.(redistest.Entry)
		if scores, isSet := e.Value.(map[string]float64); isSet {
			texts := make(map[string]string)
			for member, score := range scores {
				texts[member] = strconv.FormatFloat(score, 'f', 0, 64)
			}
			e.Value = texts
		}
		if content[key] = w.hours(fmt.Sprintf("%s %v", e.Type, e.Value)); !ok {
			w.t.Fatalf("%s is %v", key, entry)
		}
	}
	return content
}

// compareNeighbours has items done in one call, and each in a call of its own, on another Redis, and compares what came
// of each and what Redis has then. n is how many there are, prepare puts what they need into Redis.
func compareNeighbours(
	t *testing.T, n int, prepare func(w *neighbours), do func(w *neighbours, from, to int) []string,
) {
	t.Helper()
	base := time.Now().Truncate(time.Millisecond)
	var answers [2][]string
	var contents [2]map[string]string
	for i, size := range []int{1, n} {
		w := &neighbours{World: storetest.New(t), t: t, base: base}
		if prepare(w); len(w.content()) == 0 {
			t.Fatal("nothing is in the partition")
		}
		for from := 0; from < n; from += size {
			answers[i] = append(answers[i], do(w, from, from+size)...)
		}
		contents[i] = w.content()
	}
	if diff := cmp.Diff(answers[0], answers[1]); diff != "" {
		t.Errorf("what came of them (-one by one +together):\n%s", diff)
	}
	if diff := cmp.Diff(contents[0], contents[1]); diff != "" {
		t.Errorf("what Redis has (-one by one +together):\n%s", diff)
	}
}

func TestCreate_KeepsNeighboursApart(t *testing.T) {
	t.Parallel()
	long := fmt.Appendf(nil, "%q", strings.Repeat("x", task.InlinePayloadLimit))
	defs := func(w *neighbours) []task.Definition {
		in := func(hours int) time.Time { return w.base.Add(time.Duration(hours) * time.Hour) }
		first := task.Definition{Ref: w.NameIn(0, "n", "new"), Type: "a", RunAt: in(2)}
		other := first
		other.Type = "b"
		return []task.Definition{
			first,
			{Ref: w.NameIn(0, "nn", "old"), Type: "a", RunAt: in(9)}, // exists
			{Ref: w.NameIn(0, "n", "queue"), Type: "a", Queue: "other"},
			first,
			{Ref: w.NameIn(0, "nn", "b"), Type: "b", RunAt: in(3), Payload: long},
			{Ref: w.NameIn(0, "n", "old"), Type: "b", RunAt: in(9)}, // exists with other content
			{Ref: w.NameIn(0, "nn", "new"), Type: "a", RunAt: in(2)},
			{Ref: w.NameIn(0, "nn", "start"), Type: "a", RunAt: in(3), StartBy: 2 * time.Hour},
			other,
		}
	}
	compareNeighbours(t, 9, func(w *neighbours) {
		w.Create(defs(w)[1])
		d := defs(w)[5]
		d.Type = "a"
		w.Create(d)
	}, func(w *neighbours, from, to int) (answers []string) {
		for _, c := range w.Tasks.Create(w.Ctx, defs(w)[from:to]) {
			due := w.hours(strconv.FormatInt(c.Task.DueAt.UnixMilli(), 10))
			answers = append(answers, fmt.Sprintf("%s %s %t %v", c.Task.Ref, due, c.Existed, c.Err))
		}
		return answers
	})
}

func TestBegin_KeepsNeighboursApart(t *testing.T) {
	t.Parallel()
	kinds := []struct{ namespace, id, taskType, queue string }{
		{"n", "a", "a", "default"}, {"nn", "a-other", "a", "other"}, {"n", "b", "b", "default"},
		{"nn", "a", "a", "default"}, {"n", "a-other", "a", "other"}, {"nn", "ab", "ab", "default"},
		{"n", "again", "a", "other"}, {"nn", "no-queue", "a", "default"},
	}
	starts := []struct {
		kind       int
		run, queue string
	}{
		{0, "1", "default"},
		{1, "1", "default"}, // it is in the queue other
		{2, "1", "default"}, // nobody runs its type
		{1, "2", "other"},
		{3, "1", "other"}, // it is in the queue default
		{0, "1", "default"},
		{4, "1", "default"}, // it is in the queue other
		{5, "1", "default"}, // nobody runs its type
		{3, "2", "default"},
		{0, "2", "default"}, // another run of a task that runs
		{6, "1", "other"},
		{7, "1", ""},
		{4, "2", ""},
	}
	refs := func(w *neighbours) (refs []task.Ref) {
		for _, k := range kinds {
			refs = append(refs, w.NameIn(0, k.namespace, k.id))
		}
		return refs
	}
	compareNeighbours(t, len(starts), func(w *neighbours) {
		for i, ref := range refs(w) {
			w.Create(task.Definition{Ref: ref, Type: kinds[i].taskType, Queue: kinds[i].queue})
		}
		if n := len(w.Claim(refs(w)[0])); n != len(kinds) {
			t.Fatalf("%d tasks are claimed, want %d", n, len(kinds))
		}
	}, func(w *neighbours, from, to int) (answers []string) {
		var all []tasks.Start
		for _, s := range starts[from:to] {
			all = append(all, tasks.Start{Ref: refs(w)[s.kind], Attempt: 1, Run: "node-a#" + s.run, Queue: s.queue})
		}
		for _, b := range w.Tasks.BeginEach(w.Ctx, tasks.Runner{Node: "node-a", Types: []string{"a"}}, all) {
			answer := fmt.Sprint(b.Err)
			if b.Err == nil {
				answer = fmt.Sprint(b.Run.Task.Ref, b.Run.Task.Type, b.Run.Task.Queue, b.Run.Task.State, b.Run.Task.Run)
			}
			answers = append(answers, answer)
		}
		return answers
	})
}

func TestFinish_KeepsNeighboursApart(t *testing.T) {
	t.Parallel()
	const again = task.Scheduled
	ends := []struct {
		namespace string
		state     task.State
		hours     time.Duration // of its retention, or until the next attempt
	}{
		{"n", task.Succeeded, 1}, {"nn", task.Succeeded, 1}, {"nn", task.Succeeded, 2}, {"n", task.Failed, 2},
		{"n", again, 3}, {"nn", task.Failed, 1}, {"nn", again, 4}, {"n", task.Failed, 1}, {"n", task.Succeeded, 2},
		{"nn", again, 3}, {"n", again, 3}, {"nn", task.Cancelled, 2}, {"n", task.Succeeded, 1},
	}
	outcomes := map[task.State]task.Outcome{
		task.Succeeded: task.OutcomeSucceeded, task.Failed: task.OutcomeFailed, again: task.OutcomeFailed,
		task.Cancelled: task.OutcomeCancelled,
	}
	ref := func(w *neighbours, i int) task.Ref { return w.NameIn(0, ends[i].namespace, fmt.Sprintf("t%d", i)) }
	compareNeighbours(t, len(ends), func(w *neighbours) {
		for i, e := range ends {
			w.Create(task.Definition{Ref: ref(w, i), Retention: e.hours * time.Hour})
		}
		w.Claim(ref(w, 0))
		for i := range ends {
			_, err := w.Tasks.Begin(w.Ctx, ref(w, i), 1, "node-a#1")
			testkit.Must(t, err)
		}
	}, func(w *neighbours, from, to int) (answers []string) {
		var all []tasks.End
		for i := from; i < to; i++ {
			run := w.Tasks.RunOf(w.Get(ref(w, i)))
			all = append(all, tasks.End{
				Run: run, State: ends[i].state, Outcome: outcomes[ends[i].state], Delay: ends[i].hours * time.Hour,
				Reason: fmt.Sprintf("reason %d", i),
			})
		}
		for _, err := range w.Tasks.FinishEach(w.Ctx, all) {
			answers = append(answers, fmt.Sprint(err))
		}
		return answers
	})
}
