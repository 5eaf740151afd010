package handover

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// fairYard is a planner of one pool, and tasks of several fair keys that wait in partitions.
type fairYard struct {
	*Planner
	r     *rand.Rand
	tasks map[Fair]*fairTasks // that wait
	took  map[Fair]int
}

// fairTasks is how many tasks wait, by partition.
type fairTasks [storyPartitions]int

func newFairYard(seed uint64) *fairYard {
	y := &fairYard{
		Planner: New(Options{HandOver: 4, Partitions: storyPartitions, Look: never, Ask: never}),
		r:       rand.New(rand.NewPCG(seed, 0)), tasks: make(map[Fair]*fairTasks), took: make(map[Fair]int),
	}
	y.SetFleet(Fleet{Workers: []Node{aWorker("a", 1000, 0, "default")}, Leaders: 1})
	return y
}

// add adds tasks of a key to some partitions, and tells the planner of them, as claims without room do.
func (y *fairYard) add(fair Fair, n int) {
	if y.tasks[fair] == nil {
		y.tasks[fair] = new(fairTasks)
	}
	places := 1 + y.r.IntN(storyPartitions)
	for range n {
		y.tasks[fair][y.r.IntN(places)]++
	}
	for p := range storyPartitions {
		y.addBacklog(p, y.backlog(p))
	}
}

func (y *fairYard) backlog(p int) Backlog {
	b := make(Backlog)
	for fair, tasks := range y.tasks {
		if tasks[p] > 0 {
			b[Lane{Queue: "default", Fair: fair}] = start
		}
	}
	return b
}

func (y *fairYard) waiting(fair Fair) (n int) {
	for p := range storyPartitions {
		n += y.tasks[fair].in(p)
	}
	return n
}

// serve has the partitions, in any order and up to three at once, claim as long as there is room for some of n tasks.
// It returns how many they have claimed.
func (y *fairYard) serve(n int) (served int) {
	y.flow(plain).free, y.flow(plain).asked = n, start
	granted := make(map[int]Grant)
	claim := func() {
		for p, g := range granted {
			served += y.claim(p, g)
		}
		clear(granted)
	}
	for before := -1; before != served; {
		before = served
		for _, p := range y.r.Perm(storyPartitions) {
			if g, ok := y.Grant(p, false, start); ok {
				granted[p] = g
			}
			if len(granted) > y.r.IntN(3) {
				claim()
			}
		}
		claim()
	}
	return served
}

// claim has a partition claim what it was granted, as far as it has it.
func (y *fairYard) claim(p int, g Grant) (n int) {
	o := Outcome{Claimed: make(map[Lane]int)}
	for lane, quota := range g.Lanes {
		if took := min(quota.Number, y.tasks[lane.Fair].in(p)); took > 0 {
			y.tasks[lane.Fair][p] -= took
			o.Claimed[lane] = took
			y.took[lane.Fair] += took
			n += took
		}
	}
	o.Backlog = y.backlog(p)
	y.Claimed(p, g, o, start)
	return n
}

func (t *fairTasks) in(p int) int {
	if t == nil {
		return 0
	}
	return t[p]
}

// TestTurns_FollowTheWeights: while two keys wait, what they got by weight differs by at most runLimit tasks of each.
// No room is left while tasks wait.
func TestTurns_FollowTheWeights(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		y := newFairYard(seed)
		keys := []Fair{{}}
		for i := range 1 + y.r.IntN(6) {
			keys = append(keys, Fair{fmt.Sprint("k", i), 1 + y.r.IntN(5), ""})
		}
		type pair [2]Fair
		since := make(map[pair][2]int) // what both had got when they began to wait together
		for round := range 40 {
			for _, fair := range keys {
				if y.r.IntN(4) == 0 {
					y.add(fair, y.r.IntN(60))
				}
			}
			waits := make(map[Fair]bool)
			all := 0
			for _, fair := range keys {
				waits[fair] = y.waiting(fair) > 0
				all += y.waiting(fair)
			}
			for i, a := range keys {
				for _, b := range keys[:i] {
					if !waits[a] || !waits[b] {
						delete(since, pair{a, b})
					} else if _, known := since[pair{a, b}]; !known {
						since[pair{a, b}] = [2]int{y.took[a], y.took[b]}
					}
				}
			}
			n := 1 + y.r.IntN(50)
			if got := y.serve(n); got != min(n, all) {
				t.Fatalf("seed %d, round %d: with room for %d of %d tasks, %d were claimed", seed, round, n, all, got)
			}
			for both, before := range since {
				a, b := both[0], both[1]
				if y.waiting(a) == 0 || y.waiting(b) == 0 {
					delete(since, both)
					continue
				}
				ofA := float64(y.took[a]-before[0]) * weightless(a)
				ofB := float64(y.took[b]-before[1]) * weightless(b)
				if diff := max(ofA-ofB, ofB-ofA); diff > runLimit*(weightless(a)+weightless(b))+1e-9 {
					t.Fatalf("seed %d, round %d: by weight, %v got %.2f and %v %.2f", seed, round, a, ofA, b, ofB)
				}
			}
		}
	}
}

