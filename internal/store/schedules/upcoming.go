package schedules

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
)

// UpcomingLimit is how many schedules of a partition Upcoming looks at: those that tick first.
const UpcomingLimit = 2000

// upcomingPatience is how much longer than others a search goes on that has found no tick.
const upcomingPatience = 2 * time.Second

// upcomingFirst is how many of them it looks at first. Those of other namespaces are among them.
const upcomingFirst = 100

// Upcoming is the next ticks of several schedules, the earliest first.
type Upcoming struct {
	Ticks []schedule.MergedTick
	// KnownUntil is set if Ticks ends before it is full: nobody has looked for ticks from then on.
	KnownUntil time.Time
}

// Upcoming returns the next count ticks of the schedules of a namespace; "*" is all namespaces. It reads those
// schedules only that are due next, and ends early after 2,000 of a partition, and after layout.PageTime; without any
// tick, two seconds later. Under redisx.LeavingOut it notes what cannot be read. Error: CodeUnavailable.
func (s *Schedules) Upcoming(ctx context.Context, namespace string, count int) (Upcoming, error) {
	u := upcoming{
		Schedules: s, namespace: namespace, count: count, until: clock.Now().Add(s.l.PageTime),
		added: make(map[task.Ref]bool),
	}
	for _, limit := range []int{upcomingFirst, UpcomingLimit} {
		if full, err := u.search(ctx, limit); full || err != nil {
			return u.found, err
		}
	}
	return u.found, nil
}

// upcoming is a search for the next ticks.
type upcoming struct {
	*Schedules
	namespace string
	count     int
	now       time.Time // of Redis; zero before the first reading
	until     time.Time // when it ends, by the clock of this node
	merge     schedule.Merge
	added     map[task.Ref]bool // schedules that were read
	portions  layout.Portions
	found     Upcoming
}

// search reads schedules, those first that are due first, until there are enough ticks. It looks at up to limit
// schedules of each partition. full is true if more of them would change nothing.
func (u *upcoming) search(ctx context.Context, limit int) (full bool, _ error) {
	due, known, err := u.dueFirst(ctx, limit)
	if err != nil {
		return false, err
	}
	for {
		bound := known
		if len(due) > 0 {
			// A leader that holds ticks back looks again a moment later, and the next tick may come before that.
			bound = due[0].at.Add(-schedule.HoldPause)
		}
		u.collect(bound)
		switch {
		case len(u.found.Ticks) == u.count || bound.IsZero():
			u.found.KnownUntil = time.Time{}
			return true, nil
		case len(due) == 0 || clock.Now().After(u.end()):
			u.found.KnownUntil = bound
			return len(due) > 0, nil
		}
		some := due[:min(len(due), u.portions.Next(layout.ReadChunk))]
		if err := u.add(ctx, some); err != nil {
			return false, err
		}
		due = due[len(some):]
	}
}

// end is when the search ends early. A Redis that answers late is no reason to say that nothing comes.
func (u *upcoming) end() time.Time {
	if len(u.found.Ticks) == 0 {
		return u.until.Add(upcomingPatience)
	}
	return u.until
}

// collect takes the ticks before a time.
func (u *upcoming) collect(before time.Time) {
	for len(u.found.Ticks) < u.count {
		tick, ok := u.merge.Next(before)
		if !ok {
			break
		}
		u.found.Ticks = append(u.found.Ticks, tick)
	}
}

// add reads some schedules.
func (u *upcoming) add(ctx context.Context, some []dueSchedule) error {
	refs := make([]task.Ref, len(some))
	for i, d := range some {
		refs[i], u.added[d.ref] = d.ref, true
	}
	read, err := u.getEach(ctx, refs, codec.ScheduleFields)
	if err != nil {
		return err
	}
	for _, one := range read {
		if one == nil {
			continue
		}
		u.portions.Read(one.bytes, false)
		after := u.now
		if one.Cursor.After(after) { // Redis's clock was set back
			after = one.Cursor
		}
		found, more, err := u.merge.Add(one.Schedule, after)
		switch {
		case err != nil:
			redisx.LeaveOut(ctx, "schedule %s is left out, as its times cannot be computed: %v", one.Ref, err)
		case !found && more:
			redisx.LeaveOut(ctx, "schedule %s is left out, as its next ticks are all excluded", one.Ref)
		}
	}
	return nil
}

// dueSchedule is a schedule that is due at a time: it has no tick before.
type dueSchedule struct {
	ref task.Ref
	at  time.Time
}

// dueFirst returns the schedules that were not read yet, up to limit of each partition, those first that are due first.
// known is up to when these are all; zero: there are no others. Error: CodeUnavailable.
func (u *upcoming) dueFirst(ctx context.Context, limit int) (due []dueSchedule, known time.Time, _ error) {
	pipe := u.l.DB.Pipeline()
	found := make([]*redis.ZSliceCmd, u.l.Partitions())
	for p := range found {
		found[p] = pipe.ZRangeWithScores(ctx, string(u.l.Keys.Partition(p).Ticks()), 0, int64(limit-1))
	}
	err := u.l.WithNow(ctx, 0, &u.now, func() error {
		if err := redisx.ExecReads(ctx, pipe); err != nil {
			return layout.Unavailable(err)
		}
		return nil
	})
	if err != nil {
		return nil, known, err
	}
	for _, cmd := range found {
		for i, z := range cmd.Val() {
			at := time.UnixMilli(int64(z.Score)).UTC()
			if i == limit-1 && (known.IsZero() || at.Before(known)) {
				known = at
			}
			name, _ := z.Member.(string)
			if u.namespace != everyNamespace && !strings.HasPrefix(name, u.namespace+":") {
				continue
			}
			if ref, err := task.ParseRef(name); err == nil && !u.added[ref] { // doctor names those that are none
				due = append(due, dueSchedule{ref, at})
			}
		}
	}
	slices.SortFunc(due, func(a, b dueSchedule) int {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.ref.String(), b.ref.String()))
	})
	if !known.IsZero() {
		later, _ := slices.BinarySearchFunc(due, known, func(d dueSchedule, at time.Time) int { return d.at.Compare(at) })
		due, known = due[:later], known.Add(-schedule.HoldPause)
	}
	return due, known, nil
}
