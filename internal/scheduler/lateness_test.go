package scheduler

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/telemetry"
	"github.com/dts-sched/dts/internal/testkit"
)

// lateness is the sum of the values of a histogram of seconds, and their number.
func lateness(t *testing.T, of prometheus.Histogram) (sum time.Duration, number int) {
	t.Helper()
	var m dto.Metric
	testkit.Must(t, of.Write(&m))
	h := m.GetHistogram()
	return time.Duration(h.GetSampleSum() * float64(time.Second)), int(h.GetSampleCount())
}

// counted waits until a node has counted the lateness of n deliveries, and returns the sum.
func (n *node) counted(number int) (sum time.Duration) {
	n.t.Helper()
	testkit.Eventually(n.t, "all deliveries are counted", func() bool {
		got := 0
		sum, got = lateness(n.t, n.metrics.DispatchLateness)
		return got == number
	})
	return sum
}

// The tasks were due in as many hours, one in each. What the leader does with them takes seconds.
func TestDispatch_CountsAllLatenessThatIsItsOwn(t *testing.T) {
	t.Parallel()
	const tasks = 60 // more than a claim takes without looking for room
	w := newWorld(t)
	w.createOverdue(w.siblings(tasks), time.Hour)
	a := w.start("a", never)
	if got, want := a.counted(tasks), tasks*(tasks-1)/2*time.Hour; got < want {
		t.Errorf("%s in all, want %s: nobody led", got, want)
	}
}

// The second node finds tasks that have waited for room while the first one led.
func TestDispatch_CountsNoWaitForRoomAsLateness(t *testing.T) {
	t.Parallel()
	const tasks = 90
	w := newWorld(t)
	w.slots = 1 // so that handover.LeastAhead deliveries may wait
	w.createOverdue(w.siblings(tasks), time.Hour)
	a := w.start("a", never)
	testkit.Eventually(t, "the rest waits", func() bool { return w.backlog()["default"]+w.pending("default") == tasks })
	first := w.pending("default")
	before := a.counted(first)
	taken := len(w.take(tasks))
	testkit.Eventually(t, "more is handed over", func() bool { return w.pending("default") > 0 })
	testkit.Eventually(t, "the rest waits again", func() bool {
		return w.backlog()["default"]+w.pending("default") == tasks-taken
	})
	a.end()
	handed := taken + w.pending("default")
	if own := a.counted(handed) - before; own > time.Minute {
		t.Errorf("the leader counts %s for %d tasks that waited for room", own, handed-first)
	}
	b := w.start("b", never)
	for taken < tasks {
		if got := len(w.take(tasks)); got > 0 {
			taken += got
			continue
		}
		testkit.Eventually(t, "more is handed over", func() bool { return w.pending("default") > 0 })
	}
	if own := b.counted(tasks - handed); own > time.Minute {
		t.Errorf("the next leader counts %s for %d tasks that waited for room", own, tasks-handed)
	}
}

func TestDispatch_CountsNoWaitForAWorkerAsLateness(t *testing.T) {
	t.Parallel()
	const tasks = 60
	w := newWorld(t)
	w.types = []string{"echo"}
	w.overdue(tasks, "shell")
	a := w.start("a", never, func(n *node) { n.pace.ask = 20 * time.Millisecond })
	testkit.Eventually(t, "they wait in DTS", func() bool { return w.backlog()["default"] == tasks })
	joined := time.Now()
	w.join(1000, "shell")
	if own, most := a.counted(tasks), tasks*time.Since(joined); own > most {
		t.Errorf("the leader counts %s for tasks that waited for a worker, more than %s since one came", own, most)
	}
}

func TestFire_CountsNoTickThatWasHeldBack(t *testing.T) {
	t.Parallel()
	m := telemetry.New()
	at := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	held := schedule.Decision{Tick: at, Action: schedule.ActFire}
	free := schedule.Decision{Tick: at.Add(time.Second), Action: schedule.ActFire}
	p := partition.Planned{Plan: schedule.Plan{Decisions: []schedule.Decision{held, free}}}
	p.Agenda.HeldUntil = at.Add(time.Second / 2)
	f := partition.Fired{At: at.Add(3 * time.Second)}
	for _, d := range p.Plan.Decisions {
		f.Ticked = append(f.Ticked, partition.Ticked{Name: schedule.TickName(d.Tick), Outcome: schedule.Fired})
	}
	(&term{s: &Scheduler{o: Options{Metrics: m}}}).count(p, f)
	if sum, number := lateness(t, m.TickLateness); number != 1 || sum != 2*time.Second {
		t.Errorf("%d ticks, %s late in all; want one, 2s", number, sum)
	}
}
