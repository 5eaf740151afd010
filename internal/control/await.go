package control

import (
	"context"
	"time"

	"github.com/dts-sched/dts/internal/events"
	"github.com/dts-sched/dts/internal/task"
)

// AwaitLimit is how long a request may wait for the end of a task.
const AwaitLimit = time.Minute

// awaitLook is how often the state of a task is read without an event. The feed notices a dead connection to Redis only
// after some seconds.
const awaitLook = 5 * time.Second

// AwaitTask returns nil when a task has ended, or when ctx ends. The caller's namespace may be EveryNamespace. Errors:
// those of GetTask.
func (c *Control) AwaitTask(ctx context.Context, who Caller, id string) error {
	if _, err := c.begin(ctx, who, "getTask", who.Ref(id)); err != nil {
		return err
	}
	feed := c.events.Subscribe(events.SubscribeOptions{Signal: true, Filter: func(e *task.Event) bool {
		return e.Ref.ID == id && who.Covers(e.Ref.Namespace) && e.State.Final()
	}})
	defer feed.Close()
	look := time.NewTicker(awaitLook)
	defer look.Stop()
	ready, told := feed.Ready(), feed.C()
	for {
		ended, err := c.hasEnded(ctx, who, id)
		switch {
		case ctx.Err() != nil:
			return nil // the caller reads the task
		case err != nil || ended:
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ready:
			ready = nil // what happened before is not in the feed
		case _, open := <-told:
			if !open {
				told = nil
			}
		case <-look.C:
		}
	}
}

// hasEnded reports whether a task has ended. It reads no more of it than it must.
func (c *Control) hasEnded(ctx context.Context, who Caller, id string) (bool, error) {
	if who.Namespace == EveryNamespace {
		t, err := c.findTask(ctx, id)
		return t.State.Final(), err
	}
	state, err := c.store.Tasks.State(ctx, who.Ref(id))
	return state.Final(), err
}
