package tasks

import (
	"context"

	"github.com/dts-sched/dts/internal/store/codec"
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
func (s *Tasks) ListenEvents(ctx context.Context, l EventListener) error {
	return s.l.DB.Listen(ctx, l.Connected, func(_, payload string) {
		event, err := codec.DecodeEvent(payload)
		if err != nil {
			l.Unreadable(err)
			return
		}
		l.Event(&event)
	}, string(s.l.Keys.Events()))
}
