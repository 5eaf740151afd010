package lease

import (
	"context"
	"crypto/rand"
	"log/slog"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/lua"
)

// DefaultTTL is how long a lease lives without renewal if Options do not say.
const DefaultTTL = 10 * time.Second

// Options says which lease, for whom and for how long. DB and Key are needed.
type Options struct {
	DB *redisx.DB
	// Key is the lease's key. Redis holds "<token>:<owner>" there.
	Key lua.LeaseKey
	// EpochKey is the key of the counter that tokens come from. "" means Key + ":epoch"; in a cluster, Key
	// then needs a hash tag, since both must be in the same slot.
	EpochKey lua.EpochKey
	// Owner is who holds the lease, unique for each process and each start. "" means a random name for this
	// Lock, which makes it a plain lock.
	Owner string
	// TTL is how long the lease lives without renewal; 0 means DefaultTTL. It is at least 1 ms.
	TTL time.Duration
	// Channel is a pub/sub channel that is told Message when the lease is released, so that others try at
	// once; "" means that nobody is told. Wait listens on it.
	Channel, Message string
	// Wake, if set, makes Wait try again at each signal instead of listening on Channel by itself, which
	// costs a connection for each one that waits.
	Wake <-chan struct{}
	// Log is where the loss of a lease is reported; nil means nowhere.
	Log *slog.Logger
}

// Lock is a lease that can be asked for. It holds no state, so several goroutines may use one, but they
// are one owner: what one of them holds, all of them hold.
type Lock struct{ o Options }

// New makes a Lock. It asks Redis nothing.
func New(o Options) *Lock {
	if o.EpochKey == "" {
		o.EpochKey = lua.EpochKey(o.Key) + ":epoch"
	}
	if o.Owner == "" {
		o.Owner = rand.Text()
	}
	if o.TTL <= 0 {
		o.TTL = DefaultTTL
	}
	o.TTL = max(o.TTL.Truncate(time.Millisecond), time.Millisecond)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Lock{o: o}
}

// Acquire asks for the lease once. The Held renews it until Release, until ctx ends, or until it is lost;
// if ctx ends first, the key stays until it expires by itself or somebody calls Release.
//
// It is re-entrant: its owner gets the same token again, and the time counts anew. Releasing any one of
// those Helds then ends the lease for all of them.
//
// Errors: *HeldError (errors.Is ErrHeld) if somebody else has it, else what Redis or the network said; in
// the latter case Redis may have given the lease all the same, which then runs out unless its owner asks again.
func (l *Lock) Acquire(ctx context.Context) (*Held, error) {
	start := clock.Now()
	reply, err := redisx.Run(ctx, l.o.DB, lua.AcquireLease{
		Lease: l.o.Key, Epoch: l.o.EpochKey, Owner: lua.NodeID(l.o.Owner), TTL: l.o.TTL,
	})
	if err != nil {
		return nil, heldError(l.o.Key, err)
	}
	return hold(ctx, l.o, int64(reply.Token), start), nil
}

// trust is how long after the start of a successful attempt the lease is believed in: less than its time
// to live, because the clocks of two machines do not run equally fast.
func (o Options) trust() time.Duration { return o.TTL - o.TTL/20 }
