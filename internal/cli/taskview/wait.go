package taskview

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/printer"
)

// How long a waiting dtsctl goes without reading the task.
const (
	pollWithEvents    = 15 * time.Second // the stream of events may drop some
	pollWithoutEvents = time.Second
)

// WaitOptions says which task to wait for.
type WaitOptions struct {
	Client  *rest.Client
	Printer *printer.Printer

	ID      string
	Timeout time.Duration // 0 means no limit
}

// errTimeout is the cause of the end of the context when the task takes longer than the timeout.
var errTimeout = errors.New("the timeout of the wait has passed")

// Wait waits for the end of a task and prints how it ended. It returns command.ErrReported if the task did not succeed,
// or not in time. It outlasts a server that goes away after it has answered once.
func Wait(ctx context.Context, opts WaitOptions) error {
	if opts.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, opts.Timeout, errTimeout)
		defer cancel()
	}
	w := waiter{WaitOptions: opts, messages: make(chan client.Message), line: printer.StatusLine{Printer: opts.Printer}}
	end, err := w.run(ctx)
	w.line.Clear()
	if err != nil && errors.Is(context.Cause(ctx), errTimeout) {
		opts.Printer.Errorf("%s has not ended within %s", opts.ID, opts.Timeout)
		return command.ErrReported
	}
	if err != nil {
		return err
	}
	if err := Show(opts.Printer, end); err != nil {
		return err
	}
	if err := showResult(opts.Printer, end.Value); err != nil {
		return err
	}
	if end.Value.State == client.StateSucceeded {
		return nil
	}
	if !opts.Printer.ForPeople() { // who have read the reason above
		opts.Printer.Errorf("%s", Reason(end.Value))
	}
	return command.ErrReported
}

// showResult prints for people what a task returned, below the sentence about its end.
func showResult(p *printer.Printer, t client.Task) error {
	if t.Result == nil || !p.ForPeople() {
		return nil
	}
	return p.Printf("%s\n", strings.TrimRight(printer.Scrub(*t.Result), "\n"))
}

// waiter waits for a task. The stream of events tells it when to read the task; without it, the waiter polls.
type waiter struct {
	WaitOptions
	messages  chan client.Message
	connected atomic.Bool        // the stream of events is there
	reached   bool               // the server has answered before
	line      printer.StatusLine // about the task, until it has ended
}

func (w *waiter) run(ctx context.Context) (rest.Answer[client.Task], error) {
	ctx, cancel := context.WithCancel(ctx)
	listening := make(chan struct{})
	go func() {
		defer close(listening)
		w.listen(ctx)
	}()
	defer func() { cancel(); <-listening }()
	for {
		answer, err := w.read(ctx)
		if err != nil || isFinal(answer.Value.State) {
			return answer, err
		}
		if err := w.pause(ctx); err != nil {
			return answer, err
		}
	}
}

// listen passes on the events of the task. If the stream fails for good, run goes on without it.
func (w *waiter) listen(ctx context.Context) {
	params := client.FollowEventsParams{Namespace: w.Client.Namespace, Task: &w.ID}
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
	_ = w.Client.Follow(ctx, rest.Stream{
		Open:   func(ctx context.Context) (*http.Response, error) { return w.Client.Streams.FollowEvents(ctx, &params) },
		Opened: func() { setConnected(true) },
		Lost:   func(error) { setConnected(false) },
		Take:   func(m client.Message) (bool, error) { pass(m); return false, nil },
	})
}

// read returns the task as it is now. It returns no task, and no error, where a server that has answered before does
// not answer.
func (w *waiter) read(ctx context.Context) (rest.Answer[client.Task], error) {
	params := &client.GetTaskParams{Namespace: w.Client.Namespace}
	answer, err := rest.Read[client.Task](w.Client.GetTaskWithResponse(ctx, w.ID, params))
	switch {
	case err == nil:
		w.reached = true
		w.show(answer.Value.State, answer.Value.Attempt, answer.Value.Progress)
		return answer, nil
	case ctx.Err() != nil || !w.reached || rest.IsFinal(err):
		return answer, err
	}
	w.line.Draw(fmt.Sprintf("%s: the server does not answer, trying again", w.ID))
	return rest.Answer[client.Task]{}, nil
}

// pause returns when the task has to be read again.
func (w *waiter) pause(ctx context.Context) error {
	every := pollWithoutEvents
	if w.connected.Load() {
		every = pollWithEvents
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
	var e client.Event
	if m.Data == nil || m.Name == "dropped" || json.Unmarshal(m.Data, &e) != nil || isFinal(e.State) {
		return true
	}
	progress := 0
	if e.Progress != nil {
		progress = *e.Progress
	}
	w.show(e.State, e.Attempt, progress)
	return false
}

// show draws the state of the task until it has ended; Wait prints the end.
func (w *waiter) show(state client.State, attempt, progress int) {
	if isFinal(state) {
		return
	}
	line := fmt.Sprintf("%s %s", w.ID, state)
	if attempt > 0 {
		line += fmt.Sprintf(", attempt %d", attempt)
	}
	if state == client.StateRunning && progress > 0 {
		line += fmt.Sprintf(", %d %%", progress)
	}
	w.line.Draw(line)
}
