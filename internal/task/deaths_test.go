package task

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// ending is one way in which an attempt of a random history may end.
type ending struct{ lost, died, early, retried bool }

// Deaths must be the longest tail of the history in which each attempt fits, tried from the longest one down.
func TestCountDeaths_MatchesTheLongestTailThatFits(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	seen := map[int]bool{}
	for range 5000 {
		history := make([]ending, random.IntN(6))
		for i := range history {
			history[i] = ending{random.IntN(8) > 0, random.IntN(8) > 0, random.IntN(4) > 0, random.IntN(12) > 0}
		}
		tail := func(fits func(ending) bool) int {
			for n := len(history); n > 0; n-- {
				if !slices.ContainsFunc(history[len(history)-n:], func(e ending) bool { return !fits(e) }) {
					return n
				}
			}
			return 0
		}
		got := countIn(history)
		wantNodes := tail(func(e ending) bool { return e.lost && e.died && e.retried })
		wantEarly := tail(func(e ending) bool { return e == ending{true, true, true, true} })
		if len(got.Nodes) != wantNodes || got.Early != wantEarly {
			t.Fatalf("%+v: %d nodes, %d early; want %d and %d", history, len(got.Nodes), got.Early, wantNodes, wantEarly)
		}
		if wantNodes > 0 && got.Nodes[0] != fmt.Sprint(len(history)) {
			t.Fatalf("%+v: the nodes are %v, want the newest first", history, got.Nodes)
		}
		seen[got.Early] = true
	}
	if len(seen) < 5 {
		t.Errorf("the histories have only these counts: %v", seen)
	}
}

// countIn counts the deaths of a task with that history.
func countIn(history []ending) Deaths {
	retry := time.UnixMilli(1e12)
	attempts := make([]Attempt, len(history))
	for i, e := range history {
		a := Attempt{Number: i + 1, Node: fmt.Sprint(i + 1), Outcome: OutcomeFailed, StartedAt: retry.Add(time.Minute)}
		if e.lost {
			a.Outcome = OutcomeLost
		}
		if !e.retried {
			a.StartedAt = retry.Add(-time.Minute)
		}
		attempts[i] = a
	}
	died := func(a Attempt) (time.Time, bool) {
		e := history[a.Number-1]
		if e.early {
			return a.StartedAt.Add(EarlyDeath), e.died
		}
		return a.StartedAt.Add(EarlyDeath + time.Millisecond), e.died
	}
	return Task{FirstDueAt: retry}.CountDeaths(attempts, died)
}

func TestDeaths_EndATaskOnlyAfterATurn(t *testing.T) {
	t.Parallel()
	lost := time.UnixMilli(1e12)
	attempts := []Attempt{
		{Number: 1, Outcome: OutcomeLost, StartedAt: lost, FinishedAt: lost},
		{Number: 2, Outcome: OutcomeLost, StartedAt: lost, FinishedAt: lost},
		{Number: 3, Outcome: OutcomeLost, StartedAt: lost},
	}
	died := func(Attempt) (time.Time, bool) { return lost, true }
	for name, c := range map[string]struct {
		attempts        []Attempt
		due             time.Time
		suspect, poison bool
	}{
		"one death":                 {attempts[:1], lost, false, false},
		"two":                       {attempts[:2], lost, true, false},
		"two, the second waited":    {attempts[:2], lost.Add(1), true, false},
		"three, the third waited":   {attempts, lost.Add(1), true, true},
		"three, each due at once":   {attempts, lost, true, false},
		"none: nothing is recorded": {nil, lost, false, false},
	} {
		got := Task{FirstDueAt: lost, DueAt: c.due}.CountDeaths(c.attempts, died)
		if got.Suspect() != c.suspect || got.Poison() != c.poison || got.Repeated() != (len(c.attempts) > 1) {
			t.Errorf("%s: %+v: suspect %v, poison %v", name, got, got.Suspect(), got.Poison())
		}
	}
}

