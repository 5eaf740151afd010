package control_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/doctor"
	"github.com/dts-sched/dts/internal/store/schedules"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// A task that has begun, and of which nobody knows any more how it went on, may not run a second time by itself.
func TestExamine_RunsNothingAgainThatHasNoState(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	for p := range w.Partitions.Count() {
		w.do("DEL", w.Keys.Partition(p).States())
	}
	w.Lapse(ref("running"))
	w.examine(control.DoctorRequest{Repair: true})
	for id, want := range map[string]string{
		"succeeded": "succeeded succeeded", "failed": "failed failed", "cancelled": "cancelled ",
		"running": "failed lost", "waiting": "scheduled ", "retried": "scheduled ", "queued": "queued ",
	} {
		got := w.Get(ref(id))
		if said := fmt.Sprintf("%s %s", got.State, got.Outcome); said != want || got.Damage != "" {
			t.Errorf("%s is %s (%s), want %s", id, said, got.Damage, want)
		}
	}
	if got := w.Get(ref("running")).Error; !strings.Contains(got, "retry it if it may run twice") {
		t.Errorf("the task that ran failed with %q", got)
	}
	w.examine(control.DoctorRequest{Repair: true}) // what was lost is listed now
	if left := findings(w.examine(control.DoctorRequest{})); len(left) > 0 {
		t.Errorf("after the repair it finds %v", left)
	}
}

// Of a task that no list and no trace tells anything of, nobody knows whether it has begun.
func TestExamine_RunsNothingAgainThatMayRunOnceOnly(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	for _, once := range []bool{true, false} {
		d := task.Definition{Ref: ref(fmt.Sprint("once-", once)), Type: "http", Delay: time.Hour}
		want := task.Scheduled
		if once {
			d.Retry.MaxAttempts, want = 1, task.Failed
		}
		w.Create(d)
		w.do("ZREM", w.KeysOf(d.Ref).Wheel(), d.Ref)
		w.examine(control.DoctorRequest{Repair: true})
		if got := w.Get(d.Ref); got.State != want || once && got.Outcome != task.OutcomeLost {
			t.Errorf("with at most one attempt %v: it is %s, %s, %q, want %s", once, got.State, got.Outcome, got.Error, want)
		}
	}
}

// A full Redis still reads. What is wrong is found, also by checks that cannot repair it now, and nothing is said of an
// unreachable Redis.
func TestExamine_GoesOnWhileRedisIsFull(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	inOrder := breakages[0]
	inOrder.name, inOrder.damage = "nothing is broken", func(*ward) {}
	for _, b := range append(testkit.Sample(t, 8, breakages), inOrder) {
		t.Run(b.check+"/"+b.name, func(t *testing.T) {
			t.Parallel()
			w := newWard(t)
			b.damage(w)
			before := findings(w.examine(control.DoctorRequest{}))
			w.do("CONFIG", "SET", "maxmemory", 1)
			results := w.examine(control.DoctorRequest{})
			if diff := cmp.Diff(slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(findings(results)))); diff != "" {
				t.Errorf("findings (-with room, +while it is full):\n%s", diff)
			}
			if m := results["memory"]; m.Severity != doctor.Error {
				t.Errorf("memory: %s, %s", m.Severity, m.Detail)
			}
			for name, r := range results {
				if b.name == inOrder.name && r.OfData && r.Severity != doctor.OK {
					t.Errorf("%s: %s, %s", name, r.Severity, r.PassedOver)
				}
			}
			if b.name == inOrder.name {
				return
			}
			mended := w.examine(control.DoctorRequest{Checks: []string{b.check}, Repair: true})[b.check]
			mustRepair := mended.Repairs && !b.byHand && !strings.Contains(mended.PassedOver, "OOM")
			if mended.Found == 0 || mustRepair && mended.Repaired < mended.Found {
				t.Errorf("found %d, repaired %d: %q", mended.Found, mended.Repaired, mended.PassedOver)
			}
		})
	}
}

