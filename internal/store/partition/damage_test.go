package partition_test

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/handover"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
)

// neighbour is a schedule in the same partition as another one.
func neighbour(w *storetest.World, of task.Ref) task.Ref {
	return w.NameIn(w.PartitionOf(of), of.Namespace, "s")
}

// hourly puts a schedule with two due ticks, all of which run.
func hourly(w *storetest.World, ref task.Ref) {
	w.Put(storetest.Daily(func(d *schedule.Definition) {
		d.Ref, d.Rules, d.Overlap = ref, []schedule.Rule{{Every: time.Hour}}, schedule.OverlapAllow
		d.Misfire = schedule.Misfire{Policy: schedule.MisfireAll, Window: 1000 * time.Hour}
	}))
	w.Rewind(ref, 2*time.Hour+time.Minute)
}

// fireAll plans and applies due ticks of a partition until none is due, and returns how many were decided. ErrDamaged
// is no failure.
func fireAll(t *testing.T, w *storetest.World, l *partition.Leader) (decided map[task.Ref]int) {
	t.Helper()
	decided = make(map[task.Ref]int)
	for range 20 {
		due, err := l.Due(w.Ctx, 10, true)
		testkit.Must(t, err)
		if len(due.Agendas) == 0 {
			return decided
		}
		for _, a := range due.Agendas {
			fired := w.FireOnce(storetest.Fence, a)
			if fired.Err != nil && !errors.Is(fired.Err, partition.ErrDamaged) {
				t.Fatalf("%s: %v", a.Ref, fired.Err)
			}
			decided[a.Ref] += len(fired.Ticked)
		}
	}
	t.Fatal("schedules are due without end")
	return nil
}

// A key that belongs to one task, schedule, queue or namespace holds up nothing else of its partition, whatever kind it
// is.
func TestLeader_GoesOnPastADamagedKey(t *testing.T) {
	t.Parallel()
	for _, kind := range storetest.Kinds() {
		if !kind.InPartition() || !strings.Contains(kind.Pattern, "<") {
			continue
		}
		t.Run(kind.Name, func(t *testing.T) {
			t.Parallel()
			w := storetest.New(t)
			other, p := neighbour(w, nightly), w.PartitionOf(nightly)
			hourly(w, nightly)
			w.Fire(nightly)
			w.Rewind(nightly, 2*time.Hour)
			hourly(w, other)
			name := schedule.TickName(time.Now().Add(-time.Hour).Truncate(time.Second))
			retried := task.Ref{Namespace: "default", ID: "nightly@" + name}
			w.Create(task.Definition{Ref: retried, Retry: task.Retry{MaxAttempts: 3}})
			run := w.Begin(retried)
			ref := nightly.String()
			if slices.Contains(storetest.OfTasks, kind.Name) {
				ref = retried.String()
			}
			storetest.Spoil(t, w.DB, kind, storetest.KeyOf(t, kind, p, ref))
			if kind.Name == "ready" { // as if tasks had waited there
				testkit.Must(t, w.DB.SAdd(w.Ctx, string(w.KeysOf(nightly).Backlog()), "full").Err())
			}
			goesOn(t, w, other)
			again := tasks.End{Run: run, State: task.Scheduled, Outcome: task.OutcomeFailed, Span: time.Millisecond}
			testkit.Must(t, w.Tasks.FinishEach(w.Ctx, []tasks.End{again})[0])
			testkit.Must(t, w.Begin(retried).Finish(w.Ctx, task.Failed, task.OutcomeFailed, "", "boom"))
			if got := w.Get(retried); got.State != task.Failed || got.Attempt != 2 {
				t.Errorf("the task is %s after attempt %d", got.State, got.Attempt)
			}
			over := redis.Z{Score: 1, Member: retried.String()}
			testkit.Must(t, w.DB.ZAdd(w.Ctx, string(w.KeysOf(retried).Expiry()), over).Err())
			swept, err := w.Leader(nightly).Sweep(w.Ctx, partition.Keep{Tasks: 1000}, 100)
			if err != nil || swept.Deleted != 1 || w.Get(retried).State != task.None {
				t.Errorf("swept %+v, %v", swept, err)
			}
		})
	}
}

