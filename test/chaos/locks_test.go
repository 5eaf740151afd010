package chaos

import (
	"context"
	"errors"
	"fmt"
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
	fence  int64           // the highest so far
	broken []string        // what was wrong with a lock that was given
	holds  int
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
	lock, err := c.Lock(ctx, "chaos", lockTTL, dts.LockWait(lockTTL))
	if err != nil {
		return // held by another one, or the node has gone
	}
	w.locking.taken(lock)
	_ = clock.Sleep(lock.Context(), lockHeld)
	w.locking.givenBack(lock)
	if err := lock.Unlock(context.WithoutCancel(ctx)); err != nil && !errors.As(err, new(*dts.Error)) {
		w.t.Errorf("giving the lock back: %v", err)
	}
}

// taken judges that a lock was taken: nobody else may hold it by what it knows, and its fence is higher than all before.
func (l *locking) taken(lock *dts.Lock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.holder != nil && l.holder.Err() == nil && lock.Context().Err() == nil {
		l.broken = append(l.broken, fmt.Sprintf("a lock was given to two at a time, fences %d and %d", l.fence, lock.Fence()))
	}
	if lock.Fence() <= l.fence && lock.Context().Err() == nil {
		l.broken = append(l.broken, fmt.Sprintf("a lock was given with the fence %d after %d", lock.Fence(), l.fence))
	}
	l.holder, l.fence = lock.Context(), max(l.fence, lock.Fence())
	l.holds++
}

func (l *locking) givenBack(lock *dts.Lock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.holder == lock.Context() {
		l.holder = nil
	}
}
