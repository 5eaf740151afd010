package handover

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

const (
	stories = 150
	events  = 150 // of a story
)

// story tells the planner, and the code before it, what happens, and fails the test where they decide differently.
type story struct {
	t       *testing.T
	r       *rand.Rand
	shuffle *rand.Rand // changes the order of what has none; nil: nothing
	new     *Planner
	old     *oldQuotas
	now     time.Time
	granted map[int]grants // by partition
	asked   []Lane         // that Redis is asked for
	known   int            // grants whose claims do not look at all names
	log     []string       // what the planner decided
}

type grants struct {
	new Grant
	old oldQuotaSet
}

var (
	storyQueues = []string{"a", "b", "c"}
	storyTypes  = []string{"t", "u", "v"}
)

const storyPartitions = 4

// tell tells a story. The same seed makes the same one.
func tell(t *testing.T, seed uint64, shuffle *rand.Rand) *story {
	t.Helper()
	s := &story{
		t: t, r: rand.New(rand.NewPCG(seed, 0)), shuffle: shuffle, now: time.UnixMilli(1_700_000_000_000),
		granted: make(map[int]grants),
	}
	o := Options{
		HandOver: 1 + s.r.IntN(5), Partitions: pickOf(s, 1, 4, 16),
		Ask:  pickOf(s, 20*time.Millisecond, time.Second, time.Hour),
		Look: pickOf(s, time.Second, time.Minute, 24*time.Hour),
	}
	s.new, s.old = New(o), oldNewQuotas(o.HandOver, o.Partitions, o.Ask)
	s.changeFleet()
	for i := 0; i < events && !t.Failed(); i++ {
		s.pass()
		s.event()
		if t.Failed() {
			t.Errorf("that was event %d of the story with seed %d", i, seed)
		}
	}
	return s
}

func pickOf[T any](s *story, some ...T) T { return some[s.r.IntN(len(some))] }

func (s *story) chance(percent int) bool { return s.r.IntN(100) < percent }

// pass lets time go by.
func (s *story) pass() {
	s.now = s.now.Add(time.Duration(pickOf(s, 0, 0, 1, 7, 50, 100, 500)) * time.Millisecond)
	if s.chance(10) {
		s.now = s.now.Add(pickOf(s, time.Second, 5*time.Second, time.Minute, 2*time.Hour))
	}
	s.old.at = s.now
}

// event is one thing that happens.
func (s *story) event() {
	p, queue := s.r.IntN(storyPartitions), pickOf(s, storyQueues...)
	_, granted := s.granted[p]
	switch n := s.r.IntN(100); {
	case n < 40 && granted:
		s.claim(p)
	case n < 40:
		s.grant(p)
	case n < 60:
		s.ask(p)
	case n < 68:
		s.changeFleet()
	case n < 76:
		s.new.HasRoom(queue, s.now)
		s.old.told(queue)
	case n < 80 && !granted:
		s.new.Leave(p)
		s.old.leave(p)
	case n < 85:
		s.new.TookBack(p)
		s.old.tookBack(p)
	case n < 93:
		s.server(queue)
	default:
		s.choose(queue)
	}
	s.same("wakes", s.new.Wakes(), slices.Sorted(maps.Keys(s.old.wakes)))
	clear(s.old.wakes)
	want := max(s.new.untilLook(p, s.now), 0)
	if before, waited := s.old.pause(p); waited {
		want = min(want, before)
	}
	s.same("pause", s.new.Pause(p, s.now), want)
}

// same fails the test unless the planner has decided as the code before it.
func (s *story) same(what string, decided, before any) {
	s.t.Helper()
	got, want := fmt.Sprint(decided), fmt.Sprint(before)
	if s.log = append(s.log, what+": "+got); got != want {
		s.t.Errorf("%s: %s, and before the planner %s", what, got, want)
	}
}

