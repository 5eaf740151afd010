package handover

import (
	"slices"
	"testing"
	"time"
)

const never = time.Hour // for what must not be waited for

var (
	start = time.UnixMilli(1_000_000)
	plain = Lane{Queue: "default"}
)

// waitingIn returns a planner with one worker of the queue default, whose tasks have waited in partition 1 for long and
// in partition 2 for less. So many may be claimed, and nobody asks Redis.
func waitingIn(free int) *Planner {
	p := New(Options{HandOver: 4, Partitions: 16, Ask: never})
	p.SetFleet(Fleet{Workers: []Node{aWorker("a", 1000, 0, "default")}, Leaders: 1})
	p.setBacklog(1, Backlog{plain: time.UnixMilli(1000)})
	p.setBacklog(2, Backlog{plain: time.UnixMilli(9000)})
	p.flow(plain).free, p.flow(plain).asked = free, start
	return p
}

func (p *Planner) wakesOnly(t *testing.T, want ...int) {
	t.Helper()
	if got := p.Wakes(); !slices.Equal(got, want) {
		t.Errorf("it wakes the terms of partitions %v, want %v", got, want)
	}
}

func TestClaimed_GivesBackWhatWasNotClaimed(t *testing.T) {
	t.Parallel()
	p := waitingIn(50)
	if _, ok := p.Grant(2, false, start); ok {
		t.Error("partition 2 may claim, although tasks of partition 1 have waited longer")
	}
	g, ok := p.Grant(1, false, start)
	if !ok || g.Lanes[plain].Number != 50 {
		t.Fatalf("partition 1 may claim %v, %v", g, ok)
	}
	if other, _ := p.Grant(3, true, start); other.Lanes[plain].Number != 0 {
		t.Errorf("partition 3 may claim %v of what is reserved", other)
	}
	p.Claimed(1, g, Outcome{Claimed: map[Lane]int{plain: 20}, Found: Found{Backlog: Backlog{}}}, start)
	p.wakesOnly(t, 2) // it is its turn
	if g, ok = p.Grant(2, false, start); !ok || g.Lanes[plain].Number != 30 {
		t.Errorf("then partition 2 may claim %v, %v, want 30", g, ok)
	}
	p.Claimed(2, g, Outcome{
		Claimed: map[Lane]int{plain: 30}, Found: Found{Backlog: Backlog{}}, Lengths: map[string]int{"default": 1},
	}, start)
	later := start.Add(2 * never)
	g, _ = p.Grant(5, true, later)
	p.Claimed(5, g, Outcome{}, later)
	if n := len(p.flows); n != 0 {
		t.Errorf("%d lanes are remembered", n)
	}
}

// Word of room comes while the partition whose turn it is claims. Afterwards it is the turn of another, which must ask.
func TestHasRoom_IsPassedOn(t *testing.T) {
	t.Parallel()
	p := waitingIn(5)
	g, _ := p.Grant(1, false, start)
	p.HasRoom("default", start)
	p.wakesOnly(t, 1)
	found := Found{Backlog: Backlog{plain: time.UnixMilli(20_000)}}
	p.Claimed(1, g, Outcome{Claimed: map[Lane]int{plain: 5}, Found: found}, start)
	p.wakesOnly(t, 2)
}

// A partition that cannot be claimed from must not hold up those that can.
func TestClaimed_APartitionThatFailsLosesItsTurn(t *testing.T) {
	t.Parallel()
	p := waitingIn(50)
	g, _ := p.Grant(1, false, start)
	p.Claimed(1, g, Outcome{}, start)
	p.wakesOnly(t, 2)
}

// The workers of a queue end more in a moment than may wait for their slots: the bound follows them, and they end less.
func TestBound_FollowsTheWorkers(t *testing.T) {
	t.Parallel()
	p := New(Options{HandOver: 4, Partitions: 16, Ask: time.Second})
	p.SetFleet(Fleet{Workers: []Node{aWorker("a", 10, 0, "default")}, Leaders: 1})
	f, now := p.flow(plain), start.Add(time.Second/2)
	f.measure(Look{Ended: 1000}, start)
	f.measure(Look{Ended: 6000}, now)
	if f.rate != 10_000 {
		t.Errorf("the rate is %.0f a second, want 10,000", f.rate)
	}
	if idle, busy := p.bound(plain, nil, now), p.bound(plain, f, now); idle != 40 || busy != 2500 {
		t.Errorf("%d and %d deliveries may wait, want 40 and 2,500", idle, busy)
	}
	f.free = 2400
	p.note(map[string]int{"default": 30}, now)
	if f.free != 2400 {
		t.Errorf("%d are free while the workers are fast, want 2,400", f.free)
	}
	p.note(map[string]int{"default": 30}, now.Add(time.Minute))
	if f.free != 10 {
		t.Errorf("%d are free when they are not any more, want 10", f.free)
	}
	if n := p.bound(Lane{Queue: "other"}, f, now); n != 0 {
		t.Errorf("%d deliveries may wait in a queue that nobody serves", n)
	}
}

func TestShare_IsThatOfOneOfTheNodesThatLead(t *testing.T) {
	t.Parallel()
	for leaders, want := range map[int]int{0: 41, 1: 41, 2: 21, 16: 3, 100: 3} {
		p := New(Options{Partitions: 16})
		p.SetFleet(Fleet{Leaders: leaders})
		if got := p.share(41); got != want {
			t.Errorf("a share of 41 among %d nodes is %d, want %d", leaders, got, want)
		}
	}
}
