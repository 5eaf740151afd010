package scheduler

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// told is a contact that is told what Redis answers, and what it says of jumps.
func told() (c *contact, jumps *[]time.Duration) {
	jumps = new([]time.Duration)
	return &contact{
		lease: 3 * time.Second, known: make(map[int]*witness),
		jumped: func(_ int, by time.Duration) { *jumps = append(*jumps, by) },
	}, jumps
}

func TestContact_FindsJumpsInHoweverLateAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		passed, slow, jump, want time.Duration // want: least, negative for a jump back; 0 for none
	}{
		"nothing has passed":         {},
		"a second has passed":        {passed: time.Second},
		"an hour has passed":         {passed: time.Hour},
		"an answer came late":        {passed: time.Second, slow: 20 * time.Second},
		"less than leases are spare": {passed: time.Second, jump: 900 * time.Millisecond},
		"a minute ahead":             {passed: time.Second, jump: time.Minute, want: time.Minute},
		"a minute back":              {passed: time.Second, jump: -time.Minute, want: -time.Minute},
		"and the answer came late":   {passed: time.Second, slow: 20 * time.Second, jump: time.Minute, want: 40 * time.Second},
		"as much back as has passed": {passed: time.Minute, jump: -time.Minute, want: -time.Minute},
		"after an outage":            {passed: time.Minute, jump: time.Hour, want: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			contact, jumps := told()
			start, redis := clock.Now(), clock.Now().Add(-time.Hour)
			contact.observe(0, reading{redis, start, start})
			second := start.Add(c.passed)
			contact.observe(0, reading{redis.Add(c.passed + c.jump), second, second.Add(c.slow)})
			if c.want == 0 {
				if len(*jumps) != 0 {
					t.Errorf("it found %s", *jumps)
				}
				return
			}
			if len(*jumps) != 1 || (*jumps)[0].Abs() < c.want.Abs() || ((*jumps)[0] > 0) != (c.want > 0) {
				t.Errorf("it found %s, want %s", *jumps, c.want)
			}
		})
	}
}

func TestContact_NamesWhatTheClockJumpedOverUntilItGoesBack(t *testing.T) {
	t.Parallel()
	contact, _ := told()
	start, redis := clock.Now(), clock.Now().Add(-time.Hour)
	contact.observe(0, reading{redis, start, start})
	ahead := redis.Add(time.Minute + time.Second)
	contact.observe(7, reading{ahead, start.Add(time.Second), start.Add(time.Second)})
	if n, skipped := contact.jumps(3); n != 1 || len(skipped) != 1 || !skipped[0].From.Equal(redis.Add(time.Second)) || !skipped[0].Until.Equal(ahead) {
		t.Errorf("after %d jumps, it says that the clock jumped over %+v", n, skipped)
	}
	contact.observe(0, reading{redis.Add(2 * time.Second), start.Add(2 * time.Second), start.Add(2 * time.Second)})
	if n, skipped := contact.jumps(0); n != 2 || len(skipped) != 0 {
		t.Errorf("after %d jumps, it says that the clock jumped over %+v", n, skipped)
	}
}

func TestContact_NamesTheNewestOfSeveralJumpsAhead(t *testing.T) {
	t.Parallel()
	contact, _ := told()
	start, redis := clock.Now(), clock.Now().Add(-time.Hour)
	var shown []time.Time
	for i := range skippedLimit + 2 {
		passed := time.Duration(i) * time.Second
		shown = append(shown, redis.Add(passed+time.Duration(i)*time.Minute))
		contact.observe(0, reading{shown[i], start.Add(passed), start.Add(passed)})
	}
	n, skipped := contact.jumps(0)
	if n != skippedLimit+1 || len(skipped) != skippedLimit {
		t.Fatalf("after %d jumps, it says that the clock jumped over %+v", n, skipped)
	}
	for i, s := range skipped {
		if until := shown[i+2]; !s.Until.Equal(until) || !s.From.Equal(until.Add(-time.Minute)) {
			t.Errorf("span %d is %+v, want the minute before %s", i, s, until)
		}
	}
}

