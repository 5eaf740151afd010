package scheduler

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/limits"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
)

// age makes a schedule 20.5 hours older, with nobody having looked at it since.
func (w *world) age(s schedule.Schedule) {
	w.t.Helper()
	const by = 20*time.Hour + 30*time.Minute
	k := w.store.KeysOf(s.Ref)
	const script = "#!lua flags=allow-oom\n" +
		"redis.call('HSET', KEYS[1], 'created', ARGV[1], 'from', ARGV[2], 'cursor', ARGV[3]) " +
		"redis.call('ZADD', KEYS[2], 0, ARGV[4])"
	err := w.db.Eval(w.t.Context(), script, []string{string(k.Schedule(s.Ref)), string(k.Ticks())},
		s.CreatedAt.Add(-by).UnixMilli(), s.UpdatedAt.Add(-by).UnixMilli(), s.Cursor.Add(-by).UnixMilli(),
		s.Ref.String()).Err()
	if !errors.Is(err, redis.Nil) { // the script returns nothing
		w.t.Fatal(err)
	}
}

// fill has a queue be full of the delivery that it returns.
func (w *world) fill(queues *queue.Queues, name string) []task.Delivery {
	w.t.Helper()
	testkit.Must(w.t, limits.New(w.store.Layout, queues).Set(w.t.Context(), name, 1, ""))
	ref := task.Ref{Namespace: "default", ID: "waits"}
	waits := []task.Delivery{{Ref: ref, Attempt: 1, Type: "echo", Queue: name, Timeout: time.Minute}}
	testkit.Must(w.t, queues.HandOver(w.t.Context(), waits, nil).Failure())
	return waits
}

// notLookedAt is what the doctor finds of a schedule at which no leader looks.
func (w *world) notLookedAt(s schedule.Schedule) []lua.ExamineSchedulesFound {
	w.t.Helper()
	r, err := redisx.Run(w.t.Context(), w.db, lua.ExamineSchedules{
		Schedules: w.store.KeysOf(s.Ref).Schedules(), Checks: " schedule-not-looked-at ", Wake: w.store.WakeOf(s.Ref),
		Members: []lua.ExamineSchedulesMember{{Member: s.Ref.String()}}, // its next tick does not matter
	})
	testkit.Must(w.t, err)
	return r.Found
}

// Nobody takes the delivery that waits in the queue. When there is room, the misfire policy decides: by default, one
// tick runs for all that were missed.
func TestFire_HoldsTicksBackWhileTheirQueueIsFull(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t)
	queues := queue.New(queue.Options{DB: w.db})
	waits := w.fill(queues, task.DefaultQueue)
	s := w.put("held", each(time.Hour), schedule.OverlapAllow)
	w.age(s)
	a := w.start("a", never)
	testkit.Eventually(t, "it is held back again and again", func() bool { return a.runs("fire") > 2 })
	if all := w.ledger(s); len(all) != 0 {
		t.Errorf("meanwhile the ledger has %+v", all)
	}
	taken, err := queues.Recall(t.Context(), waits)
	if err != nil || len(taken) != 1 {
		t.Fatalf("%v, %v", taken, err)
	}
	w.oneFiredForAll(s, "held back while the queue default was full")
}

// The place that a tick has taken is free once a worker has its task.
func TestFire_GivesItsPlaceInTheQueueBack(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t)
	queues := queue.New(queue.Options{DB: w.db})
	testkit.Must(t, limits.New(w.store.Layout, queues).Set(t.Context(), task.DefaultQueue, 1, ""))
	n := w.start("n", never)
	for _, id := range []string{"first", "second"} {
		s := w.put(id, each(time.Hour), schedule.OverlapAllow)
		w.age(s)
		n.wakeTick(w.store.PartitionOf(s.Ref)) // it may have looked before
		testkit.Eventually(t, "its ticks are decided", func() bool { return len(w.ledger(s)) > 1 })
		testkit.Eventually(t, "a worker has its task", func() bool { return len(w.take(1)) == 1 })
	}
}

// putIn gives a schedule of every hour, whose last 20 ticks nobody has decided, a task in a queue; "" for a task that
// names none.
func (w *world) putIn(ref task.Ref, queueName string) schedule.Schedule {
	w.t.Helper()
	long := json.RawMessage(`"` + strings.Repeat("x", 2*task.InlinePayloadLimit) + `"`)
	put, err := useCases(w.store).PutSchedule(w.t.Context(), control.Caller{Namespace: ref.Namespace}, schedule.Definition{
		Ref: ref, Spec: each(time.Hour), Overlap: schedule.OverlapAllow,
		Task: task.Definition{Type: "echo", Queue: queueName, Payload: long},
	}, control.PutOptions{})
	testkit.Must(w.t, err)
	w.age(put.Schedule)
	return put.Schedule
}

