package control

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/calls"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/why"
)

// WhyQueue says what the tasks of a queue wait for. If Redis does not answer, that is the reason.
// Errors: CodeQueueNotFound, CodeInvalid for the name.
func (c *Control) WhyQueue(ctx context.Context, who Caller, name string) (Why, error) {
	if _, err := c.begin(ctx, who, "whyQueue"); err != nil {
		return Why{}, err
	}
	if err := task.ValidateQueue(name); err != nil {
		return Why{}, err
	}
	var u unread
	f, known, err := c.queueFacts(ctx, name, &u)
	if blocked := c.blockedBy(err); blocked != nil {
		return blockedWhy(*blocked), nil
	}
	if err == nil && !known {
		err = task.Errorf(CodeQueueNotFound, "no queue %q", name)
	}
	if err != nil {
		return Why{}, err
	}
	return Why{At: f.Now, Now: why.QueueNow(f), Reasons: why.OfQueue(f), Warnings: u.texts}, nil
}

// queueFacts reads what decides what the tasks of a queue wait for, in three round trips. known is false if there is no
// such queue. Error: CodeUnavailable.
func (c *Control) queueFacts(
	ctx context.Context, name string, u *unread,
) (f why.QueueFacts, known bool, _ error) {
	partitions := make([]int, c.store.Layout.Partitions())
	for p := range partitions {
		partitions[p] = p
	}
	c.goVia(&f.Path, name, "")
	var failure, silent, leaderless error
	var sets []layout.ReadySet
	var leaders map[int]string
	var running []task.Ref
	refuses := ""
	calls.Do(
		func() { f.Now, silent = c.store.Now(ctx, 0) },
		func() { refuses = c.store.RefusesWrites(ctx, 0) },
		func() { c.readFleet(ctx, &f.Path, u) },
		func() { sets, failure = c.store.ReadyOf(ctx, name) },
		func() { leaders, leaderless = c.store.Leaders(ctx, partitions) },
		func() {
			known = c.readStandingOfAll(ctx, &f, u)
		},
		func() {
			var err error
			running, err = c.store.LongestRunning(ctx, runningOfEach)
			u.note("which tasks run", err)
		},
		func() {
			if c.limits != nil {
				f.Capacity = c.readCapacity(ctx, name, u)
			}
		},
	)
	if failure == nil {
		failure = silent
	}
	if failure != nil {
		return f, false, failure
	}
	if f.Blocked == nil {
		f.Blocked = blockedByRefusal(refuses)
	}
	c.addSets(&f, sets, leaders, !u.note("who leads", leaderless))
	kinds := kindsOf(&f, sets)
	calls.Do(
		func() { c.readLimitsOf(ctx, &f, kinds, u) },
		func() { c.readForeign(ctx, &f.Path, f.RunsAll(), u) },
		func() {
			read, err := c.store.Tasks.Briefs(ctx, running)
			u.note("which tasks hold the slots", err)
			f.Holders = holdersAmong(read)
		},
	)
	return f, known || len(sets) > 0 || f.Capacity > 0 || f.WasServed(), nil
}

// readStandingOfAll reads how a queue stands together with those that nodes have for themselves. known is false if
// asynq knows none of them.
func (c *Control) readStandingOfAll(ctx context.Context, f *why.QueueFacts, u *unread) (known bool) {
	if c.queues == nil {
		return false
	}
	s, nodes, err := c.queues.StandingOfAll(ctx, f.Queue)
	c.noteStanding(&f.Path, s, err, u)
	f.Pending, f.PendingUnknown, f.NextOfAsynq = s.Pending, err != nil, s.OfAsynq
	for _, n := range nodes {
		if n.Paused {
			f.PausedOfNodes = append(f.PausedOfNodes, n.Name)
		}
	}
	return s.Known || err != nil
}

