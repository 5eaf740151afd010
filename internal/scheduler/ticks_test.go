package scheduler

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // Redis names scripts by their SHA-1
	"encoding/hex"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/schedules"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
)

// now is Redis's time.
func (w *world) now() time.Time {
	w.t.Helper()
	now, err := w.db.Time(w.t.Context()).Result()
	testkit.Must(w.t, err)
	return now.UTC().Truncate(time.Millisecond)
}

// put gives a schedule a definition.
func (w *world) put(id string, spec schedule.Spec, overlap schedule.Overlap) schedule.Schedule {
	w.t.Helper()
	put, err := useCases(w.store).PutSchedule(w.t.Context(), caller, schedule.Definition{
		Ref: task.Ref{Namespace: task.DefaultNamespace, ID: id}, Spec: spec, Overlap: overlap, Task: task.Definition{Type: "echo"},
	}, control.PutOptions{})
	testkit.Must(w.t, err)
	return put.Schedule
}

// hourly ticks at that time and every hour from then on.
func hourly(first time.Time) schedule.Spec {
	return schedule.Spec{Rules: []schedule.Rule{{Every: time.Hour}}, StartAt: first}
}

// putSoon puts a schedule that ticks soon, and not before it is there.
func (w *world) putSoon(id string) (s schedule.Schedule, tick time.Time) {
	w.t.Helper()
	for in := 100 * time.Millisecond; ; in *= 2 {
		tick = w.now().Add(in)
		if s = w.put(id, hourly(tick), schedule.OverlapAllow); s.UpdatedAt.Before(tick) {
			return s, tick
		}
	}
}

func each(d time.Duration) schedule.Spec { return schedule.Spec{Rules: []schedule.Rule{{Every: d}}} }

// ledger is the records of a schedule, the oldest tick first.
func (w *world) ledger(s schedule.Schedule) []schedule.Entry {
	w.t.Helper()
	page, err := w.store.Schedules.Ledger(w.t.Context(), s.Ref, schedules.LedgerFilter{}, 1000, "")
	testkit.Must(w.t, err)
	slices.Reverse(page.Entries)
	return page.Entries
}

// firedOnce waits until the task of a tick is in asynq, and sees that the tick was fired once and no other was.
func (w *world) firedOnce(s schedule.Schedule, tick time.Time) {
	w.t.Helper()
	ref := task.Ref{Namespace: s.Namespace, ID: s.ID + "@" + schedule.TickName(tick)}
	testkit.Eventually(w.t, "the tick is fired", func() bool { return len(w.ledger(s)) > 0 })
	w.dispatched(ref, 1)
	if all := w.ledger(s); len(all) != 1 || !all[0].Tick.Equal(tick) || all[0].Outcome != schedule.Fired || !all[0].HasTask {
		w.t.Errorf("the ledger is %+v, want %s alone, fired", all, tick)
	}
	if all := w.db.Keys(w.t.Context(), "asynq:{default}:t:"+s.Ref.String()+"@*").Val(); len(all) != 1 {
		w.t.Errorf("%v are delivered, want one", all)
	}
	now, err := w.store.Schedules.Get(w.t.Context(), s.Ref)
	testkit.Must(w.t, err)
	if now.Runs != 1 || now.Live != 1 {
		w.t.Errorf("the schedule counts %d runs, %d of them live, want one", now.Runs, now.Live)
	}
}

// lookedAt waits until the leader knows when the schedule ticks next.
func (w *world) lookedAt(s schedule.Schedule, next time.Time) {
	w.t.Helper()
	key := fmt.Sprintf("dts:{%d}:ticks", w.store.PartitionOf(s.Ref))
	testkit.Eventually(w.t, "the leader waits for the next tick", func() bool {
		return w.db.ZScore(w.t.Context(), key, s.Ref.String()).Val() == float64(next.UnixMilli())
	})
}

// holds says whether what a node's proxy holds back has a run of a script in it.
func (n *node) holds(script string) bool {
	sum := sha1.Sum([]byte(lua.ByName(script).Source)) //nolint:gosec // as above
	return bytes.Contains(n.proxy.Held(), []byte(hex.EncodeToString(sum[:])))
}

