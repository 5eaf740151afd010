package dts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"time"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/control"
)

// Types of an [Event] that is about the feed itself. It has no other field.
const (
	// EventConnected comes first: the feed is complete from here on. It comes again after the connection was lost: then
	// what happened in between follows, or EventDropped says that some of it is missing. A server of an earlier release,
	// and one that has sent no event before, repeats nothing.
	EventConnected = "connected"
	// EventDropped says that events were missed: look again at what they could have been about.
	EventDropped = "dropped"
)

// Event is something that happened to a task.
type Event struct {
	// Type is task.scheduled, task.queued, task.running, task.succeeded, task.failed, task.cancelled, task.updated, task.cancelling
	// (a running task was asked to stop), task.moving (it was asked to move), task.progress, EventConnected or EventDropped. More may come.
	Type      string
	Namespace string
	Task      string // the id
	State     State
	Attempt   int
	Node      string
	At        time.Time
	Queue     string
	TaskType  string
	Owner     string
	RunAt     time.Time // when it is due, with task.scheduled and task.updated
	Progress  int       // percent, with task.progress
	Note      string    // what the attempt is at, with task.progress
	Error     string    // why an attempt did not succeed
}

// Events yields what happens to tasks of the namespace from now on, until ctx ends; of all namespaces for a client of In("*"). It outlasts
// broken connections.
// The feed is live: what happens while nobody follows it is not repeated. Error: CodeInvalid for
// the filter, or CodeUnavailable where the feed cannot be begun.
func (c *Client) Events(ctx context.Context, f TaskFilter) iter.Seq2[Event, error] {
	if err := c.checkNamespace(); err != nil && c.caller().Namespace != control.EveryNamespace {
		return failing[Event](err)
	}
	params := client.FollowEventsParams{
		Namespace: c.api.Namespace, State: states(f.States), Queue: wire.Given(f.Queue), Type: wire.Given(f.Type), Owner: wire.Given(f.Owner),
		Node: wire.Given(f.Node), Schedule: wire.Given(f.Schedule),
	}
	return follow(ctx, c, followed[Event]{
		open:   func(ctx context.Context) (*http.Response, error) { return c.api.Streams.FollowEvents(ctx, &params) },
		opened: &Event{Type: EventConnected},
		take: func(m client.Message) (e Event, known, last bool, err error) {
			params.LastEventID = wire.Given(m.ID)
			if m.Name == EventDropped {
				return Event{Type: EventDropped}, true, false, nil
			}
			var in wire.Event
			if err := json.Unmarshal(m.Data, &in); err != nil {
				return Event{}, false, true, fmt.Errorf("reading an event: %w", err)
			}
			return eventFrom(in), true, false, nil
		},
	})
}

func eventFrom(e wire.Event) Event {
	return Event{
		Type: e.Type, Namespace: e.Namespace, Task: e.Task, State: State(e.State), Attempt: e.Attempt, Node: wire.Value(e.Node), At: e.At.Time,
		Queue: e.Queue, TaskType: e.TaskType, Owner: wire.Value(e.Owner), RunAt: wire.Value(e.RunAt).Time, Progress: wire.Value(e.Progress), Note: wire.Value(e.ProgressNote), Error: wire.Value(e.Error),
	}
}

// followed says how a stream of the API becomes values.
type followed[T any] struct {
	open   func(context.Context) (*http.Response, error)
	opened *T                                                      // is yielded for each connection; nil: nothing is
	take   func(client.Message) (v T, known, last bool, err error) // known: v is one to yield; last: the stream has served
}

// follow yields the values of a stream. It ends without an error when the stream has served or ctx ends, and with ErrClosed when the client
// is closed.
func follow[T any](ctx context.Context, c *Client, f followed[T]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		ctx, stop := c.untilClosed(ctx)
		defer stop()
		pass := func(v T) {
			if !yield(v, nil) {
				stop()
			}
		}
		err := c.api.Follow(ctx, rest.Stream{
			Open: f.open,
			Opened: func() {
				if f.opened != nil {
					pass(*f.opened)
				}
			},
			Take: func(m client.Message) (bool, error) {
				if ctx.Err() != nil {
					return true, ctx.Err()
				}
				v, known, last, err := f.take(m)
				if err == nil && known {
					pass(v)
				}
				return last, err
			},
		})
		var none T
		switch {
		case errors.Is(context.Cause(ctx), ErrClosed):
			yield(none, ErrClosed)
		case err != nil && ctx.Err() == nil:
			yield(none, errorOf(err))
		}
	}
}
