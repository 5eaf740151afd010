package locks

import (
	"context"
	"sync"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
)

// Waiters tells those who wait for locks when one was released. However many wait in this process, it has one subscription, and
// none while nobody waits.
type Waiters struct {
	// listen calls released with the name of each lock that is released, and with "" when names may have been missed, until ctx
	// ends.
	listen func(ctx context.Context, released func(name string))

	mu      sync.Mutex
	waiting map[*waiter]struct{}
	end     context.CancelFunc // ends the listening; nil while nobody waits
	ended   chan struct{}      // closed when it has ended
}

// waiter is one who waits for a lock.
type waiter struct {
	name   string
	signal chan struct{} // holds a value if the lock may have been released
}

func (w *waiter) wake() {
	select {
	case w.signal <- struct{}{}:
	default: // it has not looked since the last time
	}
}

// Await signals, until stop is called, when the lock may have been released: after each release, and once at the beginning, when
// releases are heard of from then on. If Redis does not answer, nothing is signalled: the lock expires nevertheless.
func (s *Waiters) Await(ref task.Ref) (released <-chan struct{}, stop func()) {
	w := &waiter{name: ref.String(), signal: make(chan struct{}, 1)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) == 0 {
		s.begin()
	}
	s.waiting[w] = struct{}{}
	w.wake() // the lock may have been released since the caller looked
	return w.signal, func() { s.leave(w) }
}

// begin subscribes. The caller holds mu.
func (s *Waiters) begin() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	s.waiting, s.end, s.ended = map[*waiter]struct{}{}, cancel, ended
	go func() {
		defer close(ended)
		s.listen(ctx, s.wake)
	}()
}

// wake wakes those who wait for a lock; "": all of them.
func (s *Waiters) wake(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.waiting {
		if name == "" || name == w.name {
			w.wake()
		}
	}
}

// leave removes a waiter. The last one ends the subscription, and waits for its end.
func (s *Waiters) leave(w *waiter) {
	s.mu.Lock()
	delete(s.waiting, w)
	last, ended := len(s.waiting) == 0, s.ended
	if last {
		s.end()
	}
	s.mu.Unlock()
	if last {
		<-ended
	}
}

// listenFor is the listen of Waiters on Redis.
func listenFor(l *layout.Layout) func(context.Context, func(string)) {
	return func(ctx context.Context, released func(string)) {
		listener := redisx.Listener{
			Connected: func(string) { released("") },
			Message:   func(_, name string) { released(name) },
		}
		if err := l.Vital.ListenShared(ctx, listener, string(l.Keys.Unlocked())); err != nil {
			l.Log.Warn("cannot subscribe to the release of locks; waiting for them to expire", "error", err)
		}
	}
}