// refusals is how often a script refused a node something with that code.
func (n *node) refusals(script, code string) int {
	n.t.Helper()
	var m dto.Metric
	testkit.Must(n.t, n.metrics.ScriptRefusals.WithLabelValues(script, code).Write(&m))
	return int(m.GetCounter().GetValue())
}

// firing puts a schedule, and lets a node go on until it has sent what it decided about the first tick: that is held
// back in the proxy.
func (w *world) firing(n *node, id string) (s schedule.Schedule, tick time.Time) {
	w.t.Helper()
	for try := 1; ; try++ {
		tick = w.now().Add(time.Second)
		s = w.put(fmt.Sprint(id, try), hourly(tick), schedule.OverlapAllow)
		testkit.Eventually(w.t, "the tick is near", func() bool { return w.now().After(tick.Add(-500 * time.Millisecond)) })
		n.proxy.Hold()
		tooLate := false // the machine is so busy that the node has fired before
		testkit.Eventually(w.t, "the node fires", func() bool {
			if tooLate = len(w.ledger(s)) > 0 || !s.UpdatedAt.Before(tick); tooLate || n.holds("fire") {
				return true
			}
			if len(n.proxy.Held()) > 0 { // what it sends before, and what a new connection begins with
				w.srv.Pause() // so that nothing is answered before what follows is held back
				n.proxy.Release()
				n.proxy.Hold()
				w.srv.Continue()
			}
			return false
		})
		if !tooLate {
			return s, tick
		}
		n.proxy.Release()
	}
}

// How late they may be is asserted by the voyages, on whose clock the load of the machine takes no time.
func TestFire_HappensWhenATickIsDueAndNotBefore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("a", never)
	w.leads(map[*node]int{a: 16})
	s := w.put("brisk", each(150*time.Millisecond), schedule.OverlapAllow)
	testkit.Eventually(t, "there are some ticks", func() bool { return len(w.ledger(s)) >= 15 })
	var late []time.Duration
	for i, e := range w.ledger(s) {
		if want := s.CreatedAt.Add(time.Duration(i+1) * 150 * time.Millisecond); !e.Tick.Equal(want) || e.Outcome != schedule.Fired {
			t.Errorf("tick %d is %+v, want %s, fired", i, e, want)
		}
		late = append(late, e.Late)
	}
	slices.Sort(late)
	if late[0] < 0 {
		t.Errorf("one fired %s before it was due", -late[0])
	}
	t.Logf("late: median %s, at most %s", late[len(late)/2], late[len(late)-1])
}

func TestFire_IsWokenByAnEarlierTick(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	for name, change := range map[string]func(w *world, other, s schedule.Schedule){
		"of a new schedule":     func(w *world, _, s schedule.Schedule) { w.put(s.ID, s.Spec, schedule.OverlapAllow) },
		"of a changed schedule": func(w *world, other, s schedule.Schedule) { w.put(other.ID, s.Spec, schedule.OverlapAllow) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			a := w.start("a", never)
			w.leads(map[*node]int{a: 16})
			ids := w.siblings(2)
			far := w.now().Add(time.Hour)
			other := w.put(ids[0].ID, hourly(far), schedule.OverlapAllow)
			w.lookedAt(other, far)
			a.quiet("due_schedules")
			tick := w.now().Add(time.Second)
			s := schedule.Schedule{Definition: schedule.Definition{Ref: ids[1], Spec: hourly(tick)}}
			change(w, other, s)
			if name == "of a changed schedule" {
				s = other
			}
			w.firedOnce(s, tick)
		})
	}
}

func TestFire_LooksAtAResumedScheduleAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("a", never)
	w.leads(map[*node]int{a: 16})
	tick := w.now().Add(time.Second)
	s := w.put("rests", hourly(tick), schedule.OverlapAllow)
	_, err := w.store.Schedules.Pause(t.Context(), s.Ref, "", "")
	testkit.Must(t, err)
	testkit.Eventually(t, "the tick is over", func() bool { return w.now().After(tick) })
	a.quiet("due_schedules")
	if all := w.ledger(s); len(all) != 0 {
		t.Fatalf("it was paused, and the ledger is %+v", all)
	}
	_, err = w.store.Schedules.Resume(t.Context(), s.Ref, "")
	testkit.Must(t, err)
	w.firedOnce(s, tick)
}

