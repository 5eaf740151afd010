package why

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// OfQueue returns what the tasks of a queue wait for, what must change first at the beginning, and how many of them
// wait for each. A task can wait for several things. A paused queue without tasks has a reason, too: the next task
// would wait.
func OfQueue(f QueueFacts) []Reason {
	total := f.total()
	f.Ahead = &total
	all := join(f.all(f.blocked()), f.unled(), f.all(f.attended()), f.all(f.ofAsynq()), f.unrun(),
		f.ofKinds(Unreadable, NoNode), f.all(f.paused()), f.nodesPaused(), f.ofKinds(Limited, NodeFull), f.slotless())
	if f.Capacity > 0 && total >= f.Capacity {
		r := f.atCapacity()
		r.Detail += " Submissions of tasks that are due are refused, and ticks are held back."
		all = append(all, r)
	}
	if free := total - f.Unread; len(all) == 0 && free > 0 {
		all = []Reason{{
			Code: Delivery, Since: f.Oldest, Detail: fmt.Sprintf("%s on the way to the workers.", tasksAre(free)),
			Do: "Wait: nothing holds them up.", Tasks: &free,
		}}
	}
	for i := range all {
		all[i].Ahead = &total
		if f.PendingUnknown {
			all[i].Ahead, all[i].Tasks = nil, nil
		}
	}
	return all
}

// total is how many tasks wait in the queue.
func (f QueueFacts) total() int { return f.Waiting + f.Pending }

// all says that all tasks wait for these reasons.
func (f QueueFacts) all(reasons []Reason) []Reason {
	if total := f.total(); total > 0 {
		for i := range reasons {
			reasons[i].Tasks = &total
		}
	}
	return reasons
}

// some says that so many of the tasks wait for a reason; what is the end of a sentence that says so.
func (f QueueFacts) some(r Reason, n int, what string) Reason {
	if f.PendingUnknown {
		return r
	}
	r.Tasks = &n
	r.Detail += fmt.Sprintf(" %s %s.", f.share(n), what)
	return r
}

// share is "5 of 8 tasks wait", or "8 tasks wait" if these are all.
func (f QueueFacts) share(n int) string {
	total := f.total()
	switch {
	case total == 1:
		return "1 task waits"
	case n == total:
		return fmt.Sprintf("%d tasks wait", n)
	case n == 1:
		return fmt.Sprintf("1 of %d tasks waits", total)
	}
	return fmt.Sprintf("%d of %d tasks wait", n, total)
}

func (f QueueFacts) blocked() []Reason {
	if f.Blocked == nil {
		return nil
	}
	return []Reason{*f.Blocked}
}

// attended is that of Path, unless what waits is of another asynq client.
func (f QueueFacts) attended() []Reason {
	if f.NextOfAsynq && f.Waiting == 0 {
		return nil
	}
	return f.Path.attended()
}

// ofAsynq says that nobody takes what another asynq client has put into the queue.
func (f QueueFacts) ofAsynq() []Reason {
	if !f.NextOfAsynq || f.Waiting > 0 || len(f.Path.attended()) == 0 {
		return nil
	}
	return []Reason{{
		Code:   QueueUnserved,
		Detail: fmt.Sprintf("Another asynq client uses the queue %q, and none of its servers runs.", f.Queue),
		Do:     "Start a server of that client. Start no worker of DTS for this queue: it would archive these tasks.",
	}}
}

// nodesPaused says which of the queues of nodes are paused.
func (f QueueFacts) nodesPaused() (all []Reason) {
	for _, name := range f.PausedOfNodes[:min(len(f.PausedOfNodes), mostNodes)] {
		r := pausedAt(name, time.Time{})
		r.Detail += " Tasks with a selector or a route go to other nodes."
		all = append(all, r)
	}
	return all
}

// unled says that tasks wait in partitions that nobody leads.
func (f QueueFacts) unled() []Reason {
	if len(f.Unled) == 0 {
		return nil
	}
	f.Blocked, f.LeaderUnknown, f.Leader, f.Partition = nil, false, "", f.Unled[0]
	r := f.handOver()[0]
	if len(f.Unled) > 1 {
		numbers := make([]string, len(f.Unled))
		for i, p := range f.Unled {
			numbers[i] = fmt.Sprint(p)
		}
		r.Detail = fmt.Sprintf("No node leads the partitions %s, so nobody hands their tasks over.",
			strings.Join(numbers, ", "))
	}
	return []Reason{f.some(r, f.UnledWaiting, "for a leader")}
}

// unrun says of which types tasks wait that no worker of the queue runs, those that have waited longest first.
func (f QueueFacts) unrun() []Reason {
	var all []Reason
	for _, lane := range f.stuck() {
		r := f.typeUnserved(lane.Type, lane.Setting)
		r.Since = lane.Oldest
		all = append(all, f.some(r, lane.Waiting, "for one"))
	}
	return all
}

// stuck returns the types that no worker of the queue runs and whose tasks wait; none if there is no worker at all.
func (f QueueFacts) stuck() []Lane {
	if f.FleetUnknown || f.Foreign != 0 || !f.CanRun("") {
		return nil
	}
	return slices.DeleteFunc(f.byAge(), func(l Lane) bool { return f.CanRun(l.Type) })
}

// slotless says that tasks wait for slots: those of all types that nodes run, or those of some types.
func (f QueueFacts) slotless() []Reason {
	runnable := f.total()
	for _, lane := range f.stuck() {
		runnable -= lane.Waiting
	}
	runnable -= f.placedApart("")
	if runnable <= 0 {
		return nil
	}
	if all := f.crowded(); len(all) > 0 {
		return []Reason{f.some(all[0], runnable, "for a slot")}
	}
	var all []Reason
	for _, lane := range f.byAge() {
		p := f.Path
		p.Type = lane.Type
		n := lane.Waiting - f.placedApart(lane.Type)
		for _, r := range p.crowded() {
			if n > 0 {
				all = append(all, f.some(r, n, "for such a slot"))
			}
		}
	}
	return all
}

// free is how many tasks nothing holds up; 0 if that is not known. Those of partitions that nobody leads may be of a
// type that nobody runs.
func (f QueueFacts) free() int {
	if len(f.Unled) > 0 || len(f.blocked()) > 0 || len(f.attended()) > 0 || f.Paused {
		return 0
	}
	n := f.total()
	for _, r := range join(f.unrun(), f.slotless()) {
		n -= *r.Tasks
	}
	return max(n-f.heldApart(), 0)
}

// byAge returns the types whose tasks wait, those that have waited longest first.
func (f QueueFacts) byAge() []Lane {
	lanes := slices.DeleteFunc(slices.Clone(f.Lanes), func(l Lane) bool { return l.Waiting == 0 })
	slices.SortStableFunc(lanes, func(a, b Lane) int { return a.Oldest.Compare(b.Oldest) })
	return lanes
}

// tasksAre is "1 task is" or "5 tasks are".
func tasksAre(n int) string {
	if n == 1 {
		return "1 task is"
	}
	return fmt.Sprintf("%d tasks are", n)
}
