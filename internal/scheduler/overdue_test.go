package scheduler

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/handover"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// createMany creates n tasks of the queue default in all partitions, and makes them overdue.
func (w *world) createMany(n int) {
	w.t.Helper()
	at := float64(w.now().Add(-time.Minute).UnixMilli())
	for from := 0; from < n; from += 1000 {
		defs := make([]task.Definition, 1000)
		late := make(map[string][]redis.Z) // by wheel
		for i := range defs {
			ref := task.Ref{Namespace: task.DefaultNamespace, ID: fmt.Sprint("overdue-", from+i)}
			defs[i] = task.Definition{Ref: ref, Type: "echo", Delay: time.Hour}
			wheel := string(w.store.KeysOf(ref).Wheel())
			late[wheel] = append(late[wheel], redis.Z{Score: at, Member: ref.String()})
		}
		_, err := useCases(w.store).SubmitEach(w.t.Context(), caller, defs)
		testkit.Must(w.t, err)
		for wheel, some := range late {
			testkit.Must(w.t, w.db.ZAddXX(w.t.Context(), wheel, some...).Err())
		}
	}
}

// As after an outage of all schedulers. What is overdue reaches asynq at the pace of the workers, who take nothing here. Newly due tasks of
// another queue go on; that the next claim takes them is asserted in package partition.
func TestDispatch_DrainsWhatIsOverdueAtThePaceOfTheWorkers(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t)
	w.slots = 10
	n := testkit.Amount(6_000, 1_000_000)
	w.createMany(n)
	start := w.now()
	a := w.start("a", never)
	w.serve("fresh", 1000)
	bound := w.slots*a.o.HandOver + w.store.Partitions.Count()*handover.LeastAhead // a claim that knows nothing of the queue takes handover.LeastAhead
	var lateness []time.Duration
	for i := 0; ; i++ {
		fresh := w.create(task.Definition{Ref: task.Ref{ID: fmt.Sprint("fresh-", i)}, Queue: "fresh"})
		w.reaches(fresh, task.Queued)
		got := w.get(fresh)
		lateness = append(lateness, got.QueuedAt.Sub(got.DueAt))
		if n := w.pending(task.DefaultQueue); n > bound {
			t.Fatalf("%d deliveries wait, want %d at most", n, bound)
		}
		if waits := w.backlog()[task.DefaultQueue]; waits+w.pending(task.DefaultQueue) >= n {
			break
		}
	}
	// If they waited for what is overdue in their partitions, there would be one or two. Fewer overdue tasks are gone before many more are created.
	if len(lateness) < testkit.Amount(1, 10) {
		t.Errorf("only %d newly due tasks of another queue were claimed while overdue ones were on the wheels", len(lateness))
	}
	slices.Sort(lateness)
	t.Logf("%d overdue tasks left the wheels within %s; meanwhile, %d newly due tasks of another queue were claimed after %s (median), %s at most",
		n, w.now().Sub(start), len(lateness), lateness[len(lateness)/2], lateness[len(lateness)-1])
}
