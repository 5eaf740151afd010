package worker

import (
	"context"
	"errors"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/task"
)

// gatherCheck is the time between two looks at a task that waits for slots: it may have to run here no more.
const gatherCheck = 2 * time.Second

// gather waits until a delivery that holds some slots has all, and keeps what becomes free for it: the pool
// takes nothing meanwhile. Only one delivery of the worker gets slots so at a time. Two of them, each with a part of
// the slots, would wait for ever. If it returns false, the delivery has ended: the worker takes no more work or keeps
// no slots now, the task does not wait for it any more, the pool has too few slots, or it has waited for GatherLimit.
func (w *Worker) gather(ctx context.Context, p *pool, t *queue.Taken, held int) (all bool) {
	if t.Slots > min(cap(p.slots), cap(w.slots)) || clock.Now().Before(w.rests()) {
		w.free(p, held)
		w.refuse(p, t, nil) // its leader finds no delivery, and places the task anew
		return false
	}
	p.consumer.SetBusy(ctx)
	w.keep(p, t, 0, held)
	waits, leave := context.WithTimeout(ctx, w.o.GatherLimit)
	defer leave()
	gone := w.checkGather(waits, leave, t)
	select {
	case w.gathers <- struct{}{}:
	default: // another pool gathers: it needs these slots
		w.keep(p, t, held, 0)
		w.free(p, held)
		held = 0
		select {
		case w.gathers <- struct{}{}:
		case <-waits.Done():
			return w.endGather(p, t, leave, gone, waits.Err())
		}
	}
	w.setLeave(leave)
	for held < t.Slots && w.acquire(waits, p, nil) {
		held++
		w.keep(p, t, held-1, held)
	}
	w.setLeave(nil)
	<-w.gathers
	if held == t.Slots {
		leave()
		<-gone
		w.running.Add(-int64(held)) // the attempt counts them
		w.o.Metrics.Running.Sub(float64(held))
		return true
	}
	err := waits.Err()
	w.keep(p, t, held, 0)
	w.free(p, held)
	return w.endGather(p, t, leave, gone, err)
}

// endGather ends a delivery that has no slots, and whose wait has ended as ctx did.
func (w *Worker) endGather(p *pool, t *queue.Taken, leave func(), gone <-chan bool, ended error) bool {
	leave()
	switch {
	case <-gone:
		w.o.Metrics.Leftovers.Inc()
		w.refuse(p, t, nil)
	case errors.Is(ended, context.DeadlineExceeded):
		w.mu.Lock()
		w.failed = clock.Now()
		w.mu.Unlock()
		w.refuse(p, t, nil) // as above
	default:
		w.refuse(p, t, queue.ErrGiveBack)
	}
	return false
}

// rests returns until when the worker keeps no slots, as it lately did so in vain.
func (w *Worker) rests() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed.Add(w.o.GatherLimit)
}

// keep notes how many slots are kept for a delivery. They count as those of attempts that run.
func (w *Worker) keep(p *pool, t *queue.Taken, before, now int) {
	w.running.Add(int64(now - before))
	w.o.Metrics.Running.Add(float64(now - before))
	p.consumer.SetHolds(t, now)
}

// refuse ends a delivery that was taken and is not handled.
func (w *Worker) refuse(p *pool, t *queue.Taken, err error) {
	defer w.idle.Done()
	p.consumer.SetHolds(t, 0)
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
