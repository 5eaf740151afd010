package control

import (
	"context"

	"github.com/dts-sched/dts/internal/change"
	"github.com/dts-sched/dts/internal/events"
	"github.com/dts-sched/dts/internal/task"
)

// Follow subscribes to the events of tasks that a filter lets through (nil: all), and to the changes of schedules,
// workflows, queues and nodes that another one does (nil: none), after a position if one is given. Tasks, schedules
// and workflows are those of the caller's namespace, which may be EveryNamespace. buffer is how many may wait for the
// reader, who closes the subscription. Error: CodeInternal.
func (c *Control) Follow(
	ctx context.Context, who Caller, filter func(*task.Event) bool, changes func(*change.Change) bool, buffer int,
	after events.Position,
) (*events.Subscription, error) {
	if _, err := c.begin(ctx, who, "followEvents"); err != nil {
		return nil, err
	}
	o := events.SubscribeOptions{Buffer: buffer, After: after, Filter: func(e *task.Event) bool {
		return who.Covers(e.Ref.Namespace) && (filter == nil || filter(e))
	}}
	if changes != nil {
		o.Changes = func(c *change.Change) bool {
			return (c.Ref == task.Ref{} || who.Covers(c.Ref.Namespace)) && changes(c)
		}
	}
	return c.events.Subscribe(o), nil
}

// FollowLogs subscribes to a signal of everything that may mean new log lines of a task, or its end: Logs reads them.
// The reader closes the subscription. Error: CodeInternal.
func (c *Control) FollowLogs(ctx context.Context, who Caller, id string) (*events.Subscription, error) {
	ref := who.Ref(id)
	if _, err := c.begin(ctx, who, "readLogs", ref); err != nil {
		return nil, err
	}
	return c.events.Subscribe(events.SubscribeOptions{
		Signal: true, Filter: func(e *task.Event) bool { return e.Ref == ref },
	}), nil
}

// Monitor lets in a request of the web UI of asynq, whose answer does not come from here. Error: CodeInternal.
func (c *Control) Monitor(ctx context.Context, who Caller) error {
	_, err := c.begin(ctx, who, "monitor")
	return err
}
