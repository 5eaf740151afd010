package tasks

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/change"
	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/task"
)

// EventListener has the functions that ListenEvents calls, one at a time. All but Disconnected, Change and
// UnreadableChange are required.
type EventListener struct {
	Connected        func()               // the subscription is established, for the first time or again: events before it may be lost
	Disconnected     func()               // the connection is lost: events may be lost until the next Connected
	Event            func(*task.Event)    // a task changed, or reported progress or a log line
	Unreadable       func(error)          // a message about tasks could not be decoded
	Change           func(*change.Change) // a schedule, a queue or a node changed
	UnreadableChange func(error)          // a message about one could not be decoded
}

// Scripts publish events only while the key listeners of their partition exists. A listener sets it for followTime, and
// renews it after a third of that time.
const followTime = 15 * time.Second

// ListenEvents calls l for the events of all tasks, and for the changes of schedules, queues and nodes, until ctx ends;
// then it returns nil. Each call makes its own subscription to Redis; readers share one through package events.
func (s *Tasks) ListenEvents(ctx context.Context, l EventListener) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	f := &follower{s: s, l: l}
	go f.keepFollowing(ctx)
	channels := []string{string(s.l.Keys.Events()), string(s.l.Keys.Changes()), string(s.l.Keys.Members())}
	confirmed := 0 // subscriptions to one of them
	return s.l.DB.Listen(ctx, redisx.Listener{
		Connected: func(string) {
			if confirmed++; confirmed%len(channels) == 0 {
				f.connected(ctx)
			}
		},
		Disconnected: func() { confirmed = 0; f.disconnected() },
		Message:      f.message,
	}, channels...)
}

// follower calls a listener, one call at a time.
type follower struct {
	s *Tasks
	l EventListener

	mu        sync.Mutex
	following bool // Connected was called since the connection was established
}

func (f *follower) message(channel, payload string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch channel {
	case string(f.s.l.Keys.Changes()):
		f.change(change.Decode(payload))
	case string(f.s.l.Keys.Members()):
		f.change(change.DecodeMember(payload))
	default:
		f.events(payload)
	}
}

// change tells the listener of a change, or that one cannot be read.
func (f *follower) change(c change.Change, err error) {
	switch {
	case err == nil && f.l.Change != nil:
		f.l.Change(&c)
	case err != nil && f.l.UnreadableChange != nil:
		f.l.UnreadableChange(err)
	}
}

// events tells the listener of the events of tasks in a message.
func (f *follower) events(payload string) {
	for line := range strings.SplitSeq(payload, "\n") {
		event, err := codec.DecodeEvent(line)
		if err != nil {
			f.l.Unreadable(err)
			continue
		}
		f.l.Event(&event)
	}
}

// connected makes scripts publish events, and then tells the listener. While Redis refuses that, as when it is full, the
// listener hears only the events that others have asked for.
func (f *follower) connected(ctx context.Context) {
	if err := f.s.follow(ctx); err != nil {
		f.s.l.Log.WarnContext(ctx, "cannot turn events on, so some may be missing; trying again", "error", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.following = true
	f.l.Connected()
}

func (f *follower) disconnected() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.following = false
	if f.l.Disconnected != nil {
		f.l.Disconnected()
	}
}

// keepFollowing makes scripts publish events until ctx ends. If they have not done so for a while, because this process was
// stopped or Redis has lost a key, it tells the listener that events may have been lost.
func (f *follower) keepFollowing(ctx context.Context) {
	for clock.Sleep(ctx, followTime/3) == nil {
		if kept, err := f.s.renewFollow(ctx); err != nil || kept {
			continue // if Redis does not answer, the next try comes before the keys expire, or the connection is lost
		}
		f.mu.Lock()
		missed := f.following
		f.mu.Unlock()
		if missed {
			f.disconnected()
			f.connected(ctx)
		}
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

// renewFollow prolongs what follow does. It returns false if scripts of a partition had stopped. Error: one of Redis.
func (s *Tasks) renewFollow(ctx context.Context) (kept bool, _ error) {
	pipe := s.l.DB.Pipeline()
	renewed := make([]interface{ Val() bool }, s.l.Partitions())
	for p := range renewed {
		renewed[p] = pipe.PExpire(ctx, string(s.l.Keys.Partition(p).Listeners()), followTime)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return false, err
	}
	for _, r := range renewed {
		if !r.Val() {
			return false, nil
		}
	}
	return true, nil
}
