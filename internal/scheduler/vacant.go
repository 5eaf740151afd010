package scheduler

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/lease"
	"github.com/dts-sched/dts/lua"
)

// vacancies are partitions that nobody leads, though the list of nodes says that somebody should: it may be wrong.
type vacancies struct {
	nodes   []string          // by which the shares were computed
	looked  time.Time         // at the leases
	since   map[int]time.Time // by partition: when it was seen without a leader first
	fences  map[int]string    // then, by partition
	adopted map[int]bool      // partitions that this node leads beyond its share, until the list of nodes changes
}

// adopt acquires partitions that stood free for two lease times, whatever the shares are. It looks once in a lease time.
func (b *balancer) adopt(ctx context.Context) {
	v := &b.vacant
	if clock.Since(v.looked) < b.s.o.LeaseTTL {
		return
	}
	v.looked = clock.Now()
	keys := make([]lua.LeaseKey, len(b.s.leases))
	for p := range keys {
		keys[p] = b.s.o.Store.Partitions.LeaseKey(p)
	}
	vacant, err := lease.Vacant(ctx, b.s.o.Store.Vital, keys)
	if err != nil {
		if ctx.Err() == nil {
			b.s.o.Log.Warn("cannot look for partitions without a leader; trying again", "error", err)
		}
		return
	}
	since := make(map[int]time.Time, len(vacant))
	for p, fence := range vacant {
		since[p] = v.looked
		if at, known := v.since[p]; known && v.fences[p] == fence {
			since[p] = at
		}
		if b.terms[p] == nil && clock.Since(since[p]) >= 2*b.s.o.LeaseTTL {
			b.acquire(ctx, p)
			if b.terms[p] != nil {
				v.adopted[p] = true
			}
		}
	}
	v.since, v.fences = since, vacant
}

// share returns how many partitions this node may lead, by the list of nodes and what it has adopted.
func (b *balancer) share(quota int, nodes []string) int {
	v := &b.vacant
	if v.adopted == nil || !slices.Equal(v.nodes, nodes) {
		v.nodes, v.adopted = nodes, make(map[int]bool)
	}
	maps.DeleteFunc(v.adopted, func(p int, _ bool) bool { return b.terms[p] == nil })
	return quota + len(v.adopted)
}
