package handover

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/task"
)

// yard is a planner and tasks that wait in partitions, without other nodes, looks at a later time, or errors.
type yard struct {
	*Planner
	r     *rand.Rand
	tasks map[Lane][storyPartitions][]time.Time // when they were due, in order
	room  map[Lane]int                          // of the lanes that have tasks, as it should be
	took  map[Lane]int
}

// newYard makes up workers, some of them of some types only, tasks in most lanes, and what waits in asynq's queues.
func newYard(seed uint64) *yard {
	r := rand.New(rand.NewPCG(seed, 0))
	y := &yard{
		Planner: New(Options{HandOver: 4, Partitions: storyPartitions, Look: never, Ask: never}), r: r,
		tasks: make(map[Lane][storyPartitions][]time.Time), room: make(map[Lane]int), took: make(map[Lane]int),
	}
	f := Fleet{Leaders: 1 + r.IntN(3)}
	for i := range r.IntN(4) {
		n := aWorker(fmt.Sprint(i), r.IntN(20), 0, storyQueues[r.IntN(2):]...)
		if r.IntN(2) == 0 {
			n.Types = storyTypes[:1+r.IntN(2)]
		}
		f.Workers = append(f.Workers, n)
	}
	y.SetFleet(f)
	looks := make(map[string]Look)
	for _, queue := range storyQueues[:2] { // the last queue has no backlog
		looks[queue] = Look{Waiting: r.IntN(60)}
		for _, taskType := range []string{"", "u", "v"} {
			lane := Lane{Queue: queue, Type: taskType}
			var tasks [storyPartitions][]time.Time
			for range r.IntN([]int{20, 400}[r.IntN(2)]) {
				p := r.IntN(storyPartitions)
				tasks[p] = append(tasks[p], start.Add(-time.Duration(r.IntN(2000))*time.Millisecond))
			}
			for p := range tasks {
				slices.SortFunc(tasks[p], time.Time.Compare)
			}
			y.tasks[lane], y.room[lane] = tasks, roomOf(f, lane, looks[queue].Waiting)
		}
	}
	for p := range storyPartitions {
		y.setBacklog(p, y.backlog(p))
	}
	for p := range storyPartitions {
		asked, _ := y.Asks(p, start)
		y.Looked(asked, looks, start)
	}
	return y
}

// roomOf is how many more deliveries one of the nodes that lead may hand over, while that many wait.
func roomOf(f Fleet, lane Lane, waiting int) int {
	slots := 0
	for _, n := range f.Workers {
		runs := lane.Type == "" || len(n.Types) == 0 || slices.Contains(n.Types, lane.Type)
		if _, serves := n.Queues[lane.Queue]; serves && runs {
			slots += n.Capacity
		}
	}
	if slots == 0 {
		return 0
	}
	return (max(max(4*slots, 16)-waiting, 0) + f.Leaders - 1) / f.Leaders
}

func (y *yard) backlog(p int) Backlog {
	b := make(Backlog)
	for lane, tasks := range y.tasks {
		if len(tasks[p]) > 0 {
			b[lane] = tasks[p][0]
		}
	}
	return b
}

// claim has a partition claim what it is granted, and reports whether that was anything.
func (y *yard) claim(p int, g Grant) (some bool) {
	o := Outcome{Claimed: make(map[Lane]int)}
	for lane, quota := range g.Lanes {
		tasks := y.tasks[lane]
		for i := 0; i < quota.Number && len(tasks[p]) > 0; i++ {
			if i > 0 && !quota.UpTo.IsZero() && tasks[p][0].After(quota.UpTo) {
				break
			}
			tasks[p] = tasks[p][1:]
			o.Claimed[lane]++
			y.took[lane]++
			some = true
		}
		y.tasks[lane] = tasks
	}
	o.Backlog = y.backlog(p)
	if g.Known { // it has looked at nothing else
		maps.DeleteFunc(o.Backlog, func(lane Lane, _ time.Time) bool { return g.Lanes[lane].Number == 0 })
	}
	y.Claimed(p, g, o, start)
	return some
}

