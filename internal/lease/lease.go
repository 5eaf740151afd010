package lease

import (
	"context"
	"log/slog"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/lua"
)

// DefaultTTL is the time to live of a lease if Options do not set one.
const DefaultTTL = 10 * time.Second

// Options describe a lease and its owner. DB, Key and Owner are required.
type Options struct {
	DB *redisx.DB
	// Key is the key of the lease. Its value is the newest fence, "<token>:<owner>"; it stays after the lease, so that tokens
	// grow. While that owner holds the lease, the key Key + ":" + fence exists. In a Redis Cluster both must be in the same
	// slot, so Key then needs a hash tag.
	Key lua.LeaseKey
	// Owner names the holder. It must be unique for each process and each start.
	Owner string
	// TTL is the time after which the lease expires without renewal. 0 means DefaultTTL; the least is 1 ms.
	TTL time.Duration
	// Release publishes Message on Channel, so that others try at once. If Channel is "", releases are not published.
	Channel, Message string
	// Log receives a warning when a lease is lost. nil discards it.
	Log *slog.Logger
}

// Lease is a lease that one owner may acquire. It holds no state, so several goroutines may use one, but they
// are one owner: what one of them holds, all of them hold.
type Lease struct{ o Options }

// New returns a Lease. It sends nothing to Redis.
func New(o Options) *Lease {
	if o.TTL <= 0 {
		o.TTL = DefaultTTL
	}
	o.TTL = max(o.TTL.Truncate(time.Millisecond), time.Millisecond)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Lease{o: o}
}

// Acquire tries once to acquire the lease. The Held renews it until Release, until ctx ends, or until it is
// lost. If ctx ends first, the lease stays until it expires or Release is called.
//
// Acquire is re-entrant: the same owner gets the same token again, and the time to live starts anew. Releasing
// one of these Helds ends the lease for all of them.
//
// Errors: *HeldError (which matches ErrHeld) if another owner holds the lease, else an error of Redis or of the
// network. In the latter case Redis may have granted the lease nevertheless; it then expires unless its owner
// acquires it again.
func (l *Lease) Acquire(ctx context.Context) (*Held, error) {
	start := clock.Now()
	reply, err := redisx.Run(ctx, l.o.DB, lua.AcquireLease{
		Lease: l.o.Key, Owner: lua.NodeID(l.o.Owner), TTL: l.o.TTL,
	})
	if err != nil {
		return nil, heldError(l.o.Key, err)
	}
	return hold(ctx, l.o, int64(reply.Token), start), nil
}

// trust is how long after its start a successful acquisition or renewal counts as valid. It is less than the
// time to live, because the clocks of two machines do not run equally fast.
func (o Options) trust() time.Duration { return o.TTL - o.TTL/20 }
