package control

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/calls"
	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/store/bulks"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
)

// How a bulk action goes on. Redis must serve due tasks meanwhile.
const (
	bulkPiece   = 200                   // tasks, after which its progress is written
	bulkAtOnce  = 2                     // of them
	bulkPause   = 20 * time.Millisecond // after a piece
	bulkWait    = time.Second           // after a failure of Redis, or while a queue is full
	bulkLook    = 5 * time.Minute       // for one whose message was lost
	bulksAtOnce = 16                    // some may wait until a queue has room
)

// KeepBulks runs the bulk actions that have not ended, until ctx ends. told is signalled when there is a new one. What
// is done with a task can be repeated, so it does no harm that another node takes over in the middle of a piece.
func (c *Control) KeepBulks(ctx context.Context, told <-chan struct{}) {
	var all sync.WaitGroup
	defer all.Wait()
	var mu sync.Mutex
	runs := make(map[string]bool)
	ended := make(chan struct{}, 1) // one has ended, so another one may run
	for ctx.Err() == nil {
		found, err := c.store.Bulks.List(ctx)
		pause := bulkLook
		if err != nil {
			pause = bulkWait
		}
		for i := len(found) - 1; i >= 0; i-- { // those first that were started first
			b := found[i]
			mu.Lock()
			starts := !b.State.Ended() && !runs[b.ID] && len(runs) < bulksAtOnce
			if starts {
				runs[b.ID] = true
			}
			mu.Unlock()
			if !starts {
				continue
			}
			all.Go(func() {
				// nobody waits for the bulk action who would answer for its panic
				if err := calls.Recover(func() { c.runBulk(ctx, b.ID) }); err != nil {
					c.log.ErrorContext(ctx, "cannot go on with a bulk action; trying again later", "bulk", b.ID, "error", err)
					_ = clock.Sleep(ctx, bulkLook)
				}
				mu.Lock()
				delete(runs, b.ID)
				mu.Unlock()
				select {
				case ended <- struct{}{}:
				default:
				}
			})
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-told:
		case <-ended:
		}
		timer.Stop()
	}
}

// runBulk goes on with a bulk action until it has ended, or ctx ends.
func (c *Control) runBulk(ctx context.Context, id string) {
	for ctx.Err() == nil {
		b, err := c.store.Bulks.Get(ctx, id)
		if err == nil && b.State.Ended() || task.CodeOf(err) == bulks.CodeNotFound {
			return
		}
		if err == nil {
			b, err = c.bulkPiece(ctx, b)
		}
		switch {
		case errors.Is(err, bulks.ErrChanged): // somebody stops it, or goes on with it: it is read again
		case err != nil && ctx.Err() == nil:
			c.log.WarnContext(ctx, "cannot go on with a bulk action; trying again", "bulk", id, "error", err)
			_ = clock.Sleep(ctx, bulkWait)
		default:
			_ = clock.Sleep(ctx, bulkPause)
		}
	}
}

// bulkPiece does the next piece of a bulk action, and writes how far it is.
func (c *Control) bulkPiece(ctx context.Context, b Bulk) (Bulk, error) {
	read := b
	if b.State == bulks.Stopping {
		return c.endBulk(ctx, read, b, bulks.Stopped, nil)
	}
	steps, err := c.store.Listing.Walk(ctx, b.Filter, b.After, bulkPiece)
	if task.CodeOf(err) == task.CodeUnreadable {
		return c.endBulk(ctx, read, b, bulks.Failed, err)
	}
	if err != nil {
		return b, err
	}
	if steps.Unbuilt {
		return b, task.Errorf(task.CodeUnavailable, "the action would miss %s", steps.Missing)
	}
	if steps.Missing != "" && b.Error == "" {
		b.Error = "it may have missed " + steps.Missing
	}
	results := make([]error, len(steps.Tasks))
	came := b.Changed + b.Skipped + b.Failed
	_ = calls.Each(bulkAtOnce, steps.Tasks, func(i int, t task.Task) error {
		results[i] = c.bulkOne(ctx, b, t, came+i)
		return nil
	})
	if err := ctx.Err(); err != nil {
		return b, err
	}
	for _, err := range results {
		switch code := task.CodeOf(err); {
		case err == nil:
			b.Changed++
		case bulkSkips[code]:
			b.Skipped++
		default:
			b.Failed++
			if b.Error == "" {
				b.Error = err.Error()
			}
		}
	}
	if steps.Next == nil {
		return c.endBulk(ctx, read, b, bulks.Done, nil)
	}
	b.After = steps.Next
	return c.updateBulk(ctx, read, b)
}

