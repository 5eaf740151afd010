// Package locks keeps who holds which lock in Redis.
//
// A lock is there while it is held, and expires with its time to live. Its fencing token comes from one counter for each partition
// and is at least the time in ms: so tokens grow, even if Redis lost the newest ones in a failover, and nothing is left of locks that
// nobody holds. That a lock was released is published; who waits for one listens (see Waiters).
package locks

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// Codes of errors.
const (
	CodeHeld     task.Code = "lock_held"      // somebody else holds the lock
	CodeLost     task.Code = "lock_lost"      // the caller does not hold the lock, or no longer
	CodeNotFound task.Code = "lock_not_found" // nobody holds a lock with this name
)

// Lock is a lock that somebody holds.
type Lock struct {
	Ref     task.Ref // namespace and name
	Holder  string
	Fence   int64     // fencing token, higher than that of every earlier holder
	Since   time.Time // when the holder got it
	Expires time.Time // when it is free, unless it is renewed
	TTL     time.Duration
	Note    string
}

// Locks are the locks of one installation.
type Locks struct {
	Waiters

	l *layout.Layout
}

// New returns the locks of an installation. It sends nothing to Redis.
func New(l *layout.Layout) *Locks {
	return &Locks{Waiters: Waiters{listen: listenFor(l)}, l: l}
}

// HeldError says that somebody else holds a lock, and when it expires.
type HeldError struct {
	Holder    string
	Remaining time.Duration // until the lock expires unless it is renewed; never negative
}

func (e *HeldError) Error() string {
	return strconv.Quote(e.Holder) + " holds the lock; it expires in " + e.Remaining.String() + " unless it is renewed"
}

// Acquire takes a lock if it is free, or extends it if the holder has it already: then the fence stays the same. Of wanted, Ref,
// Holder, TTL and Note count. Errors: *HeldError; CodeUnavailable, also if too many locks are held.
func (s *Locks) Acquire(ctx context.Context, wanted Lock) (Lock, error) {
	keys := s.l.KeysOf(wanted.Ref)
	reply, err := redisx.Run(ctx, s.l.DB, lua.AcquireLock{
		Lock: keys.Lock(wanted.Ref), Locks: keys.Locks(), Token: keys.Token(), Member: wanted.Ref, Holder: wanted.Holder,
		TTL: wanted.TTL, Note: wanted.Note,
	})
	if err != nil {
		return Lock{}, acquireError(err)
	}
	wanted.Fence, wanted.Since, wanted.Expires = int64(reply.Fence), reply.Since, reply.Expires
	return wanted, nil
}

func acquireError(err error) error {
	var refusal *redisx.Refusal
	switch {
	case !errors.As(err, &refusal):
		return layout.Unavailable(err)
	case refusal.Code == lua.CodeFull:
		return task.Errorf(task.CodeUnavailable, "%s locks of this partition are held, and no more may be: try again when one is free", refusal.Detail)
	}
	left, holder, _ := strings.Cut(refusal.Detail, " ")
	ms, err := strconv.ParseInt(left, 10, 64)
	if err != nil {
		return layout.Unavailable(refusal)
	}
	return &HeldError{Holder: holder, Remaining: time.Duration(max(ms, 0)) * time.Millisecond}
}

// Renew has the time to live of a lock start again; ttl nil leaves it as it was. It returns when the lock expires.
// Errors: CodeLost, CodeUnavailable.
func (s *Locks) Renew(ctx context.Context, ref task.Ref, holder string, fence int64, ttl *time.Duration) (time.Time, error) {
	keys := s.l.KeysOf(ref)
	reply, err := redisx.Run(ctx, s.l.DB, lua.RenewLock{
		Lock: keys.Lock(ref), Locks: keys.Locks(), Member: ref, Holder: holder, Fence: int(fence), TTL: ttl,
	})
	var refusal *redisx.Refusal
	switch {
	case errors.As(err, &refusal) && refusal.Detail != "":
		return time.Time{}, task.Errorf(CodeLost, "the lock %q expired or was released; %q has it now", ref.ID, refusal.Detail)
	case refusal != nil:
		return time.Time{}, task.Errorf(CodeLost, "the lock %q expired or was released", ref.ID)
	case err != nil:
		return time.Time{}, layout.Unavailable(err)
	}
	return reply.Expires, nil
}

// Release gives a lock back; fence 0 is any of the holder. It returns false if the holder did not have the lock any more.
// Error: CodeUnavailable.
func (s *Locks) Release(ctx context.Context, ref task.Ref, holder string, fence int64) (bool, error) {
	keys := s.l.KeysOf(ref)
	reply, err := redisx.Run(ctx, s.l.DB, lua.ReleaseLock{
		Lock: keys.Lock(ref), Locks: keys.Locks(), Member: ref, Holder: holder, Fence: int(fence), Unlocked: s.l.Keys.Unlocked(),
	})
	if err != nil {
		return false, layout.Unavailable(err)
	}
	return reply.Released, nil
}