// goesOn checks that a leader fires the ticks of a schedule, claims due tasks of all queues and looks after what it
// claimed.
func goesOn(t *testing.T, w *storetest.World, other task.Ref) {
	t.Helper()
	l := w.Leader(other)
	if decided := fireAll(t, w, l); decided[other] != 2 {
		t.Errorf("decided %v, want 2 ticks of %s", decided, other)
	}
	full := task.Ref{Namespace: "default", ID: other.ID + "@full"}
	w.Create(task.Definition{Ref: full, Queue: "full"})
	quotas := handover.Grant{Default: 100, Lanes: handover.Quotas{{Queue: "full"}: {}}}
	ticks := 0
	for _, quotas.Known = range []bool{true, false} {
		claimed, err := l.Claim(w.Ctx, 100, quotas, time.Second)
		testkit.Must(t, err)
		for _, d := range claimed.Deliveries {
			if d.Ref == full {
				t.Error("it claimed a task of a queue that is full")
			}
			if strings.HasPrefix(d.Ref.ID, other.ID+"@") {
				ticks++
			}
		}
	}
	if ticks == 0 {
		t.Errorf("it claimed no task of a tick of %s", other)
	}
	minuteLater := redis.Z{Score: 1, Member: full.String()}
	testkit.Must(t, w.DB.ZAddXX(w.Ctx, string(w.KeysOf(full).Wheel()), minuteLater).Err())
	quotas.Lanes[handover.Lane{Queue: "full"}] = handover.Quota{Number: 1}
	for _, quotas.Known = range []bool{true, false} {
		_, err := l.Claim(w.Ctx, 100, quotas, time.Second)
		testkit.Must(t, err)
	}
	if got := w.Get(full).State; got != task.Queued {
		t.Errorf("when its queue has room, the task is %s", got)
	}
	_, err := l.LookAfter(w.Ctx, partition.Look{Again: time.Minute, Limit: 100, All: true})
	testkit.Must(t, err)
}

// breakReady gives the set of tasks that wait under a name another type.
func breakReady(t *testing.T, w *storetest.World, name string) {
	t.Helper()
	k := w.KeysOf(sibling(0))
	testkit.Must(t, w.DB.Del(w.Ctx, string(k.Ready(name))).Err())
	testkit.Must(t, w.DB.Set(w.Ctx, string(k.Ready(name)), "garbage", 0).Err())
	testkit.Must(t, w.DB.SAdd(w.Ctx, string(k.Backlog()), name).Err())
}

// A task that can wait nowhere, as nobody serves it and the set of its name is damaged, stays on the wheel.
func TestClaim_GoesPastBrokenSetsOfReadyTasks(t *testing.T) {
	t.Parallel()
	served := lua.ServedText([]lua.Offer{{Queues: []string{"default"}, Types: []string{"http"}}})
	for _, name := range []string{"default shell", "none", lua.Unnamed} {
		for _, known := range []bool{true, false} {
			w := storetest.New(t)
			breakReady(t, w, name)
			waits := map[string]task.Ref{"default shell": sibling(1), "none": sibling(2), lua.Unnamed: {}}
			w.Create(task.Definition{Ref: sibling(0)})
			w.Create(task.Definition{Ref: sibling(1), Type: "shell"})
			w.Create(task.Definition{Ref: sibling(2), Queue: "none"})
			quotas := handover.Grant{Default: 10, Served: served, Known: known, Unnamed: lua.FirstUnnamed}
			got, err := w.Leader(sibling(0)).Claim(w.Ctx, 100, quotas, time.Second)
			testkit.Must(t, err)
			if len(got.Deliveries) != 1 || got.Deliveries[0].Ref != sibling(0) {
				t.Errorf("%q: claimed %v", name, got.Deliveries)
			}
			for place, ref := range waits {
				at := w.DB.ZScore(w.Ctx, string(w.KeysOf(sibling(0)).Wheel()), ref.String()).Val()
				if (at > 0) != (place == name && ref != task.Ref{}) {
					t.Errorf("%q is broken, and %s is on the wheel at %.0f", name, ref, at)
				}
			}
		}
	}
}

// How many names each namespace has is counted by the first task that waits under each of them.
func TestClaim_CountsNamesPastABrokenSet(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w, quotas := withUnnamed(t)
	breakReady(t, w, "default default-7")
	many(t, w, "other", 3)
	_, err := w.Leader(sibling(0)).Claim(w.Ctx, 256, quotas, time.Second)
	testkit.Must(t, err)
	if !w.DB.SIsMember(w.Ctx, string(w.KeysOf(sibling(0)).Backlog()), "default other-1").Val() {
		t.Error("tasks of another namespace have got no name")
	}
}

