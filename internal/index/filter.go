package index

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/dts-sched/dts/internal/task"
)

// Filter says which rows a list wants. Zero fields match every row.
type Filter struct {
	Namespace string
	States    []task.State
	Queue     string
	Type      string
	Owner     string
	Node      string
	Schedule  string
	Causes    []string // parts of the shape of the error, in whatever case: one of them is enough
	Labels    []string // "name=value": the task has all of them
	Created   Range
	Due       Range
	Ended     Range // a task that waits is in none but the zero one
	OnlyEnded bool  // tasks that have ended
}

// Range is from a time until before another one, in ms since 1970. Until 0 means that it has no end.
type Range struct{ From, Until int64 }

func (r Range) isZero() bool { return r == Range{} }

func (r Range) has(ms int64) bool { return r.meets(Range{ms, ms + 1}) }

// meets reports whether both have a time in common.
func (r Range) meets(other Range) bool {
	end := func(r Range) int64 {
		if r.Until == 0 {
			return math.MaxInt64
		}
		return r.Until
	}
	return r.From < end(other) && other.From < end(r)
}

// include makes the range wide enough for a time; first: it has none so far.
func (r *Range) include(first bool, ms int64) {
	if first {
		*r = Range{ms, ms + 1}
	}
	r.From, r.Until = min(r.From, ms), max(r.Until, ms+1)
}

// Matches reports whether a list wants the row.
func (f Filter) Matches(r Row) bool {
	return f.ofNamespace(r.Ref.Namespace) && f.ofKind(r.Kind) && f.ofTimes(r) &&
		(f.Schedule == "" || r.schedule() == f.Schedule) && f.ofLabels(func(label string) bool {
		_, found := slices.BinarySearch(r.Labels, label)
		return found
	})
}

func (f Filter) ofGroup(g *Group) bool { return f.ofNamespace(g.Namespace) && f.ofKind(g.Kind) }

func (f Filter) ofNamespace(name string) bool { return f.Namespace == "" || f.Namespace == name }

func (f Filter) ofKind(k Kind) bool {
	matches := func(want, value string) bool { return want == "" || want == value }
	if k.Damaged() { // no list leaves it out in silence
		k.Queue, k.Type, k.Owner = f.Queue, f.Type, f.Owner
	}
	return f.ofState(k.State) && matches(f.Queue, k.Queue) &&
		matches(f.Type, k.Type) && matches(f.Owner, k.Owner) && matches(f.Node, k.Node) &&
		(len(f.Causes) == 0 || slices.ContainsFunc(f.Causes, func(part string) bool {
			return strings.Contains(strings.ToLower(k.Cause), strings.ToLower(part))
		}))
}

// ofState reports whether a list wants tasks in a state. Those whose state cannot be read are among those that wait.
func (f Filter) ofState(s task.State) bool {
	if s == task.Unreadable {
		s = task.Scheduled
	}
	return len(f.States) == 0 || slices.Contains(f.States, s)
}

// ofPhase reports whether a list wants tasks that wait, or else tasks that have ended.
func (f Filter) ofPhase(waits bool) bool {
	return !(waits && f.OnlyEnded) && (len(f.States) == 0 || slices.ContainsFunc(f.States, func(s task.State) bool {
		return s.Final() != waits
	}))
}

func (f Filter) ofTimes(r Row) bool {
	return (f.Created.isZero() || f.Created.has(r.Created)) && (f.Due.isZero() || f.Due.has(r.Due)) &&
		(f.Ended.isZero() || r.Ended != 0 && f.Ended.has(r.Ended)) && (!f.OnlyEnded || r.Ended != 0)
}

func (f Filter) ofLabels(has func(label string) bool) bool {
	return !slices.ContainsFunc(f.Labels, func(label string) bool { return !has(label) })
}

// Order is by what a list is sorted.
type Order struct {
	By  By
	Asc bool // the smallest first
}

// By is a value by which lists are sorted.
type By byte

// What lists are sorted by.
const (
	StateTime By = iota // the end, or when the task is due
	Created
	Due
	Ended // 0 of tasks that have not ended
	Took
)

// key is the value of a row in the order: rows with the greatest one come first.
func (o Order) key(r Row) int64 {
	var key int64
	switch o.By {
	case StateTime:
		key = r.stateTime()
	case Created:
		key = r.Created
	case Due:
		key = r.Due
	case Ended:
		key = r.Ended
	case Took:
		key = r.Took
	}
	if o.Asc {
		return -key
	}
	return key
}

// Compare orders rows as the list has them. Rows of the same value are ordered by their names, and those of one task by
// the rest. It returns 0 for rows that are equal.
func (o Order) Compare(a, b Row) int {
	if c := cmp.Compare(o.key(b), o.key(a)); c != 0 {
		return c
	}
	if c := o.compareNames(a.Ref, b.Ref); c != 0 {
		return c
	}
	for i, text := range (&Group{Kind: a.Kind}).fields() {
		if c := strings.Compare(*text, *(&Group{Kind: b.Kind}).fields()[i]); c != 0 {
			return c
		}
	}
	return cmp.Or(cmp.Compare(b.Ended, a.Ended), cmp.Compare(b.Due, a.Due), cmp.Compare(b.Created, a.Created),
		cmp.Compare(b.Took, a.Took), slices.Compare(a.Labels, b.Labels))
}

// compareNames orders the names of tasks with the same value: ids that DTS drew later are greater.
func (o Order) compareNames(a, b task.Ref) int {
	c := cmp.Or(strings.Compare(b.Namespace, a.Namespace), strings.Compare(b.ID, a.ID))
	if o.Asc {
		return -c
	}
	return c
}
