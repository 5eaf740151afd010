package lease

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/lua"
)

// Held is a lease that was acquired. It is kept by renewal until Release or until its context ends.
type Held struct {
	o     Options
	token int64
	fence lua.Fence

	// life ends with the parent context or at Release; trusted, below it, ends with the lease as well.
	life    context.Context
	end     context.CancelCauseFunc
	trusted context.Context
	lose    context.CancelCauseFunc

	deadline *time.Timer   // ends trusted
	ended    chan struct{} // closed when the renewing goroutine has returned

	mu       sync.Mutex // guards released, and lets one Release run at a time
	released bool
}

func hold(ctx context.Context, o Options, token int64, start time.Time) *Held {
	h := &Held{o: o, token: token, fence: lua.Fence(fmt.Sprintf("%d:%s", token, o.Owner)), ended: make(chan struct{})}
	h.life, h.end = context.WithCancelCause(ctx)
	h.trusted, h.lose = context.WithCancelCause(h.life)
	h.deadline = time.AfterFunc(o.trust()-clock.Since(start), func() { h.lose(ErrLost) })
	go h.keep()
	return h
}

// Token is the fencing token: higher than that of every lease of this key before.
func (h *Held) Token() int64 { return h.token }

// Fence is the exact value of the lease's key while it is held. Scripts that write under the lease compare
// it with GET before they write.
func (h *Held) Fence() lua.Fence { return h.fence }

// Context is derived from the context given to Acquire, and ends no later than the lease does. Its cause
// (context.Cause) says why: ErrLost, ErrReleased, or the parent's own. It may have ended already when
// Acquire returns, if Redis took long to answer.
func (h *Held) Context() context.Context { return h.trusted }

// Release ends the context, waits until nothing renews the lease any more, and gives it back if it is still
// held. After a loss it waits for the last attempt to renew, so that it is known how things stand. Giving back what is lost already, or twice, is no error. Errors: ctx's, or what Redis or the network
// said; the lease then runs out by itself, and Release may be called again.
func (h *Held) Release(ctx context.Context) error {
	if h.trusted.Err() == nil {
		h.end(ErrReleased)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.released {
		return nil
	}
	select {
	case <-h.ended:
	case <-ctx.Done():
		return fmt.Errorf("releasing lease %s: %w", h.o.Key, context.Cause(ctx))
	}
	_, err := redisx.Run(ctx, h.o.DB, lua.ReleaseLease{Lease: h.o.Key, Fence: h.fence, Channel: h.o.Channel, Message: h.o.Message})
	if err != nil {
		return fmt.Errorf("releasing lease %s: %w", h.o.Key, err)
	}
	h.released = true
	return nil
}