func TestNextTurn_GivesEachLeaderTurnsOfItsOwn(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1e12 + 1)
	given := map[time.Time]bool{}
	for _, leaders := range []int{1, 3} {
		clear(given)
		for place := range leaders {
			last := time.Time{}
			for range 5 {
				turn, ok := NextTurn(now, last, place, leaders)
				if !ok || given[turn] || !turn.After(now) || !turn.After(last) || turn.UnixMilli()%TurnLength.Milliseconds() != 0 {
					t.Errorf("leader %d of %d, after %s: %s, %v", place, leaders, last, turn, ok)
				}
				given[turn], last = true, turn
			}
		}
		for turn := range given {
			if limit := time.Duration(6*leaders) * TurnLength; turn.Sub(now) > limit {
				t.Errorf("of %d leaders, a turn is at %s, want at most %s after %s", leaders, turn, limit, now)
			}
		}
	}
	begins := time.UnixMilli(1e12 - 1e12%TurnLength.Milliseconds() + TurnLength.Milliseconds())
	turn, ok := NextTurn(begins.Add(-10*time.Millisecond), time.Time{}, 0, 1)
	if !ok || !turn.Equal(begins.Add(TurnLength)) {
		t.Errorf("a turn is at %s, %v, want the one after %s, which begins in 10 ms", turn, ok, begins)
	}
	if turn, ok := NextTurn(now, now.Add(TurnsAhead), 0, 1); ok {
		t.Errorf("a turn is at %s, more than %s after %s", turn, TurnsAhead, now)
	}
}

// fleet simulates nodes that run tasks and die, and leaders that apply the rules of deaths.
type fleet struct {
	random  *rand.Rand
	events  []event
	died    map[string]time.Time // until when nodes that died lived at most
	alive   []string
	started int         // nodes
	last    []time.Time // turns of the leaders
}

type event struct {
	at time.Time
	do func(time.Time)
}

// simulated is a task of the simulation: it kills its node after a time, or ends.
type simulated struct {
	Task
	kills    bool
	after    time.Duration
	attempts []Attempt
	ended    string // how: "done", "poison" or "no attempts left"
}

func newFleet(seed uint64, nodes, leaders int) *fleet {
	f := &fleet{random: rand.New(rand.NewPCG(seed, 1)), died: map[string]time.Time{}, last: make([]time.Time, leaders)}
	for range nodes {
		f.start()
	}
	return f
}

func (f *fleet) start() {
	f.started++
	f.alive = append(f.alive, fmt.Sprint("node", f.started))
}

// upTo is a random time up to d.
func (f *fleet) upTo(d time.Duration) time.Duration { return time.Duration(f.random.Int64N(int64(d))) }

func (f *fleet) plan(at time.Time, do func(time.Time)) { f.events = append(f.events, event{at, do}) }

// run plays all events in order of their times.
func (f *fleet) run() {
	for len(f.events) > 0 {
		first := 0
		for i, e := range f.events {
			if e.at.Before(f.events[first].at) {
				first = i
			}
		}
		next := f.events[first]
		f.events = slices.Delete(f.events, first, first+1)
		next.do(next.at)
	}
}

// submit makes a task due; it begins soon afterwards on some node.
func (f *fleet) submit(all []*simulated, t *simulated, due time.Time) {
	t.DueAt = due
	f.plan(due.Add(f.upTo(300*time.Millisecond)), func(now time.Time) {
		if t.FirstDueAt.IsZero() {
			t.FirstDueAt = due
		}
		t.Attempt++
		number, node := t.Attempt, f.alive[f.random.IntN(len(f.alive))]
		t.attempts = append(t.attempts, Attempt{Number: number, Node: node, StartedAt: now})
		f.plan(now.Add(t.after), func(now time.Time) {
			a := &t.attempts[len(t.attempts)-1]
			switch {
			case a.Number != number || a.Outcome != "" || !slices.Contains(f.alive, node):
			case t.kills:
				f.kill(all, node, now)
			default:
				a.Outcome, t.ended = OutcomeSucceeded, "done"
			}
		})
	})
}

