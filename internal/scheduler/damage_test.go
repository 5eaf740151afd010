package scheduler

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/limit"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// A key of the wrong type stays so until somebody repairs it: then work must go on within seconds.
func TestTerm_RestsForSecondsAfterDamage(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	testkit.Must(t, db.Set(t.Context(), "x", "garbage", 0).Err())
	damage := fmt.Errorf("script claim: %w", db.ZCard(t.Context(), "x").Err())
	if !redisx.IsDamage(damage) || !redisx.IsDamage(layout.Unavailable(damage)) {
		t.Fatalf("%v is no damage", damage)
	}
	for _, c := range []struct {
		err  error
		rest time.Duration
		hint bool
	}{{damage, 3 * time.Second, true}, {context.DeadlineExceeded, retryAfterError, false}} {
		synctest.Test(t, func(t *testing.T) {
			var log strings.Builder
			term := &term{s: &Scheduler{o: Options{Log: slog.New(slog.NewTextHandler(&log, nil))}}}
			start := clock.Now()
			term.failed(t.Context(), "cannot dispatch due tasks", c.err)
			if took := clock.Since(start); took != c.rest || strings.Contains(log.String(), "dtsctl doctor") != c.hint {
				t.Errorf("after %v it rests for %s, and says %s", c.err, took, log.String())
			}
		})
	}
}

// Loops find the same damage every few seconds: one line a minute is enough, but for anything else.
func TestTerm_TellsOfDamageOnceAMinute(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	testkit.Must(t, db.Set(t.Context(), "x", "garbage", 0).Err())
	damage := layout.Unavailable(db.ZCard(t.Context(), "x").Err())
	for _, c := range []struct {
		err  error
		once bool
	}{{damage, true}, {context.DeadlineExceeded, false}} {
		synctest.Test(t, func(t *testing.T) {
			var log testkit.Log
			term := &term{s: &Scheduler{o: Options{Log: slog.New(slog.NewTextHandler(&log, nil))}}}
			start, tries := clock.Now(), 0
			for ; clock.Since(start) < 70*time.Second; tries++ {
				term.failed(t.Context(), "cannot look after", c.err)
			}
			said := tries
			if c.once {
				said = 2
			}
			if got := log.Count("cannot look after"); got != said {
				t.Errorf("in a minute and a bit, it said %d times %v, want %d", got, c.err, said)
			}
		})
	}
}

// A schedule whose ledger is damaged is looked at again in some seconds. It is no reason for the others to wait.
func TestTick_GoesOnPastADamagedSchedule(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	damaged := w.put("damaged", each(time.Hour), schedule.OverlapAllow)
	k := w.store.KeysOf(damaged.Ref)
	testkit.Must(t, w.db.Del(t.Context(), string(k.Ledger(damaged.Ref))).Err())
	testkit.Must(t, w.db.Set(t.Context(), string(k.Ledger(damaged.Ref)), "garbage", 0).Err())
	w.age(damaged)
	var log testkit.Log
	w.start("n", never, func(n *node) { n.o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	testkit.Eventually(t, "it is put off", func() bool {
		at := w.db.ZScore(t.Context(), string(k.Ticks()), damaged.Ref.String()).Val()
		return at > float64(clock.Now().Add(damagedPause/2).UnixMilli())
	})
	whole := damaged
	for i := 0; whole.Ref == damaged.Ref || w.store.PartitionOf(whole.Ref) != w.store.PartitionOf(damaged.Ref); i++ {
		whole = w.put(fmt.Sprint("whole", i), each(time.Hour), schedule.OverlapAllow)
	}
	w.age(whole)
	testkit.Eventually(t, "the other one ticks", func() bool { return len(w.ledger(whole)) > 0 })
	if log.Has("cannot fire due schedules") {
		t.Error("the loop of the partition took damage of one schedule for its own")
	}
}

func TestTick_LogsTheHolesOfAHistory(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	term := &term{s: &Scheduler{o: Options{Log: slog.New(slog.NewTextHandler(&log, nil))}}}
	p := partition.Planned{Agenda: partition.Agenda{Ref: task.Ref{Namespace: "default", ID: "nightly"}}}
	term.tellHoles(p)
	if log.Len() > 0 {
		t.Errorf("of none it says %s", log.String())
	}
	p.Plan.Holes = []schedule.Hole{{First: 3, Last: 3}, {First: 5, Last: 6}}
	term.tellHoles(p)
	for _, want := range []string{"level=ERROR", "schedule=default:nightly", "revision 3 is", "revisions 5 to 6 are"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %q in %s", want, log.String())
		}
	}
}

// One queue whose list is damaged holds up no dispatch: a partition that rested for a minute would not be in time.
func TestDispatch_GoesOnPastADamagedQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pending := "asynq:{default}:pending"
	testkit.Must(t, w.db.Set(t.Context(), pending, "garbage", 0).Err())
	n := w.start("n", never)
	refs := w.siblings(2)
	w.create(task.Definition{Ref: refs[0]})
	w.reaches(refs[0], task.Queued)
	n.asleep()
	testkit.Must(t, w.db.Del(t.Context(), pending).Err())
	w.create(task.Definition{Ref: refs[1]})
	w.dispatched(refs[1], 1)
}

