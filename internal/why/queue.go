package why

import (
	"fmt"
	"slices"
	"strings"
)

// OfQueue returns what the tasks of a queue wait for, what must change first at the beginning. A paused queue without
// tasks has a reason, too: the next task would wait.
func OfQueue(f QueueFacts) []Reason {
	waiting := f.Waiting + f.Pending
	f.Ahead = &waiting
	all := join(f.blocked(), f.unled(), f.attended(), f.unrun(), f.paused())
	if waiting > 0 {
		all = append(all, f.crowded()...)
	}
	if f.Limit > 0 && waiting >= f.Limit {
		r := f.atLimit()
		r.Detail += " Submissions of tasks that are due are refused, and ticks are held back."
		all = append(all, r)
	}
	if len(all) == 0 && waiting > 0 {
		all = []Reason{{
			Code: Delivery, Since: f.Oldest, Detail: fmt.Sprintf("%s on the way to the workers.", tasksAre(waiting)),
			Do: "Wait: nothing holds them up.",
		}}
	}
	for i := range all {
		all[i].Ahead = &waiting
	}
	return all
}

func (f QueueFacts) blocked() []Reason {
	if f.Blocked == nil {
		return nil
	}
	return []Reason{*f.Blocked}
}

// unled says that tasks wait in partitions that nobody leads.
func (f QueueFacts) unled() []Reason {
	if len(f.Unled) == 0 {
		return nil
	}
	f.Blocked, f.LeaderUnknown, f.Leader, f.Partition = nil, false, "", f.Unled[0]
	r := f.handOver()
	if len(f.Unled) > 1 {
		numbers := make([]string, len(f.Unled))
		for i, p := range f.Unled {
			numbers[i] = fmt.Sprint(p)
		}
		r[0].Detail = fmt.Sprintf("No node leads the partitions %s, so nobody hands their tasks over.",
			strings.Join(numbers, ", "))
	}
	return r
}

// unrun says of which types tasks wait that no worker of the queue runs, those that have waited longest first.
func (f QueueFacts) unrun() []Reason {
	if f.FleetUnknown || f.Foreign != 0 || !f.CanRun("") {
		return nil
	}
	lanes := slices.Clone(f.Lanes)
	slices.SortStableFunc(lanes, func(a, b Lane) int { return a.Oldest.Compare(b.Oldest) })
	var all []Reason
	for _, lane := range lanes {
		if lane.Waiting == 0 || f.CanRun(lane.Type) {
			continue
		}
		r := f.typeUnserved(lane.Type, lane.Setting)
		r.Since = lane.Oldest
		r.Detail += fmt.Sprintf(" %s waiting.", tasksAre(lane.Waiting))
		all = append(all, r)
	}
	return all
}

// tasksAre is "1 task is" or "5 tasks are".
func tasksAre(n int) string {
	if n == 1 {
		return "1 task is"
	}
	return fmt.Sprintf("%d tasks are", n)
}
