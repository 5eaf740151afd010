package control

import (
	"context"
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/clock"
)

const (
	latestTimeout = time.Second // of a reading
	// latestRetry is how long after a reading that failed there is none. It is longer than several that fail take one after the other, as for a list of
	// tasks in queues of silent servers: each queue is read once.
	latestRetry = 10 * time.Second
	// latestLimit is the age up to which a reading is used while another one is under way.
	latestLimit = 10 * time.Second
)

// latest is the latest reading of something in Redis that many callers look at. It is the zero T before the first reading, and after one that failed.
type latest[T any] struct {
	mu      sync.Mutex
	value   T
	reading bool      // one caller reads it again
	readAt  time.Time // when it was read last, with success or without
	failed  bool      // the last reading
}

// get returns the value, which one caller reads again if it is older than lifetime. Those who call meanwhile get the one before, and do not wait: the
// server that is asked may be silent, and what they want may be on others.
func (l *latest[T]) get(ctx context.Context, lifetime time.Duration, read func(context.Context) (T, error)) T {
	if l.begin(lifetime) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), latestTimeout) // others go by it, too, though this caller may give up
		defer cancel()
		l.end(read(ctx))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.value
}

// begin reports whether the caller has to read the value. It calls end then.
func (l *latest[T]) begin(lifetime time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed {
		lifetime = latestRetry
	}
	age := clock.Since(l.readAt)
	if l.reading || age < lifetime {
		return false
	}
	if l.reading = true; age > latestLimit {
		l.value = *new(T)
	}
	return true
}

func (l *latest[T]) end(value T, err error) {
	if err != nil {
		value = *new(T)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.value, l.reading, l.readAt, l.failed = value, false, clock.Now(), err != nil
}
