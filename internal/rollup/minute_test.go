package rollup

import (
	"fmt"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/task"
)

func TestHistogram_TellsQuantilesWithinAQuarter(t *testing.T) {
	t.Parallel()
	var h Histogram
	for ms := 1; ms <= 1000; ms++ {
		h.Observe(time.Duration(ms) * time.Millisecond)
	}
	for share, want := range map[float64]time.Duration{.5: 500 * time.Millisecond, .99: 990 * time.Millisecond,
		1: time.Second} {
		if got := h.Quantile(share); got < want || got > want*5/4 {
			t.Errorf("the quantile %v is %s, want %s or up to a quarter more", share, got, want)
		}
	}
	if h.Max != time.Second || h.Quantile(1) != time.Second || h.Total() != 1000 {
		t.Errorf("max %s, last quantile %s, total %d", h.Max, h.Quantile(1), h.Total())
	}
}

func TestHistogram_PutsEachDurationBelowTheEndOfItsBucket(t *testing.T) {
	t.Parallel()
	for ms := range 5000 {
		d := time.Duration(ms) * time.Millisecond
		b := bucketOf(d)
		if d >= upper(b) && ms > 0 {
			t.Fatalf("%s is in bucket %d, which ends at %s", d, b, upper(b))
		}
		if b > 0 && ms > 1 && d < upper(b-1) && bucketOf(d-time.Millisecond) > b {
			t.Fatalf("%s is in bucket %d, and begins before it", d, b)
		}
	}
	var h Histogram
	h.Observe(-time.Second)
	h.Observe(1000 * 24 * time.Hour)
	if h.Total() != 2 || len(h.Counts) != buckets {
		t.Errorf("%d durations in %d buckets, want 2 in %d", h.Total(), len(h.Counts), buckets)
	}
}

func TestMerge_AddsCountsAndKeepsTheHighestLevels(t *testing.T) {
	t.Parallel()
	a := Minute{Queues: map[string]Queue{"a": {Begun: 2, Succeeded: 1, Waiting: 5, Oldest: time.Second}},
		Running: 3, Capacity: 10}
	b := Minute{Queues: map[string]Queue{"a": {Begun: 1, Failed: 1, Dead: 1, Waiting: 3, Oldest: time.Minute},
		"b": {Lost: 1}}, Running: 7, Capacity: 8}
	m := Merge(noon, time.Hour, HourCauses, a, b)
	q := m.Queues["a"]
	if q.Begun != 3 || q.Ended() != 2 || q.Bad() != 1 || q.Dead != 1 || q.Waiting != 5 || q.Oldest != time.Minute {
		t.Errorf("queue a is %+v", q)
	}
	if m.Running != 7 || m.Capacity != 10 || m.Queues["b"].Lost != 1 || m.Total().Ended() != 3 || !m.At.Equal(noon) {
		t.Errorf("the hour is %+v", m)
	}
}

func TestMerge_CountsQueuesBeyondTheLimitTogether(t *testing.T) {
	t.Parallel()
	m := Minute{Queues: map[string]Queue{}}
	for i := range 150 {
		m.Queues[fmt.Sprintf("q%03d", i)] = Queue{Begun: 150 - i, Waiting: 1}
	}
	got := Merge(noon, Span, MinuteCauses, m, Minute{Queues: map[string]Queue{Rest: {Begun: 1}}})
	rest := got.Queues[Rest]
	if len(got.Queues) != QueuesLimit+1 || rest.Begun != 50*51/2+1 || rest.Waiting != 50 ||
		got.Queues["q000"].Begun != 150 {
		t.Errorf("%d queues, the rest is %+v", len(got.Queues), rest)
	}
}

// cause is a cause of which count attempts failed at a time.
func cause(text, schedule string, count int, at time.Time) Cause {
	return Cause{
		Kind: Kind{Text: text, Queue: "default", Schedule: schedule}, Count: count, First: at, Last: at,
		Example: Example{Task: task.Ref{Namespace: "default", ID: fmt.Sprint(text, at.Minute())}, Attempt: 1},
	}
}

func TestMerge_MakesOneOfTheSameCauses(t *testing.T) {
	t.Parallel()
	early, late := Minute{Causes: []Cause{cause("a", "", 2, noon)}}, Minute{Causes: []Cause{cause("a", "", 3,
		noon.Add(time.Minute))}}
	for _, parts := range [][]Minute{{early, late}, {late, early}} {
		got := Merge(noon, time.Hour, HourCauses, parts...).Causes
		if len(got) != 1 || got[0].Count != 5 || !got[0].First.Equal(noon) || !got[0].Last.Equal(noon.Add(time.Minute)) {
			t.Fatalf("got %+v", got)
		}
		if got[0].Example.Task.ID != "a1" {
			t.Errorf("the example is %s, want the newest", got[0].Example.Task.ID)
		}
	}
}

func TestMerge_LeavesOutSchedulesBeforeItLeavesOutCauses(t *testing.T) {
	t.Parallel()
	var many Minute
	for i := range 40 {
		many.Causes = append(many.Causes, cause("a", fmt.Sprint("s", i), 1, noon))
	}
	many.Causes = append(many.Causes, cause("b", "only", 1, noon))
	got := Merge(noon, Span, MinuteCauses, many).Causes
	if len(got) != 2 || got[0].Schedule != Rest || got[0].Count != 40 || got[1].Schedule != "only" {
		t.Errorf("got %+v, want the cause of 40 schedules and that of one", got)
	}
	for i := range 40 {
		many.Causes = append(many.Causes, cause(fmt.Sprint("text ", 'a'+i), "", 2+i, noon))
	}
	got = Merge(noon, Span, MinuteCauses, many).Causes
	total := 0
	for _, c := range got {
		total += c.Count
	}
	if len(got) != MinuteCauses || got[0].Text != Rest || total != failures(many) {
		t.Errorf("%d causes with %d failures, the first is %+v; want %d with %d, and that of the rest",
			len(got), total, got[0], MinuteCauses, failures(many))
	}
}
