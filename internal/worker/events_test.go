package worker

import (
	"context"
	"testing"

	"github.com/dts-sched/dts/internal/store"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// listen returns what is published from now on, until the test ends. The channel has room for 1,000 events.
func listen(t *testing.T, s *store.Store) <-chan *task.Event {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	connected, ended := make(chan struct{}, 10), make(chan error, 1)
	events := make(chan *task.Event, 1000)
	go func() {
		ended <- s.Tasks.ListenEvents(ctx, tasks.EventListener{
			Connected:  func() { connected <- struct{}{} },
			Event:      func(e *task.Event) { events <- e },
			Unreadable: func(err error) { t.Errorf("unreadable event: %v", err) },
		})
	}()
	t.Cleanup(func() {
		cancel()
		testkit.Must(t, testkit.Receive(t, ended, "the end of ListenEvents"))
	})
	testkit.Receive(t, connected, "the subscription to events")
	return events
}
