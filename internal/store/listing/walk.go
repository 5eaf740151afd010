package listing

import (
	"context"
	"maps"
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
	return again(x, func() (c Count, _ error) {
		s, err := x.prepare(ctx, f)
		if err != nil {
			return c, err
		}
		return s.count(ctx)
	})
}

// CountAndList is Count with the first tasks of the list, of one reading. Errors: those of Count.
func (x *Listing) CountAndList(ctx context.Context, f tasks.Filter, limit int) (c Count, first []task.Task, _ error) {
	c, err := again(x, func() (c Count, _ error) {
		s, err := x.prepare(ctx, f)
		if err != nil {
			return c, err
		}
		var page tasks.Page
		err = calls.Try(
			func() (err error) { c, err = s.of(f.States).count(ctx); return err },
			func() (err error) { page, err = s.of(f.States).page(ctx, f, limit, nil); return err },
		)
		first = page.Tasks
		return c, err
	})
	return c, first, err
}

func (s *search) count(ctx context.Context) (c Count, _ error) {
	c.Missing, c.Unbuilt = s.missing, s.unbuilt
	seen := 0
	take := func(found []task.Task, rows []index.Row) (enough bool) {
		c.Tasks, seen = c.Tasks+len(found), seen+len(rows)
		return seen >= countedWalk
	}
	end, err := s.each(ctx, nil, countedWalk, s.tasks.CheapBriefs, take)
	if err != nil || end {
		return c, err
	}
	all, drawn, err := index.CountRows(ctx, s.segments, s.filter, countedSample, s.readAny)
	if err != nil {
		return c, publicError(err)
	}
	confirmed := 0
	s.stale = make([]int, len(s.segments)) // reported already
	for some := range slices.Chunk(drawn, readAtOnce) {
		found, err := s.confirm(ctx, some, s.tasks.CheapBriefs)
		if err != nil {
			return c, err
		}
		confirmed += len(found)
	}
	c.Tasks, c.About = max(all*confirmed/max(len(drawn), 1), c.Tasks), true
	return c, nil
}

// Up to which numbers the tasks of a state are counted: by themselves, and beside a list.
const (
	countedByState    = 1000
	countedBesideList = 100
)

// CountStates counts the tasks that match a filter by state: those that have ended exactly, if the filter names one
// namespace, states without scheduled, and nothing else. Others are counted up to 1,000; About says that there are
// more. Errors: CodeUnavailable, CodeUnreadable for the index.
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
	found, err := x.countSearched(ctx, f, searched, countedByState)
	maps.Copy(counts, found)
	return counts, err
}

// countSearched counts the tasks that match a filter in each of some states up to a number, with the index. Errors:
// those of CountStates.
func (x *Listing) countSearched(
	ctx context.Context, f tasks.Filter, states []task.State, most int,
) (map[task.State]Count, error) {
	f.States = states
	return again(x, func() (map[task.State]Count, error) {
		s, err := x.prepare(ctx, f)
		if err != nil {
			return nil, err
		}
		return s.countEach(ctx, states, most)
	})
}

// ListAndCount is List, and counts the tasks of all states that match the filter otherwise, up to 100 of each. Where
// both need the index, both are of one reading.
func (x *Listing) ListAndCount(
	ctx context.Context, f tasks.Filter, limit int, cursor string,
) (page tasks.Page, counts map[task.State]Count, _ error) {
	all := f
	all.States = nil
	after, err := parseCursor(f.Sort, cursor)
	if isPlain(f) || err != nil { // a cursor may be one of a list without the index
		err = calls.Try(
			func() (err error) { page, err = x.List(ctx, f, limit, cursor); return err },
			func() (err error) {
				counts, err = x.countSearched(ctx, all, task.States, countedBesideList)
				return err
			},
		)
		return page, counts, err
	}
	page, err = again(x, func() (page tasks.Page, _ error) {
		s, err := x.prepare(ctx, all)
		if err != nil {
			return page, err
		}
		err = calls.Try(
			func() (err error) { page, err = s.of(f.States).page(ctx, f, limit, after); return err },
			func() (err error) { counts, err = s.countEach(ctx, task.States, countedBesideList); return err },
		)
		return page, err
	})
	return page, counts, err
}

// of is the search for tasks of some of its states; none stands for all.
func (s *search) of(states []task.State) *search {
	some := *s
	some.filter.States = states
	some.stale = make([]int, len(s.segments))
	return &some
}

