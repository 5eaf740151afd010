package lease

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/redisx"
)

// Wait acquires the lease, waiting while another owner holds it. It tries again when that lease would expire
// and when it is notified of a release (see Options.Channel and Options.Wake).
//
// DTS itself does not call Wait: its scheduler acquires leases when they are free. Wait and Options.Wake are for users of the
// package, which is to become public as a distributed lock.
//
// Errors: the cause of ctx if ctx ended, else an error of Redis or of the network.
func (l *Lock) Wait(ctx context.Context) (*Held, error) {
	held, err := l.Acquire(ctx)
	if !errors.Is(err, ErrHeld) {
		return held, causeOr(ctx, err)
	}
	released, stop := l.listen(ctx)
	defer stop()
	for {
		var refused *HeldError
		if !errors.As(err, &refused) {
			return held, causeOr(ctx, err)
		}
		if err := await(ctx, refused.Remaining+l.jitter(), released); err != nil {
			return nil, err
		}
		held, err = l.Acquire(ctx)
	}
}

// causeOr returns the cause of ctx if err is not nil and ctx has ended, else err.
func causeOr(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// jitter is a random time that is added to the remaining time of a lease, so that the lease has expired by then
// and waiting owners do not all try at the same instant.
func (l *Lock) jitter() time.Duration {
	return time.Millisecond + rand.N(l.o.TTL/20+time.Millisecond)
}

// await returns nil after d or at a signal on released, and the cause of ctx if that ends first.
func await(ctx context.Context, d time.Duration, released <-chan struct{}) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-released:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// listen signals releases until stop is called. It also signals after each (re)subscription, because releases
// may have been missed before. Without a channel it signals nothing, and callers wait for the lease to expire.
func (l *Lock) listen(ctx context.Context) (released <-chan struct{}, stop func()) {
	if l.o.Wake != nil || l.o.Channel == "" {
		return l.o.Wake, func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan struct{}, 1)
	var listening sync.WaitGroup
	listening.Go(func() { l.forward(ctx, signals) })
	return signals, func() {
		cancel()
		listening.Wait()
	}
}

// forward converts release messages of this lease to signals. Signals that are not received yet are merged
// into one.
func (l *Lock) forward(ctx context.Context, signals chan<- struct{}) {
	signal := func() {
		select {
		case signals <- struct{}{}:
		default:
		}
	}
	onMessage := func(_, message string) {
		if message == l.o.Message {
			signal()
		}
	}
	if err := l.o.DB.Listen(ctx, redisx.Listener{Connected: func(string) { signal() }, Message: onMessage}, l.o.Channel); err != nil {
		l.o.Log.Warn("cannot subscribe to lease releases; waiting for leases to expire", slog.String("lease", string(l.o.Key)), slog.Any("error", err))
	}
}
