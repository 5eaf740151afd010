package model

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// search is a size, and the promises that a failover that loses writes may break. doc.go has the numbers of states.
type search struct {
	size Size
	lost []Promise
}

// lostWork is what the loss of writes about tasks may break, lostFollowed the same where they have follow-ups,
// lostTicks the same about tasks of ticks, and lostStory what the loss of all that became of a task may.
var (
	lostWork     = []Promise{Kept, Final, BegunOnce, Held}
	lostFollowed = append([]Promise{FollowedOnce}, lostWork...)
	lostTicks    = []Promise{OneTick, Final, BegunOnce, Held}
	lostStory    = []Promise{Kept, Final, BegunOnce}
)

// small are the searches of every run of the tests, large those of the long form.
var (
	small = []search{
		{size: Size{Tasks: 1, Attempts: 1, Leaders: 1, Workers: 2, Cancels: true}},
		{size: Size{Tasks: 1, Attempts: 2, Leaders: 1, Workers: 1, Backlog: true}},
		{size: Size{Tasks: 1, Attempts: 1, Leaders: 2, Workers: 1, Cancels: true}},
		{size: Size{Ticks: 2, Attempts: 1, Leaders: 1, Workers: 1, Overlap: Queue}},
		{size: Size{Tasks: 1, Attempts: 1, Leaders: 1, Workers: 1, Lag: 2}, lost: lostWork},
		{size: Size{Tasks: 1, Attempts: 1, Leaders: 2, Workers: 1, Lag: 1}, lost: lostWork},
		{size: Size{Tasks: 1, Attempts: 2, Leaders: 1, Workers: 1, Lag: 5, Early: true}, lost: lostStory},
		{size: Size{Tasks: 1, Attempts: 1, Leaders: 1, Workers: 1, Deletes: true}},
		{size: Size{Tasks: 1, Attempts: 1, Leaders: 1, Workers: 1, Cancels: true, Follow: true}},
		{size: Size{Tasks: 1, Attempts: 1, Leaders: 1, Workers: 1, Lag: 1, Follow: true}, lost: lostFollowed},
		{size: Size{Tasks: 1, Attempts: 1, Leaders: 1, Workers: 1, Cancels: true, Forgets: true, Follow: true}},
		{size: Size{Tasks: 1, Attempts: 1, Leaders: 1, Workers: 1, Cancels: true, Retries: true}},
		{size: Size{Tasks: 1, Attempts: 1, Leaders: 1, Workers: 1, Retries: true, Follow: true}},
		{size: Size{Ticks: 1, Attempts: 1, Leaders: 1, Workers: 1, Follow: true}},
	}
	large = []search{
		{size: Size{Tasks: 1, Attempts: 2, Leaders: 1, Workers: 1, Lag: 2}, lost: lostWork},
		{size: Size{Tasks: 1, Attempts: 2, Leaders: 1, Workers: 1, Lag: 9, Early: true}, lost: lostStory},
		{size: Size{Tasks: 1, Attempts: 2, Leaders: 1, Workers: 1, Lag: 12, Early: true}, lost: lostStory},
		{size: Size{Tasks: 1, Attempts: 1, Leaders: 2, Workers: 1, Lag: 2}, lost: lostWork},
		{size: Size{Tasks: 1, Attempts: 2, Leaders: 1, Workers: 1, Cancels: true, Deletes: true, Backlog: true}},
		{size: Size{Tasks: 1, Attempts: 1, Leaders: 1, Workers: 1, Backlog: true, Lag: 5}, lost: lostWork},
		{size: Size{Tasks: 1, Attempts: 1, Leaders: 1, Workers: 2, Lag: 5}, lost: lostWork},
		{size: Size{Tasks: 1, Attempts: 2, Leaders: 1, Workers: 2, Cancels: true, Backlog: true}},
		{size: Size{Tasks: 1, Attempts: 2, Leaders: 2, Workers: 1, Cancels: true}},
		{size: Size{Tasks: 1, Attempts: 2, Leaders: 1, Workers: 1, Cancels: true, Backlog: true, Follow: true}},
		{size: Size{Tasks: 1, Attempts: 1, Leaders: 2, Workers: 1, Cancels: true, Follow: true}},
		{size: Size{Tasks: 1, Attempts: 1, Leaders: 2, Workers: 1, Forgets: true, Follow: true}},
		{size: Size{
			Tasks: 1, Attempts: 1, Leaders: 1, Workers: 1, Cancels: true, Forgets: true, Retries: true, Follow: true,
		}},
		{size: Size{Tasks: 1, Attempts: 1, Leaders: 1, Workers: 1, Cancels: true, Lag: 2, Follow: true}, lost: lostFollowed},
		{size: Size{Tasks: 1, Attempts: 1, Leaders: 1, Workers: 1, Lag: 5, Follow: true}, lost: lostFollowed},
		{size: Size{Tasks: 1, Attempts: 1, Leaders: 2, Workers: 2, Cancels: true, Backlog: true}},
		{size: Size{Tasks: 1, Attempts: 1, Leaders: 1, Workers: 1, Copies: true}},
		{size: Size{Tasks: 2, Attempts: 1, Leaders: 1, Workers: 1}},
		{size: Size{Ticks: 2, Attempts: 1, Leaders: 1, Workers: 1, Overlap: Skip}},
		{size: Size{Ticks: 3, Attempts: 1, Leaders: 1, Workers: 1, Overlap: Queue}},
		{size: Size{Ticks: 1, Attempts: 1, Leaders: 1, Workers: 1, Copies: true}},
		{size: Size{Ticks: 1, Attempts: 1, Leaders: 1, Workers: 1, Lag: 5}, lost: lostTicks},
		{size: Size{Ticks: 2, Attempts: 1, Leaders: 1, Workers: 1, Overlap: Queue, Follow: true}},
		{
			size: Size{Ticks: 1, Attempts: 1, Leaders: 1, Workers: 1, Lag: 2, Follow: true},
			lost: append([]Promise{FollowedOnce}, lostTicks...),
		},
	}
)