// countEach counts the tasks of each of some states up to a number. About says that there are more. Errors:
// errReplaced, CodeUnavailable, CodeUnreadable.
func (s *search) countEach(ctx context.Context, states []task.State, most int) (map[task.State]Count, error) {
	all := make([]stateCount, len(states))
	var filters []index.Filter
	for i, state := range states {
		all[i] = stateCount{search: s.of([]task.State{state}), most: most}
		filters = append(filters, all[i].filter)
	}
	n := withStale(most + 1)
	var found [][]index.Row
	var loose []index.Row
	err := calls.Try(
		func() (err error) {
			found, err = index.SomeOfEach(ctx, s.segments, filters, n, s.read)
			return publicError(err)
		},
		func() (err error) { loose, err = s.looseRows(ctx); return err },
	)
	if err != nil {
		return nil, err
	}
	var checked []index.Row
	for i := range all {
		all[i].take(found[i], loose, n)
		checked = append(checked, all[i].checked...)
	}
	present, err := s.readTasks(ctx, refsOf(checked))
	if err != nil {
		return nil, err
	}
	for i := range all {
		all[i].judge(ctx, present)
	}
	err = calls.Each(readsAtOnce, all, func(i int, _ stateCount) error { return all[i].complete(ctx) })
	counts := make(map[task.State]Count, len(states))
	for i, state := range states {
		counts[state] = Count{Tasks: all[i].count, About: all[i].about, Missing: s.missing, Unbuilt: s.unbuilt}
	}
	return counts, err
}

// stateCount counts the tasks of one state.
type stateCount struct {
	*search
	most     int               // up to which number they are counted
	fresh    map[task.Ref]bool // tasks that the index may not have, which were read a moment ago
	rows     []index.Row       // of other tasks; if there are too many, some of them
	moreRows bool              // there are rows that rows lacks
	checked  []index.Row       // the rows that are compared with their tasks
	count    int               // the result
	about    bool              // there are more tasks than count
	done     bool              // count and about are known
}

// take takes the rows that were found; n or more say that there may be others.
func (c *stateCount) take(rows, loose []index.Row, n int) {
	c.fresh = make(map[task.Ref]bool)
	for _, r := range loose {
		if c.filter.Matches(r) {
			c.fresh[r.Ref] = true
		}
	}
	rows = c.order.Best(rows, 0)
	c.moreRows = len(rows) >= n
	c.rows = slices.DeleteFunc(rows, func(r index.Row) bool { return c.fresh[r.Ref] })
	if c.done = len(c.fresh) > c.most; c.done {
		c.count, c.about = c.most, true
		return
	}
	if c.checked = c.rows; c.moreRows {
		c.checked = someOf(c.rows, readAtOnce)
	}
}

// judge counts the tasks that are as their rows say. Of more rows than most it checks some. If more than about 88 %
// of these are up to date, it assumes the same of all rows, and so finds more than most.
func (c *stateCount) judge(ctx context.Context, present map[task.Ref]task.Task) {
	if c.done {
		return
	}
	found, checked := len(c.compare(c.checked, present)), len(c.checked)
	enough := c.moreRows && found*len(c.rows)+len(c.fresh)*checked > c.most*checked
	if c.done = enough || !c.moreRows; !c.done {
		return
	}
	for place, n := range c.stale { // as many of those that were not checked
		c.stale[place] = n * len(c.rows) / max(checked, 1)
	}
	c.report(ctx)
	found += len(c.fresh)
	c.count, c.about = min(found, c.most), enough || found > c.most
	if enough {
		c.count = c.most
	}
}

// complete counts one by one what is not known yet.
func (c *stateCount) complete(ctx context.Context) error {
	if c.done {
		return nil
	}
	n := 0
	end, err := c.each(ctx, nil, c.most+1, c.tasks.CheapBriefs, func(found []task.Task, _ []index.Row) (enough bool) {
		n += len(found)
		return n > c.most
	})
	c.count, c.about = min(n, c.most), n > c.most || !end
	return err
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

// readTasks reads tasks, without what can be long. Error: CodeUnavailable.
func (s *search) readTasks(ctx context.Context, refs []task.Ref) (map[task.Ref]task.Task, error) {
	chunks := slices.Collect(slices.Chunk(refs, readAtOnce))
	found := make([][]task.Task, len(chunks))
	err := calls.Each(readsAtOnce, chunks, func(i int, some []task.Ref) (err error) {
		found[i], err = s.tasks.CheapBriefs(ctx, some)
		return err
	})
	return byRef(slices.Concat(found...)), err
}
