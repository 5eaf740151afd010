package handover

import (
	"slices"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/task"
)

const never = time.Hour // for what must not be waited for

var (
	start = time.UnixMilli(1_000_000)
	plain = Lane{Queue: "default"}
)

// waitingIn returns a planner with one worker of the queue default, whose tasks have waited in partition 1 for long and
// in partition 2 for less. So many may be claimed, and nobody asks Redis.
func waitingIn(free int) *Planner {
	p := New(Options{HandOver: 4, Partitions: 16, Look: never, Ask: never})
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
	p := New(Options{HandOver: 4, Partitions: 16, Look: never, Ask: time.Second})
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

// look has the term of a partition look at its queues.
func (p *Planner) look(t *testing.T, partition int, looks map[string]Look, now time.Time) {
	t.Helper()
	asked, _ := p.Asks(partition, now)
	if len(asked) == 0 {
		t.Fatalf("partition %d asks for nothing", partition)
	}
	p.Looked(asked, looks, now)
}

// What waits for the few workers of a type takes no room of the others, and more of it waits in a lane.
func TestLooked_CountsWhatFewRunForTheirLane(t *testing.T) {
	t.Parallel()
	all, few := aWorker("all", 10, 0, "default"), aWorker("few", 1, 0, "default")
	all.Types, few.Types = []string{"http"}, []string{"http", "shell"}
	p := New(Options{HandOver: 4, Partitions: 16, Look: never, Ask: time.Second})
	p.SetFleet(Fleet{Workers: []Node{all, few}, Leaders: 1})
	p.setBacklog(1, Backlog{plain: start})
	p.look(t, 1, map[string]Look{"default": {Waiting: 30, Types: map[string]int{"http": 5, "shell": 25}}}, start)
	g, _ := p.Grant(1, false, start)
	shell, known := g.Lanes[Lane{Queue: "default", Type: "shell"}]
	if want := 4*11 - 5; g.Lanes[plain].Number != want || shell.Number != 0 || !known {
		t.Errorf("%d tasks and %d in a lane (%t) may be claimed, want %d and none",
			g.Lanes[plain].Number, shell.Number, known, want)
	}
}

func TestGrant_HasNothingForAServerThatIsSilent(t *testing.T) {
	t.Parallel()
	p := waitingIn(50)
	for _, s := range []Server{Silent, Asked} {
		p.ServerFailed("default", s)
		if g, ok := p.Grant(1, false, start); ok {
			t.Errorf("while its server is known as %d, %v may be claimed", s, g.Lanes)
		}
	}
	later := start.Add(2 * never)
	if asked, _ := p.Asks(1, later); len(asked) != 0 {
		t.Errorf("%v are asked for while their server is being asked", asked)
	}
	if !p.ServerAnswered("default", later) || p.ServerAnswered("default", later) {
		t.Error("a server answers again once")
	}
	p.wakesOnly(t, 1)
	if g, ok := p.Grant(1, false, later); !ok || g.Lanes[plain].Number != 50 {
		t.Errorf("then %v may be claimed", g.Lanes)
	}
}

func TestForeignRead_CountsServersOfQueuesWithoutNodes(t *testing.T) {
	t.Parallel()
	p, foreign := waitingIn(0), Lane{Queue: "foreign"}
	p.setBacklog(3, Backlog{foreign: start})
	if due, _ := p.ForeignDue(p.Waiting(1), start); due {
		t.Error("the list of asynq's servers is due for a queue that nodes serve")
	}
	if due, _ := p.ForeignDue(p.Waiting(3), start); !due {
		t.Error("the list of asynq's servers is not due")
	}
	p.ForeignRead(p.Waiting(3), map[string]int{"foreign": 2}, start)
	if due, _ := p.ForeignDue(p.Waiting(3), start); due {
		t.Error("the list of asynq's servers is due again at once")
	}
	p.look(t, 3, map[string]Look{"foreign": {Waiting: 10}}, start)
	if g, _ := p.Grant(3, false, start); g.Lanes[foreign].Number != LeastAhead-10 {
		t.Errorf("%d tasks may be claimed, want %d", g.Lanes[foreign].Number, LeastAhead-10)
	}
	if pause := p.Pause(3, start); pause != silentPause {
		t.Errorf("the next look is in %s, want %s", pause, silentPause)
	}
}

func TestRoomSince_IsWhenSomebodySaidSo(t *testing.T) {
	t.Parallel()
	p := waitingIn(0)
	p.setBacklog(1, nil)
	p.setBacklog(1, Backlog{plain: {}}) // a claim without a quota has found some
	said := start.Add(time.Second)
	p.HasRoom("default", said)
	p.look(t, 1, map[string]Look{"default": {}}, said.Add(time.Second))
	since := p.RoomSince([]task.Delivery{{Queue: "default", Type: "http"}, {Queue: "other", Type: "http"}})
	if !since[0].Equal(said) || !since[1].IsZero() {
		t.Errorf("there is room since %v, want %s and always", since, said)
	}
}

func TestLeave_LetsTheOthersClaim(t *testing.T) {
	t.Parallel()
	p := waitingIn(50)
	p.Leave(1)
	p.wakesOnly(t, 2)
}

// Each of the partitions that have waited as long gets a part of what was free before any of them claimed.
func TestGrant_SharesWhatTwoPartitionsClaimAtOnce(t *testing.T) {
	t.Parallel()
	p := waitingIn(80)
	p.setBacklog(2, Backlog{plain: time.UnixMilli(1000)})
	for _, partition := range []int{1, 2} {
		if g, _ := p.Grant(partition, false, start); g.Lanes[plain].Number != 40 {
			t.Errorf("partition %d may claim %d, want 40", partition, g.Lanes[plain].Number)
		}
	}
}