// A worker can take longer than the leader to find the server that answers now, the longer the more of them are silent.
func TestContact_WaitsLongerAfterALongerBreak(t *testing.T) {
	synctest.Test(t, waitsLongerAfterALongerBreak)
}

func waitsLongerAfterALongerBreak(t *testing.T) {
	for silent, want := range map[time.Duration]time.Duration{ // of leases of 3 s
		1400 * time.Millisecond: 0,
		1600 * time.Millisecond: 4600 * time.Millisecond,
		4 * time.Second:         6 * time.Second,
		time.Hour:               6 * time.Second,
	} {
		contact, _ := told()
		now := clock.Now()
		redis := now.Add(-time.Hour)
		first := now.Add(-silent - time.Minute)
		for at := first; !at.After(now.Add(-silent)); at = at.Add(time.Second) {
			contact.observe(0, reading{redis.Add(at.Sub(first)), at, at})
		}
		contact.observe(0, reading{redis.Add(now.Sub(first)), now, now})
		if got := max(contact.missing(0), 0); got != want {
			t.Errorf("after a silence of %s, runs are taken for lost in %s, want %s", silent, got, want)
		}
		testkit.Must(t, clock.Sleep(t.Context(), time.Second))
		contact.observe(0, reading{redis.Add(time.Minute), clock.Now(), clock.Now()}) // it jumps ahead
		if got := contact.missing(0); got != max(want-time.Second, 3*time.Second) {
			t.Errorf("after a silence of %s and a jump, runs are taken for lost in %s", silent, got)
		}
	}
}

// While Redis refuses writes no run can be extended.
func TestContact_IsBrokenWhileRedisOnlyAnswersReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		contact, _ := told()
		heard := func(note func(int, reading), seconds int) {
			for range seconds {
				note(0, reading{clock.Now(), clock.Now(), clock.Now()})
				testkit.Must(t, clock.Sleep(t.Context(), time.Second))
			}
		}
		heard(contact.observe, 5)
		if got := contact.missing(0); got > 0 {
			t.Errorf("after 5 s of writes, runs are taken for lost in %s", got)
		}
		heard(contact.compare, 5)
		if got := contact.missing(0); got != contact.lease {
			t.Errorf("after 5 s in which it only read, runs are taken for lost in %s, want %s", got, contact.lease)
		}
		contact.observe(0, reading{clock.Now(), clock.Now(), clock.Now()})
		if got := contact.missing(0); got != 2*contact.lease {
			t.Errorf("when Redis takes writes again, runs are taken for lost in %s, want %s", got, 2*contact.lease)
		}
	})
}

// A worker begins what it had taken as soon as it reaches Redis again. Before, the delivery must not be given to another one.
func TestContact_LeavesDeliveriesToTheirWorkersForAMomentAfterABreak(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const grace = 2 * time.Second
		contact, _ := told()
		heard := func() { contact.observe(0, reading{clock.Now(), clock.Now(), clock.Now()}) }
		if got := contact.recovering(0, grace); got <= 0 || got > time.Second {
			t.Errorf("before the first answer, it waits for %s", got)
		}
		heard()
		if got := contact.recovering(0, grace); got > 0 {
			t.Errorf("at the first answer, without a break, it waits for %s", got)
		}
		testkit.Must(t, clock.Sleep(t.Context(), 10*time.Second))
		if got := contact.recovering(0, grace); got <= 0 || got > time.Second {
			t.Errorf("in an outage, it waits for %s before it asks again", got)
		}
		heard()
		if got := contact.recovering(0, grace); got != grace {
			t.Errorf("after the outage, it waits for %s, want %s", got, grace)
		}
		testkit.Must(t, clock.Sleep(t.Context(), time.Second))
		heard()
		if got := contact.recovering(0, grace); got != grace-time.Second {
			t.Errorf("a second later, it waits for %s, want a second less", got)
		}
	})
}

