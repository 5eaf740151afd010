package api

import (
	"cmp"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/task"
)

// AcquireLock answers POST /v1/locks/{name}/acquire.
func (e *endpoints) AcquireLock(c echo.Context, name wire.LockName, _ AcquireLockParams) error {
	var in wire.LockRequest
	if err := bind(c, &in); err != nil {
		return err
	}
	var r reader
	wanted := control.LockRequest{
		Name: name, Holder: in.Holder, TTL: r.duration("ttl", in.TTL), Wait: r.duration("wait", wire.Value(in.Wait)), Note: wire.Value(in.Note),
		Stop: e.server.Stopping().Done(),
	}
	if r.err != nil {
		return r.err
	}
	if wanted.Wait > 0 {
		leave, err := e.locks.Enter(c)
		if err != nil {
			return err
		}
		defer leave()
	}
	got, err := e.Control.AcquireLock(c.Request().Context(), callerOf(c), wanted)
	if err != nil {
		return err
	}
	out := lockOf(got.Lock)
	if wanted.Wait > 0 {
		out.Waited = new(got.Waited.String())
	}
	return e.ok(c, out)
}

// RenewLock answers POST /v1/locks/{name}/renew.
func (e *endpoints) RenewLock(c echo.Context, name wire.LockName, _ RenewLockParams) error {
	var in wire.LockRenewal
	if err := bind(c, &in); err != nil {
		return err
	}
	var ttl *time.Duration
	if in.TTL != nil {
		d, err := task.ParseDuration("ttl", *in.TTL)
		if err != nil {
			return err
		}
		ttl = &d
	}
	expires, err := e.Control.RenewLock(c.Request().Context(), callerOf(c), name, in.Holder, in.Fence, ttl)
	if err != nil {
		return err
	}
	return e.ok(c, wire.LockExtension{ExpiresAt: wire.At(expires)})
}

// ReleaseLock answers POST /v1/locks/{name}/release.
func (e *endpoints) ReleaseLock(c echo.Context, name wire.LockName, _ ReleaseLockParams) error {
	var in wire.LockRelease
	if err := bind(c, &in); err != nil {
		return err
	}
	released, err := e.Control.ReleaseLock(c.Request().Context(), callerOf(c), name, in.Holder, wire.Value(in.Fence))
	if err != nil {
		return err
	}
	return e.ok(c, wire.LockReleased{Released: released})
}

// GetLock answers GET /v1/locks/{name}.
func (e *endpoints) GetLock(c echo.Context, name wire.LockName, _ GetLockParams) error {
	l, err := e.Control.GetLock(c.Request().Context(), callerOf(c), name)
	if err != nil {
		return err
	}
	return e.ok(c, lockOf(l))
}

// ListLocks answers GET /v1/locks.
func (e *endpoints) ListLocks(c echo.Context, params ListLocksParams) error {
	ctx, left := leavingOut(c)
	page, err := e.Control.ListLocks(ctx, callerOf(c), cmp.Or(params.Limit, defaultListLimit), params.Cursor)
	if err != nil {
		return err
	}
	return e.ok(c, wire.LockList{Locks: each(page.Locks, lockOf), NextCursor: wire.Given(page.NextCursor), Warnings: left.Texts()})
}

func lockOf(l control.Lock) wire.Lock {
	return wire.Lock{
		Name: l.Ref.ID, Namespace: l.Ref.Namespace, Holder: l.Holder, Fence: l.Fence, Since: wire.At(l.Since),
		ExpiresAt: wire.At(l.Expires), TTL: task.FormatDuration(l.TTL), Note: wire.Given(l.Note),
	}
}
