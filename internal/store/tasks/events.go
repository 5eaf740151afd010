package tasks

import (
	"context"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/task"
)

// EventListener has the functions that ListenEvents calls, one at a time. All but Disconnected are required.
type EventListener struct {
	Connected    func()            // the subscription is established, for the first time or again: events before it may be lost
	Disconnected func()            // the connection is lost: events may be lost until the next Connected
	Event        func(*task.Event) // a task changed, or reported progress or a log line
	Unreadable   func(error)       // a message could not be decoded
}

// ListenEvents calls l for the events of all tasks until ctx ends; then it returns nil. Each call makes its own
// subscription to Redis; readers share one through package events.
func (s *Tasks) ListenEvents(ctx context.Context, l EventListener) error {
	onMessage := func(_, payload string) {
		event, err := codec.DecodeEvent(payload)
		if err != nil {
			l.Unreadable(err)
			return
		}
		l.Event(&event)
	}
	listener := redisx.Listener{Connected: l.Connected, Disconnected: l.Disconnected, Message: onMessage}
	return s.l.DB.Listen(ctx, listener, string(s.l.Keys.Events()))
}