// heldBack waits until it shows that the ticks of a schedule are held back, and returns the queue for which they are.
func (w *world) heldBack(s schedule.Schedule) (queueName string) {
	w.t.Helper()
	testkit.Eventually(w.t, s.Ref.String()+" is held back", func() bool {
		held, err := w.store.Schedules.HeldBack(w.t.Context(), w.store.PartitionOf(s.Ref), []string{s.Ref.String()})
		testkit.Must(w.t, err)
		if len(held) == 1 {
			queueName = held[0].Queue
		}
		return len(held) == 1
	})
	if all := w.ledger(s); len(all) != 0 {
		w.t.Errorf("%s is held back, and its ledger has %+v", s.Ref, all)
	}
	return queueName
}

// In each row one queue is full. The ticks of all others go on, also those of a queue that is paused and has room.
func TestFire_FollowsTheLimitOfItsOwnQueue(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	for full, held := range map[string][]string{task.DefaultQueue: {"none", "default"}, "low": {"low", "low-elsewhere"}} {
		t.Run(full, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			queues := queue.New(queue.Options{DB: w.db})
			w.fill(queues, full)
			testkit.Must(t, limits.New(w.store.Layout, queues).Set(t.Context(), "roomy", 100, ""))
			testkit.Must(t, queues.Add(t.Context(), "paused"))
			testkit.Must(t, queues.Pause(t.Context(), "paused", "", ""))
			all := map[string]schedule.Schedule{
				"none":          w.putIn(task.Ref{Namespace: "default", ID: "none"}, ""),
				"default":       w.putIn(task.Ref{Namespace: "elsewhere", ID: "default"}, task.DefaultQueue),
				"low":           w.putIn(task.Ref{Namespace: "default", ID: "low"}, "low"),
				"low-elsewhere": w.putIn(task.Ref{Namespace: "elsewhere", ID: "low"}, "low"),
				"lower":         w.putIn(task.Ref{Namespace: "default", ID: "lower"}, "lower"),
				"roomy":         w.putIn(task.Ref{Namespace: "default", ID: "roomy"}, "roomy"),
				"paused":        w.putIn(task.Ref{Namespace: "default", ID: "paused"}, "paused"),
			}
			n := w.start("a", never)
			for name, s := range all {
				if !slices.Contains(held, name) {
					w.oneFiredForAll(s, "")
				} else if q := w.heldBack(s); q != full {
					t.Errorf("%s is held back for the queue %q", name, q)
				}
			}
			var m dto.Metric
			testkit.Must(t, n.metrics.HeldBack.Write(&m))
			if m.GetCounter().GetValue() < float64(len(held)) {
				t.Errorf("%v looks at schedules that are held back, want one for each of %v", m.GetCounter().GetValue(), held)
			}
			testkit.Must(t, limits.New(w.store.Layout, queues).Set(t.Context(), full, 100, ""))
			for _, name := range held {
				w.oneFiredForAll(all[name], "held back while the queue "+full+" was full")
			}
		})
	}
}

// A tick's task is that of the present revision, so the limit of its queue counts.
func TestFire_FollowsAScheduleToItsNewQueue(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t)
	w.fill(queue.New(queue.Options{DB: w.db}), "low")
	ref := task.Ref{Namespace: "default", ID: "moves"}
	s := w.putIn(ref, "low")
	w.start("a", never)
	if q := w.heldBack(s); q != "low" {
		t.Errorf("held back for the queue %q", q)
	}
	_, err := useCases(w.store).PutSchedule(t.Context(), caller, schedule.Definition{
		Ref: ref, Spec: each(time.Hour), Overlap: schedule.OverlapAllow, Task: task.Definition{Type: "echo"},
	}, control.PutOptions{})
	testkit.Must(t, err)
	w.oneFiredForAll(s, "held back while the queue low was full")
}

