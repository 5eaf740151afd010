package control

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/task"
)

// admission bounds how many tasks, and other things that make work, are under way in a process. What is beyond is
// refused at once, so that what was let in is answered soon, instead of everything waiting until its time is over.
type admission struct {
	limit int // 0: any number
	busy  atomic.Int64
}

// enter lets in n; the request that has them may have arrived before, as one. Whoever calls it calls leave when they
// have been answered. One request that is alone is let in however many it has. Error: CodeOverloaded.
func (a *admission) enter(n int, arrived bool) (leave func(), _ error) {
	more, own := int64(n), int64(n)
	if arrived {
		more, own = more-1, max(own, 1)
	}
	busy := a.busy.Add(more)
	leave = func() { a.busy.Add(-more) }
	if a.limit > 0 && busy > int64(a.limit) && busy > own {
		leave()
		const text = "this node is at its limit of %d waiting submissions: nothing was done, so try again, " +
			"here or at another node"
		return nil, task.Errorf(task.CodeOverloaded, text, a.limit)
	}
	return leave, nil
}

// turns bounds how many requests of a kind are with Redis at once. Those that create work, and do not share a call to
// Redis with others, thus take only a part of the connections, and a request to pause, to cancel or to look does not
// wait behind all of them.
type turns chan struct{}

const (
	turnsLimit = 4
	turnLook   = 2 * time.Second // between two looks of one that waits for a turn, whether Redis answers
)

// take waits for a turn, as long as answers says that Redis answers: otherwise all that wait would have to fail, a few
// at a time. Who has waited longest is next. The caller calls end afterwards. Errors: CodeUnavailable, or that of ctx.
func (t turns) take(ctx context.Context, answers func() bool) (end func(), _ error) {
	end = func() { <-t }
	select {
	case t <- struct{}{}:
		return end, nil
	default:
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		for clock.Sleep(ctx, turnLook) == nil {
			if !answers() {
				cancel(task.Errorf(task.CodeUnavailable, "Redis does not answer, and others wait for it: nothing was done"))
			}
		}
	}()
	select {
	case t <- struct{}{}:
		return end, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// PagesLimit is how many pages are read at once. A page takes several times as much memory while it is read as its
// text does, and one of thousands of sets keeps Redis busy for all the time that it is read.
const PagesLimit = 4

// TakePage waits for a turn to read a page of a list, or another answer that may be large. The caller calls end when
// it has the text, and may call it again. Errors: CodeUnavailable while no server of Redis answers; or that of ctx.
func (c *Control) TakePage(ctx context.Context) (end func(), _ error) {
	return c.takePage(ctx, c.pages)
}

// CostlyLimit is how many pages are read at once that take seconds, as they count or examine. Other pages do not wait
// for them.
const CostlyLimit = 4

// TakeCostlyPage is TakePage for a page that takes seconds.
func (c *Control) TakeCostlyPage(ctx context.Context) (end func(), _ error) {
	return c.takePage(ctx, c.costly)
}

func (c *Control) takePage(ctx context.Context, pages turns) (end func(), _ error) {
	end, err := pages.take(ctx, c.store.DB.Link().Answers)
	if err != nil {
		return nil, err
	}
	return sync.OnceFunc(end), nil
}
