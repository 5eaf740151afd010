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

// Held is an acquired lease. A goroutine renews it until Release or until its context ends.
type Held struct {
	o     Options
	token int64
	fence lua.Fence

	// lifeCtx ends with the parent context or at Release. trustedCtx is derived from it and ends, in addition,
	// when the lease can no longer be trusted.
	lifeCtx    context.Context
	endLife    context.CancelCauseFunc
	trustedCtx context.Context
	endTrust   context.CancelCauseFunc

	deadline *time.Timer   // ends trustedCtx
	ended    chan struct{} // closed when the renewing goroutine has returned

	mu       sync.Mutex // guards released and serialises Release
	released bool
}

func hold(ctx context.Context, o Options, token int64, start time.Time) *Held {
	h := &Held{o: o, token: token, fence: lua.Fence(fmt.Sprintf("%d:%s", token, o.Owner)), ended: make(chan struct{})}
	h.lifeCtx, h.endLife = context.WithCancelCause(ctx)
	h.trustedCtx, h.endTrust = context.WithCancelCause(h.lifeCtx)
	h.deadline = time.AfterFunc(o.trust()-clock.Since(start), func() { h.endTrust(ErrLost) })
	go h.keep(start)
	return h
}

// Token is the fencing token. It is higher than the token of every earlier owner of this key.
func (h *Held) Token() int64 { return h.token }

// Fence names this holding of the lease: "<token>:<owner>". Scripts that write under the lease check before they write that
// it is the value of the lease's key, and that the key which is named after it exists.
func (h *Held) Fence() lua.Fence { return h.fence }

// Context is derived from the context passed to Acquire and ends no later than the lease. Its cause
// (context.Cause) is ErrLost, ErrReleased, or the cause of the parent. If Redis took long to answer, the
// context may already have ended when Acquire returns.
func (h *Held) Context() context.Context { return h.trustedCtx }

// Release ends the context, waits until the renewing goroutine has returned, and ends the lease if this
// Held still owns it. After a loss it waits for the last renewal, so that the outcome of that renewal is known.
// Releasing a lost or released lease is not an error.
//
// Errors: the cause of ctx, or an error of Redis or of the network. The lease then expires, and Release may be
// called again.
func (h *Held) Release(ctx context.Context) error {
	if h.trustedCtx.Err() == nil {
		h.endLife(ErrReleased)
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
