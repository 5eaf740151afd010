package doctor_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/lease/leasetest"
	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/store/doctor"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// newDoctor returns a doctor that reads so many entries at once, and does not audit ledgers.
func newDoctor(w *storetest.World, entries int) *doctor.Doctor {
	return doctor.New(doctor.Options{
		Layout: w.Layout, Tasks: w.Tasks, Schedules: w.Schedules, Queues: queue.New(queue.Options{DB: w.DB}), Entries: entries,
		Nodes: func(context.Context) ([]cluster.Node, error) { return nil, nil },
		Audit: func(context.Context, task.Ref, time.Time, time.Time) ([]string, error) { return nil, nil },
	})
}

// An examination stops at its bounds, and another one goes on behind it, until nothing is left out.
func TestExamine_GoesOnWhereItStopped(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	const many = 2000
	for i := range many {
		ghost := task.Ref{Namespace: "default", ID: fmt.Sprint("ghost-", i)}
		testkit.Must(t, w.DB.HSet(w.Ctx, string(w.KeysOf(ghost).Results()), ghost.String(), "done").Err())
	}
	d := newDoctor(w, 100)
	looked, found, parts := 0, 0, 0
	for r := (doctor.Request{Checks: []string{"task-leftovers"}}); ; parts++ {
		report, err := d.Examine(w.Ctx, r)
		testkit.Must(t, err)
		result := report.Results[0]
		if looked, found = looked+result.Looked, found+result.Found; len(result.Examples) > doctor.ExampleLimit {
			t.Errorf("%d examples", len(result.Examples))
		}
		if result.Looked > 1000 {
			t.Errorf("one examination looked at %d entries", result.Looked)
		}
		if r.Cursor = report.NextCursor; r.Cursor == "" {
			break
		}
	}
	if looked < many || found < many || parts < 5 { // Redis may list an entry twice
		t.Errorf("it looked at %d, found %d, in %d parts", looked, found, parts)
	}
}

func TestExamine_OfOnePartitionLeavesOutTheOthers(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	for p := range w.Partitions.Count() {
		leasetest.End(t, w.DB, w.Partitions.LeaseKey(p)) // it never expires
		testkit.Must(t, w.DB.HSet(w.Ctx, string(w.Keys.Partition(p).Results()), "default:ghost", "done").Err())
	}
	one := 1
	report, err := newDoctor(w, 0).Examine(w.Ctx, doctor.Request{Partition: &one})
	testkit.Must(t, err)
	for _, r := range report.Results {
		if !r.OfData {
			t.Errorf("it looked at %s", r.Name)
		}
		if want := map[bool]int{true: 1}[r.Name == "task-leftovers"]; r.Found != want {
			t.Errorf("%s found %d, want %d: %q", r.Name, r.Found, want, r.Examples)
		}
	}
}

// The servers of a cluster have each a clock of their own. The one that holds partition 0, and not partition 1, is an hour ahead.
func TestExamine_JudgesWhatIsOverdueByTheClockOfItsServer(t *testing.T) {
	t.Parallel()
	movable, started := redistest.MovableClock(t), 0
	servers := redistest.StartCluster(t, func(s *redistest.Server) {
		if started++; started == 3 {
			movable(s)
			s.MoveClock(time.Hour)
		}
	})
	w := storetest.On(t, redistest.Open(t, servers.URL()))
	var want []string
	for p := range w.Partitions.Count() {
		wheel := string(w.Keys.Partition(p).Wheel())
		now, err := w.Now(w.Ctx, p)
		testkit.Must(t, err)
		if ahead := time.Until(now) > 30*time.Minute; ahead != (p == 0) {
			t.Fatalf("the time of partition %d is %s", p, now)
		}
		testkit.Must(t, w.DB.ZAdd(w.Ctx, wheel, redis.Z{Score: float64(now.UnixMilli()), Member: "default:due"}).Err())
	}
	examine := func() []string {
		report, err := newDoctor(w, 0).Examine(w.Ctx, doctor.Request{Checks: []string{"overdue"}})
		testkit.Must(t, err)
		return report.Results[0].Examples
	}
	if got := examine(); len(got) > 0 {
		t.Errorf("of what is due now, it finds %q", got)
	}
	for p := range w.Partitions.Count() {
		wheel := string(w.Keys.Partition(p).Wheel())
		testkit.Must(t, w.DB.ZIncrBy(w.Ctx, wheel, -float64(10*time.Minute.Milliseconds()), "default:due").Err())
		want = append(want, wheel+", default:due, by 10m0s")
	}
	slices.Sort(want)
	if diff := cmp.Diff(want[:min(len(want), doctor.ExampleLimit)], examine()); diff != "" {
		t.Errorf("of what has been due for 10 minutes (-want +got):\n%s", diff)
	}
}
