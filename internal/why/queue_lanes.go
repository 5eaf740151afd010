package why

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/task"
)

// Kind is the tasks of a queue that wait in DTS and have the same limits, the same cost and the same reach.
type Kind struct {
	Type    string // "" if they do not wait by their type
	Reach   string // where they may run, as package route writes it; "" for any node
	Cost    int
	Limits  []Limit // under which they wait
	Waiting int
	Oldest  time.Time
	First   task.Ref // the task that comes next
}

// shownOfCode is how many reasons of one code the answer about a queue has, before one that sums up the others.
const shownOfCode = 5

// ofKind returns what the tasks of a kind wait for: limits and certain nodes.
func (f QueueFacts) ofKind(k Kind) []Reason {
	if slices.ContainsFunc(f.stuck(), func(l Lane) bool { return l.Type == k.Type }) {
		return nil
	}
	t := TaskFacts{Path: f.Path, Task: task.Task{State: task.Scheduled, DueAt: k.Oldest}}
	t.Task.Ref, t.Task.Reach, t.Task.Cost = k.First, k.Reach, k.Cost
	t.Type, t.Limits = k.Type, k.Limits
	for _, name := range f.PausedOfNodes {
		_, node := task.SplitNodeQueue(name)
		t.PausedNodes = append(t.PausedNodes, node)
	}
	if damaged := t.misplaced(); damaged != nil {
		return damaged
	}
	return join(t.unmatched(), t.allPaused(), t.limited(), t.occupied())
}

// ofKinds returns the reasons of all kinds that have one of some codes. Those that say the same are one.
func (f QueueFacts) ofKinds(codes ...Code) (all []Reason) {
	type sum struct {
		Reason
		first   task.Ref
		waiting int
	}
	var sums []*sum
	for _, k := range f.Kinds {
		for _, r := range f.ofKind(k) {
			if !slices.Contains(codes, r.Code) {
				continue
			}
			i := slices.IndexFunc(sums, func(s *sum) bool { return s.Code == r.Code && s.Detail == r.Detail })
			if i < 0 {
				i, sums = len(sums), append(sums, &sum{Reason: r, first: k.First})
			}
			sums[i].waiting += k.Waiting
		}
	}
	slices.SortStableFunc(sums, func(a, b *sum) int {
		return cmp.Compare(slices.Index(codes, a.Code), slices.Index(codes, b.Code))
	})
	shown, more := make(map[Code]int), make(map[Code]int) // more: the place of the reason that sums up, plus 1
	for _, s := range sums {
		switch shown[s.Code]++; {
		case shown[s.Code] <= shownOfCode:
			r := s.Reason
			r.Detail = fmt.Sprintf("The next one is %s. %s", nameOf(s.first), s.Detail)
			all = append(all, f.first(r, s.waiting))
		case more[s.Code] == 0:
			more[s.Code] = len(all) + 1
			all = append(all, f.first(Reason{Code: s.Code, Detail: "They wait for others than the above.",
				Do: fmt.Sprintf("See what one of them needs: %s task why %s.", ctl(s.first), s.first.ID)}, s.waiting))
		default:
			at := &all[more[s.Code]-1]
			if n := s.waiting; at.Tasks != nil {
				n += *at.Tasks
				at.Detail = "They wait for others than the above."
				*at = f.first(*at, n)
			}
		}
	}
	return all
}

// first is some, with the number of tasks at the beginning.
func (f QueueFacts) first(r Reason, n int) Reason {
	if !f.PendingUnknown {
		r.Tasks, r.Detail = &n, fmt.Sprintf("%s for this. %s", f.share(n), r.Detail)
	}
	return r
}

// nameOf names a task, with its namespace if that is not the default one.
func nameOf(ref task.Ref) string {
	if ref.Namespace == task.DefaultNamespace {
		return ref.ID
	}
	return fmt.Sprintf("%s in namespace %s", ref.ID, ref.Namespace)
}

// heldApart is how many tasks wait for what ofKinds says and slotless does not count, or may do so.
func (f QueueFacts) heldApart() int {
	n := f.Unread
	all := len(f.crowded()) > 0
	for _, k := range f.Kinds {
		p := f.Path
		p.Type = k.Type
		isCounted := k.Reach == "" && (all || k.Type != "" && len(p.crowded()) > 0)
		if !isCounted && len(f.ofKind(k)) > 0 {
			n += k.Waiting
		}
	}
	return n
}

// placedApart is how many tasks of a type wait for certain nodes; of "" those of all types. They lack slots of these.
func (f QueueFacts) placedApart(taskType string) (n int) {
	stuck := f.stuck()
	for _, k := range f.Kinds {
		isStuck := slices.ContainsFunc(stuck, func(l Lane) bool { return l.Type == k.Type })
		if k.Reach != "" && !isStuck && (taskType == "" || k.Type == taskType) {
			n += k.Waiting
		}
	}
	return n
}