func (y *yard) waiting(lane Lane) (n int) {
	for _, tasks := range y.tasks[lane] {
		n += len(tasks)
	}
	return n
}

// All partitions claim at the same time, again and again, until nobody gets anything.
func TestPlanner_UsesTheRoomAndNoMore(t *testing.T) {
	t.Parallel()
	full, served := 0, 0
	for seed := range uint64(200) {
		y := newYard(seed)
		for some := true; some; {
			some = false
			open := make(map[int]Grant)
			for _, p := range y.r.Perm(storyPartitions) {
				if g, ok := y.Grant(p, false, start); ok {
					open[p] = g
				}
			}
			promised := make(map[Lane]int)
			for _, g := range open {
				for lane, quota := range g.Lanes {
					promised[lane] += quota.Number
				}
			}
			for lane, room := range y.room {
				if n := promised[lane] + y.took[lane]; n > room {
					t.Fatalf("seed %d: %d tasks of %v may be claimed in all, and there is room for %d", seed, n, lane, room)
				}
			}
			for _, p := range y.r.Perm(storyPartitions) {
				if g, ok := open[p]; ok {
					some = y.claim(p, g) || some
				}
			}
		}
		for lane, room := range y.room {
			if y.took[lane] < room && y.waiting(lane) > 0 {
				t.Fatalf("seed %d: %d tasks of %v wait, %d were claimed, and there is room for %d",
					seed, y.waiting(lane), lane, y.took[lane], room)
			}
			if room > 0 {
				served++
			}
			if y.waiting(lane) > 0 && room > 0 {
				full++
			}
		}
	}
	if full < 100 || served-full < 100 {
		t.Errorf("%d lanes had room, and %d of them not enough: the test needs more of each", served, full)
	}
}

// A claim may take the least of a queue of which nothing is known. What nobody can take is not handed over.
func TestPlanner_GivesNothingToWhatNobodyServes(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		y := newYard(seed)
		f := y.fleet.Fleet
		for p := range storyPartitions {
			g, ok := y.Grant(p, true, start)
			if !ok || g.Default != LeastAhead {
				t.Fatalf("seed %d: the grant of due tasks is %v, %t", seed, g, ok)
			}
			for lane, quota := range g.Lanes {
				if quota.Number > 0 && roomOf(f, lane, 0) == 0 {
					t.Fatalf("seed %d: partition %d may claim %d of %v, which nobody serves", seed, p, quota.Number, lane)
				}
			}
		}
		for lane := range y.room {
			d := task.Delivery{Queue: lane.Queue, Type: lane.Type}
			if d.Type == "" {
				d.Type = "t"
			}
			handed := len(y.Split([]task.Delivery{d}).Served) > 0
			if serves := roomOf(f, LaneOf(d), 0) > 0; handed != serves {
				t.Fatalf("seed %d: a task of %v is handed over: %t, and somebody serves it: %t", seed, LaneOf(d), handed, serves)
			}
		}
	}
}

// Within a lane, a partition whose tasks have waited longer goes first: nothing overtakes by more than the slack.
func TestPlanner_KeepsTheOrderOfPartitions(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		y := newYard(seed)
		for range 100 {
			p := y.r.IntN(storyPartitions)
			before := make(map[Lane]time.Time) // when the first task that waits elsewhere was due
			for lane, tasks := range y.tasks {
				for other := range tasks {
					if other != p && len(tasks[other]) > 0 && (before[lane].IsZero() || tasks[other][0].Before(before[lane])) {
						before[lane] = tasks[other][0]
					}
				}
			}
			g, _ := y.Grant(p, true, start)
			for lane, quota := range g.Lanes {
				first := y.tasks[lane][p]
				if quota.Number == 0 || len(first) == 0 || before[lane].IsZero() {
					continue
				}
				if limit := before[lane].Add(OrderSlack); first[0].After(limit) || !quota.UpTo.Equal(limit) {
					t.Fatalf("seed %d: partition %d may claim tasks of %v from %s up to %s, want up to %s",
						seed, p, lane, first[0], quota.UpTo, limit)
				}
			}
			y.claim(p, g)
		}
	}
}
