package lease

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"
)

// Wait asks for the lease until it gets it. After a refusal it waits until the lease that stands in the way
// would run out, or until it hears of a release (see Options.Channel and Options.Wake), and tries again.
// Errors: the cause of ctx's end, or what Redis or the network said.
func (l *Lock) Wait(ctx context.Context) (*Held, error) {
	held, err := l.Acquire(ctx)
	if !errors.Is(err, ErrHeld) {
		return held, ended(ctx, err)
	}
	released, stop := l.listen(ctx)
	defer stop()
	for {
		var refused *HeldError
		if !errors.As(err, &refused) {
			return held, ended(ctx, err)
		}
		if err := await(ctx, refused.Remaining+l.pause(), released); err != nil {
			return nil, err
		}
		held, err = l.Acquire(ctx)
	}
}

// ended is err, or why ctx ended if that is behind it.
func ended(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// pause is added to the time that a lease still has, so that it is over by then and that those who wait do
// not all ask at the same instant.
func (l *Lock) pause() time.Duration {
	return time.Millisecond + rand.N(l.o.TTL/20+time.Millisecond)
}

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

// listen signals releases until stop is called, and also whenever it has begun to listen, since one may have
// been missed before. Without a channel it signals nothing, and the time a lease has left must do.
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

// forward turns messages of this lease into signals; several that nobody heard yet are one.
func (l *Lock) forward(ctx context.Context, signals chan<- struct{}) {
	signal := func() {
		select {
		case signals <- struct{}{}:
		default:
		}
	}
	heard := func(_, message string) {
		if message == l.o.Message {
			signal()
		}
	}
	if err := l.o.DB.Listen(ctx, signal, heard, l.o.Channel); err != nil {
		l.o.Log.Warn("releases cannot be heard of", slog.String("lease", string(l.o.Key)), slog.Any("error", err))
	}
}