// changeFleet has nodes come and go.
func (s *story) changeFleet() {
	f := Fleet{Leaders: s.r.IntN(5)}
	for i := range s.r.IntN(5) {
		n := Node{ID: fmt.Sprint("n", i), Capacity: s.r.IntN(12), Queues: make(map[string]int), Guest: s.chance(20)}
		if s.chance(10) {
			n.Capacity = 200
		}
		n.Running = s.r.IntN(n.Capacity + 1)
		for _, queue := range some(s, storyQueues) {
			n.Queues[queue] = 1
		}
		n.Types = some(s, storyTypes)
		f.Workers = append(f.Workers, n)
	}
	s.old.slots.view = Fleet{Workers: slices.Clone(f.Workers), Leaders: f.Leaders}
	s.old.slots.viewed++
	shuffled(s, f.Workers)
	s.new.SetFleet(f)
	s.same("left out", s.new.LeftOut(), s.old.slots.leftOut)
	if s.chance(70) {
		s.new.WorkersChanged(s.now)
		s.old.toldAll()
	}
}

// some returns a part of a list.
func some[T any](s *story, all []T) (part []T) {
	for _, x := range all {
		if s.chance(50) {
			part = append(part, x)
		}
	}
	return part
}

func shuffled[T any](s *story, all []T) {
	if s.shuffle != nil {
		s.shuffle.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	}
}

// grant asks for a grant. Before, maintenance had claims look at all names now and then; the planner does so by itself.
func (s *story) grant(p int) {
	due := s.chance(50)
	if s.new.untilLook(p, s.now) <= 0 {
		due = true
		s.old.lookAgain(p)
	}
	g, ok := s.new.Grant(p, due, s.now)
	before, was := s.old.reserve(p, due)
	s.same("granted", ok, was)
	if !ok || !was {
		return
	}
	lanes := make(map[string]oldQuota)
	for lane, quota := range g.Lanes {
		lanes[nameOf(lane)] = oldQuota{quota.Number, quota.UpTo}
	}
	s.same("grant", oldQuotaSet{lanes, g.Default, g.Served, before.Known, g.Unnamed}, before)
	if before.Known && !g.Known {
		s.t.Error("a claim looks at all names, and before the planner it did not")
	}
	if g.Known {
		s.known++
	}
	s.granted[p] = grants{g, before}
}

func nameOf(lane Lane) string { return lua.LaneName(lane.Queue, lane.Type) }

// claim has a claim be answered, and what it has taken be handed over.
func (s *story) claim(p int) {
	open := s.granted[p]
	delete(s.granted, p)
	o, before := Outcome{Claimed: make(map[Lane]int)}, oldOutcome{claimed: make(map[string]int)}
	if s.chance(90) {
		s.answer(p, open, &o, &before)
	}
	s.new.Claimed(p, open.new, o, s.now)
	s.old.release(p, open.old, before)
}

func (s *story) answer(p int, open grants, o *Outcome, before *oldOutcome) {
	o.Backlog, before.backlog = make(Backlog), make(map[string]time.Time)
	deliveries := s.deliveries(open)
	split := s.split(deliveries)
	for _, d := range [][]task.Delivery{split.Served, split.Unserved} {
		open.new.Count(o.Claimed, d)
		oldCountByQuota(before.claimed, open.old, d)
	}
	counted := make(map[string]int)
	for lane, n := range o.Claimed {
		counted[nameOf(lane)] = n
	}
	s.same("claimed", counted, before.claimed)
	s.same("room since", slices.Compact(s.new.RoomSince(split.Served)), slices.Compact(s.old.roomSince(split.Served)))
	o.Lengths = make(map[string]int)
	for _, d := range split.Served {
		o.Lengths[d.Queue] = len(split.Served)
	}
	for _, queue := range storyQueues {
		if more := pickOf(s, 0, 5, 20, 100); o.Lengths[queue] > 0 {
			o.Lengths[queue] += more
		}
	}
	before.lengths = o.Lengths
	for _, lane := range s.lanes() {
		s.find(p, lane, open.new, o.Backlog, before.backlog)
	}
	if s.chance(40) {
		for _, lane := range some(s, s.lanes()) {
			o.Apart, before.apart = append(o.Apart, lane), append(before.apart, nameOf(lane))
		}
	}
	o.Unnamed = pickOf(s, "", "", "5 x:y", "6 x:z")
	before.unnamed = o.Unnamed
}