// With maintenance out of the way, a leader that waits does not look at its schedules at all.
func TestFire_DoesNotPollTheSchedules(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t)
	a := w.start("a", 4*time.Second)
	w.leads(map[*node]int{a: 16})
	far := w.now().Add(time.Hour)
	for i := range 50 {
		w.lookedAt(w.put(fmt.Sprint(i), hourly(far), schedule.OverlapAllow), far)
	}
	a.quiet("due_schedules")
	looks, fires, renewals := a.runs("due_schedules"), a.runs("fire"), a.runs("renew_lease")
	testkit.Eventually(t, "each lease was renewed", func() bool { return a.runs("renew_lease") >= renewals+16 })
	if due, fire := a.runs("due_schedules")-looks, a.runs("fire")-fires; due+fire != 0 {
		t.Errorf("the schedules were looked at %d times, and fired %d times, while nothing was due", due, fire)
	}
}

func TestFire_CatchesUpOnTicksDueWhileNobodyLed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.put("orphan", each(200*time.Millisecond), schedule.OverlapAllow)
	testkit.Eventually(t, "some ticks are over", func() bool { return w.now().After(s.CreatedAt.Add(time.Second)) })
	started := w.now()
	w.start("a", never)
	testkit.Eventually(t, "the leader keeps up", func() bool {
		all := w.ledger(s)
		return len(all) > 0 && all[len(all)-1].Tick.After(started.Add(time.Second))
	})
	for i, e := range w.ledger(s) {
		if want := s.CreatedAt.Add(time.Duration(i+1) * 200 * time.Millisecond); !e.Tick.Equal(want) || e.Outcome != schedule.Fired || e.Reason != "" {
			t.Errorf("tick %d is %+v, want %s, fired", i, e, want)
		}
	}
	report, err := useCases(w.store).AuditSchedule(t.Context(), caller, s.Ref.ID, time.Time{}, time.Time{})
	testkit.Must(t, err)
	if !report.Proved || report.Expected < 10 {
		t.Errorf("the audit says %+v", report)
	}
}

// The connection breaks when Redis has the leader's decision and has not answered yet: the client sends it again.
func TestFire_SentTwiceDoublesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("a", never)
	w.leads(map[*node]int{a: 16})
	refused := func() bool { return a.refusals("fire", "CHANGED") > 0 }
	for try := 1; !refused(); try++ {
		if try > 10 {
			t.Fatal("of ten that were sent twice, none was refused")
		}
		s, tick := w.firing(a, fmt.Sprint("lost", try))
		given := a.runs("fire")
		w.srv.Pause()
		a.proxy.Release() // Redis will carry it out,
		a.proxy.Cut()     // and not be able to answer
		a.proxy.Mend()
		w.srv.Continue()
		w.firedOnce(s, tick)
		// On a busy machine, the client may give up before it can send it again.
		testkit.Eventually(t, "the second one has ended", func() bool { return refused() || a.runs("fire") > given })
		w.firedOnce(s, tick)
	}
}

// The leader fires, and gives up before Redis, which stands still, carries it out.
func TestFire_ThatTimedOutIsRepeatedAndDoublesNothing(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t)
	a := w.start("a", never)
	w.leads(map[*node]int{a: 16})
	s, tick := w.firing(a, "slow")
	fires := a.runs("fire")
	w.srv.Pause()
	a.proxy.Release()
	testkit.Eventually(t, "the leader gives up", func() bool { return a.runs("fire") > fires })
	w.srv.Continue()
	w.firedOnce(s, tick)
}

// The leader's last words were carried out, but nobody was there any more to read the answer.
func TestFire_OfALeaderThatDiedIsNotRepeatedByTheNext(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t)
	a := w.start("a", 5*time.Second)
	w.leads(map[*node]int{a: 16})
	s, tick := w.firing(a, "last")
	w.srv.Pause()
	a.proxy.Release()
	a.proxy.Cut()
	w.srv.Continue()
	b := w.start("b", 5*time.Second)
	w.leads(map[*node]int{a: 0, b: 16})
	b.quiet("due_schedules")
	w.firedOnce(s, tick)
}