// oneFiredForAll waits until the ticks of an hourly schedule are decided. 20 of them were held back, and one runs for
// all that were missed.
func (w *world) oneFiredForAll(s schedule.Schedule, reason string) {
	w.t.Helper()
	testkit.Eventually(w.t, "its ticks are decided", func() bool { return len(w.ledger(s)) > 1 })
	missed, fired := 0, 0
	for _, e := range w.ledger(s) {
		switch {
		case !strings.Contains(e.Reason, reason):
			w.t.Errorf("%s %s: %s", e.Name, e.Outcome, e.Reason)
		case e.Outcome == schedule.Missed:
			missed++
		case e.Outcome == schedule.Fired:
			fired++
		}
	}
	if missed != 19 || fired != 1 {
		w.t.Errorf("%d were missed and %d fired", missed, fired)
	}
}

// What waits was accepted before. The ticks that are due meanwhile are held back.
func TestFire_LetsTicksThatWaitGoOnWhileTheirQueueIsFull(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t)
	s := w.put("held", each(time.Hour), schedule.OverlapQueue)
	runs, err := useCases(w.store).TriggerSchedule(t.Context(), caller, s.ID)
	testkit.Must(t, err)
	_, err = useCases(w.store).TriggerSchedule(t.Context(), caller, s.ID)
	testkit.Must(t, err)
	w.fill(queue.New(queue.Options{DB: w.db}), task.DefaultQueue)
	w.age(s)
	a := w.start("a", never)
	first := task.Ref{Namespace: s.Namespace, ID: s.ID + "@" + runs.Name}
	w.reaches(first, task.Queued)
	testkit.Eventually(t, "it is held back again and again", func() bool { return a.runs("fire") > 2 })
	run, err := w.store.Tasks.Begin(t.Context(), first, 1, "node-b#1")
	testkit.Must(t, err)
	testkit.Must(t, run.Finish(t.Context(), task.Succeeded, task.OutcomeSucceeded, "", ""))
	testkit.Eventually(t, "the run that waited goes on", func() bool {
		if found := w.notLookedAt(s); len(found) > 0 {
			t.Fatalf("the doctor finds %+v", found)
		}
		now, err := w.store.Schedules.Get(t.Context(), s.Ref)
		testkit.Must(t, err)
		return now.Waiting == 0 && now.Live == 1
	})
	for _, e := range w.ledger(s) {
		if e.Outcome != schedule.Triggered {
			t.Errorf("meanwhile, %s is decided: %s", e.Name, e.Outcome)
		}
	}
}

// Whoever leads when there is room finds in Redis why ticks were held back.
func TestFire_TellsTheNextLeaderWhyTicksWereHeldBack(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t)
	queues := queue.New(queue.Options{DB: w.db})
	waits := w.fill(queues, "small")
	s := w.putIn(task.Ref{Namespace: "default", ID: "held"}, "small")
	a := w.start("a", never)
	w.heldBack(s)
	a.end()
	_, err := queues.Recall(t.Context(), waits)
	testkit.Must(t, err)
	w.start("b", never)
	w.oneFiredForAll(s, "held back while the queue small was full")
}

func TestHolds_GiveTheLatestReason(t *testing.T) {
	t.Parallel()
	const full, crowded = "held back while the queue small was full", "held back while Redis was almost full"
	start := time.Now()
	at := func(second int) time.Time { return start.Add(time.Duration(second) * time.Second) }
	for name, c := range map[string]struct {
		full   int // when its queue was full, in s; 0 for never
		all    func(h *holds)
		reason string
		until  time.Time
	}{
		"not held":                 {0, func(*holds) {}, "", time.Time{}},
		"held":                     {2, func(*holds) {}, full, at(2)},
		"all were held":            {0, func(h *holds) { h.holdAll(); h.release(at(1)) }, crowded, at(1)},
		"all are decided":          {0, func(h *holds) { h.holdAll(); h.release(at(1)); h.decidedAll() }, "", time.Time{}},
		"held, then all were":      {1, func(h *holds) { h.holdAll(); h.release(at(2)) }, crowded, at(2)},
		"all were held, then this": {2, func(h *holds) { h.holdAll(); h.release(at(1)) }, full, at(2)},
	} {
		var a partition.Agenda
		if c.full > 0 {
			a.Held, a.HeldUntil = full, at(c.full)
		}
		var h holds
		c.all(&h)
		h.explain(&a)
		if a.Held != c.reason || !a.HeldUntil.Equal(c.until) {
			t.Errorf("%s: %q until %s, want %q until %s", name, a.Held, a.HeldUntil, c.reason, c.until)
		}
	}
}
