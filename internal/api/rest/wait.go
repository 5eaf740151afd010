package rest

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/wire"
)

// How long a waiting client goes without reading the task.
const (
	pollWithEvents    = 15 * time.Second // the stream of events may drop some
	pollWaiting       = 5 * time.Second  // no event tells why a task does not begin
	pollWithoutEvents = time.Second
)

// Wait says which task to wait for, and whom to tell meanwhile.
type Wait struct {
	ID string
	// Ends reports whether a task is one that nobody has to wait for any more; nil means that its state is that of a task
	// which has ended.
	Ends   func(wire.Task) bool
	Show   func(Sight) // called with what is seen of the task; may be nil
	Silent func(error) // called each time a server that has answered before does not; may be nil
}

// Sight is what was seen of a task while it was waited for.
type Sight struct {
	State    wire.State
	Attempt  int
	Progress int    // percent
	Note     string // what the attempt is at; "" if it did not say
	// Warnings say why the task has not begun, and what of it cannot be read. They are known when the task was read, not from events.
	Warnings []string
}

// IsEnd reports whether a task in that state has ended.
func IsEnd(s wire.State) bool {
	return s == wire.StateSucceeded || s == wire.StateFailed || s == wire.StateCancelled
}

// Wait waits for the end of a task, as o says it, and returns the task. It outlasts a server that goes away after it has answered once. Errors: those of
// Read, and that of ctx.
func (c *Client) Wait(ctx context.Context, o Wait) (Answer[wire.Task], error) {
	w := waiter{Wait: o, client: c, messages: make(chan client.Message)}
	if w.Ends == nil {
		w.Ends = func(t wire.Task) bool { return IsEnd(t.State) }
	}
	if w.Show == nil {
		w.Show = func(Sight) {}
	}
	if w.Silent == nil {
		w.Silent = func(error) {}
	}
	return w.run(ctx)
}

// waiter waits for a task. The stream of events tells it when to read the task; without it, the waiter polls.
type waiter struct {
	Wait
	client    *Client
	messages  chan client.Message
	connected atomic.Bool // the stream of events is there
	reached   bool        // the server has answered before
	begun     bool        // the task runs
}

func (w *waiter) run(ctx context.Context) (Answer[wire.Task], error) {
	ctx, cancel := context.WithCancel(ctx)
	listening := make(chan struct{})
	go func() {
		defer close(listening)
		w.listen(ctx)
	}()
	defer func() { cancel(); <-listening }()
	for {
		answer, err := w.read(ctx)
		if err != nil || w.Ends(answer.Value) {
			return answer, err
		}
		if err := w.pause(ctx); err != nil {
			return answer, err
		}
	}
}

// listen passes on the events of the task. If the stream fails for good, run goes on without it.
func (w *waiter) listen(ctx context.Context) {
	params := client.FollowEventsParams{Namespace: w.client.Namespace, Task: &w.ID}
	pass := func(m client.Message) {
		select {
		case w.messages <- m:
		case <-ctx.Done():
		}
	}
	setConnected := func(connected bool) {
		w.connected.Store(connected)
		pass(client.Message{}) // the stream lacks what happened before, so the task must be read
	}
	_ = w.client.Follow(ctx, Stream{
		Open:   func(ctx context.Context) (*http.Response, error) { return w.client.Streams.FollowEvents(ctx, &params) },
		Opened: func() { setConnected(true) },
		Lost:   func(error) { setConnected(false) },
		Take:   func(m client.Message) (bool, error) { pass(m); return false, nil },
	})
}

// read returns the task as it is now. It returns no task, and no error, where a server that has answered before does
// not answer.
func (w *waiter) read(ctx context.Context) (Answer[wire.Task], error) {
	params := &client.GetTaskParams{Namespace: w.client.Namespace}
	answer, err := Read[wire.Task](w.client.GetTaskWithResponse(ctx, w.ID, params))
	switch {
	case err == nil:
		w.reached = true
		t := answer.Value
		w.begun = t.State == wire.StateRunning
		w.Show(Sight{t.State, t.Attempt, t.Progress, text(t.ProgressNote), Troubles(t)})
		return answer, nil
	case ctx.Err() != nil || !w.reached || IsFinal(err):
		return answer, err
	}
	w.Silent(err)
	return Answer[wire.Task]{}, nil
}

// Troubles are the warnings that come with a task, and what of it cannot be read.
func Troubles(t wire.Task) []string {
	if t.Damage == nil {
		return t.Warnings
	}
	return append(slices.Clone(t.Warnings), *t.Damage)
}

// pause returns when the task has to be read again.
func (w *waiter) pause(ctx context.Context) error {
	every := pollWithoutEvents
	switch {
	case w.connected.Load() && w.begun:
		every = pollWithEvents
	case w.connected.Load():
		every = pollWaiting
	}
	timer := time.NewTimer(every)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			return nil
		case m := <-w.messages:
			if w.needsRead(m) {
				return nil
			}
		}
	}
}

// needsRead reports whether the task has to be read because of a message: the task has ended, or events are missing.
func (w *waiter) needsRead(m client.Message) bool {
	var e wire.Event
	if m.Data == nil || m.Name == "dropped" || json.Unmarshal(m.Data, &e) != nil || IsEnd(e.State) {
		return true
	}
	progress := 0
	if e.Progress != nil {
		progress = *e.Progress
	}
	w.begun = e.State == wire.StateRunning
	w.Show(Sight{State: e.State, Attempt: e.Attempt, Progress: progress, Note: text(e.ProgressNote)})
	return false
}

// text is what p points to; "" for nil.
func text(p *string) string {
	if p == nil {
		return ""
	}
	return *p
}