// weightless is what a task of a key counts.
func weightless(f Fair) float64 { return (&turn{Fair: f}).step() }

// TestTurns_NobodySavesThem: a key that comes after others have got many tasks gets its part from then on, and no more.
func TestTurns_NobodySavesThem(t *testing.T) {
	t.Parallel()
	y := newFairYard(1)
	a, b := Fair{"a", 1, ""}, Fair{"b", 1, ""}
	y.add(a, 1000)
	y.add(Fair{}, 1000)
	y.serve(400)
	y.add(b, 1000)
	before := maps.Clone(y.took)
	y.serve(90)
	for _, fair := range []Fair{{}, a, b} {
		if got := y.took[fair] - before[fair]; got < 30-runLimit || got > 30+runLimit {
			t.Errorf("%q got %d of 90", fair.Key, got)
		}
	}
}

// TestTurns_TakeSeveralOfAKeyThatHasThem: claims with little room read few lanes. A key that has not as many tasks as
// it had turns for gets one turn at a time again, so that no room is kept for it.
func TestTurns_TakeSeveralOfAKeyThatHasThem(t *testing.T) {
	t.Parallel()
	y := newFairYard(1)
	for i := range 10 {
		y.add(Fair{fmt.Sprint("k", i), 1, ""}, 1000)
	}
	lanes := func() (n int) {
		y.flow(plain).free, y.flow(plain).asked = 16, start
		p := y.partitionOfNext()
		g, _ := y.Grant(p, false, start)
		for _, quota := range g.Lanes {
			n += min(quota.Number, 1)
		}
		y.Claimed(p, g, Outcome{Claimed: map[Lane]int{}, Found: Found{Backlog: y.backlog(p)}}, start)
		return n
	}
	if n := lanes(); n != 10 {
		t.Errorf("at first, a claim of 16 tasks reads %d lanes, want all 10", n)
	}
	for range 10 {
		y.serve(100)
	}
	if n := lanes(); n != 16/runLimit {
		t.Errorf("later, it reads %d lanes, want %d", n, 16/runLimit)
	}
	if n := lanes(); n <= 16/runLimit {
		t.Errorf("after a claim that found nothing, it reads %d lanes", n)
	}
}

// partitionOfNext is the partition from which the next tasks come.
func (y *fairYard) partitionOfNext() (next int) {
	y.flow(plain).plan(1, nil, func(_ *turn, partition int) bool {
		next = partition
		return true
	})
	return next
}

// TestTurns_AreNotForgottenByLeaving: a key that stops waiting for a moment does not come before those that it is ahead
// of.
func TestTurns_AreNotForgottenByLeaving(t *testing.T) {
	t.Parallel()
	var s turns
	a, b := Fair{"a", 1, ""}, Fair{"b", 1, ""}
	s.wait(a, 0, start)
	s.wait(b, 0, start)
	s.charge(a, 10)
	s.leave(a, 0)
	s.wait(a, 0, start)
	if got := planned(&s, 10); got[b] != 10 {
		t.Errorf("planned are %v, want 10 of the key that has got nothing", got)
	}
	s.charge(b, 30)
	s.leave(a, 0)
	s.wait(a, 0, start)
	if got := planned(&s, 20); got[a] != 10 {
		t.Errorf("planned are %v, want 10 of each, as nobody saves turns by leaving", got)
	}
	s.leave(a, 0)
	s.leave(b, 0)
	if len(s.keyed) != 0 || len(s.order) != 0 || s.waits(0) {
		t.Errorf("after all have left, it knows %+v", s)
	}
}

