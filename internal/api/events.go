package api

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/task"
)

const (
	progressEvent = "task.progress"
	logEvent      = "task.log"

	everyNamespace = "*"
)

// FollowEvents answers GET /v1/events.
func (e *endpoints) FollowEvents(c echo.Context, params FollowEventsParams) error {
	ctx, source, end, err := e.subscribe(c)
	if err != nil {
		return err
	}
	defer end()
	out, err := openStream(c)
	if err != nil {
		return err
	}
	f := feed{source: source, out: out, wants: filterOf(params)}
	return f.run(ctx, e.Heartbeat)
}

// feed sends the events that a client wants.
type feed struct {
	source  EventSource
	out     *stream
	wants   func(task.Event) bool
	dropped int64 // as far as the client was told
}

// run sends until ctx ends, or the source does.
func (f *feed) run(ctx context.Context, heartbeat time.Duration) error {
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case <-beat.C:
			err = cmp.Or(f.confess(), f.out.comment("alive"))
		case event, open := <-f.source.C():
			if !open {
				return nil
			}
			err = f.pass(event)
		}
		if err != nil {
			return err
		}
	}
}

// pass sends an event on, and flushes when no other one is waiting.
func (f *feed) pass(event task.Event) error {
	if err := f.confess(); err != nil {
		return err
	}
	if f.wants(event) {
		if err := f.out.send(event.Type, "", eventOf(event)); err != nil {
			return err
		}
	}
	if len(f.source.C()) > 0 {
		return nil
	}
	return f.out.flush()
}

// confess tells of events that were thrown away.
func (f *feed) confess() error {
	dropped := f.source.Dropped()
	if dropped == f.dropped {
		return nil
	}
	count := dropped - f.dropped
	f.dropped = dropped
	return f.out.send("dropped", "", Dropped{Count: count})
}

// filterOf is what the parameters let through. Log lines have a stream of their own.
func filterOf(p FollowEventsParams) func(task.Event) bool {
	namespace := cmp.Or(p.Namespace, task.DefaultNamespace)
	states := statesOf(p.State)
	match := func(want, is string) bool { return want == "" || want == is }
	return func(e task.Event) bool {
		return e.Type != logEvent &&
			(namespace == everyNamespace || namespace == e.Ref.Namespace) &&
			(len(states) == 0 || slices.Contains(states, e.State)) &&
			match(p.Queue, e.Queue) && match(p.Type, e.TaskType) && match(p.Owner, e.Owner) &&
			match(p.Node, e.Node) && match(p.Task, e.Ref.ID) && match(p.Schedule, creatorOf(e.Ref))
	}
}