// searching has a place for each search at a time: more would take no less time, but more memory.
var searching = make(chan struct{}, runtime.GOMAXPROCS(0))

// The promises hold in every state that the model can reach, but for those that the loss of writes may break, which it does break.
// And the model is of the real scripts: traces that take every kind of step, and others at random, happen in a real Redis alike.
func TestModel_KeepsItsPromisesAndTheScriptsFollowIt(t *testing.T) {
	t.Parallel()
	searches := small
	if testkit.Long() {
		searches = slices.Concat(small, large)
	}
	for _, s := range searches {
		t.Run(fmt.Sprintf("%+v", s.size), func(t *testing.T) {
			t.Parallel()
			m := &Model{Size: s.size}
			searching <- struct{}{}
			r := m.Explore()
			<-searching
			s.judge(t, r)
			s.replay(t, m, r)
		})
	}
}

// replay has traces happen in a real Redis: those that take every kind of step, and some at random.
func (s *search) replay(t *testing.T, m *Model, r Report) {
	t.Helper()
	db := redistest.Start(t).DB(t)
	for _, trace := range r.Cover() {
		replay(t, db, m, trace)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range testkit.Amount(2, 50) {
		replay(t, db, m, m.walk(random, 60))
	}
}

// judge fails the test unless exactly those promises are broken that may be.
func (s *search) judge(t *testing.T, r Report) {
	t.Helper()
	t.Logf("%d states, %d steps of %d kinds, the farthest after %d", r.States, r.Steps, r.Classes, r.Depth)
	for _, p := range slices.Sorted(maps.Keys(r.Broken)) {
		if !slices.Contains(s.lost, p) {
			t.Errorf("it does not hold that %s. The shortest way:\n%s", p, r.Broken[p])
		}
	}
	for _, p := range s.lost {
		if r.Broken[p] == nil {
			t.Errorf("it always holds that %s: say so where it says what a failover may lose", p)
		}
	}
}

// replay has a trace happen in a real Redis, and compares each reply and what is in Redis with the model.
func replay(t *testing.T, db *redisx.DB, m *Model, trace Trace) {
	t.Helper()
	w := newWorld(t, db, m)
	before := m.initial()
	for i, s := range trace {
		w.clock = before.Clock
		reply := w.happen(&before, s)
		if diff := cmp.Diff(s.Reply.withoutIDs(), reply); diff != "" {
			t.Fatalf("after\n%sthe script replies something else (-model +real):\n%s", trace[:i+1], diff)
		}
		if diff := cmp.Diff(w.expected(&s.After), w.real()); diff != "" {
			t.Fatalf("after\n%sRedis has something else (-model +real):\n%s", trace[:i+1], diff)
		}
		before = s.After
	}
	w.CheckSets()
}

// walk returns a trace of n steps at random, each of which changes something.
func (m *Model) walk(random *rand.Rand, n int) Trace {
	var t Trace
	for s := m.initial(); len(t) < n; {
		events := m.events(&s)
		if len(events) == 0 {
			break
		}
		e := events[random.IntN(len(events))]
		after, reply := m.happen(&s, e)
		if after != s {
			t, s = append(t, Step{e, reply, after}), after
		}
	}
	return t
}