// find has a claim find tasks of a lane, or none. Before, claims replied all lanes that wait. One of known lanes
// replies those from which it might take something, and those of due tasks.
func (s *story) find(p int, lane Lane, g Grant, found Backlog, before map[string]time.Time) {
	ago := func(ms int) time.Time { return s.now.Add(-time.Duration(ms) * time.Millisecond) }
	f := s.old.flows[nameOf(lane)]
	waited := f != nil && f.waits(p)
	switch looks := !g.Known || g.Lanes[lane].Number > 0; {
	case looks && s.chance(50):
		at := pickOf(s, time.Time{}, ago(0), ago(50), ago(s.r.IntN(1000)))
		found[lane], before[nameOf(lane)] = at, at
	case looks:
	case waited:
		before[nameOf(lane)] = time.Time{}
		if s.chance(20) { // a task of it is due
			found[lane] = time.Time{}
		}
	case s.chance(20): // a due task waits from now on, or somebody has repaired the lane
		at := pickOf(s, time.Time{}, ago(0), ago(50))
		found[lane], before[nameOf(lane)] = at, at
	}
}

// lanes returns all lanes of the story.
func (s *story) lanes() []Lane {
	var all []Lane
	for _, queue := range storyQueues {
		all = append(all, Lane{Queue: queue})
		for _, taskType := range storyTypes {
			all = append(all, Lane{Queue: queue, Type: taskType})
		}
	}
	return all
}

// deliveries returns tasks as a claim takes them: mostly all that was granted, and some of lanes without a quota.
func (s *story) deliveries(open grants) (all []task.Delivery) {
	for _, lane := range s.lanes() {
		n := open.new.Lanes[lane].Number
		if s.chance(30) {
			n = s.r.IntN(n + 3)
		}
		for range n {
			d := task.Delivery{Queue: lane.Queue, Type: lane.Type}
			if d.Type == "" {
				d.Type = pickOf(s, storyTypes...)
			}
			all = append(all, d)
		}
	}
	return all
}

func (s *story) split(deliveries []task.Delivery) Split {
	got := s.new.Split(deliveries)
	want, strange := s.old.split(deliveries)
	names := make([]string, len(got.Strange))
	for i, lane := range got.Strange {
		names[i] = nameOf(lane)
	}
	s.same("split", []any{inRows(got.Served), inRows(got.Unserved), inRows(got.Apart), names},
		[]any{inRows(want.served), inRows(want.unserved), inRows(want.apart), strange})
	return got
}

// inRows returns the lanes of deliveries in their order, and how many follow one another of each.
func inRows(deliveries []task.Delivery) (rows []any) {
	for i, n := 0, 0; i < len(deliveries); i += n {
		lane := LaneOf(deliveries[i])
		for n = 1; i+n < len(deliveries) && LaneOf(deliveries[i+n]) == lane; n++ {
		}
		rows = append(rows, lane, n)
	}
	return rows
}

// ask looks at what waits in a partition, and has Redis answer at once or later.
func (s *story) ask(p int) {
	if s.asked != nil {
		s.look()
		return
	}
	lanes := s.new.Waiting(p)
	names := append(s.old.namesApart(p), s.old.backlogOf(p)...)
	s.same("waiting", sortedNames(lanes), slices.Sorted(slices.Values(names)))
	due, late := s.new.ForeignDue(lanes, s.now)
	s.same("foreign", []bool{due, late}, []bool{s.old.slots.readAgain(names), s.old.slots.reading})
	if due {
		s.readForeign(lanes, names)
	}
	asked, levels := s.new.Asks(p, s.now)
	before, levelsBefore := s.old.levels(p, s.old.backlogOf(p))
	s.same("asks", []any{sortedNames(asked), levels}, []any{slices.Sorted(slices.Values(before)), levelsBefore})
	if s.asked = asked; s.chance(60) {
		s.look()
	}
}