// TestTurns_StarveNoKeyWhileNewOnesCome: names that come first in the alphabet come no sooner.
func TestTurns_StarveNoKeyWhileNewOnesCome(t *testing.T) {
	t.Parallel()
	y := newFairYard(1)
	z := Fair{"z", 1, ""}
	y.add(z, 10)
	for i := range 100 {
		y.add(Fair{fmt.Sprintf("a%05d", i), 1, ""}, 3)
		y.serve(1)
	}
	if got := y.took[z]; got == 0 {
		t.Errorf("it got none of %d tasks", 100)
	}
}

// TestClaimed_BearsALaneOfADamagedName: its key may be empty.
func TestClaimed_BearsALaneOfADamagedName(t *testing.T) {
	t.Parallel()
	p := waitingIn(50)
	odd := Lane{Queue: "default", Fair: Fair{"", 1, ""}}
	g, _ := p.Grant(1, true, start)
	p.Claimed(1, g, Outcome{Found: Found{Backlog: Backlog{odd: start, plain: start}}}, start)
	if g, ok := p.Grant(1, true, start); !ok || g.Lanes[plain].Number == 0 && g.Lanes[odd].Number == 0 {
		t.Errorf("it grants %v, %v", g, ok)
	} else {
		p.Claimed(1, g, Outcome{Found: Found{Backlog: Backlog{}}}, start)
	}
}

// TestTurns_ForgetKeysThatAreNotAhead bounds what is known of keys that come and go.
func TestTurns_ForgetKeysThatAreNotAhead(t *testing.T) {
	t.Parallel()
	var s turns
	s.wait(Fair{}, 0, start)
	for i := range 10_000 {
		fair := Fair{fmt.Sprint("k", i), 1, ""}
		s.wait(fair, 0, start)
		s.charge(fair, 1)
		s.charge(Fair{}, 2)
		s.leave(fair, 0)
	}
	if n := len(s.keyed); n > 10 {
		t.Errorf("it knows %d keys, of which none waits", n)
	}
}

// TestTurns_PlanIsTheSameInAnyOrder of the lanes of a claim.
func TestTurns_PlanIsTheSameInAnyOrder(t *testing.T) {
	t.Parallel()
	var want []string
	for range 20 {
		y := newFairYard(1)
		for p := range 3 {
			backlog := make(Backlog) // whose order differs each time
			for i := range 10 {
				at := start.Add(time.Duration(i*p) * time.Millisecond)
				backlog[Lane{Queue: "default", Fair: Fair{fmt.Sprint("k", i), 1 + i, ""}}] = at
			}
			y.addBacklog(p, backlog)
		}
		var got []string
		y.flow(plain).plan(100, nil, func(t *turn, partition int) bool {
			got = append(got, fmt.Sprint(t.Key, " in ", partition))
			return true
		})
		if want == nil {
			want = got
		}
		if !slices.Equal(got, want) {
			t.Fatalf("planned are %v, want %v", got, want)
		}
	}
}

// planned counts what is planned of each key.
func planned(s *turns, n int) map[Fair]int {
	got := make(map[Fair]int)
	s.plan(n, nil, func(t *turn, _ int) bool {
		got[t.Fair]++
		return true
	})
	return got
}

// BenchmarkTurns is what a term decides for one claim while tasks of 1,000 fair keys wait in 16 partitions.
func BenchmarkTurns(b *testing.B) {
	for _, keys := range []int{1, 10, 1000} {
		b.Run(fmt.Sprint(keys), func(b *testing.B) {
			p := New(Options{HandOver: 4, Partitions: benchedPartitions, Look: never, Ask: never})
			p.SetFleet(Fleet{Workers: []Node{aWorker("a", 1000, 0, "default")}, Leaders: 1})
			backlog := make(Backlog)
			for i := range keys {
				backlog[Lane{Queue: "default", Fair: Fair{fmt.Sprint("k", i), 1, ""}}] = start
			}
			for i := range benchedPartitions {
				p.addBacklog(i, backlog)
			}
			p.flow(plain).asked = start
			b.ReportAllocs()
			partition := 0
			for b.Loop() {
				p.flow(plain).free = 256
				g, ok := p.Grant(partition, false, start)
				if !ok {
					b.Fatal("nothing is granted to partition ", partition)
				}
				o := Outcome{Claimed: make(map[Lane]int), Found: Found{Backlog: backlog}}
				for lane, quota := range g.Lanes {
					o.Claimed[lane] = quota.Number
				}
				p.Claimed(partition, g, o, start)
				if woken := p.Wakes(); len(woken) > 0 {
					partition = woken[0]
				}
			}
		})
	}
}
