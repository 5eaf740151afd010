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

// keep renews the lease until it is released or lost: half of its time to live after the start of the last success, which is
// when Redis may have counted from, and a tenth of it after a renewal that failed. acquired is the start of the acquisition.
//
// A renewal that is due is made even if the trust ended in the meantime, which happens while the whole process
// is stopped. If no other owner acquired the lease, the holder keeps it long enough to end its work and
// release it. The ended context stays ended.
func (h *Held) keep(acquired time.Time) {
	defer close(h.ended)
	defer h.endLife(ErrLost) // trustedCtx has ended when keep returns; this only frees the resources of lifeCtx
	defer h.deadline.Stop()

	wait := h.o.TTL/2 - clock.Since(acquired)
	for clock.Sleep(h.lifeCtx, wait) == nil {
		start := clock.Now()
		err := h.renew()
		if h.handleRenewal(start, err) {
			return
		}
		wait = h.o.TTL/2 - clock.Since(start)
		if err != nil {
			wait = h.o.TTL / 10
		}
	}
}

// renew makes one renewal. Its timeout of a quarter of the time to live leaves time for another one.
func (h *Held) renew() error {
	ctx, cancel := context.WithTimeout(h.lifeCtx, h.o.TTL/4)
	defer cancel()
	_, err := redisx.Run(ctx, h.o.DB, lua.RenewLease{Lease: h.o.Key, Fence: h.fence, TTL: h.o.TTL})
	return err
}

// handleRenewal evaluates a renewal that began at start and returned err. It extends the trust after a success.
// It returns true if the lease is released or lost, so that no further renewal is needed.
func (h *Held) handleRenewal(start time.Time, err error) (done bool) {
	switch {
	case h.lifeCtx.Err() != nil:
		return true
	case redisx.RefusedWith(err, lua.CodeLost):
		h.endTrust(fmt.Errorf("%w: %w", ErrLost, err))
		h.report(err)
		return true
	case h.trustedCtx.Err() != nil:
		h.report(errors.Join(context.Cause(h.trustedCtx), err))
		return true
	case err == nil:
		h.deadline.Reset(h.o.trust() - clock.Since(start))
	}
	return false
}

func (h *Held) report(err error) {
	h.o.Log.Warn("lease lost", slog.String("lease", string(h.o.Key)), slog.Int64("token", h.token), slog.Any("error", err))
}