// What nobody can run any more ends, and comes back to the leader no more.
func TestLookAfter_ReturnsWhatCannotBeReadApart(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	queued, running := sibling(1), sibling(2)
	w.Create(task.Definition{Ref: running})
	w.Begin(running)
	w.Create(task.Definition{Ref: queued})
	w.Claim(queued)
	w.Lapse(running)
	k := w.KeysOf(queued)
	garbage := []string{queued.String(), "garbage", running.String(), "1767366245120{\"type\"\n{}"}
	testkit.Must(t, w.DB.HSet(w.Ctx, string(k.Defs()), garbage).Err())
	testkit.Must(t, w.DB.ZAdd(w.Ctx, string(k.Queued()), redis.Z{Member: queued.String()}).Err())
	watched, err := w.Leader(queued).LookAfter(w.Ctx, partition.Look{Again: time.Minute, Limit: 10})
	testkit.Must(t, err)
	if len(watched.Damaged) != 1 || watched.Damaged[0].Ref != queued ||
		len(watched.Lapsed) != 1 || len(watched.Queued) != 0 {
		t.Fatalf("to look after: %+v", watched)
	}
	loss := partition.Loss{Reason: "lost"}
	testkit.Must(t, w.Leader(queued).Reap(w.Ctx, watched.Lapsed[0], watched.Now, watched.Until, loss))
	if got := w.Get(running); got.State != task.Failed || got.Outcome != task.OutcomeLost {
		t.Errorf("the run ended %s, %s", got.State, got.Outcome)
	}
}

// Nobody serves a queue whose name is none: its task is claimed all the same, and ends as others that cannot be read.
// Its neighbours, whose definitions begin alike, wait where they belong.
func TestClaim_QueuesATaskWhoseQueueIsNoName(t *testing.T) {
	t.Parallel()
	for _, queue := range []string{`"de fault:x"`, `5`, `"a\"b"`, `""`} {
		w := storetest.New(t)
		refs := []task.Ref{sibling(1), sibling(2), sibling(3)}
		ref, k := refs[1], w.KeysOf(refs[1])
		for _, r := range refs {
			w.Create(task.Definition{Ref: r, Queue: "nobody"})
		}
		damaged := `1767366245120{"type":"http","queue":` + queue + "}\n{}"
		testkit.Must(t, w.DB.HSet(w.Ctx, string(k.Defs()), ref.String(), damaged).Err())
		if queue != `""` { // which readers take for the default
			damaged = ""
		}
		quotas := handover.Grant{Default: 10, Served: ",default, * \n"}
		claimed, err := w.Leader(ref).Claim(w.Ctx, 10, quotas, time.Second)
		testkit.Must(t, err)
		if got := w.Get(ref); got.State != task.Queued || (len(claimed.Deliveries) == 1) != (damaged != "") {
			t.Errorf("queue %s: it is %s, and handed over are %v", queue, got.State, claimed.Deliveries)
		}
		if n := w.DB.ZCard(w.Ctx, string(k.Ready("nobody"))).Val(); n != 2 {
			t.Errorf("queue %s: %d neighbours wait", queue, n)
		}
		testkit.Must(t, w.DB.ZAdd(w.Ctx, string(k.Queued()), redis.Z{Member: ref.String()}).Err())
		watched, err := w.Leader(ref).LookAfter(w.Ctx, partition.Look{Again: time.Minute, Limit: 10})
		testkit.Must(t, err)
		if (len(watched.Damaged) == 1) != (damaged == "") {
			t.Errorf("queue %s: to look after: %+v", queue, watched)
		}
	}
}

// A cursor that is no number could be neither moved nor left alone.
func TestDue_PostponesAScheduleWithGarbageInANumber(t *testing.T) {
	t.Parallel()
	for _, field := range []string{"revision", "cursor", "from", "created", "runs", "ended"} {
		t.Run(field, func(t *testing.T) {
			t.Parallel()
			w := storetest.New(t)
			hourly(w, nightly)
			k := w.KeysOf(nightly)
			testkit.Must(t, w.DB.HSet(w.Ctx, string(k.Schedule(nightly)), field, "x").Err())
			due, err := w.Leader(nightly).Due(w.Ctx, 10, false)
			if err != nil || len(due.Agendas) != 0 {
				t.Errorf("due are %v, %v", due.Agendas, err)
			}
			if at := w.DB.ZScore(w.Ctx, string(k.Ticks()), nightly.String()).Val(); at < float64(time.Now().UnixMilli()) {
				t.Errorf("it is due at %f", at)
			}
		})
	}
}