// kill has a node die, whose tasks are lost, and another one start.
func (f *fleet) kill(all []*simulated, node string, now time.Time) {
	f.died[node] = now.Add(f.upTo(2 * time.Second))
	f.alive = slices.DeleteFunc(f.alive, func(n string) bool { return n == node })
	f.start()
	for _, t := range all {
		n := len(t.attempts)
		if n == 0 || t.attempts[n-1].Node != node || t.attempts[n-1].Outcome != "" {
			continue
		}
		found := now.Add(2*time.Second + f.upTo(2*time.Second))
		if before := t.CountDeaths(t.attempts[:n-1], f.fate); len(before.Nodes) > 0 {
			found = now.Add(4*time.Second + f.upTo(4*time.Second)) // when the node is known to have died
		}
		f.plan(found, func(now time.Time) { f.lose(all, t, now) })
	}
}

func (f *fleet) fate(a Attempt) (time.Time, bool) {
	last, ok := f.died[a.Node]
	return last, ok
}

// lose ends the newest attempt of a task as lost.
func (f *fleet) lose(all []*simulated, t *simulated, now time.Time) {
	newest := &t.attempts[len(t.attempts)-1]
	newest.Outcome, newest.FinishedAt = OutcomeLost, now
	deaths, due, place := t.CountDeaths(t.attempts, f.fate), now, int(t.ID[0])%len(f.last)
	if turn, ok := NextTurn(now, f.last[place], place, len(f.last)); ok && deaths.Suspect() {
		due, f.last[place] = turn, turn
	}
	_, again := t.NextAttempt(OutcomeLost, due, 0, 0)
	switch {
	case deaths.Poison():
		t.ended = "poison"
	case !again:
		t.ended = "no attempts left"
	default:
		f.submit(all, t, due)
	}
}

// The tasks of a node all run beside the one that kills it, and again when they begin together on the next node.
func TestDeaths_EndThePoisonAndNoNeighbour(t *testing.T) {
	t.Parallel()
	begin := time.UnixMilli(1e12)
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 2))
		f := newFleet(seed, 1+random.IntN(4), 1+random.IntN(3))
		poisons := 1 + random.IntN(2)
		var all []*simulated
		for i := range poisons + 1 + random.IntN(63) {
			s := &simulated{kills: i < poisons, after: time.Duration(random.Int64N(8000)) * time.Millisecond}
			s.ID, s.MaxAttempts = string(rune('A'+i)), DefaultMaxAttempts
			if !s.kills && random.IntN(2) == 0 {
				s.after *= time.Duration(1 + random.IntN(1000)) // long tasks
			}
			all = append(all, s)
		}
		for _, s := range all {
			f.submit(all, s, begin.Add(f.upTo(time.Second)))
		}
		f.run()
		for _, s := range all {
			want := "done"
			if s.kills {
				want = "poison"
			}
			if s.ended != want || s.kills && len(s.attempts) != PoisonDeaths {
				t.Errorf("seed %d: task %s ended %s with %d attempts, want %s: %+v",
					seed, s.ID, s.ended, len(s.attempts), want, s.attempts)
			}
		}
		if deaths := len(f.died); deaths > PoisonDeaths*poisons {
			t.Errorf("seed %d: %d nodes died of %d tasks", seed, deaths, poisons)
		}
	}
}

// A task that kills late is named, and ends with its last attempt.
func TestDeaths_NameATaskThatKillsLate(t *testing.T) {
	t.Parallel()
	f := newFleet(1, 2, 1)
	late := &simulated{kills: true, after: time.Minute}
	late.ID, late.MaxAttempts = "late", 4
	f.submit([]*simulated{late}, late, time.UnixMilli(1e12))
	f.run()
	got := late.CountDeaths(late.attempts[:2], f.fate)
	if !got.Repeated() || got.Suspect() || late.ended != "no attempts left" || len(late.attempts) != 4 {
		t.Errorf("after two deaths: %+v; it ended %s with %d attempts", got, late.ended, len(late.attempts))
	}
}
