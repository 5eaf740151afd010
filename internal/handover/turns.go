package handover

import (
	"cmp"
	"container/heap"
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/task"
)

const (
	// plannedLimit is the most tasks of several fair keys among which turns are planned at once.
	plannedLimit = 4096
	// turnChunk is how many tasks of all keys come from one partition before the next one, if they have waited as long:
	// small claims cost more.
	turnChunk = 64
	// runLimit is the most tasks of a key that come one after the other while others wait: a claim that takes several of a
	// key reads fewer lanes.
	runLimit = 4
)

// turns are the fair keys of a lane that have waiting tasks, and whose turn it is: start-time fair queueing. Each key
// has a virtual time, which advances by 1/weight with each of its tasks, and the key with the least one comes next. A
// key that comes new, or again, begins at the least time of those that wait. So none saves turns.
type turns struct {
	plain turn           // the tasks without a key
	keyed map[Fair]*turn // keys that wait, and those that are ahead of all that do
	order []*turn        // those that wait, by whose turn it is
	in    map[int]int    // how many keys wait in a partition
	floor float64        // the greatest virtual time when nothing waited last
	count int            // how often keys have begun to wait
	costs int            // keys that wait with a cost of more than 1
}

// turn is a fair key whose tasks take turns with others. Those with other limits have a turn of their own.
type turn struct {
	Fair
	limits []string  // those of Fair
	cost   int       // how many slots of each limit, and tokens, a task needs
	line   []waiting // the partitions in which tasks wait, by how long they have
	at     float64   // the virtual time
	run    int       // how many of its tasks come one after the other, if it has them; 0 as 1
	// since says in which order keys of one virtual time have begun to wait: else a key would wait for ever while new ones
	// come, whose names are less.
	since int
}

// waiting is a partition in which tasks wait, and when the first of them was due: zero if that is not known.
type waiting struct {
	partition int
	oldest    time.Time
	number    int // of tasks with limits, as far as known
}

// before compares two keys that wait. The lesser virtual time comes first; if both are equal, the key that began to
// wait first. No two keys began at once, so the order is total.
func before(a, b *turn) int {
	return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.since, b.since))
}

// of returns the turn of a key, nil if nothing is known of it.
func (s *turns) of(fair Fair) *turn {
	if fair == (Fair{}) {
		return &s.plain
	}
	return s.keyed[fair]
}

// wait notes that tasks of a key wait in a partition.
func (s *turns) wait(fair Fair, p int, oldest time.Time) {
	t := s.of(fair)
	if t == nil {
		t = &turn{Fair: fair}
		if fair.Limits != "" {
			t.limits, t.cost = task.SplitLimits(fair.Limits)
		}
		if s.keyed == nil {
			s.keyed, s.in = make(map[Fair]*turn), make(map[int]int)
		}
		s.keyed[fair] = t
	}
	if t != &s.plain && !t.waits(p) {
		s.in[p]++
	}
	waited := len(t.line) > 0
	if t.wait(p, oldest); !waited {
		s.count++
		t.at, t.since = max(t.at, s.least()), s.count
		s.insert(t)
	}
}

// least is the least virtual time of those that wait, at which others begin.
func (s *turns) least() float64 {
	if len(s.order) == 0 {
		return s.floor
	}
	return s.order[0].at
}

// leave notes that no task of a key waits in a partition.
func (s *turns) leave(fair Fair, p int) {
	t := s.of(fair)
	if t == nil || !t.waits(p) {
		return
	}
	if t != &s.plain {
		s.in[p]--
	}
	if t.leave(p); len(t.line) > 0 {
		return
	}
	s.remove(t)
	if len(s.order) == 0 {
		s.floor = t.at
		for _, other := range s.keyed {
			s.floor = max(s.floor, other.at)
		}
	}
	if len(s.keyed) > 2*len(s.order) {
		s.forget()
	}
}

// forget forgets the keys that are not ahead of those that wait.
func (s *turns) forget() {
	least := s.least()
	for fair, t := range s.keyed {
		if len(t.line) == 0 && t.at <= least {
			delete(s.keyed, fair)
		}
	}
}

// leaveAllBut notes that a partition has no tasks but those of some lanes.
func (s *turns) leaveAllBut(p int, lane Lane, backlog Backlog) {
	for _, t := range slices.Clone(s.order) {
		lane.Fair = t.Fair
		if _, waits := backlog[lane]; !waits {
			s.leave(t.Fair, p)
		}
	}
}

func (s *turns) insert(t *turn) {
	i, _ := slices.BinarySearchFunc(s.order, t, before)
	s.order = slices.Insert(s.order, i, t)
	s.costs += t.dear()
}

func (s *turns) remove(t *turn) {
	i, _ := slices.BinarySearchFunc(s.order, t, before)
	s.order = slices.Delete(s.order, i, i+1)
	s.costs -= t.dear()
}

// dear is 1 for a key with a cost of more than 1, else 0.
func (t *turn) dear() int { return min(max(t.cost-1, 0), 1) }

// charge counts n tasks of a key that are granted; below 0, that many were not claimed.
func (s *turns) charge(fair Fair, n int) {
	t := s.of(fair)
	if n == 0 || t == nil {
		return
	}
	waits := len(t.line) > 0
	if waits {
		s.remove(t)
	}
	if t.at += float64(n) * t.step(); waits {
		s.insert(t)
	}
}

// noteRun notes whether claims have found all tasks of a key for which it had its turns: then more come one after the
// other, up to runLimit.
func (s *turns) noteRun(fair Fair, all bool) {
	switch t := s.of(fair); {
	case t == nil:
	case all:
		t.run = min(2*max(t.run, 1), runLimit)
	default:
		t.run = 1
	}
}

