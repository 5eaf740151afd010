package tasks

import (
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/clock"
)

// What is kept of the ends that this node has reported.
const (
	recentFor   = time.Minute
	recentLimit = 10_000
	recentBytes = 16 << 20 // of payloads, results and errors
)

// recent is the ends that this node has reported lately, in case Redis loses them.
type recent struct {
	mu    sync.Mutex
	ends  []*recentEnd // oldest first
	bytes int
}

type recentEnd struct {
	End
	reported time.Time // by the clock of this node
	at       time.Time // by that of Redis
	again    time.Time // when the newest call began by which Redis was told again; guarded by the mu of recent
}

func (e *recentEnd) size() int { return len(e.Run.Task.Payload) + len(e.Result) + len(e.Reason) }

// add keeps an end that Redis has recorded at that time by its clock.
func (r *recent) add(e End, at time.Time) {
	kept := &recentEnd{End: e, reported: clock.Now(), at: at}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ends, r.bytes = append(r.ends, kept), r.bytes+kept.size()
	for r.bytes > recentBytes || len(r.ends) > recentLimit || kept.reported.Sub(r.ends[0].reported) > recentFor {
		r.bytes -= r.ends[0].size()
		r.ends[0] = nil // so that it can be freed
		r.ends = r.ends[1:]
	}
}

// notAgain returns the ends that are kept and of which Redis was not told again by a call since then, in the order in which they were reported first.
func (r *recent) notAgain(since time.Time) []*recentEnd {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]*recentEnd, 0, len(r.ends))
	for _, e := range r.ends {
		if clock.Since(e.reported) <= recentFor && e.again.Before(since) {
			all = append(all, e)
		}
	}
	return all
}

// setAgain notes that Redis was told again of ends, by a call that began then.
func (r *recent) setAgain(ends []*recentEnd, begin time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range ends {
		e.again = begin
	}
}
