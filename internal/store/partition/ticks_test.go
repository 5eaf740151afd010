package partition_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/store/schedules"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
)

var nightly = storetest.Nightly

func TestFire_CreatesTheTaskOfATickOnceAndRecordsIt(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	w.Put(storetest.Daily(nil))
	w.Fire(nightly) // the first plan, without ticks
	w.Rewind(nightly, 24*time.Hour+time.Second)
	a := w.Agenda(nightly)
	fired := w.FireOnce(storetest.Fence, a)
	if fired.Err != nil || !slices.Equal(storetest.Outcomes(fired.Ticked), []schedule.Outcome{schedule.Fired}) {
		t.Fatalf("%+v", fired)
	}
	before := redistest.Dump(t, w.DB)
	if again := w.FireOnce(storetest.Fence, a); !errors.Is(again.Err, schedules.ErrMoved) {
		t.Errorf("repeated: %v, want ErrMoved", again.Err)
	}
	if diff := cmp.Diff(before, redistest.Dump(t, w.DB)); diff != "" {
		t.Errorf("the repetition changed Redis (-before +after):\n%s", diff)
	}
	name := fired.Ticked[0].Name
	tick, _, err := schedule.ParseTickName(name)
	testkit.Must(t, err)
	if diff := cmp.Diff(map[string]task.State{"nightly@" + name: task.Scheduled}, w.TasksOf(nightly)); diff != "" {
		t.Errorf("tasks (-want +got):\n%s", diff)
	}
	page, err := w.Schedules.Ledger(w.Ctx, nightly, schedules.LedgerFilter{}, 10, "")
	testkit.Must(t, err)
	want := []schedule.Entry{{
		Name: schedule.TickName(tick), Tick: tick, Outcome: schedule.Fired, HasTask: true,
		Late: fired.At.Sub(tick), DecidedAt: fired.At, Revision: 1,
	}}
	if diff := cmp.Diff(want, page.Entries); diff != "" {
		t.Errorf("ledger (-want +got):\n%s", diff)
	}
	if s := w.Schedule(nightly); s.Live != 1 || s.Runs != 1 || s.Cursor.Before(tick) {
		t.Errorf("the schedule is %+v", s)
	}
}

// While any queue has a limit, the leader reads the queues of all due schedules. Their tasks can have long payloads.
func TestDue_ReadsQueuesBesideDefinitions(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	hash := string(w.KeysOf(nightly).Schedule(nightly))
	write := func(fields ...any) { testkit.Must(t, w.DB.HSet(w.Ctx, hash, fields...).Err()) }
	put := func(queue string) {
		w.Put(storetest.Daily(func(d *schedule.Definition) { d.Task.Queue = queue }))
	}
	for _, step := range []struct {
		name string
		do   func()
		want string
	}{
		{"put", func() { put("low") }, "low"},
		{"noted", func() { write("queue", "1 noted") }, "noted"}, // in place of that of the definition
		{"put again", func() { put("high") }, "high"},
		{"put by an older node", func() { write("revision", 3, "task", `{"type":"http","queue":"low"}`+"\n") }, "low"},
		{"put after that", func() { put("") }, task.DefaultQueue},
		{"never noted", func() { testkit.Must(t, w.DB.HDel(w.Ctx, hash, "queue").Err()) }, task.DefaultQueue},
	} {
		step.do()
		w.MakeDue(nightly)
		due, err := w.Leader(nightly).Due(w.Ctx, 10, true)
		testkit.Must(t, err)
		if len(due.Agendas) != 1 || due.Agendas[0].Queue != step.want {
			t.Errorf("%s: due are %+v, want the queue %s", step.name, due.Agendas, step.want)
		}
	}
}

func TestFire_WithAnOldFenceChangesNothing(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	w.Put(storetest.Daily(nil))
	w.Rewind(nightly, 25*time.Hour)
	a := w.Agenda(nightly)
	before := redistest.Dump(t, w.DB)
	stale := w.Partitions.At(w.PartitionOf(nightly)).Lead("0:stale")
	if _, err := stale.Due(w.Ctx, 10, false); !errors.Is(err, partition.ErrFenced) {
		t.Errorf("Due: %v, want ErrFenced", err)
	}
	if fired := w.FireOnce("0:stale", a); !errors.Is(fired.Err, partition.ErrFenced) {
		t.Errorf("Fire: %v, want ErrFenced", fired.Err)
	}
	if diff := cmp.Diff(before, redistest.Dump(t, w.DB)); diff != "" {
		t.Errorf("Redis changed (-before +after):\n%s", diff)
	}
}

func TestFire_RefusesAPlanMadeBeforeAChangeOfTheSchedule(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	w.Hourly(3, nil)
	a := w.Agenda(nightly)
	w.Put(storetest.Daily(nil))
	before := redistest.Dump(t, w.DB)
	if fired := w.FireOnce(storetest.Fence, a); !errors.Is(fired.Err, schedules.ErrMoved) {
		t.Errorf("%v, want ErrMoved", fired.Err)
	}
	if diff := cmp.Diff(before, redistest.Dump(t, w.DB)); diff != "" {
		t.Errorf("Redis changed (-before +after):\n%s", diff)
	}
}

// putUnreadable adds a due schedule whose definition is not JSON to a partition, before all others that are due.
func putUnreadable(t *testing.T, w *storetest.World, k lua.Partition, ref task.Ref) {
	t.Helper()
	testkit.Must(t, w.DB.ZAdd(w.Ctx, string(k.Ticks()), redis.Z{Score: -1, Member: ref.String()}).Err())
	testkit.Must(t, w.DB.HSet(w.Ctx, string(k.Schedule(ref)), "def", "{", "revision", 1).Err())
}

func TestDue_AnUnreadableScheduleHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	w.Hourly(1, nil)
	putUnreadable(t, w, w.KeysOf(nightly), task.Ref{Namespace: "default", ID: "broken"})
	if got := storetest.Outcomes(w.Fire(nightly)); !slices.Equal(got, []schedule.Outcome{schedule.Fired}) {
		t.Errorf("outcomes %v, want fired", got)
	}
}

func TestDue_PostponesAnUnreadableScheduleUnderItsFence(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	k := w.KeysOf(nightly)
	putUnreadable(t, w, k, nightly)
	dueAt := func() float64 { return w.DB.ZScore(w.Ctx, string(k.Ticks()), nightly.String()).Val() }
	_, err := w.Leader(nightly).Due(w.Ctx, 10, false)
	testkit.Must(t, err)
	postponed := dueAt()
	if postponed <= 0 {
		t.Error("it was not postponed")
	}
	_, err = redisx.Run(w.Ctx, w.DB, lua.PostponeSchedule{
		Lease: k.Lease(), Ticks: k.Ticks(), Fence: "0:stale", Member: nightly.String(), Delay: time.Second,
	})
	if !redisx.RefusedWith(err, lua.CodeFenced) || dueAt() != postponed {
		t.Errorf("with an old fence: %v, due at %v, want FENCED and %v", err, dueAt(), postponed)
	}
}
