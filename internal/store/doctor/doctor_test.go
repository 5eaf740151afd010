package doctor_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/handover"
	"github.com/dts-sched/dts/internal/lease/leasetest"
	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/doctor"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
	"github.com/dts-sched/dts/lua/contract"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// newDoctor returns a doctor that reads so many entries at once, and does not audit ledgers.
func newDoctor(w *storetest.World, entries int, nodes ...cluster.Node) *doctor.Doctor {
	return doctor.New(doctor.Options{
		Layout: w.Layout, Tasks: w.Tasks, Schedules: w.Schedules, Listing: w.Listing, Queues: queue.New(queue.Options{DB: w.DB}), Entries: entries,
		Nodes:  func(context.Context) ([]cluster.Node, error) { return nodes, nil },
		Audit:  func(context.Context, task.Ref, time.Time, time.Time) ([]string, error) { return nil, nil },
		Limits: func(context.Context) (map[string]int, error) { return nil, nil },
	})
}

// An examination stops at its bounds, and another one goes on behind it, until nothing is left out.
func TestExamine_GoesOnWhereItStopped(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := storetest.New(t)
	const many = 2000
	for i := range many {
		ghost := task.Ref{Namespace: "default", ID: fmt.Sprint("ghost-", i)}
		testkit.Must(t, w.DB.HSet(w.Ctx, string(w.KeysOf(ghost).Results()), ghost.String(), "done").Err())
	}
	d := newDoctor(w, 100)
	looked, found, parts := 0, 0, 0
	for r := (doctor.Request{Checks: []string{"task-lost"}}); ; parts++ {
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

// A task that waits is in the definitions and in a set of ready tasks: one of the two leads to all of it. Redis counts how often it looks.
func TestExamine_LooksAtWaitingTasksOnce(t *testing.T) {
	t.Parallel()
	const many = 500
	w := storetest.New(t)
	for i := range many {
		ref := task.Ref{Namespace: "default", ID: fmt.Sprint("waits-", i)}
		w.Create(task.Definition{Ref: ref, Type: "echo", Queue: "nobody"})
		k := w.KeysOf(ref)
		testkit.Must(t, w.DB.ZRem(w.Ctx, string(k.Wheel()), ref.String()).Err())
		testkit.Must(t, w.DB.ZAdd(w.Ctx, string(k.Ready("nobody")), redis.Z{Score: 1, Member: ref.String()}).Err())
		testkit.Must(t, w.DB.SAdd(w.Ctx, string(k.Backlog()), "nobody").Err())
	}
	testkit.Must(t, w.DB.ConfigResetStat(w.Ctx).Err())
	report, err := newDoctor(w, 100*many).Examine(w.Ctx, doctor.Request{Checks: []string{"scheduled-lost", "task-leftovers"}})
	testkit.Must(t, err)
	for _, r := range report.Results {
		if r.Found > 0 || r.Looked < many || report.NextCursor != "" {
			t.Errorf("%s: %+v, next %q", r.Name, r, report.NextCursor)
		}
	}
	stats, err := w.DB.Info(w.Ctx, "commandstats").Result()
	testkit.Must(t, err)
	var looks int
	_, rest, _ := strings.Cut(stats, "cmdstat_zscore:calls=")
	_, err = fmt.Sscan(strings.SplitN(rest, ",", 2)[0], &looks)
	if testkit.Must(t, err); looks < many || looks >= 2*many {
		t.Errorf("Redis looked %d times for the scores of %d tasks", looks, many)
	}
}

// What belongs to one schedule, queue or list can be more than one examination looks at. The bounds hold within it, and nothing is left out.
func TestExamine_GoesOnWithinACollection(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	const many = 1000
	first, second := task.Ref{Namespace: "default", ID: "first"}, task.Ref{Namespace: "default", ID: "second"}
	for check, c := range map[string]struct {
		damage func(w *storetest.World, i int) error
		left   func(w *storetest.World) int64 // of what the repair takes away
		// meanwhile happens after each part; nil: nothing
		meanwhile func(w *storetest.World) error
	}{
		"live-ended": {
			damage: func(w *storetest.World, i int) error {
				ref := []task.Ref{first, second}[i%2]
				return w.DB.ZAdd(w.Ctx, string(w.KeysOf(ref).Live(ref)), redis.Z{Score: 1, Member: fmt.Sprint("tick-", i)}).Err()
			},
			left: func(w *storetest.World) int64 {
				return w.DB.ZCard(w.Ctx, string(w.KeysOf(first).Live(first))).Val() + w.DB.ZCard(w.Ctx, string(w.KeysOf(second).Live(second))).Val()
			},
		},
		"task-lost": { // in sets of which no leader knows
			damage: func(w *storetest.World, i int) error {
				set := string(w.Keys.Partition(1).Ready(fmt.Sprint("lost-", i%2)))
				return w.DB.ZAdd(w.Ctx, set, redis.Z{Score: 1, Member: fmt.Sprint("default:ghost-", i)}).Err()
			},
			left: func(w *storetest.World) int64 {
				return w.DB.Exists(w.Ctx, string(w.Keys.Partition(1).Ready("lost-0")), string(w.Keys.Partition(1).Ready("lost-1"))).Val()
			},
			meanwhile: func(w *storetest.World) error { // as the repair of a task does that is in the set
				for _, name := range []string{"lost-0", "lost-1"} {
					if w.DB.ZCard(w.Ctx, string(w.Keys.Partition(1).Ready(name))).Val() == many/2 { // it has not come to that set
						continue
					}
					if err := w.DB.SAdd(w.Ctx, string(w.Keys.Partition(1).Backlog()), name).Err(); err != nil {
						return err
					}
				}
				return nil
			},
		},
		"id-never-forgotten": {
			damage: func(w *storetest.World, i int) error {
				return w.DB.HSet(w.Ctx, string(w.Keys.Partition(0).Remembered()), fmt.Sprint("default:gone-", i), "x").Err()
			},
			left: func(w *storetest.World) int64 {
				return many - w.DB.LLen(w.Ctx, string(w.Keys.Partition(0).RememberedOrder())).Val()
			},
		},
	} {
		t.Run(check, func(t *testing.T) {
			t.Parallel()
			w := storetest.New(t)
			for _, ref := range []task.Ref{first, second} {
				w.Put(storetest.Daily(func(d *schedule.Definition) { d.Ref = ref }))
			}
			for i := range many {
				testkit.Must(t, c.damage(w, i))
			}
			d, parts := newDoctor(w, 100), 0
			for r := (doctor.Request{Checks: []string{check}, Repair: true}); ; parts++ {
				report, err := d.Examine(w.Ctx, r)
				testkit.Must(t, err)
				if n := report.Results[0].Repaired; n > 600 { // a page of 500, and what Redis adds to it
					t.Errorf("one examination repaired %d", n)
				}
				if r.Cursor = report.NextCursor; r.Cursor == "" {
					break
				}
				if c.meanwhile != nil {
					testkit.Must(t, c.meanwhile(w))
				}
			}
			if left := c.left(w); left != 0 || parts == 0 {
				t.Errorf("%d are left after %d parts", left, parts)
			}
		})
	}
}

// One key can have more entries than one examination looks at. Each entry is looked at once, the last one, too.
func TestExamine_GoesOnWithinTheEntriesOfAKey(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	const many = 1000
	logged, planned := task.Ref{Namespace: "default", ID: "logged"}, task.Ref{Namespace: "default", ID: "planned"}
	for kind, fill := range map[string]func(w *storetest.World, pipe redis.Pipeliner, i int, good bool){
		"the lines of a log": func(w *storetest.World, pipe redis.Pipeliner, i int, good bool) {
			fields := map[bool][]any{true: {"text", "hello", "at", 1}, false: {"x", "y"}}[good]
			id := fmt.Sprintf("%d-%d", 1+i/100, 1+i%100)
			pipe.XAdd(w.Ctx, &redis.XAddArgs{Stream: string(w.KeysOf(logged).Log(logged)), ID: id, Values: fields})
		},
		"the records of a ledger": func(w *storetest.World, pipe redis.Pipeliner, i int, good bool) {
			at := time.Date(2026, 1, 1, 0, 0, i, 0, time.UTC)
			outcome := map[bool]string{true: "fired", false: "odd"}[good]
			record := fmt.Sprintf("%s %s 1 0 1 1 ", schedule.TickName(at), outcome)
			z := redis.Z{Score: float64(at.UnixMilli()), Member: record}
			pipe.ZAdd(w.Ctx, string(w.KeysOf(planned).Ledger(planned)), z)
		},
		"the limits": func(w *storetest.World, pipe redis.Pipeliner, i int, good bool) {
			pipe.HSet(w.Ctx, string(w.Keys.Limits()), fmt.Sprint("queue-", i), map[bool]string{true: "5", false: "x"}[good])
		},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := storetest.New(t)
			pipe := w.DB.Pipeline()
			for i := range many {
				fill(w, pipe, i, i < many-1)
			}
			_, err := pipe.Exec(w.Ctx)
			testkit.Must(t, err)
			d, looked, found := newDoctor(w, 100), 0, 0
			for r := (doctor.Request{Checks: []string{"entry-unreadable"}}); ; {
				report, err := d.Examine(w.Ctx, r)
				testkit.Must(t, err)
				result := report.Results[0]
				if looked, found = looked+result.Looked, found+result.Found; result.Looked > 500 {
					t.Errorf("one examination looked at %d", result.Looked)
				}
				if r.Cursor = report.NextCursor; r.Cursor == "" {
					break
				}
			}
			if looked < many || found != 1 { // Redis may list an entry of a hash twice
				t.Errorf("it looked at %d, and found %d", looked, found)
			}
		})
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
		if want := map[bool]int{true: 1}[r.Name == "task-lost"]; r.Found != want {
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
		want = append(want, "default:due is overdue by 10m0s in "+wheel)
	}
	slices.Sort(want)
	if diff := cmp.Diff(want[:min(len(want), doctor.ExampleLimit)], examine()); diff != "" {
		t.Errorf("of what has been due for 10 minutes (-want +got):\n%s", diff)
	}
}

// Tasks wait in a queue whose only node is cordoned, and in one that nobody has ever served.
func TestExamine_NamesTheCordonOfAQueue(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	for _, name := range []string{"mails", "other"} {
		ref := task.Ref{Namespace: "default", ID: name}
		w.Create(task.Definition{Ref: ref, Type: "http", Queue: name})
		_, err := w.Leader(ref).Claim(w.Ctx, 10, handover.Grant{Default: 0}, time.Second)
		testkit.Must(t, err)
	}
	cordoned := cluster.Node{
		ID: "n1", State: cluster.StateAlive, Roles: []string{"worker"}, Queues: map[string]int{},
		Cordon: &cluster.Cordon{Of: "vm", Queues: map[string]int{"mails": 1}},
	}
	report, err := newDoctor(w, 1000, cordoned).Examine(w.Ctx, doctor.Request{Checks: []string{"unserved-queues"}})
	testkit.Must(t, err)
	const want = "mails (1; vm serves it, and is cordoned), other (1)"
	if got := report.Results[0]; got.Detail != want || got.Severity != doctor.Warning {
		t.Errorf("%s: %s", got.Severity, got.Detail)
	}
}

// What nobody runs waits with all others that have no name, if there are too many names: see apart.lua.
func TestExamine_LetsADueTaskWaitWithoutAName(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	ref := task.Ref{Namespace: "default", ID: "nameless"}
	k := w.KeysOf(ref)
	for i := range contract.WaitingNamesLimit {
		testkit.Must(t, w.DB.SAdd(w.Ctx, string(k.Backlog()), fmt.Sprint("queue-", i)).Err())
	}
	w.Create(task.Definition{Ref: ref, Type: "nobody-runs-it"})
	served := lua.ServedText([]lua.Offer{{Queues: []string{"default"}, Types: []string{"http"}}})
	_, err := w.Leader(ref).Claim(w.Ctx, 10, handover.Grant{Default: 10, Served: served}, time.Second)
	testkit.Must(t, err)
	if n := w.DB.ZCard(w.Ctx, string(k.Ready(lua.Unnamed))).Val(); n != 1 {
		t.Fatalf("%d tasks wait without a name", n)
	}
	looked := map[string]int{}
	checks := []string{"scheduled-lost", "index-drift", "backlog-unlisted"}
	for r := (doctor.Request{Checks: checks}); ; { // a slow machine takes longer than one examination may
		report, err := newDoctor(w, 1000).Examine(w.Ctx, r)
		testkit.Must(t, err)
		for _, result := range report.Results {
			if looked[result.Check.Name] += result.Looked; result.Found > 0 {
				t.Errorf("%v: it found %d: %v", result.Check, result.Found, result.Examples)
			}
		}
		if r.Cursor = report.NextCursor; r.Cursor == "" {
			break
		}
	}
	for _, check := range checks {
		if looked[check] == 0 {
			t.Errorf("%s looked at nothing", check)
		}
	}
	report, err := newDoctor(w, 1000).Examine(w.Ctx, doctor.Request{Checks: []string{"unserved-queues"}})
	testkit.Must(t, err)
	if said := report.Results[0].Detail; !strings.Contains(said, "1 of further queues and types") {
		t.Errorf("it says %q", said)
	}
}
