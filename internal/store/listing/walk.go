package listing

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/index"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
)

// Steps is a part of a walk over all tasks that match a filter. The tasks have no payloads, results and errors.
type Steps struct {
	Tasks   []task.Task
	Next    *index.Position // where the walk goes on; nil at the end
	Missing string          // as that of a page
}

// Walk returns about n tasks that match after a position, in the order of the filter; nil is the start. Errors:
// CodeUnavailable, CodeUnreadable for the index.
func (x *Listing) Walk(ctx context.Context, f tasks.Filter, after *index.Position, n int) (Steps, error) {
	return again(x, func() (Steps, error) { return x.walk(ctx, f, after, n) })
}

func (x *Listing) walk(ctx context.Context, f tasks.Filter, after *index.Position, n int) (steps Steps, _ error) {
	s, err := x.prepare(ctx, f)
	if err != nil {
		return steps, err
	}
	steps.Missing = s.missing
	rows, more, err := s.next(ctx, after, n)
	if err != nil {
		return steps, err
	}
	for len(rows) > 0 {
		some := s.first(rows, readAtOnce)
		found, err := s.confirm(ctx, some, x.tasks.Briefs)
		if err != nil {
			return steps, err
		}
		steps.Tasks, rows = append(steps.Tasks, found...), rows[len(some):]
		if position := s.order.PositionOf(some[len(some)-1]); more || len(rows) > 0 {
			steps.Next = &position
		} else {
			steps.Next = nil
		}
	}
	return steps, nil
}

// countedWalk is how many tasks of a filter are counted one by one.
const countedWalk = 10_000

// Count is how many tasks match a filter. About says that it is an estimate.
type Count struct {
	Tasks   int
	About   bool
	Missing string // as that of a page
	Unbuilt bool   // there is no whole index of lists, and so many tasks may be missing
}

// Count counts the tasks that match a filter: up to 10,000 exactly. Beyond that it counts rows, of which some are out
// of date, as many as among the first ones. Errors: CodeUnavailable, CodeUnreadable for the index.
func (x *Listing) Count(ctx context.Context, f tasks.Filter) (Count, error) {
	return again(x, func() (Count, error) { return x.count(ctx, f) })
}

func (x *Listing) count(ctx context.Context, f tasks.Filter) (c Count, _ error) {
	s, err := x.prepare(ctx, f)
	if err != nil {
		return c, err
	}
	c.Missing, c.Unbuilt = s.missing, s.unbuilt
	rows, more, err := s.next(ctx, nil, countedWalk)
	if err != nil {
		return c, err
	}
	for some := range slices.Chunk(rows, readAtOnce) {
		found, err := s.confirm(ctx, some, x.tasks.Briefs)
		if err != nil {
			return c, err
		}
		c.Tasks += len(found)
	}
	if !more {
		return c, nil
	}
	all, err := index.CountRows(ctx, s.places(), s.filter, s.read)
	if err != nil {
		return c, publicError(err)
	}
	c.Tasks, c.About = max(all*c.Tasks/max(len(rows), 1), c.Tasks), true
	return c, nil
}

// countedByState is up to which number the tasks of a state are counted one by one.
const countedByState = 1000

// CountStates counts the tasks that match a filter by state: those that have ended exactly, if the filter names nothing
// else, and others up to 1,000; About says that there are more. Errors: CodeUnavailable, CodeUnreadable for the index.
func (x *Listing) CountStates(ctx context.Context, f tasks.Filter) (map[task.State]Count, error) {
	states := f.States
	if len(states) == 0 {
		states = task.States
	}
	plain := isPlain(f) && f.Namespace != everyNamespace
	counts := make(map[task.State]Count, len(states))
	for _, state := range states {
		var err error
		if f.States = []task.State{state}; plain && state.Final() {
			counts[state], err = x.countEnded(ctx, f.Namespace, state)
		} else {
			counts[state], err = again(x, func() (Count, error) { return x.countUpTo(ctx, f, countedByState) })
		}
		if err != nil {
			return nil, err
		}
	}
	return counts, nil
}

// countEnded counts the tasks of a namespace that ended in a state. Error: CodeUnavailable.
func (x *Listing) countEnded(ctx context.Context, namespace string, state task.State) (c Count, _ error) {
	pipe := x.l.DB.Pipeline()
	sizes := make([]*redis.IntCmd, x.l.Partitions())
	for p := range sizes {
		sizes[p] = pipe.ZCard(ctx, string(x.l.Keys.Partition(p).Index(namespace, state)))
	}
	if err := redisx.ExecReads(ctx, pipe); err != nil {
		return c, layout.Unavailable(err)
	}
	for _, size := range sizes {
		c.Tasks += int(size.Val())
	}
	return c, nil
}

// countUpTo counts tasks one by one, and says if there are more than most.
func (x *Listing) countUpTo(ctx context.Context, f tasks.Filter, most int) (c Count, _ error) {
	s, err := x.prepare(ctx, f)
	if err != nil {
		return c, err
	}
	c.Missing, c.Unbuilt = s.missing, s.unbuilt
	var after *index.Position
	for more := true; more && c.Tasks <= most; {
		var rows []index.Row
		if rows, more, err = s.next(ctx, after, most+1-c.Tasks); err != nil {
			return c, err
		}
		for len(rows) > 0 && c.Tasks <= most {
			some := s.first(rows, readAtOnce)
			rows = rows[len(some):]
			found, err := s.confirm(ctx, some, x.tasks.Briefs)
			if err != nil {
				return c, err
			}
			c.Tasks += len(found)
			position := s.order.PositionOf(some[len(some)-1])
			after = &position
		}
		more = more || len(rows) > 0
	}
	if c.Tasks > most {
		c.Tasks, c.About = most, true
	}
	return c, nil
}