// An id that is not in its order takes a longer look, which needs no writes either.
func TestExamine_RepairsNoIDWhileRedisIsFull(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	w.do("DEL", w.KeysOf(ref("deleted")).RememberedOrder())
	w.do("CONFIG", "SET", "maxmemory", 1)
	for _, repair := range []bool{false, true} {
		r := w.examine(control.DoctorRequest{Repair: repair})["id-never-forgotten"]
		if r.Found != 1 || r.Repaired != 0 || strings.Contains(r.PassedOver, "OOM") != repair {
			t.Errorf("repair %t: found %d, repaired %d: %q", repair, r.Found, r.Repaired, r.PassedOver)
		}
	}
	w.do("CONFIG", "SET", "maxmemory", 0)
	if r := w.examine(control.DoctorRequest{Repair: true})["id-never-forgotten"]; r.Repaired != 1 || r.PassedOver != "" {
		t.Errorf("once there is room, it repaired %d: %q", r.Repaired, r.PassedOver)
	}
}

// After one repair, the tasks that have not ended are live again: neither the next tick starts beside them, nor one
// that waits.
func TestExamine_LetsNoTicksOverlapAfterwards(t *testing.T) {
	t.Parallel()
	for _, damage := range []string{"SET", "DEL"} {
		for _, overlap := range []schedule.Overlap{schedule.OverlapSkip, schedule.OverlapQueue} {
			t.Run(damage+"/"+string(overlap), func(t *testing.T) {
				t.Parallel()
				w := newWard(t)
				often := ref("often")
				w.Put(storetest.Daily(func(d *schedule.Definition) {
					d.Ref, d.Overlap, d.Rules = often, overlap, []schedule.Rule{{Every: time.Hour}}
					d.Misfire = schedule.Misfire{Policy: schedule.MisfireAll, Window: 1000 * time.Hour}
				}))
				w.Rewind(often, 2*time.Hour+time.Minute)
				w.Fire(often)
				for id := range w.TasksOf(often) {
					_, tick, _ := strings.Cut(id, "@")
					w.BeginTick(often, tick)
				}
				live := string(w.KeysOf(often).Live(often))
				w.do("DEL", live)
				if damage == "SET" {
					w.do("SET", live, "x")
				}
				w.examine(control.DoctorRequest{Repair: true})
				w.MakeDue(often)
				w.Fire(often)
				_, err := w.Trigger(often)
				states := w.TasksOf(often)
				if refused := err != nil; len(states) != 1 || refused != (overlap == schedule.OverlapSkip) {
					t.Errorf("tasks %v, a trigger got %v", states, err)
				}
				if left := findings(w.examine(control.DoctorRequest{})); len(left) > 0 {
					t.Errorf("it finds %v", left)
				}
			})
		}
	}
}

// A schedule that was put aside as a whole can have a task that still runs: one that is put under its id does not start
// beside it. Once that task is over, its list goes aside, too.
func TestExamine_KeepsWhatStillRunsOfAScheduleThatIsPutAside(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	often := ref("often")
	hourly := storetest.Daily(func(d *schedule.Definition) { d.Ref, d.Rules = often, []schedule.Rule{{Every: time.Hour}} })
	due := func() {
		w.Put(hourly)
		w.Rewind(often, time.Hour+time.Minute)
		w.Fire(often)
	}
	setAside := func() {
		w.do("HSET", w.KeysOf(often).Schedule(often), "def", "{")
		w.examine(control.DoctorRequest{Repair: true})
		if left := findings(w.examine(control.DoctorRequest{})); len(left) > 0 {
			t.Errorf("after the repair it finds %v", left)
		}
	}
	due()
	setAside()
	due()
	if states := w.TasksOf(often); len(states) != 1 {
		t.Errorf("tasks %v, want only the first one", states)
	}
	for id := range w.TasksOf(often) {
		_, err := w.Tasks.Cancel(w.Ctx, ref(id), "")
		testkit.Must(t, err)
		_, tick, _ := strings.Cut(id, "@")
		w.do("ZADD", w.KeysOf(often).Live(often), 1, tick)
	}
	setAside()
	if n := w.DB.Exists(w.Ctx, string(w.KeysOf(often).Live(often))).Val(); n > 0 {
		t.Error("the list of live tasks is left, and none runs")
	}
}

