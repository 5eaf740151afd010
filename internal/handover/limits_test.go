package handover

import (
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/limit"
	"github.com/dts-sched/dts/internal/testkit"
)

// limited is a lane of tasks with a limit.
var limited = Lane{Queue: "default", Fair: Fair{Weight: 1, Limits: "key:a"}}

// tableFor returns a table of one limit.
func tableFor(t *testing.T, text string, rule limit.Rule) *limit.Table {
	t.Helper()
	n, err := limit.ParseName(text)
	testkit.Must(t, err)
	return limit.NewTable(limit.Rules{n: rule})
}

// Tasks that wait under limits that are no more are claimed, also by a leader that never knew these limits: the claim
// finds that they have none.
func TestGrant_TakesTasksWhoseLimitsAreNoMore(t *testing.T) {
	t.Parallel()
	p := waitingIn(50)
	p.setBacklog(1, Backlog{limited: start.Add(-time.Minute)})
	p.setBacklog(2, nil)
	g, ok := p.Grant(1, false, start)
	if !ok || g.Lanes[limited].Number == 0 {
		t.Fatalf("it may claim %v, %v", g.Lanes, ok)
	}
	p.Claimed(1, g, Outcome{Found: Found{Backlog: Backlog{limited: start}}}, start)
	p.SetLimits(tableFor(t, "key:a", limit.Rule{Slots: 1}))
	if g, _ := p.Grant(1, false, start); g.Lanes[limited].Number > 0 {
		t.Errorf("it may claim %v before it has asked for a slot", g.Lanes)
	}
}

// Each partition asks for its part of the room. What all ask for together fits there: tokens that no task can use would
// be there for later ones, beyond the rate.
func TestLimits_SplitsTheRoomAmongPartitions(t *testing.T) {
	t.Parallel()
	p := waitingIn(0)
	p.setBacklog(1, nil)
	p.setBacklog(2, nil)
	p.SetLimits(tableFor(t, "key:a", limit.Rule{Rate: 1, Per: time.Second}))
	for n := range 16 {
		p.setBacklog(n, Backlog{limited: start.Add(-time.Minute)})
	}
	for free, want := range map[int]int{0: 0, 5: 16, 64: 64, 100: 112} {
		p.flow(plain).free = free
		asked := 0
		for n := range 16 {
			p.flow(plain).of(limited.Fair).setNumber(n, 1000)
			_, needs, _ := p.Limits(n)
			asked += needs[0].Waiting
		}
		if asked != want {
			t.Errorf("if %d may start, %d are asked for, want %d", free, asked, want)
		}
	}
}

// Only while a task waits that needs several slots, some are kept for it from those behind it.
func TestGrant_KeepsSlotsForATaskWithACost(t *testing.T) {
	t.Parallel()
	dear, cheap := limited, limited
	dear.Limits = "3,key:a"
	p := waitingIn(50)
	p.setBacklog(2, nil)
	p.SetLimits(tableFor(t, "key:a", limit.Rule{Slots: 4}))
	p.setBacklog(1, Backlog{dear: start.Add(-time.Minute)}) // it is the first one
	p.addBacklog(1, Backlog{cheap: start.Add(-time.Second)})
	book := p.Book(1)
	book.Read(nil)
	book.Counted([]limit.Cap{{Limit: "key:a", Version: 1, Cap: 4, Holders: 2}}, start)
	book.Answered(limit.Ask{Limit: "key:a", Version: 1, Have: 4}, limit.Answer{Count: 4}, start)
	for _, dearWaits := range []bool{true, false} {
		r := p.rooms(start)
		if got := r.of(1, p.flow(plain).of(cheap.Fair)); got != map[bool]int{true: 0, false: 2}[dearWaits] {
			t.Errorf("%d tasks have room; the one with a cost waits: %t", got, dearWaits)
		}
		if r.hasCosts != dearWaits {
			t.Errorf("it looks for tasks with a cost: %t, want %t", r.hasCosts, dearWaits)
		}
		p.setBacklog(1, Backlog{cheap: start.Add(-time.Second)})
	}
}