// The leader's last words come when another one has fired the tick already.
func TestFire_ArrivingWhenAnotherNodeLeadsChangesNothing(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t)
	a := w.start("a", 5*time.Second)
	w.leads(map[*node]int{a: 16})
	s, tick := w.firing(a, "late")
	b := w.start("b", 5*time.Second)
	w.leads(map[*node]int{a: 0, b: 16})
	w.firedOnce(s, tick)
	before := w.ledger(s)
	a.proxy.Release()
	w.leads(map[*node]int{a: 8, b: 8})
	w.firedOnce(s, tick)
	if after := w.ledger(s); !slices.Equal(before, after) {
		t.Errorf("the ledger was\n%+v and is\n%+v", before, after)
	}
}

func TestFire_LooksAgainAfterALostConnection(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t)
	a := w.start("a", never)
	w.leads(map[*node]int{a: 16})
	a.quiet("due_schedules")
	a.proxy.Cut()
	s, tick := w.putSoon("unheard")
	a.proxy.Mend()
	w.firedOnce(s, tick)
}

func TestFire_GoesOnAfterARestartOfRedis(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t, redistest.AOF())
	a := w.start("a", 2*time.Second)
	w.leads(map[*node]int{a: 16})
	s := w.put("lasting", each(200*time.Millisecond), schedule.OverlapAllow)
	testkit.Eventually(t, "it ticks", func() bool { return len(w.ledger(s)) > 2 })
	w.srv.Kill()
	w.srv.Restart()
	restarted := w.now()
	testkit.Eventually(t, "it ticks again", func() bool {
		all := w.ledger(s)
		return all[len(all)-1].Tick.After(restarted.Add(time.Second))
	})
	report, err := useCases(w.store).AuditSchedule(t.Context(), caller, s.Ref.ID, time.Time{}, time.Time{})
	testkit.Must(t, err)
	if !report.Proved || report.Outcomes[schedule.Fired] != report.Expected {
		t.Errorf("the audit says %+v", report)
	}
}

// What a leader knows of a schedule that was deleted proves nothing of another one of the same name, though the clock shows earlier times again.
func TestFire_SeesNoLossInAScheduleThatIsCreatedAgainAfterAJumpBack(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t, redistest.MovableClock(t))
	w.leads(map[*node]int{w.start("a", never): 16})
	s := w.put("again", each(200*time.Millisecond), schedule.OverlapAllow)
	testkit.Eventually(t, "it ticks", func() bool { return len(w.ledger(s)) > 2 })
	c := useCases(w.store)
	_, err := c.PauseSchedule(t.Context(), caller, s.ID, "")
	testkit.Must(t, err)
	_, err = c.DeleteSchedule(t.Context(), caller, s.ID, control.DeleteNone)
	testkit.Must(t, err)
	w.srv.MoveClock(-time.Hour)
	s = w.put("again", each(200*time.Millisecond), schedule.OverlapAllow)
	testkit.Eventually(t, "it ticks again", func() bool { return len(w.ledger(s)) > 2 })
	report, err := c.AuditSchedule(t.Context(), caller, s.ID, time.Time{}, time.Time{})
	testkit.Must(t, err)
	if !report.Proved {
		t.Errorf("the audit says %+v", report)
	}
}

