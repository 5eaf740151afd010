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

// gather waits until a delivery has all its slots, and keeps what becomes free for it: the pool takes nothing
// meanwhile. Only one delivery of the worker gets slots so at a time. Two of them, each with a part of the slots, would
// wait for ever. If it returns false, the delivery has ended: the worker takes no more work, the task does not wait for
// it any more, the pool has too few slots, or the delivery has waited for GatherLimit.
func (w *Worker) gather(ctx context.Context, p *pool, t *queue.Taken) (all bool) {
	if t.Slots > min(cap(p.slots), cap(w.slots)) {
		w.refuse(p, t, nil) // its leader finds no delivery, and places the task anew
		return false
	}
	p.consumer.SetHolds(t, 0)
	p.consumer.SetBusy(ctx)
	waits, leave := context.WithTimeout(ctx, w.o.GatherLimit)
	defer leave()
	gone := w.checkGather(waits, leave, t)
	held := 0
	select {
	case w.gathers <- struct{}{}:
		w.setLeave(leave)
		for held < t.Slots && w.acquire(waits, p, nil) {
			held++
			w.keep(p, t, held)
		}
		w.setLeave(nil)
		<-w.gathers
	case <-waits.Done():
	}
	isLate := errors.Is(waits.Err(), context.DeadlineExceeded)
	leave()
	isGone := <-gone
	w.running.Add(-int64(held))
	w.o.Metrics.Running.Sub(float64(held))
	if held == t.Slots {
		p.consumer.SetHolds(t, held)
		return true
	}
	p.consumer.SetHolds(t, 0)
	w.free(p, held)
	switch {
	case isGone:
		w.o.Metrics.Leftovers.Inc()
		w.refuse(p, t, nil)
	case isLate: // as above
		w.refuse(p, t, nil)
	default:
		w.refuse(p, t, queue.ErrGiveBack)
	}
	return false
}

// keep notes that one more slot is kept for a delivery. Slots that are kept count as those of attempts that run.
func (w *Worker) keep(p *pool, t *queue.Taken, held int) {
	w.running.Add(1)
	w.o.Metrics.Running.Inc()
	p.consumer.SetHolds(t, held)
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
