package api

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/events"
	"github.com/dts-sched/dts/internal/task"
)

const (
	progressEvent = "task.progress"
	logEvent      = "task.log"
)

// FollowEvents answers GET /v1/events.
func (e *endpoints) FollowEvents(c echo.Context, params FollowEventsParams) error {
	wanted := events.SubscribeOptions{Filter: filterOf(callerOf(c), params), Buffer: streamBuffer}
	return e.follow(c, wanted, func(ctx context.Context, feed *events.Subscription, out *stream) error {
		f := eventFollower{feed: feed, out: out}
		return f.run(ctx, e.Heartbeat)
	})
}

// eventFollower sends a client the events that it wants.
type eventFollower struct {
	feed *events.Subscription
	out  *stream
}

// run sends until ctx or the feed ends.
func (f *eventFollower) run(ctx context.Context, heartbeat time.Duration) error {
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case <-beat.C:
			err = f.out.comment("alive")
		case m, open := <-f.feed.C():
			if !open {
				return f.end()
			}
			err = f.send(m)
		}
		if err != nil {
			return err
		}
	}
}

// send writes a message, and flushes if no other one is waiting.
func (f *eventFollower) send(m events.Message) error {
	if err := f.write(m); err != nil {
		return err
	}
	if len(f.feed.C()) > 0 {
		return nil
	}
	return f.out.flush()
}

func (f *eventFollower) write(m events.Message) error {
	if m.Loss != nil {
		return f.out.send("dropped", "", Dropped{Count: m.Loss.Count, Reason: DroppedReason(m.Loss.Reason)})
	}
	return f.out.send(m.Event.Type, "", eventOf(*m.Event))
}

// end tells a client that has read too slowly why its stream ends.
func (f *eventFollower) end() error {
	if !errors.Is(f.feed.Err(), events.ErrSlow) {
		return nil
	}
	return f.send(events.Message{Loss: &events.Loss{Reason: events.SlowReader, Count: f.feed.Missed()}})
}

// filterOf returns the filter that the parameters describe, for whoever asks. It rejects log lines, which have a stream of their own.
func filterOf(who control.Caller, p FollowEventsParams) func(*task.Event) bool {
	states := statesOf(p.State)
	match := func(want, got string) bool { return want == "" || want == got }
	return func(e *task.Event) bool {
		return e.Type != logEvent &&
			who.Covers(e.Ref.Namespace) &&
			(len(states) == 0 || slices.Contains(states, e.State)) &&
			match(p.Queue, e.Queue) && match(p.Type, e.TaskType) && match(p.Owner, e.Owner) &&
			match(p.Node, e.Node) && match(p.Task, e.Ref.ID) && match(p.Schedule, creatorOf(e.Ref))
	}
}