// Nobody knows which ticks a revision had that is garbage, or was put aside: the ledger says so, and the schedule goes
// on.
func TestFire_RecordsTheHolesOfAHistory(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(w *storetest.World, history string) error{
		"garbage": func(w *storetest.World, history string) error {
			return w.DB.LSet(w.Ctx, history, 0, "garbage").Err()
		},
		"put aside": func(w *storetest.World, history string) error { return w.DB.LPop(w.Ctx, history).Err() },
		"all gone":  func(w *storetest.World, history string) error { return w.DB.Del(w.Ctx, history).Err() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := storetest.New(t)
			hourly(w, nightly)
			w.Rewind(nightly, 5*time.Hour)
			w.Put(storetest.Daily(func(d *schedule.Definition) {
				d.Rules, d.Overlap = []schedule.Rule{{Every: 7 * time.Hour}}, schedule.OverlapAllow
			}))
			k := w.KeysOf(nightly)
			testkit.Must(t, damage(w, string(k.History(nightly))))
			w.MakeDue(nightly)
			if decided := fireAll(t, w, w.Leader(nightly)); decided[nightly] != 1 {
				t.Errorf("decided %v, want the hole", decided)
			}
			s := w.Schedule(nightly)
			entries, err := w.Schedules.LedgerEntries(w.Ctx, nightly, time.Time{}, time.Now())
			testkit.Must(t, err)
			if len(entries) != 1 || entries[0].Outcome != schedule.Missed || !entries[0].Tick.Equal(s.UpdatedAt) ||
				!strings.HasPrefix(entries[0].Reason, "revision 1 is missing or cannot be read") {
				t.Errorf("the ledger has %+v", entries)
			}
			if s.Cursor.Before(s.UpdatedAt) {
				t.Errorf("its ticks are decided up to %s, and the next one is after %s", s.Cursor, s.UpdatedAt)
			}
		})
	}
}

// Garbage in the lists of a schedule is passed over, and its ticks go on.
func TestFire_PassesOverGarbageInListsOfASchedule(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		overlap schedule.Overlap
		damage  func(w *storetest.World) error
	}{
		{"a tick that waits", schedule.OverlapQueue, func(w *storetest.World) error {
			return w.DB.RPush(w.Ctx, string(w.KeysOf(nightly).Waiting(nightly)), "garbage").Err()
		}},
		{"a tick that is replaced", schedule.OverlapReplace, func(w *storetest.World) error {
			return w.DB.RPush(w.Ctx, string(w.KeysOf(nightly).Waiting(nightly)), "garbage").Err()
		}},
		{"a live tick", schedule.OverlapSkip, func(w *storetest.World) error {
			return w.DB.ZAdd(w.Ctx, string(w.KeysOf(nightly).Live(nightly)), redis.Z{Score: 1, Member: "garbage"}).Err()
		}},
		{"a record", schedule.OverlapAllow, func(w *storetest.World) error {
			return w.DB.ZAdd(w.Ctx, string(w.KeysOf(nightly).Ledger(nightly)), redis.Z{Score: 1, Member: "garbage"}).Err()
		}},
		{"a revision", schedule.OverlapAllow, func(w *storetest.World) error {
			return w.DB.LSet(w.Ctx, string(w.KeysOf(nightly).History(nightly)), 0, "garbage").Err()
		}},
		{"how many records there are", schedule.OverlapAllow, func(w *storetest.World) error {
			key := string(w.KeysOf(nightly).Schedule(nightly))
			return w.DB.HSet(w.Ctx, key, "records", "x", "oldest", "y", "known", "z").Err()
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, live := range []bool{false, true} {
				w := storetest.New(t)
				hourly(w, nightly)
				w.Put(storetest.Daily(func(d *schedule.Definition) {
					d.Rules, d.Overlap = []schedule.Rule{{Every: time.Hour}}, c.overlap
				}))
				w.Rewind(nightly, 3*time.Hour)
				if live {
					fireAll(t, w, w.Leader(nightly))
					w.Rewind(nightly, 150*time.Minute)
				}
				testkit.Must(t, c.damage(w))
				w.MakeDue(nightly)
				if decided := fireAll(t, w, w.Leader(nightly)); decided[nightly] == 0 {
					t.Errorf("no tick was decided, as a tick is live: %t", live)
				}
				if live { // a tick that waits goes on to wait then
					continue
				}
				kept, err := w.DB.Keys(w.Ctx, "*aside:*:waiting:*").Result()
				testkit.Must(t, err)
				waits := strings.HasPrefix(c.name, "a tick that")
				if waits != (len(kept) == 1 && w.DB.HExists(w.Ctx, kept[0], "garbage").Val()) {
					t.Errorf("aside are %q", kept)
				}
			}
		})
	}
}

