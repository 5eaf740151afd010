package worker

import (
	"context"
	"errors"
	"time"

	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/task"
)

// gatherCheck is the time between two looks whether a task that waits for slots is to run here still.
const gatherCheck = 2 * time.Second

// errTooFewSlots ends a delivery that needs more slots than the pool has. It returns to its queue after a second:
// another pool may take it, or the leader takes it back.
var errTooFewSlots = errors.New("the task holds more slots than the pool has")

// gather waits until a delivery has all its slots, and keeps what becomes free for it: the pool takes nothing
// meanwhile. Only one delivery of the worker waits so at a time. Two of them, each with a part of the slots, would wait
// for ever. If it returns false, the delivery has ended: the worker takes no more work, or the task does not wait for
// it any more.
func (w *Worker) gather(ctx context.Context, p *pool, t *queue.Taken) (all bool) {
	if t.Slots > min(cap(p.slots), cap(w.slots)) {
		w.refuse(p, t, errTooFewSlots)
		return false
	}
	p.consumer.SetAwaits(t, true)
	p.consumer.SetBusy(ctx)
	waits, leave := context.WithCancel(ctx)
	defer leave()
	select {
	case w.gathers <- struct{}{}:
		defer func() { <-w.gathers }()
		w.setLeave(leave)
		defer w.setLeave(nil)
	case <-ctx.Done():
	}
	gone := w.checkGather(waits, leave, t)
	held := 0
	for held < t.Slots && w.acquire(waits, p, nil) {
		held++
	}
	leave()
	isGone := <-gone
	if held == t.Slots {
		p.consumer.SetAwaits(t, false)
		return true
	}
	w.free(p, held)
	if isGone {
		w.o.Metrics.Leftovers.Inc()
		w.refuse(p, t, nil)
	} else {
		w.refuse(p, t, queue.ErrGiveBack)
	}
	return false
}

// refuse ends a delivery that was taken and is not handled.
func (w *Worker) refuse(p *pool, t *queue.Taken, err error) {
	defer w.idle.Done()
	p.consumer.End(t, err)
}

// setLeave notes how to end the wait of a delivery for slots, which ends at once if the worker is cordoned.
func (w *Worker) setLeave(leave context.CancelFunc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.leave = leave; leave != nil && w.cordoned {
		leave()
	}
}

// checkGather ends the wait of a delivery for slots if its task does not wait for this node any more: somebody has
// cancelled or changed it. When the wait has ended, it tells whether that is why.
func (w *Worker) checkGather(waits context.Context, leave context.CancelFunc, t *queue.Taken) (gone <-chan bool) {
	is := make(chan bool, 1)
	go func() {
		ticker := time.NewTicker(gatherCheck)
		defer ticker.Stop()
		for {
			select {
			case <-waits.Done():
				is <- false
				return
			case <-ticker.C:
			}
			found, err := w.o.Store.Tasks.Find(waits, t.Ref)
			waitsHere := found.State == task.Queued && found.Attempt == t.Attempt && found.Placed == w.o.Node
			if task.CodeOf(err) == task.CodeTaskNotFound || err == nil && !waitsHere {
				leave()
				is <- true
				return
			}
		}
	}()
	return is
}