func (s *turns) waits(p int) bool { return s.plain.waits(p) || s.in[p] > 0 }

// partitions returns those in which tasks wait. It begins with the one in which the next task has waited longest.
func (s *turns) partitions() (all []int) {
	for _, w := range s.plain.line {
		all = append(all, w.partition)
	}
	for p, n := range s.in {
		if n > 0 {
			all = append(all, p)
		}
	}
	if len(s.order) == 0 {
		return all
	}
	slices.Sort(all)
	all = slices.Compact(all)
	from, _ := slices.BinarySearch(all, s.order[0].line[0].partition)
	return append(all[from:len(all):len(all)], all[:from]...)
}

// alone reports whether no fair key waits.
func (s *turns) alone() bool { return len(s.order) == 0 || len(s.order) == 1 && s.order[0] == &s.plain }

// entrant is a key while turns are planned; its virtual time is that of its next task.
type entrant struct {
	turn
	of    *turn
	first []waiting // the partitions whose tasks come next
}

// partition is where the next task of the key comes from: a partition if that is among the first ones. If the key has
// limits, it is a partition that has room in them, of which this takes a part. ok is false if there is none.
func (e *entrant) partition(preferred int, r *rooms) (p int, ok bool) {
	switch {
	case e.limits != nil && contains(e.line, preferred) && r.take(preferred, e.of):
		return preferred, true
	case e.limits != nil:
		for _, w := range e.line {
			if r.take(w.partition, e.of) {
				return w.partition, true
			}
		}
		return 0, false
	case contains(e.first, preferred):
		return preferred, true
	}
	return e.first[0].partition, true
}

// entrants is a heap of those whose turn it is.
type entrants []*entrant

func (h entrants) Len() int           { return len(h) }
func (h entrants) Less(i, j int) bool { return before(&h[i].turn, &h[j].turn) < 0 }
func (h entrants) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *entrants) Push(x any)        { *h = append(*h, x.(*entrant)) }
func (h *entrants) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// plan calls visit for each of the next n tasks, with its key and partition, until that returns false. Keys take their
// tasks from the same partition for a while, if it is among those whose tasks have waited longest. It passes over those
// that have no room in their limits.
func (s *turns) plan(n int, r *rooms, visit func(t *turn, partition int) bool) {
	n = min(n, plannedLimit)
	partitions := s.partitions()
	var active entrants
	entered := 0 // those of order that are in active, or were passed over
	for i := 0; i < n; {
		for entered < len(s.order) && (len(active) == 0 || s.order[entered].at <= active[0].at) {
			if t := s.order[entered]; t.limits == nil || r.has(t) {
				heap.Push(&active, &entrant{turn: *t, of: t, first: t.first()})
			}
			entered++
		}
		if len(active) == 0 {
			return
		}
		next, has := active[0], true
		for range min(max(next.run, 1), n-i) {
			var p int
			if p, has = next.partition(partitions[i/turnChunk%len(partitions)], r); !has {
				break
			}
			if !visit(&next.turn, p) {
				return
			}
			next.at += next.step()
			i++
		}
		if has {
			heap.Fix(&active, 0)
		} else {
			heap.Pop(&active)
		}
	}
}

// step is by how much the virtual time advances with a task.
func (t *turn) step() float64 { return 1 / float64(max(t.Weight, 1)) }

// wait puts a partition into the line. If nobody knows since when its tasks wait, it comes first.
func (t *turn) wait(p int, oldest time.Time) {
	number := t.number(p)
	t.leave(p)
	at := slices.IndexFunc(t.line, func(w waiting) bool { return w.oldest.After(oldest) })
	if at < 0 {
		at = len(t.line)
	}
	t.line = slices.Insert(t.line, at, waiting{p, oldest, number})
}

// number returns how many tasks of the key wait in a partition; 0 if that is not known.
func (t *turn) number(p int) int {
	if i := slices.IndexFunc(t.line, func(w waiting) bool { return w.partition == p }); i >= 0 {
		return t.line[i].number
	}
	return 0
}

// oldest is since when the tasks of the key wait in a partition; the zero time if that is not known.
func (t *turn) oldest(p int) time.Time {
	if i := slices.IndexFunc(t.line, func(w waiting) bool { return w.partition == p }); i >= 0 {
		return t.line[i].oldest
	}
	return time.Time{}
}

// setNumber notes how many tasks of the key wait in a partition.
func (t *turn) setNumber(p, number int) {
	for i := range t.line {
		if t.line[i].partition == p {
			t.line[i].number = number
		}
	}
}

func (t *turn) leave(p int) {
	t.line = slices.DeleteFunc(t.line, func(w waiting) bool { return w.partition == p })
}

func (t *turn) waits(p int) bool { return contains(t.line, p) }

func contains(line []waiting, p int) bool {
	return slices.ContainsFunc(line, func(w waiting) bool { return w.partition == p })
}

// first returns the partitions whose tasks have waited longest, within OrderSlack.
func (t *turn) first() []waiting {
	n := 0
	for n < len(t.line) && !t.line[n].oldest.After(t.line[0].oldest.Add(OrderSlack)) {
		n++
	}
	return t.line[:n]
}

// upTo is the time from which tasks of other partitions have waited, and OrderSlack; zero if that is not known.
func (t *turn) upTo(p int) time.Time {
	for _, other := range t.line {
		if other.partition != p && !other.oldest.IsZero() {
			return other.oldest.Add(OrderSlack)
		}
	}
	return time.Time{}
}
