package store

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/dts-sched/dts/internal/task"
)

// Events is a live feed of what happens to tasks. It is not a record: what happens while its reader is away,
// or too slow, is not repeated.
type Events struct {
	c       chan task.Event
	ready   chan struct{}
	dropped atomic.Int64
	cancel  context.CancelFunc
	done    chan struct{}
}

// C is the feed; it is closed after Close, or when the context of the subscription ends.
func (e *Events) C() <-chan task.Event { return e.c }

// Ready is closed when the subscription stands: what happens from then on is fed.
func (e *Events) Ready() <-chan struct{} { return e.ready }

// Dropped is the number of events that were thrown away because the reader did not keep up.
func (e *Events) Dropped() int64 { return e.dropped.Load() }

// Close ends the feed.
func (e *Events) Close() {
	e.cancel()
	<-e.done
}

// Events subscribes to everything that happens to tasks. Up to buffer events wait for the reader.
func (s *Store) Events(ctx context.Context, buffer int) *Events {
	ctx, cancel := context.WithCancel(ctx)
	e := &Events{
		c: make(chan task.Event, buffer), ready: make(chan struct{}), cancel: cancel, done: make(chan struct{}),
	}
	var once sync.Once
	go func() {
		defer close(e.done)
		defer close(e.c)
		_ = s.db.Listen(ctx, func() { once.Do(func() { close(e.ready) }) }, e.feed, string(s.keys.Events()))
	}()
	return e
}

func (e *Events) feed(_, payload string) {
	event, err := decodeEvent(payload)
	if err != nil {
		e.dropped.Add(1)
		return
	}
	select {
	case e.c <- event:
	default:
		e.dropped.Add(1)
	}
}

// LeaseFreed is what is said on the wake channel when a lease was given back.
const LeaseFreed = "free"

// Wakes is what leaders listen for.
type Wakes struct {
	Connected func()              // the subscription stands: what was said before may have been missed
	Freed     func()              // a lease was given back
	Wheel     func(partition int) // something became first on the wheel
	Schedules func(partition int) // a schedule became the first that is to be looked at
}

// tickWake begins what is said of schedules; the partition follows.
const tickWake = "tick:"

// Wakes tells what it hears until ctx ends.
func (s *Store) Wakes(ctx context.Context, w Wakes) error {
	return s.db.Listen(ctx, w.Connected, func(_, payload string) {
		if payload == LeaseFreed {
			w.Freed()
			return
		}
		number, ofSchedules := strings.CutPrefix(payload, tickWake)
		p, err := strconv.Atoi(number)
		switch {
		case err != nil || p < 0 || p >= s.partitions:
		case ofSchedules:
			w.Schedules(p)
		default:
			w.Wheel(p)
		}
	}, string(s.keys.Wake()))
}