// What cannot be counted does not count as nothing, and hides nothing else.
func TestDepths_KnowsNotWhatADamagedKeyCounts(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	w.Create(task.Definition{Ref: nightly})
	w.Put(storetest.Daily(nil))
	p := w.PartitionOf(nightly)
	k := w.Keys.Partition(p)
	testkit.Must(t, w.DB.SAdd(w.Ctx, string(k.Backlog()), "full").Err())
	sound, err := w.Partitions.Depths(w.Ctx, []int{1 - p, p})
	testkit.Must(t, err)
	if want := (partition.Depth{Scheduled: 1, Overdue: 1, ActiveSchedules: 1, OverdueSchedules: 1}); sound[p] != want {
		t.Fatalf("it has %+v, want %+v", sound[p], want)
	}
	const unknown = partition.Unknown
	waiting := func(d *partition.Depth) { d.Scheduled, d.Overdue = unknown, unknown }
	for key, damage := range map[string]func(*partition.Depth){
		string(k.Ready("full")): waiting,
		string(k.Backlog()):     waiting,
		string(k.Wheel()):       waiting,
		string(k.Queued()):      func(d *partition.Depth) { d.Queued = unknown },
		string(k.Running()):     func(d *partition.Depth) { d.Running = unknown },
		string(k.Expiry()):      func(d *partition.Depth) { d.Finished = unknown },
		string(k.Schedules()):   func(d *partition.Depth) { d.RestingSchedules = unknown },
		string(k.Ticks()): func(d *partition.Depth) {
			d.ActiveSchedules, d.RestingSchedules, d.OverdueSchedules = unknown, unknown, unknown
		},
	} {
		existed := w.DB.Rename(w.Ctx, key, "away:{"+fmt.Sprint(p)+"}").Err() == nil
		testkit.Must(t, w.DB.Set(w.Ctx, key, "garbage", 0).Err())
		want := sound[p]
		damage(&want)
		depths, err := w.Partitions.Depths(w.Ctx, []int{1 - p, p})
		if err == nil || depths[p] != want || depths[1-p] != sound[1-p] {
			t.Errorf("as %s is damaged: %+v, %v; want %+v", key, depths, err, want)
		}
		testkit.Must(t, w.DB.Del(w.Ctx, key).Err())
		if existed {
			testkit.Must(t, w.DB.Rename(w.Ctx, "away:{"+fmt.Sprint(p)+"}", key).Err())
		}
	}
}

// Once somebody has repaired a schedule, it must tick soon; until then, one line a minute is enough.
func TestLeader_LooksSoonAtADamagedScheduleAgain(t *testing.T) {
	t.Parallel()
	var log testkit.Log
	w := storetest.New(t)
	w.Log = slog.New(slog.NewTextHandler(&log, nil))
	hourly(w, nightly)
	k, l := w.KeysOf(nightly), w.Leader(nightly)
	hash, ticks, def := string(k.Schedule(nightly)), string(k.Ticks()), ""
	testkit.Must(t, w.DB.HGet(w.Ctx, hash, "def").Scan(&def))
	testkit.Must(t, w.DB.HSet(w.Ctx, hash, "def", "garbage").Err())
	for range 3 {
		start := time.Now()
		_, err := l.Due(w.Ctx, 10, true)
		testkit.Must(t, err)
		at := time.UnixMilli(int64(w.DB.ZScore(w.Ctx, ticks, nightly.String()).Val()))
		if at.Before(start.Add(time.Second)) || at.After(time.Now().Add(6*time.Second)) {
			t.Errorf("it is due %s later, want some seconds", at.Sub(start))
		}
		testkit.Must(t, w.DB.ZAdd(w.Ctx, ticks, redis.Z{Score: 1, Member: nightly.String()}).Err())
	}
	if got := log.Count("skipping unreadable schedule"); got != 1 {
		t.Errorf("the log says %d times that it is skipped, want once", got)
	}
	testkit.Must(t, w.DB.HSet(w.Ctx, hash, "def", def).Err())
	if decided := fireAll(t, w, l); decided[nightly] != 2 {
		t.Errorf("after the repair, decided %v, want 2 ticks", decided)
	}
}
