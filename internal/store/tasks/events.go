package tasks

import (
	"context"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/clock"
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

// Scripts publish events only while the key listeners of their partition exists. A listener sets it for followTime, and
// again after a third of that time.
const followTime = 15 * time.Second

// ListenEvents calls l for the events of all tasks until ctx ends; then it returns nil. Each call makes its own
// subscription to Redis; readers share one through package events.
func (s *Tasks) ListenEvents(ctx context.Context, l EventListener) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go s.keepFollowing(ctx)
	onMessage := func(_, payload string) {
		for line := range strings.SplitSeq(payload, "\n") {
			event, err := codec.DecodeEvent(line)
			if err != nil {
				l.Unreadable(err)
				continue
			}
			l.Event(&event)
		}
	}
	onConnected := func() {
		for s.follow(ctx) != nil && clock.Sleep(ctx, 200*time.Millisecond) == nil { // Redis answers in time or the connection is lost again
		}
		l.Connected()
	}
	listener := redisx.Listener{Connected: onConnected, Disconnected: l.Disconnected, Message: onMessage}
	return s.l.DB.Listen(ctx, listener, string(s.l.Keys.Events()))
}

// keepFollowing makes scripts publish events until ctx ends.
func (s *Tasks) keepFollowing(ctx context.Context) {
	for clock.Sleep(ctx, followTime/3) == nil {
		_ = s.follow(ctx) // if Redis does not answer, the next try comes before the keys expire, or the connection is lost
	}
}

// follow makes scripts publish events for followTime. Error: one of Redis.
func (s *Tasks) follow(ctx context.Context) error {
	pipe := s.l.DB.Pipeline()
	for p := range s.l.Partitions() {
		pipe.Set(ctx, string(s.l.Keys.Partition(p).Listeners()), "", followTime)
	}
	_, err := pipe.Exec(ctx)
	return err
}
