package tasks

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// What is kept of the ends that this node has reported.
const (
	recentFor   = task.ReportedFor // at least, and until Redis has taken a write after that
	recentLimit = task.ReportedLimit
	recentBytes = 16 << 20 // of payloads, results and errors

	forgetInterval = recentFor / 6
)

// recent is the ends that this node has reported lately, in case Redis loses them.
type recent struct {
	added chan struct{} // signalled when there is an end

	mu    sync.Mutex
	ends  []*recentEnd // those that were reported first at the beginning
	bytes int
}

type recentEnd struct {
	End
	partition int       // whose server has recorded it; 0 if Redis is one server
	reported  time.Time // when it was recorded, by the clock of this node; guarded by the mu of recent
	at        time.Time // by that of Redis, when it was recorded first
	again     time.Time // when the newest call began by which Redis was told again; guarded by the mu of recent
}

func (e *recentEnd) size() int { return len(e.Run.Task.Payload) + len(e.Result) + len(e.Reason) }

// add keeps an end that Redis has recorded at that time by its clock.
func (r *recent) add(e End, partition int, at time.Time) {
	kept := &recentEnd{End: e, partition: partition, reported: clock.Now(), at: at}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ends, r.bytes = append(r.ends, kept), r.bytes+kept.size()
	for r.bytes > recentBytes || len(r.ends) > recentLimit {
		r.bytes -= r.ends[0].size()
		r.ends[0] = nil // so that it can be freed
		r.ends = r.ends[1:]
	}
	select {
	case r.added <- struct{}{}:
	default: // ForgetEnds is told already
	}
}

// has reports whether the end of a run is kept.
func (r *recent) has(run *Run) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.ends, func(e *recentEnd) bool {
		return e.Run.Task.Run == run.Task.Run && e.Run.Task.Ref == run.Task.Ref && e.Run.Task.Attempt == run.Task.Attempt
	})
}

// await blocks until there are ends. It returns an error only if ctx ends.
func (r *recent) await(ctx context.Context) error {
	for r.empty() {
		select {
		case <-r.added:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (r *recent) empty() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.ends) == 0
}

// notAgain returns the ends that are kept and of which Redis was not told again by a call since then, in the order in which they were reported first.
func (r *recent) notAgain(since time.Time) []*recentEnd {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]*recentEnd, 0, len(r.ends))
	for _, e := range r.ends {
		if e.again.Before(since) {
			all = append(all, e)
		}
	}
	return all
}

// setAgain notes that Redis was told again of ends, by a call that began then, and which of them it has recorded with that.
func (r *recent) setAgain(ends, recorded []*recentEnd, begin time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range ends {
		e.again = begin
	}
	for _, e := range recorded {
		e.reported = begin
	}
}

// partitionsBefore returns the partitions of the ends that were recorded before a time.
func (r *recent) partitionsBefore(limit time.Time) []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	found := make(map[int]bool)
	for _, e := range r.ends {
		if e.reported.Before(limit) {
			found[e.partition] = true
		}
	}
	return slices.Collect(maps.Keys(found))
}

// forget forgets the ends in some partitions that were recorded before a time.
func (r *recent) forget(partitions map[int]bool, limit time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ends = slices.DeleteFunc(r.ends, func(e *recentEnd) bool {
		old := partitions[e.partition] && e.reported.Before(limit)
		if old {
			r.bytes -= e.size()
		}
		return old
	})
}

// ForgetEnds forgets the ends that this node has reported when Redis cannot lose them any more, until ctx ends.
func (s *Tasks) ForgetEnds(ctx context.Context) error {
	for s.recent.await(ctx) == nil && clock.Sleep(ctx, forgetInterval) == nil {
		s.forgetEnds(ctx)
	}
	return nil
}

// forgetEnds forgets the ends that were recorded longer than recentFor before a write that the same server takes now. In an outage, they do not age:
// however long that lasts, what the next primary may lack was written shortly before it began. The write waits as all others until another primary
// has heard what nodes know.
func (s *Tasks) forgetEnds(ctx context.Context) {
	limit := clock.Now().Add(-recentFor)
	partitions := s.recent.partitionsBefore(limit)
	calls := make([]lua.Probe, len(partitions))
	for i, p := range partitions {
		calls[i].States = s.l.Keys.Partition(p).States()
	}
	ctx, cancel := context.WithTimeout(ctx, forgetInterval)
	defer cancel()
	taken := make(map[int]bool)
	for i, r := range redisx.RunEach[lua.ProbeReply](ctx, s.l.DB, calls) {
		taken[partitions[i]] = r.Err == nil
	}
	s.recent.forget(taken, limit)
}

// serverOf returns a partition that stands for the server that records what is reported about a run: its own if partitions have servers of their own,
// else 0.
func (s *Tasks) serverOf(r *Run) int {
	if !s.l.DB.Sharded() {
		return 0
	}
	return s.l.PartitionOf(r.Task.Ref)
}