// updateBulk writes how far a bulk action is, in place of what was read. If somebody stops it meanwhile, it stops. If
// another leader has gone on with it, this one has come too late. Errors: bulks.ErrChanged, CodeUnavailable.
func (c *Control) updateBulk(ctx context.Context, read, b Bulk) (Bulk, error) {
	written, err := c.store.Bulks.Update(ctx, b)
	if !errors.Is(err, bulks.ErrChanged) {
		return written, err
	}
	now, err := c.store.Bulks.Get(ctx, b.ID)
	if err != nil {
		return b, err
	}
	if now.Progress != read.Progress {
		return b, bulks.ErrChanged
	}
	return c.store.Bulks.Update(ctx, now.With(b))
}

// bulkSkips are the codes of errors that say that a task is not as the filter says any more.
var bulkSkips = map[task.Code]bool{
	task.CodeTaskNotFound: true, task.CodeNotFinished: true, task.CodeFinished: true, task.CodeNotWaiting: true,
}

func (c *Control) endBulk(ctx context.Context, read, b Bulk, state bulks.State, why error) (Bulk, error) {
	now, err := c.store.Now(ctx, 0)
	if err != nil {
		return b, err
	}
	b.State, b.EndedAt = state, now
	if state == bulks.Done { // the total was an estimate, and tasks changed meanwhile
		b.Total, b.About = b.Changed+b.Skipped+b.Failed, false
	}
	if why != nil {
		b.Error = why.Error()
	}
	return c.updateBulk(ctx, read, b)
}

// bulkOne does with a task what the bulk action says; came is how many tasks it came by before. It waits while Redis
// refuses, or a queue is full.
func (c *Control) bulkOne(ctx context.Context, b Bulk, t task.Task, came int) error {
	who := Caller{Namespace: t.Namespace, Name: b.Name, Verified: b.Verified, Address: b.Address}
	for {
		err := c.bulkDo(ctx, who, b, t, came)
		switch task.CodeOf(err) {
		case task.CodeUnavailable, task.CodeOverloaded, task.CodeChanged, CodeQueueFull:
		default:
			return err
		}
		if clock.Sleep(ctx, bulkWait) != nil {
			return err
		}
		if now, errGet := c.store.Bulks.Get(ctx, b.ID); errGet == nil && now.State != bulks.Running {
			return err
		}
	}
}

func (c *Control) bulkDo(ctx context.Context, who Caller, b Bulk, t task.Task, came int) error {
	var err error
	switch BulkAction(b.Action) {
	case BulkRetry:
		_, err = c.retry(ctx, who, t.ID, bulkDelay(b, came), t.FinishedAt)
	case BulkCancel:
		_, err = c.CancelTask(ctx, who, t.ID, b.Note)
	case BulkRequeue:
		_, err = c.ChangeTask(ctx, who, t.ID, TaskChange{Queue: &b.ToQueue})
	case BulkForget:
		var forgotten bool
		if forgotten, err = c.store.Tasks.Forget(ctx, t.Ref, t.FinishedAt, c.forgetting); err == nil && !forgotten {
			err = task.Errorf(task.CodeNotFinished, "task %q was run again since", t.ID)
		}
	default: // a newer release has started it
		err = task.Errorf(task.CodeInvalid, "this release does not know the action %q", b.Action)
	}
	return err
}

// bulkDelay is when the task is due that comes after so many others.
func bulkDelay(b Bulk, came int) time.Duration {
	return time.Duration(float64(b.Spread) * float64(min(came, b.Total)) / float64(max(b.Total, 1)))
}

// Forgetting says how long the names of deleted tasks stay taken.
type Forgetting = tasks.Forgetting