func sortedNames(lanes []Lane) []string {
	names := make([]string, len(lanes))
	for i, lane := range lanes {
		names[i] = nameOf(lane)
	}
	slices.Sort(names)
	return names
}

func (s *story) readForeign(lanes []Lane, names []string) {
	foreign := make(map[string]int)
	for _, queue := range some(s, storyQueues) {
		foreign[queue] = s.r.IntN(8)
	}
	switch s.r.IntN(4) {
	case 0:
		s.new.ForeignFailed(true, s.now)
		s.old.learnForeign(names, nil, errLate)
	case 1:
		s.new.ForeignFailed(false, s.now)
		s.old.learnForeign(names, nil, errors.New("refused"))
	default:
		s.new.ForeignRead(lanes, foreign, s.now)
		s.old.learnForeign(names, foreign, nil)
	}
}

// look has Redis answer.
func (s *story) look() {
	looks := make(map[string]Look)
	for _, queue := range storyQueues {
		if s.chance(10) {
			continue
		}
		look := Look{Waiting: s.r.IntN(40), Ended: int64(s.r.IntN(5000))}
		if s.chance(50) {
			look.Types = make(map[string]int)
			for _, taskType := range some(s, append(storyTypes, "")) {
				look.Types[taskType] = s.r.IntN(30)
			}
		}
		looks[queue] = look
	}
	names := sortedNames(s.asked)
	slices.SortFunc(s.asked, func(a, b Lane) int { return strings.Compare(nameOf(a), nameOf(b)) })
	shuffled(s, s.asked)
	s.new.Looked(s.asked, looks, s.now)
	s.old.looked(names, looks)
	s.asked = nil
}

// server has the server of a queue answer, or not.
func (s *story) server(queue string) {
	switch s.r.IntN(4) {
	case 0:
		s.new.ServerFailed(queue, Silent)
		s.old.learn(queue, errors.New("refused"))
	case 1:
		s.new.ServerFailed(queue, Asked)
		s.old.learn(queue, errLate)
	default:
		before := s.old.looks
		s.old.learn(queue, nil)
		s.same("again", s.new.ServerAnswered(queue, s.now), s.old.looks > before)
	}
	c := s.old.closed[queue]
	known := s.new.Server(queue)
	s.same("server", []bool{known != Answers, known == Asked}, []bool{c != nil, c != nil && c.asking})
}

// choose has nodes be chosen. Which ones depends on their order, so a story whose nodes are shuffled leaves it out.
func (s *story) choose(queue string) {
	byType := make(map[string]int)
	for _, taskType := range some(s, storyTypes) {
		byType[taskType] = 1 + s.r.IntN(10)
	}
	seed := s.r.Uint64()
	if s.shuffle != nil {
		return
	}
	draw := func() func(int) int { return rand.New(rand.NewPCG(seed, 0)).IntN }
	got, want := s.new.Choose(queue, byType, draw()), s.old.slots.choose(queue, byType, draw())
	if diff := cmp.Diff(want, got); diff != "" {
		s.t.Errorf("chosen (-before +now):\n%s", diff)
	}
}

// Everything that is decided was decided so before there was a planner.
func TestPlanner_DecidesAsBefore(t *testing.T) {
	t.Parallel()
	granted, known := 0, 0
	for seed := range uint64(stories) {
		s := tell(t, seed, nil)
		if t.Failed() {
			return
		}
		known += s.known
		for _, line := range s.log {
			if strings.HasPrefix(line, "grant: ") {
				granted++
			}
		}
	}
	if granted < stories*events/20 || known < granted/20 {
		t.Errorf("the stories have %d grants, %d of them of known lanes: too few to tell anything", granted, known)
	}
}

// The order of nodes and lanes changes nothing, and the same story ends the same.
func TestPlanner_DecidesTheSameInAnyOrder(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		once, again := tell(t, seed, rand.New(rand.NewPCG(seed, 1))), tell(t, seed, rand.New(rand.NewPCG(seed, 2)))
		if diff := cmp.Diff(once.log, again.log); diff != "" {
			t.Fatalf("the story with seed %d (-in one order +in another):\n%s", seed, diff)
		}
	}
}
