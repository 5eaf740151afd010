package scheduler

import (
	"context"
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/lease"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/lua"
)

// vacancies are partitions that nobody leads, though the list of nodes says that somebody should: it may be wrong.
type vacancies struct {
	nodes   []string         // by which the shares were computed
	looked  time.Time        // at the leases
	free    map[int]sighting // by partition
	adopted map[int]bool     // partitions that this node leads beyond its share, until the list of nodes changes
}

// sighting is when a partition was first seen without a leader, and the fence of whoever led it last. Zero: it was not.
type sighting struct {
	since time.Time
	fence string
}

// see returns the sighting of a partition after the one before, by what was read at v.looked.
func (v *vacancies) see(before sighting, r redisx.Result[vacancy]) sighting {
	switch {
	case r.Err != nil: // whoever leads it meanwhile leaves another fence
		return before
	case !r.Reply.vacant:
		return sighting{}
	case before.since.IsZero() || before.fence != r.Reply.fence:
		return sighting{v.looked, r.Reply.fence}
	}
	return before
}

// adopt acquires partitions that stood free for two lease times, whatever the shares are. It looks once in a lease time.
func (b *balancer) adopt(ctx context.Context) {
	v := &b.vacant
	if clock.Since(v.looked) < b.s.o.LeaseTTL {
		return
	}
	v.looked = clock.Now()
	before := v.free
	v.free = make(map[int]sighting)
	var free []int // for long
	var failure error
	for p, r := range b.vacancies(ctx) {
		seen := v.see(before[p], r)
		if !seen.since.IsZero() {
			v.free[p] = seen
		}
		if r.Err != nil {
			failure = r.Err
		} else if b.mayAdopt(p, seen) {
			free = append(free, p)
		}
	}
	if failure != nil && ctx.Err() == nil {
		b.s.o.Log.Warn("cannot look for partitions without a leader; trying again", "error", failure)
	}
	b.acquire(ctx, free)
	for _, p := range free {
		if b.terms[p] != nil || b.busy[p] {
			v.adopted[p] = true
		}
	}
}

// mayAdopt reports whether a partition stood free for long, and this node neither leads it nor is about to.
func (b *balancer) mayAdopt(p int, seen sighting) bool {
	return !seen.since.IsZero() && clock.Since(seen.since) >= 2*b.s.o.LeaseTTL && b.terms[p] == nil && !b.busy[p]
}

// vacancy is whether nobody leads a partition, and the fence of whoever did last.
type vacancy struct {
	vacant bool
	fence  string
}

// vacancies reads which partitions nobody leads. In a cluster, it does not wait for a server that is silent.
func (b *balancer) vacancies(ctx context.Context) []redisx.Result[vacancy] {
	all := make([]lua.LeaseKey, len(b.s.leases))
	names := make([]string, len(all))
	for p := range all {
		all[p] = b.s.o.Store.Partitions.LeaseKey(p)
		names[p] = string(all[p])
	}
	return redisx.CallEach(ctx, &b.errands, redisx.Calls[vacancy]{Keys: names, Do: func(places []int) []redisx.Result[vacancy] {
		vacant, err := lease.Vacant(ctx, b.s.o.Store.Vital, redisx.Pick(all, places))
		found := make([]redisx.Result[vacancy], len(places))
		for k := range found {
			fence, free := vacant[k]
			found[k] = redisx.Result[vacancy]{Reply: vacancy{free, fence}, Err: err}
		}
		return found
	}})
}

// share returns how many partitions this node may lead, by the list of nodes and what it has adopted.
func (b *balancer) share(quota int, nodes []string) int {
	v := &b.vacant
	if v.adopted == nil || !slices.Equal(v.nodes, nodes) {
		v.nodes, v.adopted = nodes, make(map[int]bool)
	}
	for p := range v.adopted {
		if b.terms[p] != nil {
			quota++
		} else if !b.busy[p] {
			delete(v.adopted, p)
		}
	}
	return quota
}