// A task that was backfilled counts for no overlap, and one of an earlier schedule of that name does not either.
func TestExamine_CountsNoOtherTasksAsLive(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	w.do("DEL", w.KeysOf(storetest.Nightly).Live(storetest.Nightly))
	later := time.Now().Add(time.Minute).UnixMilli()
	w.do("HSET", w.KeysOf(storetest.Nightly).Schedule(storetest.Nightly), "created", later)
	if r := w.examine(control.DoctorRequest{Checks: []string{"live-lost"}})["live-lost"]; r.Found > 0 || r.Looked == 0 {
		t.Errorf("of an earlier schedule: %+v", r)
	}
	often := ref("often")
	w.Put(storetest.Daily(func(d *schedule.Definition) { d.Ref, d.Rules = often, []schedule.Rule{{Every: time.Hour}} }))
	past := w.Schedule(often).Cursor.Add(-time.Hour).Truncate(time.Second)
	_, err := w.Schedules.Backfill(w.Ctx, often, []schedule.Tick{{At: past}}, 0, schedules.Asker{})
	testkit.Must(t, err)
	if r := w.examine(control.DoctorRequest{Checks: []string{"live-lost"}})["live-lost"]; r.Found > 0 {
		t.Errorf("of a backfill: %v", r.Examples)
	}
}

// The tasks of a set that is put aside wait on the wheel after the same repair.
func TestExamine_MendsReadyTasksInOneRepair(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	w.do("SET", w.KeysOf(ref("ready")).Ready("full"), "x")
	w.examine(control.DoctorRequest{Repair: true})
	if left := findings(w.examine(control.DoctorRequest{})); len(left) > 0 {
		t.Errorf("after one repair it finds %v", left)
	}
	if w.DB.ZScore(w.Ctx, string(w.KeysOf(ref("ready")).Wheel()), ref("ready").String()).Err() != nil {
		t.Error("the task is not on the wheel")
	}
}

// pasts are what tasks have done: they wait, or have ended.
var pasts = map[string]func(w *ward, past task.Ref){
	"waits for its second attempt": func(*ward, task.Ref) {},
	"waits, and its first entry is none": func(w *ward, past task.Ref) {
		w.do("LSET", w.KeysOf(past).Attempts(past), 0, "{")
	},
	"failed at its second attempt": func(w *ward, past task.Ref) { w.end(past, task.Failed, task.OutcomeFailed) },
	"cancelled during its second attempt": func(w *ward, past task.Ref) {
		w.end(past, task.Cancelled, task.OutcomeCancelled)
	},
	"cancelled after its first attempt": func(w *ward, past task.Ref) {
		_, err := w.Tasks.Cancel(w.Ctx, past, "")
		testkit.Must(w.t, err)
	},
	"ran its second attempt": func(w *ward, past task.Ref) {
		w.begin(past)
		w.Lapse(past)
	},
	"is queued for its second attempt": func(w *ward, past task.Ref) {
		w.do("ZADD", w.KeysOf(past).Wheel(), 1, past)
		w.Claim(past)
	},
	"waits, and its attempt is only in its log": func(w *ward, past task.Ref) {
		w.do("DEL", w.KeysOf(past).Attempts(past))
		w.do("HDEL", w.KeysOf(past).Errors(), past)
		w.do("XADD", w.KeysOf(past).Log(past), "1-1", "text", "hello", "at", 1)
	},
}

// begin begins the next attempt of a task, as if it was due now.
func (w *ward) begin(of task.Ref) *tasks.Run {
	w.t.Helper()
	w.do("ZADD", w.KeysOf(of).Wheel(), 1, of)
	return w.Begin(of)
}

// end runs the next attempt of a task to its end.
func (w *ward) end(of task.Ref, state task.State, outcome task.Outcome) {
	w.t.Helper()
	testkit.Must(w.t, w.begin(of).Finish(w.Ctx, state, outcome, "", "boom"))
}

