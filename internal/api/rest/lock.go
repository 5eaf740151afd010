package rest

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/clock"
)

const (
	lockWaitLimit   = 20 * time.Second       // of one request, as the document has it
	lockAskMargin   = 5 * time.Second        // of a request's timeout that is not spent waiting
	lockPause       = 200 * time.Millisecond // before asking a server again that answered at once, or not at all
	lockAbandonTime = time.Second            // for the end of a request, and then for giving its lock back
)

// LockRequest says which lock is wanted.
type LockRequest struct {
	Name    string
	TTL     time.Duration          // the lock is free after it unless it is renewed
	Note    string                 // for people
	Wait    *time.Duration         // how long to wait while somebody else holds it; nil: until the context ends
	Waiting func(refusal *Refusal) // called before waiting for somebody else; may be nil
}

// lockHolder names a holder as no other is named: by the host and the process for people, and at random.
func lockHolder() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%.100s:%d:%s", host, os.Getpid(), rand.Text()[:13])
}

// errLate is the error where the lock could not be trusted any more when the answer arrived.
var errLate = errors.New("the answer came after the lock had expired")

// Lock waits until it has the lock, and keeps it until the Lease is released or lost. It outlasts a server that goes away after it
// has answered once. Errors: a *Refusal with the code lock_held, where somebody else holds the lock and the time to wait is over; an
// *Unreachable, where the time to wait is over and the answer came when the lock had expired; those of Read; and that of ctx.
func (c *Client) Lock(ctx context.Context, r LockRequest) (*Lease, error) {
	a := acquisition{LockRequest: r, client: c, holder: lockHolder(), began: clock.Now()}
	lock, trusted, err := a.run(ctx)
	if err != nil {
		if !IsFinal(err) {
			a.abandon(ctx)
		}
		return nil, err
	}
	return hold(c, lock, r.TTL, trusted), nil
}

// acquisition is the acquisition of one lock, by a holder that never asks for another one.
type acquisition struct {
	LockRequest
	client  *Client
	holder  string
	began   time.Time
	reached bool // the server has answered before
}

// run returns the lock, and the moment from which it can be trusted. The first request does not wait, so that Waiting can be called.
func (a *acquisition) run(ctx context.Context) (wire.Lock, time.Time, error) {
	for wait := time.Duration(0); ; wait = a.nextWait() {
		asked := clock.Now()
		lock, trusted, err := a.ask(ctx, wait)
		held, late := isLockHeld(err), errors.Is(err, errLate)
		switch {
		case ctx.Err() != nil:
			return lock, trusted, ctx.Err()
		case err == nil:
			return lock, trusted, nil
		case !held && !late && (!a.reached || IsFinal(err)), a.isOver():
			return lock, trusted, err
		}
		if held && a.Waiting != nil {
			a.Waiting(RefusalIn(err))
			a.Waiting = nil
		}
		first := !a.reached
		a.reached = true
		if !first && clock.Since(asked) < lockPause {
			if err := clock.Sleep(ctx, min(lockPause, a.left())); err != nil {
				return lock, trusted, err
			}
		}
	}
}

// ask sends one request, which waits for so long. It returns the lock, and the moment from which it can be trusted.
func (a *acquisition) ask(ctx context.Context, wait time.Duration) (wire.Lock, time.Time, error) {
	body := wire.LockRequest{Holder: a.holder, TTL: a.TTL.String()}
	if wait > 0 {
		body.Wait = new(wait.String())
	}
	if a.Note != "" {
		body.Note = &a.Note
	}
	if wait == 0 { // the server answers at once; if it did so after abandon, the lock would be held by nobody
		var cancel context.CancelFunc
		ctx, cancel = outlast(ctx, lockAbandonTime)
		defer cancel()
	}
	params := &client.AcquireLockParams{Namespace: a.client.Namespace}
	asked := clock.Now()
	answer, err := Read[wire.Lock](a.client.AcquireLockWithResponse(ctx, a.Name, params, body))
	if err != nil {
		return wire.Lock{}, asked, err
	}
	waited, err := parseWaited(answer.Value)
	trusted := asked.Add(waited)
	if err == nil && clock.Since(trusted) >= trust(a.TTL) {
		err = &Unreachable{errLate}
	}
	return answer.Value, trusted, err
}

// outlast returns a context that ends a while after ctx has ended.
func outlast(ctx context.Context, while time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		_ = clock.Sleep(longer, while)
		cancel()
	})
	return longer, func() { stop(); cancel() }
}

// left is how much of the time to wait is left; much where it has no end.
func (a *acquisition) left() time.Duration {
	if a.Wait == nil {
		return time.Hour
	}
	return max(0, *a.Wait-clock.Since(a.began))
}

func (a *acquisition) isOver() bool { return a.left() < time.Millisecond }

// nextWait is how long the next request waits: less than it may take.
func (a *acquisition) nextWait() time.Duration {
	longest := max(a.client.timeout-lockAskMargin, a.client.timeout/2)
	return max(min(a.left(), lockWaitLimit, longest), time.Millisecond).Truncate(time.Millisecond)
}

// abandon gives back what the holder may have got without learning of it. The lock expires if that fails.
func (a *acquisition) abandon(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lockAbandonTime)
	defer cancel()
	_ = a.client.releaseLock(ctx, a.Name, wire.LockRelease{Holder: a.holder})
}

func (c *Client) releaseLock(ctx context.Context, name string, body wire.LockRelease) error {
	_, err := Read[wire.LockReleased](c.ReleaseLockWithResponse(ctx, name, &client.ReleaseLockParams{Namespace: c.Namespace}, body))
	return err
}

// parseWaited returns how long the server waited before it asked for the lock; 0 where it did not.
func parseWaited(lock wire.Lock) (time.Duration, error) {
	waited, err := time.ParseDuration(cmp.Or(text(lock.Waited), "0s"))
	if err != nil || waited < 0 {
		return 0, Misunderstood(errors.Join(errors.New("waited is no duration"), err))
	}
	return waited, nil
}

func isLockHeld(err error) bool {
	refusal := RefusalIn(err)
	return refusal != nil && refusal.Code == wire.LockHeld
}
