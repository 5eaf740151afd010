package worker

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/queue"
)

const (
	// aheadTime is how long ends count: about as many come while a taken delivery is on its way.
	aheadTime = 5 * time.Millisecond
	// aheadWait is for how long it waits at most, before it returns to its queue.
	aheadWait = 50 * time.Millisecond
)

// ahead is the deliveries that a pool takes before there are slots for them, so that no slot waits for a round trip to
// Redis: as many as attempts have ended in the last aheadTime, less those whose slots are to be filled now.
type ahead struct {
	off     bool         // none are taken: the pool shares the worker's slots, and would hold up other pools
	waiting atomic.Int64 // for a slot
	low     atomic.Int64
	fewer   chan struct{} // signalled when waiting has fallen to low, so that more can be taken; capacity 1

	mu   sync.Mutex
	ends [takeLimit]time.Time // of the newest attempts, in a circle
	next int
}

func newAhead(off bool) *ahead { return &ahead{off: off, fewer: make(chan struct{}, 1)} }

// ended records that an attempt has ended.
func (a *ahead) ended(at time.Time) {
	a.mu.Lock()
	a.ends[a.next] = at
	a.next = (a.next + 1) % len(a.ends)
	a.mu.Unlock()
}

// allowed returns how many deliveries may wait for a slot.
func (a *ahead) allowed(now time.Time) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for n < len(a.ends) {
		at := a.ends[(a.next-1-n+len(a.ends))%len(a.ends)]
		if at.IsZero() || now.Sub(at) > aheadTime {
			break
		}
		n++
	}
	return n
}

// room returns how many deliveries to take beside those for that many free slots. While more than half of the allowed
// number wait, that is none.
func (a *ahead) room(slots int) int {
	if a.off {
		return 0
	}
	most, waiting := a.allowed(clock.Now())-slots, int(a.waiting.Load())
	if 2*waiting > most {
		return 0
	}
	return max(0, most-waiting)
}

// add records that so many deliveries wait from now on.
func (a *ahead) add(n int) { a.low.Store(a.waiting.Add(int64(n)) / 2) }

// left records that one waits no more.
func (a *ahead) left() {
	if a.waiting.Add(-1) <= a.low.Load() {
		select {
		case a.fewer <- struct{}{}:
		default:
		}
	}
}

// serveLater serves a delivery when there is a slot for it. If that takes too long, the delivery returns to its queue:
// another worker may have one.
func (w *Worker) serveLater(work context.Context, p *pool, t *queue.Taken) {
	ctx, cancel := context.WithTimeout(work, aheadWait)
	defer cancel()
	hasSlot := w.acquire(ctx, p, nil)
	p.ahead.left()
	if hasSlot {
		w.serve(work, p, t)
		return
	}
	w.refuse(p, t, queue.ErrGiveBack)
}
