package listing

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/calls"
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
	Unbuilt bool            // there is no whole index, and so many tasks may be missing
}

// Walk returns about n tasks that match after a position, in the order of the filter; nil is the start. Errors:
// CodeUnavailable, CodeUnreadable for the index.
func (x *Listing) Walk(ctx context.Context, f tasks.Filter, after *index.Position, n int) (Steps, error) {
	return again(x, func() (Steps, error) { return x.walk(ctx, f, after, n) })
}

func (x *Listing) walk(ctx context.Context, f tasks.Filter, after *index.Position, n int) (Steps, error) {
	s, err := x.prepare(ctx, f)
	if err != nil {
		return Steps{}, err
	}
	steps := Steps{Missing: s.missing, Unbuilt: s.unbuilt}
	end, err := s.each(ctx, after, n, x.tasks.CheapBriefs, func(found []task.Task, rows []index.Row) (enough bool) {
		steps.Tasks = append(steps.Tasks, found...)
		position := s.order.PositionOf(rows[len(rows)-1])
		steps.Next = &position
		return len(steps.Tasks) >= n
	})
	if end {
		steps.Next = nil
	}
	return steps, err
}

// How many tasks of a filter are counted one by one, and of how many rows an estimate tells how many are out of date.
const (
	countedWalk   = 10_000
	countedSample = 2000
)

// Count is how many tasks match a filter. About says that it is an estimate.
type Count struct {
	Tasks   int
	About   bool
	Missing string // as that of a page
	Unbuilt bool   // there is no whole index of lists, and so many tasks may be missing
}

// Count counts the tasks that match a filter: up to 10,000 exactly. Beyond that it counts rows, and draws some to see
// how many are out of date. Errors: CodeUnavailable, CodeUnreadable for the index.
func (x *Listing) Count(ctx context.Context, f tasks.Filter) (Count, error) {
	return again(x, func() (Count, error) { return x.count(ctx, f) })
}

func (x *Listing) count(ctx context.Context, f tasks.Filter) (c Count, _ error) {
	s, err := x.prepare(ctx, f)
	if err != nil {
		return c, err
	}
	c.Missing, c.Unbuilt = s.missing, s.unbuilt
	seen := 0
	take := func(found []task.Task, rows []index.Row) (enough bool) {
		c.Tasks, seen = c.Tasks+len(found), seen+len(rows)
		return seen >= countedWalk
	}
	end, err := s.each(ctx, nil, countedWalk, x.tasks.CheapBriefs, take)
	if err != nil || end {
		return c, err
	}
	all, drawn, err := index.CountRows(ctx, s.places(), s.filter, countedSample, s.readAny)
	if err != nil {
		return c, publicError(err)
	}
	confirmed := 0
	s.stale = make([]int, len(s.segments)) // reported already
	for some := range slices.Chunk(drawn, readAtOnce) {
		found, err := s.confirm(ctx, some, x.tasks.CheapBriefs)
		if err != nil {
			return c, err
		}
		confirmed += len(found)
	}
	c.Tasks, c.About = max(all*confirmed/max(len(drawn), 1), c.Tasks), true
	return c, nil
}

// countedByState is up to which number the tasks of a state are counted one by one.
const countedByState = 1000

// CountStates counts the tasks that match a filter by state: those that have ended exactly, if the filter names one
// namespace and nothing else, and others up to 1,000; About says that there are more. Errors: CodeUnavailable,
// CodeUnreadable for the index.
func (x *Listing) CountStates(ctx context.Context, f tasks.Filter) (map[task.State]Count, error) {
	states := f.States
	if len(states) == 0 {
		states = task.States
	}
	counts := make(map[task.State]Count, len(states))
	var searched []task.State
	for _, state := range states {
		if !isPlain(f) || !state.Final() {
			searched = append(searched, state)
			continue
		}
		var err error
		if counts[state], err = x.countEnded(ctx, f.Namespace, state); err != nil {
			return nil, err
		}
	}
	if len(searched) == 0 {
		return counts, nil
	}
	f.States = searched
	return again(x, func() (map[task.State]Count, error) {
		s, err := x.prepare(ctx, f)
		if err != nil {
			return nil, err
		}
		return counts, s.countEach(ctx, searched, counts)
	})
}