// In a cluster, each partition may be on another server, and a partition that moves gets another clock.
func TestContact_KnowsTheClockOfEachPartition(t *testing.T) {
	t.Parallel()
	contact, jumps := told()
	contact.sharded = true
	start, redis := clock.Now(), clock.Now()
	contact.observe(0, reading{redis, start, start})
	contact.observe(1, reading{redis.Add(time.Minute), start, start})
	if len(*jumps) != 0 || contact.missing(1) <= 0 {
		t.Errorf("jumps: %s; missing: %s", *jumps, contact.missing(1))
	}
	contact.observe(0, reading{redis.Add(time.Minute), start, start})
	if n, _ := contact.jumps(1); len(*jumps) != 1 || n != 0 {
		t.Errorf("jumps: %s, of partition 1: %d", *jumps, n)
	}
}

// Its workers cannot extend their runs meanwhile.
func TestContact_HearsNothingOfAPartitionWhoseSlotMoves(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	w := &world{t: t, db: redistest.Open(t, c.URL()), lease: tasks.DefaultRunLease}
	w.store = w.open(w.db)
	s := w.stillScheduler()
	const moves = 7
	key := string(w.store.Partitions.LeaseKey(moves))
	silent := func() (silent []int) {
		var mu sync.Mutex
		heard := make(map[int]bool)
		s.probe(t.Context(), func(p int, _ reading) {
			mu.Lock()
			defer mu.Unlock()
			heard[p] = true
		})
		for p := range w.store.Partitions.Count() {
			if !heard[p] {
				silent = append(silent, p)
			}
		}
		return silent
	}
	if got := silent(); len(got) > 0 {
		t.Fatalf("it does not hear of %d", got)
	}
	move := c.BeginMove(key, c.Other(key))
	if got := silent(); !slices.Equal(got, []int{moves}) {
		t.Errorf("it does not hear of %d, want %d", got, moves)
	}
	move.End()
	testkit.Eventually(t, "it hears of all again", func() bool { return len(silent()) == 0 })
}

// keepExtending extends the lease of a run until the test ends.
func (w *world) keepExtending(run *tasks.Run) {
	ctx, stop := context.WithCancel(w.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for clock.Sleep(ctx, w.lease/3) == nil {
			if err := w.store.Tasks.ExtendEach(ctx, []*tasks.Run{run})[0].Err; err != nil && ctx.Err() == nil {
				w.t.Errorf("extending the lease of a run: %v", err)
			}
		}
	}()
	w.t.Cleanup(func() { stop(); <-done })
}

// clockJumps is how many jumps of Redis's clock a node counted.
func (n *node) clockJumps() (count float64) {
	n.t.Helper()
	for _, direction := range []string{"ahead", "back"} {
		var m dto.Metric
		testkit.Must(n.t, n.metrics.ClockJumps.WithLabelValues(direction).Write(&m))
		count += m.GetCounter().GetValue()
	}
	return count
}

// Whoever lives extends the leases of its runs soon after the clock jumped, whichever way. What a dead worker ran is found as soon as ever.
func TestWatch_JudgesByLeasesWhereverTheClockJumps(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	for name, by := range map[string]time.Duration{"ahead": never / 2, "back": -never / 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorldWith(t, 2*time.Second, redistest.MovableClock(t))
			a := w.start("a", never, func(n *node) { n.contact = n.newContact(w.lease) })
			w.leads(map[*node]int{a: 16})
			once := task.Retry{MaxAttempts: 1}
			lives, dies := w.create(task.Definition{Retry: once}), w.create(task.Definition{Retry: once})
			for _, ref := range []task.Ref{lives, dies} {
				w.dispatched(ref, 1)
			}
			run := w.begin(lives, "healthy")
			w.keepExtending(run)
			testkit.Eventually(t, "the leader judges", func() bool { return a.contact.missing(0) <= 0 })
			w.begin(dies, "frail")
			w.srv.MoveClock(by)
			for p := range a.lookWakes { // before the worker extends the lease
				signal(a.lookWakes[p])
			}
			w.reaches(dies, task.Failed)
			if got := w.get(lives); got.State != task.Running || got.Attempt != 1 {
				t.Errorf("the task whose worker lives is %s, attempt %d", got.State, got.Attempt)
			}
			if n := a.clockJumps(); n == 0 {
				t.Error("the jump was not counted")
			}
		})
	}
}
