package lease

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"
)

// Wait asks for the lease until it gets it. After a refusal it waits until the lease that stands in the way
// would run out, or until it hears of a release (see Options.Channel and Options.Wake), and tries again.
// Errors: the cause of ctx's end, or what Redis or the network said.
func (l *Lock) Wait(ctx context.Context) (*Held, error) {
	held, err := l.Acquire(ctx)
	if !errors.Is(err, ErrHeld) {
		return held, err
	}
	released, stop := l.listen(ctx)
	defer stop()
	for {
		// The first try after listen has begun tells whether a release was missed in between.
		held, err := l.Acquire(ctx)
		var refused *HeldError
		if !errors.As(err, &refused) {
			return held, err
		}
		if err := await(ctx, refused.Remaining+l.pause(), released); err != nil {
			return nil, err
		}
	}
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

// listen signals releases until stop is called. Without a channel, or if Redis cannot be listened to, it
// signals none, and the time a lease has left must do.
func (l *Lock) listen(ctx context.Context) (released <-chan struct{}, stop func()) {
	if l.o.Wake != nil || l.o.Channel == "" {
		return l.o.Wake, func() {}
	}
	sub := l.o.DB.Subscribe(ctx, l.o.Channel)
	if _, err := sub.Receive(ctx); err != nil {
		_ = sub.Close()
		return nil, func() {}
	}
	signals := make(chan struct{}, 1)
	ended := make(chan struct{})
	messages := sub.Channel(redis.WithChannelHealthCheckInterval(0))
	go func() {
		defer close(ended)
		l.forward(messages, signals)
	}()
	return signals, func() {
		_ = sub.Close() // ends messages; nothing is lost with the connection
		<-ended
	}
}

// forward turns messages of this lease into signals; several that nobody heard yet are one.
func (l *Lock) forward(messages <-chan *redis.Message, signals chan<- struct{}) {
	for m := range messages {
		if m.Payload != l.o.Message {
			continue
		}
		select {
		case signals <- struct{}{}:
		default:
		}
	}
}
