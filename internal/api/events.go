package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/edge"
	"github.com/dts-sched/dts/internal/events"
	"github.com/dts-sched/dts/internal/task"
)

const (
	progressEvent = "task.progress"
	logEvent      = "task.log"

	// streamBuffer is how many events may wait for a client. One more, and its stream ends.
	streamBuffer = 1024

	// frameStep is how many bytes of events are written together at most.
	frameStep = 32 << 10

	// A stream pauses after each write for writeShare for each stream of the node, and writePause at most. So all streams
	// together write about as often as one alone, and events that come meanwhile go out with one write. At 20,000 events
	// a second, half of streamBuffer comes during the longest pause.
	writeShare = 50 * time.Microsecond
	writePause = 25 * time.Millisecond
)

// slowText is what a client is told last that reads too slowly.
var slowText = fmt.Sprintf("more than %d events waited for this client, so the stream ends here: "+
	"read faster, ask for fewer events with filters, or connect again", streamBuffer)

// FollowEvents answers GET /v1/events.
func (e *endpoints) FollowEvents(c echo.Context, params FollowEventsParams) error {
	after, ok := events.ParsePosition(params.LastEventID)
	if params.LastEventID != "" && !ok {
		return task.Invalid("Last-Event-ID", "%q must be the id of an event", params.LastEventID)
	}
	changes, err := changesOf(params)
	if err != nil {
		return err
	}
	subscribe := func(ctx context.Context) (*events.Subscription, error) {
		return e.Control.Follow(ctx, callerOf(c), filterOf(params), changes, streamBuffer, after)
	}
	return e.server.Follow(c, subscribe, func(ctx context.Context, feed *events.Subscription, out *edge.Stream) error {
		f := eventFollower{feed: feed, out: out}
		return f.run(ctx)
	})
}

// eventFollower sends a client the events that it wants.
type eventFollower struct {
	feed   *events.Subscription
	out    *edge.Stream
	frames []byte // about to be written
}

// run sends until ctx or the feed ends.
func (f *eventFollower) run(ctx context.Context) error {
	if err := f.begin(); err != nil {
		return err
	}
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case <-f.out.Beat():
			err = f.out.Alive()
		case m, open := <-f.feed.C():
			if !open {
				return f.end()
			}
			err = f.send(ctx, m)
		}
		if err != nil {
			return err
		}
	}
}

// begin sends what came while the client was away, and where the stream goes on from there.
func (f *eventFollower) begin() error {
	for m := range f.feed.Earlier() {
		if err := f.add(m); err != nil {
			return err
		}
		if len(f.frames) < frameStep {
			continue
		}
		if err := f.out.Write(f.frames); err != nil {
			return err
		}
		f.frames = f.frames[:0]
	}
	f.frames = fmt.Appendf(f.frames, "id: %s\n\n", f.feed.Start())
	if err := f.out.Write(f.frames); err != nil {
		return err
	}
	return f.out.Flush()
}

// send writes a message, and those that wait with it. If no other one is left, it pauses.
func (f *eventFollower) send(ctx context.Context, m events.Message) error {
	f.frames = f.frames[:0]
	err := f.add(m)
	for err == nil && len(f.frames) < frameStep && len(f.feed.C()) > 0 {
		err = f.add(<-f.feed.C()) // nobody else reads
	}
	if err != nil {
		return err
	}
	if err := f.out.Write(f.frames); err != nil {
		return err
	}
	if err := f.out.Flush(); err != nil || len(f.feed.C()) > 0 {
		return err
	}
	_ = clock.Sleep(ctx, f.pause()) // run looks whether ctx has ended
	return nil
}

func (f *eventFollower) pause() time.Duration {
	return min(time.Duration(f.out.Count())*writeShare, writePause)
}

// add adds a message to what is written next.
func (f *eventFollower) add(m events.Message) error {
	text, err := textOf(m)
	f.frames = append(f.frames, text...)
	return err
}

// textOf is what a client gets of a message. All who get an event share it.
func textOf(m events.Message) ([]byte, error) {
	if m.Loss != nil {
		dropped := wire.Dropped{
			Count: m.Loss.Count, Reason: wire.DroppedReason(m.Loss.Reason), Since: wire.AtIfAny(m.Loss.Since),
		}
		return edge.Frame("dropped", m.Position.String(), dropped)
	}
	return m.Text(frames)
}

// frames is how events stand in a stream.
var frames = events.NewFormat(func(m events.Message) ([]byte, error) {
	if m.Change != nil {
		return edge.Frame(m.Change.Type, m.Position.String(), wireChange(*m.Change))
	}
	return edge.Frame(m.Event.Type, m.Position.String(), eventOf(*m.Event))
})

// end tells a client that has read too slowly why its stream ends.
func (f *eventFollower) end() error {
	if !errors.Is(f.feed.Err(), events.ErrSlow) {
		return nil
	}
	lost := wire.Dropped{Count: f.feed.Missed(), Reason: wire.DroppedSlowReader, Detail: &slowText}
	if err := f.out.Send("dropped", "", lost); err != nil {
		return err
	}
	return f.out.Flush()
}

// filterOf returns the filter of events of tasks that the parameters describe. It rejects log lines, which have a
// stream of their own.
func filterOf(p FollowEventsParams) func(*task.Event) bool {
	if !slices.Contains(subjectsOf(p), wire.SubjectTask) {
		return func(*task.Event) bool { return false }
	}
	states := statesOf(p.State)
	match := func(want, got string) bool { return want == "" || want == got }
	return func(e *task.Event) bool {
		return e.Type != logEvent &&
			(len(states) == 0 || slices.Contains(states, e.State)) &&
			match(p.Queue, e.Queue) && match(p.Type, e.TaskType) && match(p.Owner, e.Owner) &&
			match(p.Node, e.Node) && match(p.Task, e.Ref.ID) && match(p.Schedule, creatorOf(e.Ref))
	}
}
