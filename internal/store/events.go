package store

import (
	"context"
	"strconv"
	"strings"

	"github.com/dts-sched/dts/internal/task"
)

// EventListener is told what happens to tasks, one call at a time. All fields must be set.
type EventListener struct {
	Connected  func()            // the subscription is established, for the first time or again: earlier events may have been missed
	Event      func(*task.Event) // something happened to a task
	Unreadable func(error)       // a message could not be decoded
}

// ListenEvents reports to l what happens to any task, until ctx ends; then it returns nil. Each call makes a subscription
// to Redis of its own: readers share one through package events.
func (s *Store) ListenEvents(ctx context.Context, l EventListener) error {
	return s.db.Listen(ctx, l.Connected, func(_, payload string) {
		event, err := decodeEvent(payload)
		if err != nil {
			l.Unreadable(err)
			return
		}
		l.Event(&event)
	}, string(s.keys.Events()))
}

// LeaseFreed is the message on the wake channel that says that a lease was given back.
const LeaseFreed = "free"

// Wakes is what leaders listen for. All fields must be set.
type Wakes struct {
	Connected func()              // the subscription is established, for the first time or again: earlier messages may have been missed
	Freed     func()              // a lease was given back
	Wheel     func(partition int) // a task became the first on the wheel
	Schedules func(partition int) // a schedule became the first to be looked at
}

// tickWake begins the messages about schedules; the number of the partition follows.
const tickWake = "tick:"

// Wakes reports what is said on the wake channel, one call at a time, until ctx ends; then it returns nil.
func (s *Store) Wakes(ctx context.Context, w Wakes) error {
	return s.db.Listen(ctx, w.Connected, func(_, payload string) {
		if payload == LeaseFreed {
			w.Freed()
			return
		}
		number, ofSchedules := strings.CutPrefix(payload, tickWake)
		partition, err := strconv.Atoi(number)
		switch {
		case err != nil || partition < 0 || partition >= s.partitions: // no partition of this installation
		case ofSchedules:
			w.Schedules(partition)
		default:
			w.Wheel(partition)
		}
	}, string(s.keys.Wake()))
}