// An attempt starts once: the number of the next one is none of those that have begun, after a retry, too.
func TestExamine_BeginsNoAttemptTwice(t *testing.T) {
	t.Parallel()
	for name, bring := range pasts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWard(t)
			past := ref("past")
			w.Create(task.Definition{Ref: past, Retry: task.Retry{MaxAttempts: 9}})
			testkit.Must(t, w.Begin(past).Reattempt(w.Ctx, time.Hour, task.OutcomeFailed, "boom"))
			bring(w, past)
			before := w.Get(past)
			w.do("HDEL", w.KeysOf(past).States(), past)
			w.examine(control.DoctorRequest{Repair: true})
			after := w.Get(past)
			if before.State == task.Scheduled && (after.State != task.Scheduled || !after.DueAt.Equal(before.DueAt)) {
				t.Errorf("it is %s, and due at %s instead of %s", after.State, after.DueAt, before.DueAt)
			}
			if !after.FinishedAt.IsZero() && after.StartedAt.After(after.FinishedAt) {
				t.Errorf("it started at %s, and ended at %s", after.StartedAt, after.FinishedAt)
			}
			if after.State.Final() {
				_, err := w.Tasks.Retry(w.Ctx, past)
				testkit.Must(t, err)
			}
			begun := before.Attempt
			if before.State == task.Queued {
				begun--
			} else {
				w.do("ZADD", w.KeysOf(past).Wheel(), 1, past)
			}
			if next := w.Begin(past).Task.Attempt; next <= begun {
				t.Errorf("attempt %d begins after attempt %d", next, begun)
			}
			numbers := make(map[int]bool)
			attempts, err := w.Tasks.Attempts(w.Ctx, past)
			testkit.Must(t, err)
			for _, a := range attempts {
				if numbers[a.Number] {
					t.Errorf("attempt %d is there twice: %+v", a.Number, attempts)
				}
				numbers[a.Number] = true
			}
		})
	}
}

// A check that needs the state of a task says that it has none, also where nobody asked for state-lost.
func TestExamine_PassesOverWhatHasNoState(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	w.do("HDEL", w.KeysOf(ref("failed")).States(), ref("failed"))
	for _, repair := range []bool{false, true} {
		checks := []string{"index-drift", "finished-lost", "running-lost", "payload-lost"}
		for name, r := range w.examine(control.DoctorRequest{Checks: checks, Repair: repair}) {
			if r.Severity != doctor.Unknown || r.Found > 0 ||
				r.PassedOver != "default:failed was not looked at: it has no state" {
				t.Errorf("%s, repair %t: %s, found %d, passed over %q", name, repair, r.Severity, r.Found, r.PassedOver)
			}
		}
	}
	w.do("HDEL", w.KeysOf(ref("queued")).States(), ref("queued"))
	r := w.examine(control.DoctorRequest{Checks: []string{"delivery-missing"}})["delivery-missing"]
	if !strings.HasPrefix(r.PassedOver, "default:queued was not looked at: its state is lost") {
		t.Errorf("delivery-missing: %s, passed over %q", r.Severity, r.PassedOver)
	}
}

// A task without a definition is one finding, wherever something of it is.
func TestExamine_CountsALostTaskOnce(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	w.do("HDEL", w.KeysOf(ref("ready")).Defs(), ref("ready"))
	w.do("HSET", w.KeysOf(ref("ready")).Payloads(), ref("ready"), "17")
	for _, repair := range []bool{false, true} {
		results := w.examine(control.DoctorRequest{Checks: []string{"task-lost", "task-leftovers"}, Repair: repair})
		if n := results["task-lost"].Found + results["task-leftovers"].Found; n != 1 {
			t.Errorf("repair %t: found %d: %q", repair, n, results["task-lost"].Examples)
		}
	}
	if kept := w.aside(); len(kept) != 1 {
		t.Errorf("aside are %q", kept)
	}
}