// addSets adds what waits of a queue in all partitions.
func (c *Control) addSets(f *why.QueueFacts, sets []layout.ReadySet, leaders map[int]string, leadersKnown bool) {
	lanes := make(map[string]*why.Lane)
	for _, set := range sets {
		f.Waiting += set.Number
		f.Oldest = earlier(f.Oldest, set.Oldest)
		if leadersKnown && leaders[set.Partition] == "" {
			f.UnledWaiting += set.Number
			if !slices.Contains(f.Unled, set.Partition) {
				f.Unled = append(f.Unled, set.Partition)
			}
		}
		if set.Type == "" {
			continue
		}
		lane := lanes[set.Type]
		if lane == nil {
			lane = &why.Lane{Type: set.Type, Setting: c.types[set.Type].Setting}
			lanes[set.Type] = lane
		}
		lane.Waiting += set.Number
		lane.Oldest = earlier(lane.Oldest, set.Oldest)
	}
	for _, lane := range lanes {
		f.Lanes = append(f.Lanes, *lane)
	}
	slices.SortFunc(f.Lanes, func(a, b why.Lane) int { return a.Oldest.Compare(b.Oldest) })
}

// The bounds of what is looked at of a queue: kinds of tasks, and of them those that have limits.
const (
	kindsMost   = 100
	limitedMost = 32
)

// kind is what tasks have in common that wait for a limit, or for certain nodes.
type kind struct{ taskType, limits, reach string }

// kindsOf adds the kinds of tasks that have waited longest, and counts the others. It returns the limits and the cost
// of each kind, as task.SplitLimits reads them.
func kindsOf(f *why.QueueFacts, sets []layout.ReadySet) (limits []string) {
	at := make(map[kind]int)
	sets = slices.Clone(sets)
	slices.SortStableFunc(sets, func(a, b layout.ReadySet) int { return a.Oldest.Compare(b.Oldest) })
	limited := 0
	for _, set := range sets {
		if set.Limits == "" && set.Reach == "" {
			continue
		}
		key := kind{set.Type, set.Limits, set.Reach}
		i, is := at[key]
		first, err := task.ParseRef(set.First)
		switch {
		case is:
			f.Kinds[i].Waiting += set.Number
			continue
		case err != nil || len(f.Kinds) == kindsMost || set.Limits != "" && limited == limitedMost:
			f.Unread += set.Number
			continue
		case set.Limits != "":
			limited++
		}
		_, cost := task.SplitLimits(set.Limits)
		at[key], limits = len(f.Kinds), append(limits, set.Limits)
		f.Kinds = append(f.Kinds, why.Kind{
			Type: set.Type, Reach: set.Reach, Cost: cost, Waiting: set.Number, Oldest: set.Oldest, First: first,
		})
	}
	return limits
}

// readLimitsOf reads how the limits of kinds of tasks stand, with one call for each cost. What was not looked at is a
// warning.
func (c *Control) readLimitsOf(ctx context.Context, f *why.QueueFacts, limits []string, u *unread) {
	byCost := make(map[int][]string)
	for _, text := range limits {
		names, cost := task.SplitLimits(text)
		if len(names) > 0 {
			byCost[cost] = append(byCost[cost], names...)
		}
	}
	for cost, names := range byCost {
		slices.Sort(names)
		standings, err := c.store.Rules.Standings(ctx, slices.Compact(names), cost)
		failed := u.note("the limits of the tasks", err)
		for i := range f.Kinds {
			own, costs := task.SplitLimits(limits[i])
			switch {
			case costs != cost || len(own) == 0:
				continue
			case failed:
				f.Unread += f.Kinds[i].Waiting
			}
			for _, s := range standings {
				if slices.Contains(own, s.Limit) {
					f.Kinds[i].Limits = append(f.Kinds[i].Limits, whyLimit(s))
				}
			}
		}
	}
	if f.Unread > 0 {
		u.add(fmt.Sprintf("tasks with further limits or for further nodes were not looked at: %d", f.Unread))
	}
}

// earlier returns the earlier one of two times; a zero one does not count.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
