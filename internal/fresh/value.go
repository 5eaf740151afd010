// Package fresh keeps the latest reading of something elsewhere that many callers look at. Many callers cost one
// reading, and nobody waits long for a server that is silent.
package fresh

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/calls"
	"github.com/dts-sched/dts/internal/clock"
)

// Always is for Rules.Tolerate: callers take the value however old it is.
const Always = time.Duration(1<<63 - 1)

// ErrUnread is the error of a Value that has not been read yet, or not for too long.
var ErrUnread = errors.New("it has not been read yet")

// Rules say when a value is read again.
type Rules struct {
	Lifetime time.Duration // the age from which on it is read again
	Retry    time.Duration // how long after a reading that failed there is none; 0: Lifetime
	Limit    time.Duration // of a reading
	// Tolerate is the age up to which callers take the value while another caller reads it again. Those who find an
	// older one wait for the reading, unless the one before failed.
	Tolerate time.Duration
	// NoWait says that nobody waits for the reading of another caller. Who finds no value gets ErrUnread.
	NoWait bool
	// Behind says that the caller for whom the value is read again takes it, too, if Tolerate allows.
	Behind bool
}

// Value is the latest reading. Its zero value has not been read.
type Value[T any] struct {
	mu      sync.Mutex
	value   T
	readAt  time.Time     // the end of the last reading that succeeded; zero: none has
	endedAt time.Time     // the end of the last reading; zero: there was none
	err     error         // of the last reading
	reading chan struct{} // closed at the end of the reading that is under way; nil: there is none
}

// Get returns the value. If it is too old, one caller reads it again and waits for that, unless Behind. A caller whose
// ctx ends leaves; the reading goes on for the others, up to its limit. Errors: that of the last reading, and
// ErrUnread. The value is then that of the last reading that succeeded, if any.
func (v *Value[T]) Get(ctx context.Context, r Rules, read func(context.Context) (T, error)) (T, error) {
	if reading := v.begin(ctx, r, read); reading != nil {
		select {
		case <-reading:
		case <-ctx.Done():
		}
	}
	return v.Last()
}

// begin begins a reading if it is time. It returns the reading for which the caller waits; nil for none.
func (v *Value[T]) begin(ctx context.Context, r Rules, read func(context.Context) (T, error)) <-chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	pause := r.Lifetime
	if v.err != nil {
		pause = cmp.Or(r.Retry, r.Lifetime)
	}
	good := v.err == nil && !v.readAt.IsZero() && clock.Since(v.readAt) < r.Tolerate
	switch {
	case !v.endedAt.IsZero() && clock.Since(v.endedAt) < pause:
		return nil
	case v.reading == nil:
		v.reading = make(chan struct{})
		if r.NoWait && !good {
			v.err = ErrUnread // for those who call meanwhile
		}
		go func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.Limit)
			defer cancel()
			v.end(readOrRecover(ctx, read))
		}()
		if r.Behind && good {
			return nil
		}
	case r.NoWait, good, v.err != nil:
		return nil
	}
	return v.reading
}

// readOrRecover is read, with a panic as an error: many may wait for it, and no one of them answers for it.
func readOrRecover[T any](ctx context.Context, read func(context.Context) (T, error)) (value T, err error) {
	defer func() {
		if cause := calls.Recovered(recover()); cause != nil {
			err = cause
		}
	}()
	return read(ctx)
}

// Read reads the value again, whatever its age, for a caller who does so by itself at intervals. If somebody else reads
// it, it waits for that. It ends with ctx, and then the reading does not count.
func (v *Value[T]) Read(ctx context.Context, read func(context.Context) (T, error)) {
	v.mu.Lock()
	reading := v.reading
	if reading == nil {
		v.reading = make(chan struct{})
	}
	v.mu.Unlock()
	if reading == nil {
		value, err := read(ctx)
		if errors.Is(ctx.Err(), context.Canceled) {
			err = ctx.Err()
		}
		v.end(value, err)
		return
	}
	select {
	case <-reading:
	case <-ctx.Done():
	}
}

// end ends a reading. One whose caller has given up does not count.
func (v *Value[T]) end(value T, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	close(v.reading)
	v.reading = nil
	if errors.Is(err, context.Canceled) {
		return
	}
	v.endedAt, v.err = clock.Now(), err
	if err == nil {
		v.value, v.readAt = value, v.endedAt
	}
}

// Last returns the value without another reading. Errors: as those of Get.
func (v *Value[T]) Last() (T, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.endedAt.IsZero() {
		return v.value, ErrUnread
	}
	return v.value, v.err
}