// ListAndCount is List, and CountStates for tasks of all states that match the filter otherwise, of one reading where
// both need the index.
func (x *Listing) ListAndCount(
	ctx context.Context, f tasks.Filter, limit int, cursor string,
) (page tasks.Page, counts map[task.State]Count, _ error) {
	all := f
	all.States = nil
	after, err := parseCursor(f.Sort, cursor)
	if isPlain(f) || err != nil { // a cursor may be one of a list without the index
		if page, err = x.List(ctx, f, limit, cursor); err != nil {
			return page, nil, err
		}
		counts, err = x.CountStates(ctx, all)
		return page, counts, err
	}
	page, err = again(x, func() (page tasks.Page, _ error) {
		s, err := x.prepare(ctx, all)
		if err != nil {
			return page, err
		}
		counts = make(map[task.State]Count, len(task.States))
		err = s.countEach(ctx, task.States, counts, func() (err error) {
			page, err = s.of(f.States).page(ctx, f, limit, after)
			return err
		})
		return page, err
	})
	return page, counts, err
}

// of is the search for tasks of some of its states; none stands for all.
func (s *search) of(states []task.State) *search {
	some := *s
	some.filter.States = states
	some.loose = slices.DeleteFunc(slices.Clone(s.loose), func(r index.Row) bool { return !some.filter.Matches(r) })
	return &some
}

// countEach counts the tasks of each of some states, and makes other readings before and meanwhile.
func (s *search) countEach(
	ctx context.Context, states []task.State, counts map[task.State]Count, others ...func() error,
) error {
	counted := make([]Count, len(states))
	for i, state := range states {
		others = append(others, func() (err error) {
			counted[i], err = s.of([]task.State{state}).countUpTo(ctx, countedByState)
			return err
		})
	}
	err := calls.Each(readsAtOnce, others, func(_ int, read func() error) error { return read() })
	if err != nil {
		return err
	}
	for i, state := range states {
		counts[state] = counted[i]
	}
	return nil
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

// countUpTo counts tasks one by one, and says if there are more than most. Of more rows it looks at some. If more than
// about 88 % of these are up to date, it assumes the same of all rows, and so finds more than most.
func (s *search) countUpTo(ctx context.Context, most int) (c Count, _ error) {
	c.Missing, c.Unbuilt = s.missing, s.unbuilt
	rows, more, err := s.next(ctx, nil, most+1)
	if err != nil {
		return c, err
	}
	looked := rows
	if more {
		looked = someOf(rows, readAtOnce)
	}
	s.stale = make([]int, len(s.segments))
	found, err := s.confirm(ctx, looked, s.briefs)
	if err != nil {
		return c, err
	}
	enough := more && len(found)*len(rows) > most*len(looked)
	if enough || !more {
		for place, n := range s.stale { // as many of those that were not looked at
			s.stale[place] = n * len(rows) / max(len(looked), 1)
		}
		s.report(ctx)
	}
	switch {
	case enough:
		c.Tasks, c.About = most, true
		return c, nil
	case !more:
		c.Tasks, c.About = min(len(found), most), len(found) > most
		return c, nil
	}
	end, err := s.each(ctx, nil, most+1, s.tasks.CheapBriefs, func(found []task.Task, _ []index.Row) (enough bool) {
		c.Tasks += len(found)
		return c.Tasks > most
	})
	c.Tasks, c.About = min(c.Tasks, most), c.Tasks > most || !end
	return c, err
}

// someOf are n of rows, at equal distances; all if there are no more.
func someOf(rows []index.Row, n int) []index.Row {
	if len(rows) <= n {
		return rows
	}
	some := make([]index.Row, n)
	for i := range some {
		some[i] = rows[i*len(rows)/n]
	}
	return some
}

// briefs is CheapBriefs for more tasks than one round trip may read. It makes one after the other, as other searches
// make theirs at the same time.
func (s *search) briefs(ctx context.Context, refs []task.Ref) (found []task.Task, _ error) {
	for some := range slices.Chunk(refs, readAtOnce) {
		briefs, err := s.tasks.CheapBriefs(ctx, some)
		if err != nil {
			return nil, err
		}
		found = append(found, briefs...)
	}
	return found, nil
}