// A claimed task whose definition is garbage has no delivery, so that nobody would ever end it.
func TestWatch_EndsAQueuedTaskThatCannotBeRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ref := w.create(task.Definition{Delay: time.Hour})
	k := w.store.KeysOf(ref)
	testkit.Must(t, w.db.HSet(t.Context(), string(k.Defs()), ref.String(), "garbage").Err())
	testkit.Must(t, w.db.ZAdd(t.Context(), string(k.Wheel()), redis.Z{Score: 1, Member: ref.String()}).Err())
	w.start("n", never, func(n *node) { n.pace.lookFirst = 50 * time.Millisecond })
	w.reaches(ref, task.Failed)
	if got := w.get(ref); !strings.HasPrefix(got.Error, `its definition "garbage`) {
		t.Errorf("it failed because %q", got.Error)
	}
}

// A key that all of a partition shares stops that partition at most, and one of the installation none.
func TestScheduler_GoesOnPastADamagedSharedKey(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	for _, kind := range storetest.Kinds() {
		if strings.Contains(kind.Pattern, "<") || !strings.HasPrefix(kind.Pattern, "dts:") {
			continue
		}
		t.Run(kind.Name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.start("n", never)
			refs := w.siblings(3)
			storetest.Spoil(t, w.db, kind, storetest.KeyOf(t, kind, w.store.PartitionOf(refs[0])+1, ""))
			for i, ref := range refs {
				w.create(task.Definition{Ref: ref, Delay: time.Duration(i) * 10 * time.Millisecond})
				w.dispatched(ref, 1)
			}
		})
	}
}

// A node that starts while the key of the limits is damaged has none. One that has read them before follows them.
func TestDispatch_GoesOnPastDamagedLimits(t *testing.T) {
	t.Parallel()
	w := newUnlapsed(t)
	w.limited("key:*", limit.Rule{Slots: 1})
	first := w.start("first", never)
	refs := w.siblings(4)
	create := func(i int) { w.create(task.Definition{Ref: refs[i], LimitKey: "a"}) }
	create(0)
	w.dispatched(refs[0], 1)
	testkit.Must(t, w.db.Set(t.Context(), string(w.store.Keys.Rules()), "garbage", 0).Err())
	create(1)
	w.create(task.Definition{Ref: refs[2]})
	w.dispatched(refs[2], 1)
	if got := w.get(refs[1]).State; got != task.Scheduled {
		t.Errorf("beyond a limit that was known, a task is %s", got)
	}
	first.end()
	w.start("second", never)
	w.dispatched(refs[1], 1)
	create(3)
	w.dispatched(refs[3], 1)
}

// While nobody can read the slots of a partition, its tasks with limits wait, and its others go on. They go on when
// doctor has put the key aside.
func TestDispatch_GoesOnPastDamagedSlots(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newUnlapsed(t)
	w.limited("key:*", limit.Rule{Slots: 2})
	w.start("n", never)
	refs := w.siblings(4)
	w.create(task.Definition{Ref: refs[0], LimitKey: "a"})
	w.dispatched(refs[0], 1)
	caps := string(w.store.KeysOf(refs[0]).Caps())
	testkit.Must(t, w.db.Rename(t.Context(), caps, "kept").Err())
	testkit.Must(t, w.db.Set(t.Context(), caps, "garbage", 0).Err())
	w.create(task.Definition{Ref: refs[1], LimitKey: "b"})
	for _, ref := range refs[2:] {
		w.create(task.Definition{Ref: ref})
		w.dispatched(ref, 1)
	}
	if got := w.get(refs[1]).State; got != task.Scheduled {
		t.Errorf("the task with a limit is %s", got)
	}
	testkit.Must(t, w.db.Del(t.Context(), caps).Err())
	w.dispatched(refs[1], 1)
}
