package rollup

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/task"
)

// hand is a clock that a test sets.
type hand struct {
	mu  sync.Mutex
	now time.Time
}

func (h *hand) read() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

func (h *hand) set(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = now
}

// failure is the end of an attempt of a task that failed.
func failure(id, text string) End {
	return End{Task: task.Ref{Namespace: "default", ID: id}, Attempt: 1, Queue: "default", Type: "http",
		Outcome: task.OutcomeFailed, Error: text}
}

func TestTally_CountsByMinute(t *testing.T) {
	t.Parallel()
	clock := &hand{now: noon.Add(59 * time.Second)}
	tally := NewTally(clock.read)
	tally.Begun("default", 20*time.Millisecond)
	clock.set(noon.Add(61 * time.Second))
	tally.Ended(End{Queue: "default", Outcome: task.OutcomeSucceeded})
	rows := tally.Rows()
	if len(rows) != 2 {
		t.Fatalf("%d rows, want 2", len(rows))
	}
	first, second := rows[0].Minute, rows[1].Minute
	if !first.At.Equal(noon) || first.Queues["default"].Begun != 1 ||
		first.Queues["default"].Late.Max != 20*time.Millisecond {
		t.Errorf("the first minute is %+v", first)
	}
	if !second.At.Equal(noon.Add(time.Minute)) || second.Queues["default"].Succeeded != 1 ||
		second.Queues["default"].Begun != 0 {
		t.Errorf("the second minute is %+v", second)
	}
}

func TestTally_HasRowsOnlyOfWhatChanged(t *testing.T) {
	t.Parallel()
	clock := &hand{now: noon}
	tally := NewTally(clock.read)
	if rows := tally.Rows(); len(rows) != 0 {
		t.Fatalf("a node that did nothing has %d rows", len(rows))
	}
	tally.Begun("default", 0)
	row := tally.Rows()[0]
	if again := tally.Rows(); len(again) != 1 {
		t.Errorf("a row that is not written yet is gone: %d rows", len(again))
	}
	tally.Begun("default", 0) // while the row is on its way
	tally.Written(row)
	rows := tally.Rows()
	if len(rows) != 1 || rows[0].Minute.Queues["default"].Begun != 2 {
		t.Fatalf("%d rows, want one with both begins", len(rows))
	}
	tally.Written(rows[0])
	if rows := tally.Rows(); len(rows) != 0 {
		t.Errorf("%d rows after all were written", len(rows))
	}
}

func TestTally_DropsWhatIsNotWrittenInTime(t *testing.T) {
	t.Parallel()
	for name, now := range map[string]time.Time{
		"too late": noon.Add(Span + Grace + time.Second), "an hour later": noon.Add(time.Hour),
		"the clock jumped back": noon.Add(-time.Hour),
	} {
		clock := &hand{now: noon}
		tally := NewTally(clock.read)
		tally.Begun("default", 0)
		clock.set(now)
		tally.Begun("default", 0)
		if rows := tally.Rows(); len(rows) != 1 || !rows[0].Minute.At.Equal(now.Truncate(time.Minute)) {
			t.Errorf("%s: %d rows, want that of the present minute", name, len(rows))
		}
	}
}

func TestTally_CountsNothingBeforeTheTimeIsKnown(t *testing.T) {
	t.Parallel()
	tally := NewTally(func() time.Time { return time.Time{} })
	tally.Begun("default", 0)
	tally.Ended(failure("a", "b"))
	if rows := tally.Rows(); len(rows) != 0 {
		t.Errorf("%d rows", len(rows))
	}
}

func TestTally_MakesOneCauseOfErrorsThatDifferByIDs(t *testing.T) {
	t.Parallel()
	tally := NewTally((&hand{now: noon}).read)
	for i := range 500 {
		e := failure(fmt.Sprintf("nightly@20260102T%06dZ", i),
			fmt.Sprintf("order %d of customer c%05d is not there", i, i*31))
		if i%5 == 0 {
			e.To = task.Failed
		}
		tally.Ended(e)
	}
	m := tally.Rows()[0].Minute
	if len(m.Causes) != 1 {
		t.Fatalf("%d causes: %+v", len(m.Causes), m.Causes)
	}
	c := m.Causes[0]
	if c.Count != 500 || c.Dead != 100 || c.Schedule != "nightly" || c.Example.Task.ID != "nightly@20260102T000499Z" {
		t.Errorf("the cause is %+v", c)
	}
	if q := m.Queues["default"]; q.Failed != 500 || q.Dead != 100 {
		t.Errorf("the queue is %+v", q)
	}
}

func TestTally_BoundsQueuesAndCauses(t *testing.T) {
	t.Parallel()
	tally := NewTally((&hand{now: noon}).read)
	for i := range 1000 {
		e := failure(fmt.Sprintf("s%d@1", i), fmt.Sprintf("error %c%c", 'a'+i%26, 'a'+i/26))
		e.Queue = fmt.Sprint("queue", i)
		tally.Begun(e.Queue, 0)
		tally.Ended(e)
	}
	m := tally.Rows()[0].Minute
	if len(m.Queues) > QueuesLimit+1 || m.Total().Begun != 1000 || m.Total().Failed != 1000 {
		t.Errorf("%d queues with %d begins", len(m.Queues), m.Total().Begun)
	}
	if len(m.Causes) > MinuteCauses || failures(m) != 1000 {
		t.Errorf("%d causes of %d failures", len(m.Causes), failures(m))
	}
}

func TestTally_CountsWhatManyCount(t *testing.T) {
	t.Parallel()
	tally := NewTally((&hand{now: noon}).read)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 500 {
				tally.Begun("default", time.Millisecond)
				tally.Ended(failure("a", "b 1"))
				for _, r := range tally.Rows() {
					tally.Written(r)
				}
			}
		})
	}
	all.Wait()
	tally.Begun("default", time.Millisecond)
	m := tally.Rows()[0].Minute
	if q := m.Queues["default"]; q.Begun != 4001 || q.Failed != 4000 || m.Causes[0].Count != 4000 ||
		q.Late.Total() != 4001 {
		t.Errorf("the queue is %+v", q)
	}
}

func TestTally_TakesNoMemoryForATaskThatSucceeds(t *testing.T) {
	tally := NewTally((&hand{now: noon}).read)
	end := End{Queue: "default", Outcome: task.OutcomeSucceeded}
	once := func() {
		tally.Begun("default", 20*time.Millisecond)
		tally.Ended(end)
	}
	once()
	if n := testing.AllocsPerRun(100, once); n != 0 {
		t.Errorf("%v allocations a task, want none", n)
	}
}

func BenchmarkTally(b *testing.B) {
	tally := NewTally((&hand{now: noon}).read)
	b.Run("success", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			tally.Begun("default", 20*time.Millisecond)
			tally.Ended(End{Queue: "default", Outcome: task.OutcomeSucceeded})
		}
	})
	b.Run("failure", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			tally.Ended(failure("nightly@20260102T000000Z", "HTTP 503: order 4711 of customer c12345 is not there"))
		}
	})
}
