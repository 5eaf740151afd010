package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
)

// How often a waiting dtsctl looks at its task without having been told to.
const (
	lookWithFeed    = 15 * time.Second // the feed may lose events
	lookWithoutFeed = time.Second
)

func newWaitCommand(s *session) *cobra.Command {
	var limit time.Duration
	cmd := &cobra.Command{
		Use: "wait ID", Short: "Wait until a task has ended", Args: named("ID"),
		Long: `wait waits until the task has ended, and prints how. The exit code is 0 if it succeeded, else 1; also 1 if the
time is up before. A terminal is shown how the task comes on. A server that goes away in between is waited for.`,
		Example: `  dtsctl task wait nightly
  dtsctl task wait nightly --timeout 10m && echo done`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 0 {
				return usagef("--timeout: %s is negative", limit)
			}
			return s.waitFor(cmd.Context(), args[0], limit)
		},
	}
	cmd.Flags().DurationVar(&limit, "timeout", 0, "how long to wait at most (default: for ever)")
	return cmd
}

// errTimeUp is that a task took longer than somebody wanted to wait.
var errTimeUp = errors.New("the time to wait is up")

// waitFor waits for the end of a task, for limit at most if it is not 0, and prints how it ended. It returns errFailed
// if that is not well.
func (s *session) waitFor(ctx context.Context, id string, limit time.Duration) error {
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, errTimeUp)
		defer cancel()
	}
	w := waiter{session: s, id: id, news: make(chan client.Message)}
	end, err := w.run(ctx)
	w.clear()
	if errors.Is(context.Cause(ctx), errTimeUp) && err != nil {
		s.say("%s has not ended within %s", id, limit)
		return errFailed
	}
	if err != nil {
		return err
	}
	if err := s.showTask(end); err != nil {
		return err
	}
	if err := s.showResult(end.value); err != nil {
		return err
	}
	if end.value.State != client.StateSucceeded {
		return errFailed
	}
	return nil
}

// showResult prints what a task returned below the sentence that a terminal gets about its end.
func (s *session) showResult(t client.Task) error {
	if t.Result == nil || !s.OutIsTerminal || !s.isTable() {
		return nil
	}
	return s.printf("%s\n", strings.TrimRight(scrub(*t.Result), "\n"))
}

// waiter waits for a task. The feed of events tells it when to look; while there is none, it looks now and then.
type waiter struct {
	session *session
	id      string
	news    chan client.Message
	live    atomic.Bool // the feed is there
	reached bool        // the server has answered before
	shown   string      // the line about the task that a terminal shows
}

func (w *waiter) run(ctx context.Context) (answer[client.Task], error) {
	ctx, cancel := context.WithCancel(ctx)
	listening := make(chan struct{})
	go func() {
		defer close(listening)
		w.listen(ctx)
	}()
	defer func() { cancel(); <-listening }()
	for {
		a, err := w.look(ctx)
		if err != nil || isEnd(a.value.State) {
			return a, err
		}
		if err := w.pause(ctx); err != nil {
			return a, err
		}
	}
}

// listen passes on what happens to the task. Should the feed fail for good, run goes on without it.
func (w *waiter) listen(ctx context.Context) {
	c, err := w.session.streams()
	if err != nil {
		return
	}
	params := client.FollowEventsParams{Namespace: w.session.namespaceParam(), Task: &w.id}
	tell := func(m client.Message) {
		select {
		case w.news <- m:
		case <-ctx.Done():
		}
	}
	_ = w.session.follow(ctx, feed{
		open:   func(ctx context.Context) (*http.Response, error) { return c.FollowEvents(ctx, &params) },
		opened: func() { w.live.Store(true); tell(client.Message{}) }, // what happened before is not in the feed
		lost:   func(error) { w.live.Store(false); tell(client.Message{}) },
		take:   func(m client.Message) (bool, error) { tell(m); return false, nil },
	})
}

// look is the task as it is now. A server that has answered before may be away for a while.
func (w *waiter) look(ctx context.Context) (answer[client.Task], error) {
	a, err := w.session.task(ctx, w.id)
	switch {
	case err == nil:
		w.reached = true
		w.show(a.value.State, a.value.Attempt, a.value.Progress)
		return a, nil
	case ctx.Err() != nil || !w.reached || isFinal(err):
		return a, err
	}
	w.draw(fmt.Sprintf("%s: the server does not answer, trying again", w.id))
	return answer[client.Task]{}, nil
}

// pause returns when there is a reason to look at the task.
func (w *waiter) pause(ctx context.Context) error {
	every := lookWithoutFeed
	if w.live.Load() {
		every = lookWithFeed
	}
	timer := time.NewTimer(every)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			return nil
		case m := <-w.news:
			if w.matters(m) {
				return nil
			}
		}
	}
}

// matters says whether a message is a reason to look: the task has ended, or nobody knows what was missed.
func (w *waiter) matters(m client.Message) bool {
	var e client.Event
	if m.Data == nil || m.Name == "dropped" || json.Unmarshal(m.Data, &e) != nil {
		return true
	}
	if isEnd(e.State) {
		return true
	}
	progress := 0
	if e.Progress != nil {
		progress = *e.Progress
	}
	w.show(e.State, e.Attempt, progress)
	return false
}

// show tells a terminal how the task comes on.
func (w *waiter) show(state client.State, attempt, progress int) {
	if isEnd(state) {
		return // what is printed in the end says that
	}
	line := fmt.Sprintf("%s %s", w.id, state)
	if attempt > 0 {
		line += fmt.Sprintf(", attempt %d", attempt)
	}
	if state == client.StateRunning && progress > 0 {
		line += fmt.Sprintf(", %d %%", progress)
	}
	w.draw(line)
}

// draw writes a line over the one before.
func (w *waiter) draw(line string) {
	if !w.session.ErrIsTerminal || line == w.shown {
		return
	}
	w.clear()
	w.shown = line
	_, _ = fmt.Fprint(w.session.Err, line)
}

func (w *waiter) clear() {
	if w.shown != "" {
		_, _ = fmt.Fprint(w.session.Err, "\r\x1b[K")
		w.shown = ""
	}
}
