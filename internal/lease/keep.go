package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/lua"
)

// keep renews the lease every half of its time to live, and sooner again after a failure, until the lease is
// released or lost. An attempt that is due is made even if trust ended meanwhile, as it does while the whole
// process is stopped: if nobody took the lease, the holder then keeps it long enough to end its work and
// release it. The context that ended stays ended.
func (h *Held) keep() {
	defer close(h.ended)
	defer h.end(ErrLost) // trusted has ended when keep returns: this only frees what life holds
	defer h.deadline.Stop()

	wait := h.o.TTL / 2
	for clock.Sleep(h.life, wait) == nil {
		start := clock.Now()
		err := h.renew()
		if h.over(start, err) {
			return
		}
		wait = h.o.TTL / 2
		if err != nil {
			wait = h.o.TTL / 10
		}
	}
}

// renew is one attempt; it takes no longer than leaves time for another one.
func (h *Held) renew() error {
	ctx, cancel := context.WithTimeout(h.life, h.o.TTL/4)
	defer cancel()
	_, err := redisx.Run(ctx, h.o.DB, lua.RenewLease{Lease: h.o.Key, Fence: h.fence, TTL: h.o.TTL})
	return err
}

// over draws the conclusion from an attempt begun at start: it prolongs trust, or says that there is
// nothing left to renew.
func (h *Held) over(start time.Time, err error) bool {
	switch {
	case h.life.Err() != nil:
		return true
	case redisx.RefusedWith(err, lua.CodeLost):
		h.lose(fmt.Errorf("%w: %w", ErrLost, err))
		h.report(err)
		return true
	case h.trusted.Err() != nil:
		h.report(errors.Join(context.Cause(h.trusted), err))
		return true
	case err == nil:
		h.deadline.Reset(h.o.trust() - clock.Since(start))
	}
	return false
}

func (h *Held) report(err error) {
	h.o.Log.Warn("lease lost", slog.String("lease", string(h.o.Key)), slog.Int64("token", h.token), slog.Any("error", err))
}