// Ticks that were held back for too long are missed, and the ledger says why: of all schedules, also if they are too many for one look.
func TestFire_HoldsTicksBackWhileRedisIsAlmostFull(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t)
	var log logText
	a := w.start("a", never, func(n *node) { n.o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	w.leads(map[*node]int{a: 16})
	testkit.Must(t, w.db.ConfigSet(t.Context(), "maxmemory", "100mb").Err())
	s := w.put("secondly", schedule.Spec{Rules: []schedule.Rule{{Every: time.Second}}}, schedule.OverlapAllow)
	testkit.Eventually(t, "it ticks", func() bool { return len(w.ledger(s)) > 0 })
	rare := w.put("hourly", each(time.Hour), schedule.OverlapAllow)
	rares := []schedule.Schedule{rare}
	for i := 0; len(rares) <= lookLimit; i++ {
		if id := fmt.Sprint("hourly", i); w.store.PartitionOf(task.Ref{Namespace: rare.Ref.Namespace, ID: id}) == w.store.PartitionOf(rare.Ref) {
			rares = append(rares, w.put(id, each(time.Hour), schedule.OverlapAllow))
		}
	}
	for _, rare := range rares {
		w.lookedAt(rare, rare.CreatedAt.Add(time.Hour))
	}
	testkit.Must(t, w.db.ConfigSet(t.Context(), "maxmemory", "1").Err())
	testkit.Eventually(t, "ticks are held back", func() bool { return log.count("holding ticks back") > 0 })
	for _, rare := range rares {
		w.age(rare)
	}
	ticked := len(w.ledger(s))
	a.wakeTick(w.store.PartitionOf(rare.Ref))
	there := fmt.Sprintf(`msg="holding ticks back" partition=%d `, w.store.PartitionOf(rare.Ref))
	testkit.Eventually(t, "they are held back again", func() bool {
		return log.count("holding ticks back") > 2 && log.count(there) > 0
	})
	if n := len(w.ledger(s)); n != ticked {
		t.Errorf("%d ticks were decided meanwhile", n-ticked)
	}
	if all := w.ledger(rare); len(all) != 0 {
		t.Errorf("meanwhile the ledger has %+v", all)
	}
	testkit.Must(t, w.db.ConfigSet(t.Context(), "maxmemory", "0").Err())
	testkit.Eventually(t, "it goes on", func() bool { return len(w.ledger(s)) > ticked })
	for _, rare := range rares {
		w.oneFiredForAll(rare, "held back while Redis was almost full")
	}
}

// By overlap queue a tick waits for the task before it; its end lets the tick go on, and nothing else is needed.
func TestFire_StartsAQueuedTickWhenTheTaskBeforeItEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("a", never)
	w.leads(map[*node]int{a: 16})
	far := w.now().Add(time.Hour)
	s := w.put("queue", hourly(far), schedule.OverlapQueue)
	w.lookedAt(s, far)
	first, err := useCases(w.store).TriggerSchedule(t.Context(), caller, s.Ref.ID)
	testkit.Must(t, err)
	second, err := useCases(w.store).TriggerSchedule(t.Context(), caller, s.Ref.ID)
	testkit.Must(t, err)
	if first.Outcome != schedule.Triggered || second.Outcome != schedule.Queued {
		t.Fatalf("they were %s and %s", first.Outcome, second.Outcome)
	}
	ref := task.Ref{Namespace: s.Namespace, ID: s.ID + "@" + first.Name}
	w.dispatched(ref, 1)
	a.quiet("due_schedules")
	run := w.begin(ref, "worker")
	testkit.Must(t, run.Finish(t.Context(), task.Succeeded, task.OutcomeSucceeded, "", ""))
	next := task.Ref{Namespace: s.Namespace, ID: s.ID + "@" + second.Name}
	w.dispatched(next, 1)
	w.lookedAt(s, far)
}

// A trigger leaves most of the tasks that it replaces to the leader, and nothing else is needed.
func TestFire_StopsWhatATriggerReplaces(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t)
	far := w.now().Add(time.Hour)
	for s := w.put("replace", hourly(far), schedule.OverlapAllow); s.Live <= 2*schedule.StopLimit; {
		_, err := useCases(w.store).TriggerSchedule(t.Context(), caller, s.ID)
		testkit.Must(t, err)
		s, err = w.store.Schedules.Get(t.Context(), s.Ref)
		testkit.Must(t, err)
	}
	s := w.put("replace", hourly(far), schedule.OverlapReplace)
	w.leads(map[*node]int{w.start("a", never): 16})
	e, err := useCases(w.store).TriggerSchedule(t.Context(), caller, s.ID)
	testkit.Must(t, err)
	w.dispatched(task.Ref{Namespace: s.Namespace, ID: s.ID + "@" + e.Name}, 1)
}
