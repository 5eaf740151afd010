package control

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/store/locks"
	"github.com/dts-sched/dts/internal/task"
)

// Limits on requests for locks.
const (
	LockTTLMin      = time.Second
	LockTTLMax      = 24 * time.Hour
	LockWaitLimit   = 20 * time.Second // of one request; clients ask again
	LockHolderLimit = 200              // bytes
	LockNoteLimit   = 500              // bytes
)

// Lock is a lock that somebody holds.
type Lock = locks.Lock

// LockPage is a part of a list of locks.
type LockPage = locks.Page

// LockRequest says who wants a lock, and for how long.
type LockRequest struct {
	Name   string
	Holder string        // two that use the same name are the same holder
	TTL    time.Duration // the lock is free after it unless it is renewed
	Note   string        // for people
	Wait   time.Duration // how long to wait while somebody else holds it, at most LockWaitLimit; 0: not at all

	Stop <-chan struct{} // ends the waiting early when it is closed, as if the time was over; nil: never
}

// AcquiredLock is a lock that its holder got.
type AcquiredLock struct {
	Lock
	Waited time.Duration // from the call to the start of the acquisition: the holder trusts the lock from then on
}

// AcquireLock takes a lock, or extends it if the holder has it already. Those who wait get it in no particular order. If ctx ends, the
// holder may have got the lock nevertheless, and releases it or lets it expire: nobody else can tell whether the request was repeated.
// Errors: CodeInvalid; CodeLockHeld, if somebody else holds it after the wait; CodeUnavailable, also while too many locks are held.
func (c *Control) AcquireLock(ctx context.Context, who Caller, r LockRequest) (AcquiredLock, error) {
	if _, err := c.begin(ctx, who, "acquireLock", who.Ref(r.Name)); err != nil {
		return AcquiredLock{}, err
	}
	if err := r.validate(who); err != nil {
		return AcquiredLock{}, err
	}
	called := clock.Now()
	got, err := c.tryLock(ctx, who, r, called)
	if r.Wait == 0 || !isHeld(err) {
		return got, lockError(r.Name, err)
	}
	released, leave := c.store.Locks.Await(who.Ref(r.Name))
	defer leave()
	deadline := time.NewTimer(r.Wait)
	defer deadline.Stop()
	for isHeld(err) && awaitLock(ctx, err, released, deadline.C, r.Stop) {
		got, err = c.tryLock(ctx, who, r, called)
	}
	if err != nil && ctx.Err() != nil {
		return AcquiredLock{}, ctx.Err()
	}
	return got, lockError(r.Name, err)
}

// tryLock tries once to take a lock for a request that was called at that time.
func (c *Control) tryLock(ctx context.Context, who Caller, r LockRequest, called time.Time) (AcquiredLock, error) {
	waited := clock.Since(called)
	got, err := c.store.Locks.Acquire(ctx, Lock{Ref: who.Ref(r.Name), Holder: r.Holder, TTL: r.TTL, Note: r.Note})
	return AcquiredLock{Lock: got, Waited: waited}, err
}

// awaitLock returns true when a lock that somebody else holds may be free, and false when there is no more time to wait.
func awaitLock(ctx context.Context, held error, released <-chan struct{}, deadline <-chan time.Time, stop <-chan struct{}) bool {
	var other *locks.HeldError
	errors.As(held, &other)
	expiry := time.NewTimer(other.Remaining + time.Millisecond + rand.N(20*time.Millisecond)) // not all at the same instant
	defer expiry.Stop()
	select {
	case <-released:
		return ctx.Err() == nil
	case <-expiry.C:
		return ctx.Err() == nil
	case <-deadline:
	case <-stop:
	case <-ctx.Done():
	}
	return false
}

func isHeld(err error) bool {
	var held *locks.HeldError
	return errors.As(err, &held)
}

// lockError is the error of an acquisition for the caller.
func lockError(name string, err error) error {
	var held *locks.HeldError
	if errors.As(err, &held) {
		return task.Errorf(locks.CodeHeld, "the lock %q is held by %q, for %s unless it is renewed", name, held.Holder, held.Remaining)
	}
	return err
}

func (r LockRequest) validate(who Caller) error {
	if err := validateLock(who, r.Name, r.Holder); err != nil {
		return err
	}
	if err := task.ValidateText("note", r.Note, LockNoteLimit); err != nil {
		return err
	}
	if r.Wait < 0 || r.Wait > LockWaitLimit {
		return task.Invalid("wait", "is %s, must be 0 to %s; ask again to wait longer", r.Wait, LockWaitLimit)
	}
	return validateLockTTL(r.TTL)
}

func validateLock(who Caller, name, holder string) error {
	if err := task.ValidateName("namespace", who.Namespace); err != nil {
		return err
	}
	if err := task.ValidateName("name", name); err != nil {
		return err
	}
	if holder == "" {
		return task.Invalid("holder", "is missing: name who holds the lock, with something random in it")
	}
	return task.ValidateText("holder", holder, LockHolderLimit)
}

func validateLockTTL(ttl time.Duration) error {
	if ttl < LockTTLMin || ttl > LockTTLMax || ttl%time.Millisecond != 0 {
		return task.Invalid("ttl", "is %s, must be %s to %s in whole milliseconds", ttl, LockTTLMin, LockTTLMax)
	}
	return nil
}

// RenewLock has the time to live of a lock start again; ttl nil leaves it as it was. It returns when the lock expires.
// Errors: CodeInvalid; CodeLockLost, if it has expired or was released.
func (c *Control) RenewLock(ctx context.Context, who Caller, name, holder string, fence int64, ttl *time.Duration) (time.Time, error) {
	if _, err := c.begin(ctx, who, "renewLock", who.Ref(name)); err != nil {
		return time.Time{}, err
	}
	err := validateLock(who, name, holder)
	if err == nil && ttl != nil {
		err = validateLockTTL(*ttl)
	}
	if err != nil {
		return time.Time{}, err
	}
	return c.store.Locks.Renew(ctx, who.Ref(name), holder, fence, ttl)
}

// ReleaseLock gives a lock back; fence 0 is any of the holder. It returns false if the holder did not have the lock any more.
// Error: CodeInvalid.
func (c *Control) ReleaseLock(ctx context.Context, who Caller, name, holder string, fence int64) (bool, error) {
	if _, err := c.begin(ctx, who, "releaseLock", who.Ref(name)); err != nil {
		return false, err
	}
	if err := validateLock(who, name, holder); err != nil {
		return false, err
	}
	return c.store.Locks.Release(ctx, who.Ref(name), holder, fence)
}

// GetLock returns a lock that somebody holds. Errors: CodeInvalid; CodeLockNotFound if nobody does.
func (c *Control) GetLock(ctx context.Context, who Caller, name string) (Lock, error) {
	if _, err := c.begin(ctx, who, "getLock", who.Ref(name)); err != nil {
		return Lock{}, err
	}
	if err := task.ValidateName("name", name); err != nil {
		return Lock{}, err
	}
	return c.store.Locks.Get(ctx, who.Ref(name))
}

// ListLocks returns up to limit of the locks that are held, by name, from a cursor on ("": from the start). A page can be shorter than
// limit and not be the last one. Error: CodeInvalid for the cursor.
func (c *Control) ListLocks(ctx context.Context, who Caller, limit int, cursor string) (LockPage, error) {
	if _, err := c.begin(ctx, who, "listLocks"); err != nil {
		return LockPage{}, err
	}
	return c.store.Locks.List(ctx, who.Namespace, limit, cursor)
}
