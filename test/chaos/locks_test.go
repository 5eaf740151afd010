package chaos

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/dts-sched/dts"
	"github.com/dts-sched/dts/internal/clock"
)

const (
	lockers  = 3
	lockTTL  = 3 * time.Second
	lockHeld = 300 * time.Millisecond
)

// locking is the record of those who contend for one lock.
type locking struct {
	mu     sync.Mutex
	holder context.Context // of the newest holder, until it unlocks
	since  time.Time       // when the newest holder asked for it
	fence  int64           // the highest so far
	shared []sharing
	broken verdict // what was wrong with fences
	holds  int
}

// sharing is a lock that was given to a second holder while the first one believed to hold it.
type sharing struct {
	span // from when the first one asked for it: the answer may come long after it was given

	first, second int64 // fences
}

// contend takes and gives back the lock until ctx ends.
func (w *workload) contend(ctx context.Context) {
	var running sync.WaitGroup
	for i := range lockers {
		running.Go(func() {
			for clock.Sleep(ctx, lockHeld/3) == nil {
				w.lockOnce(ctx, w.members[i%len(w.members)])
			}
		})
	}
	running.Wait()
}

func (w *workload) lockOnce(ctx context.Context, m *member) {
	if !m.serves {
		return
	}
	c, err := dts.Dial(m.url())
	if err != nil {
		w.t.Errorf("the client for locks: %v", err)
		return
	}
	defer c.Close() //nolint:errcheck // it holds nothing
	asked := time.Now()
	lock, err := c.Lock(ctx, "chaos", lockTTL, dts.LockWait(lockTTL))
	if err != nil {
		return // held by another one, or the node has gone
	}
	w.locking.taken(lock, asked)
	_ = clock.Sleep(lock.Context(), lockHeld)
	w.locking.givenBack(lock)
	if err := lock.Unlock(context.WithoutCancel(ctx)); err != nil && !errors.As(err, new(*dts.Error)) {
		w.t.Errorf("giving the lock back: %v", err)
	}
}

// taken notes that a lock was taken that was asked for at a time.
func (l *locking) taken(lock *dts.Lock, asked time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holds++
	if lock.Context().Err() != nil {
		return
	}
	now := time.Now()
	if l.holder != nil && l.holder.Err() == nil {
		l.shared = append(l.shared, sharing{span{l.since, now}, l.fence, lock.Fence()})
	}
	if lock.Fence() <= l.fence {
		l.broken.add("a lock was given with the fence %d after %d", lock.Fence(), l.fence)
	}
	l.holder, l.since, l.fence = lock.Context(), asked, max(l.fence, lock.Fence())
}

func (l *locking) givenBack(lock *dts.Lock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.holder == lock.Context() {
		l.holder = nil
	}
}

// judge: fences grow, and nobody else holds a lock, unless Redis has lost that it was taken, or its clock jumped past the lock's end. The first
// holder learns that when it renews the lock.
func (l *locking) judge(p *past) verdict {
	v := l.broken
	for _, s := range l.shared {
		jumped := slices.ContainsFunc(p.jumps, func(j jump) bool { return s.contains(j.from) || s.contains(j.until) })
		if !jumped && !p.isLossy(s.span) {
			v.add("a lock was given to two at a time, fences %d and %d, at %s and %s", s.first, s.second, s.from.UTC().Format(stamp), s.until.UTC().Format(stamp))
		}
	}
	return v
}
