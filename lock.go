package dts

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/task"
)

// LockOption changes how [Client.Lock] takes a lock.
type LockOption func(*lockOptions)

type lockOptions struct {
	wait *time.Duration // nil: until the context ends
	note string
}

// LockWait has [Client.Lock] wait for so long while somebody else holds the lock, instead of until its context ends. With 0 it
// does not wait.
func LockWait(d time.Duration) LockOption {
	return func(o *lockOptions) { o.wait = &d }
}

// LockNote says, for people who list the locks, what a lock is held for: at most 500 bytes.
func LockNote(text string) LockOption { return func(o *lockOptions) { o.note = text } }

// Lock waits until it has the lock of that name in the client's namespace, or ctx ends. Those who wait get it in no particular order.
//
// The lock is renewed about every third of ttl, which is 1s to 24h, until Unlock, whether ctx ends or not. If this program dies or is
// cut off, others can have the lock when ttl is over: a short ttl makes that soon, a long one outlasts longer interruptions.
//
// Lock is re-entrant for its holder: if ctx comes from the [Lock.Context] of a held lock of this client with the same name, Lock
// returns at once with the same fence, and the lock is free when all of them were unlocked. ttl and the options do not count then.
//
// Errors: CodeLockHeld if [LockWait] is over, CodeInvalid, CodeUnavailable, or that of ctx.
func (c *Client) Lock(ctx context.Context, name string, ttl time.Duration, options ...LockOption) (*Lock, error) {
	if ctx.Err() != nil {
		return nil, endOf(ctx)
	}
	key := leaseKey{c.api.ClientWithResponses, c.caller().Namespace, name}
	if l, ok := ctx.Value(key).(*lease); ok && l.enter() {
		return l.lock(ctx), nil
	}
	o := collect(options)
	if o.wait != nil && *o.wait < 0 {
		return nil, errorOfUseCase(task.Invalid("wait", "is %s, must not be negative", *o.wait))
	}
	if err := c.checkLock(name, o.note); err != nil {
		return nil, err
	}
	held, err := c.api.Lock(ctx, rest.LockRequest{Name: name, TTL: ttl, Wait: o.wait, Note: o.note})
	if err != nil {
		return nil, errorIn(ctx, err)
	}
	l := &lease{key: key, held: held, holds: 1}
	return l.lock(ctx), nil
}

// Lock is a lock that this program holds, from [Client.Lock] to Unlock. It is safe for concurrent use.
//
// DTS promises that at any moment at most one holder has the lock by the record of Redis, and that the context of a holder ends before
// another one can have the lock. It cannot promise what happens in a program that does not look at the context, or that stands still
// for longer than its lease and goes on: for a moment, that program does not know that it has lost the lock. Where two holders at once
// would do harm, hand the Fence to what is protected, and have that refuse a fence that is lower than one it has seen.
//
// A lock is as durable as the Redis behind it: a failover that loses the newest writes can lose a lock, too. Fences grow nevertheless.
type Lock struct {
	lease *lease
	ctx   context.Context
	end   context.CancelCauseFunc
	stop  func() bool // stops waiting for the end of the lease

	unlocked bool // guarded by lease.mu
}

// Fence is the fencing token: higher than that of every earlier holder of the lock.
func (l *Lock) Fence() int64 { return l.lease.held.Fence() }

// Context comes from the context that was given to Lock, and ends in addition at Unlock and when the lock is lost, which means that it
// could not be renewed in time: then its cause (context.Cause) has CodeLockLost. It counts from the moment at which the newest request
// began that was answered, and ends a twentieth of ttl early.
func (l *Lock) Context() context.Context { return l.ctx }

// Unlock ends the context and gives the lock back. It may be deferred: if ctx has ended already, Unlock has one more second. Calling it
// again does nothing, unless it failed. Errors: CodeLockLost if the lock was lost before, so that somebody else may have had it;
// CodeUnavailable: then it is free when ttl is over.
func (l *Lock) Unlock(ctx context.Context) error {
	l.stop()
	l.end(context.Canceled)
	if !l.lease.leave(l) {
		return l.lease.lost()
	}
	if ctx.Err() != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
	}
	err := l.lease.held.Release(ctx)
	if lost := l.lease.lost(); lost != nil {
		return lost
	}
	return errorOf(err)
}

// leaseKey names a lock of a client. Under it, a context has the lease that its holder has.
type leaseKey struct {
	client          *client.ClientWithResponses
	namespace, name string
}

// lease is a held lock, which the Locks share that its holder has.
type lease struct {
	key  leaseKey
	held *rest.Lease

	mu    sync.Mutex
	holds int // Locks that are not unlocked
}

// enter counts another Lock. It returns false if the lease is over.
func (l *lease) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.holds == 0 || l.held.Context().Err() != nil {
		return false
	}
	l.holds++
	return true
}

// leave counts a Lock down, once. It returns true if none is left.
func (l *lease) leave(lock *Lock) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !lock.unlocked {
		lock.unlocked = true
		l.holds--
	}
	return l.holds == 0
}

// lock returns a Lock that was counted.
func (l *lease) lock(ctx context.Context) *Lock {
	out := &Lock{lease: l}
	out.ctx, out.end = context.WithCancelCause(context.WithValue(ctx, l.key, l))
	out.stop = context.AfterFunc(l.held.Context(), func() { out.end(l.lost()) })
	return out
}

// lost returns why the lease was lost; nil if it was not.
func (l *lease) lost() error {
	cause := context.Cause(l.held.Context())
	if !errors.Is(cause, rest.ErrLockLost) {
		return nil
	}
	return &Error{Code: CodeLockLost, Message: "the lock " + l.key.name + " was lost: " + cause.Error(), Err: cause}
}

// HeldLock is what DTS knows of a lock that somebody holds.
type HeldLock struct {
	Name      string
	Namespace string
	Holder    string // the host, the process, and something random
	Fence     int64
	Since     time.Time     // when the holder got it
	ExpiresAt time.Time     // when it is free, unless it is renewed
	TTL       time.Duration // how long each renewal lasts
	Note      string
}

// ListLocks yields the locks of the namespace that somebody holds, by name. Error: CodeDataUnreadable, after the others, if some cannot
// be read.
func (c *Client) ListLocks(ctx context.Context) iter.Seq2[HeldLock, error] {
	if err := c.checkNamespace(); err != nil {
		return failing[HeldLock](err)
	}
	params := client.ListLocksParams{Namespace: c.api.Namespace, Limit: new(pageLimit)}
	return pages(func(cursor *string) (page[HeldLock], error) {
		params.Cursor = cursor
		list, err := call[wire.LockList](c.api.ListLocksWithResponse(ctx, &params))
		return page[HeldLock]{each(list.Locks, heldLockFrom), list.NextCursor, list.Warnings}, err
	})
}

func heldLockFrom(l wire.Lock) HeldLock {
	return HeldLock{
		Name: l.Name, Namespace: l.Namespace, Holder: l.Holder, Fence: l.Fence, Since: l.Since.Time, ExpiresAt: l.ExpiresAt.Time,
		TTL: span(l.TTL), Note: wire.Value(l.Note),
	}
}
