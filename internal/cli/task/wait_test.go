package task_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/clitest"
	"github.com/dts-sched/dts/internal/cli/printer"
)

// watchedTask is a task that a test moves on while dtsctl waits for it.
type watchedTask struct {
	*clitest.Stub
	mu    sync.Mutex
	task  wire.Task
	tell  chan wire.Event // what goes into the feed
	after chan struct{}   // gets one for every look at the task
}

func watchTask(t *testing.T, task wire.Task) *watchedTask {
	w := &watchedTask{Stub: clitest.Start(t), task: task, tell: make(chan wire.Event), after: make(chan struct{}, 100)}
	w.Handle("GET /v1/tasks/{id}", func(rw http.ResponseWriter, _ *http.Request) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.Reply(rw, 200, w.task)
		w.after <- struct{}{}
	})
	return w
}

// feed lets the server have a feed of events; closing tell ends it.
func (w *watchedTask) feed() {
	w.OnStream("GET /v1/events", func(r *http.Request, send func(string, string, any)) {
		for {
			select {
			case e, open := <-w.tell:
				if !open {
					return
				}
				send(e.Type, "", e)
			case <-r.Context().Done():
				return
			}
		}
	})
}

func (w *watchedTask) become(task wire.Task) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.task = task
}

func TestWait_TellsHowATaskEnded(t *testing.T) {
	for state, c := range map[wire.State]struct {
		code   int
		colour string
		reason string // for a pipe
	}{
		wire.StateSucceeded: {0, printer.Green, ""},
		wire.StateFailed:    {1, printer.Red, "dtsctl: a failed\n"},
		wire.StateCancelled: {1, printer.Yellow, "dtsctl: a was cancelled\n"},
	} {
		w := watchTask(t, clitest.Task("a", state, clitest.Ran))
		w.feed()
		w.Pipe().Run(t, "task", "wait", "a").Expect(t, c.code, "a\t"+string(state)+"\n", c.reason)
		sh := w.Terminal()
		got := sh.Run(t, "task", "wait", "a")
		if want := "a " + c.colour + string(state) + printer.Reset + " after 1.5s\n"; got.Out != want || got.Code != c.code {
			t.Errorf("on a terminal it is %q with %d, want %q with %d", got.Out, got.Code, want, c.code)
		}
		sh.Env = map[string]string{"NO_COLOR": "1"}
		if got, want := sh.Run(t, "task", "wait", "a").Out, "a "+string(state)+" after 1.5s\n"; got != want {
			t.Errorf("without colour it is %q, want %q", got, want)
		}
	}
}

func TestWait_ShowsATerminalWhatTheTaskReturned(t *testing.T) {
	w := watchTask(t, clitest.Task("a", wire.StateSucceeded, clitest.Ran, func(t *wire.Task) { t.Result = new("two\nlines\x1b[2J\n") }))
	w.feed()
	sh := w.Terminal()
	sh.Env = map[string]string{"NO_COLOR": "1"}
	sh.Run(t, "task", "wait", "a").Expect(t, 0, "a succeeded after 1.5s\ntwo\nlines[2J\n", "")
	w.Pipe().Run(t, "task", "wait", "a").Expect(t, 0, "a\tsucceeded\n", "")
}

func TestWait_ReadsTheTaskWhenAnEventTellsTheEnd(t *testing.T) {
	w := watchTask(t, clitest.Task("a", wire.StateQueued))
	w.feed()
	j := w.Terminal().Start(t, "task", "wait", "a")
	<-w.after // at the start
	<-w.after // when the feed is there
	w.tell <- clitest.Event("task.running", wire.StateRunning)
	w.tell <- clitest.Event("task.progress", wire.StateRunning, func(e *wire.Event) { e.Progress, e.ProgressNote = new(40), new("4 of\n10") })
	j.Err.Await(t, "a running, attempt 1, 40 %, 4 of 10")
	if len(w.after) > 0 {
		t.Error("it looked at the task for an event that is not its end")
	}
	w.become(clitest.Task("a", wire.StateFailed, clitest.Ran, func(t *wire.Task) { t.Error = new("exit status 3") }))
	w.tell <- clitest.Event("task.failed", wire.StateFailed)
	j.Wait().Expect(t, 1, "a "+printer.Red+"failed"+printer.Reset+" after 1.5s (exit status 3)\n",
		"a queued\r\x1b[Ka running, attempt 1\r\x1b[Ka running, attempt 1, 40 %, 4 of 10\r\x1b[K")
}

func TestWait_PollsWithoutEvents(t *testing.T) {
	w := watchTask(t, clitest.Task("a", wire.StateRunning))
	w.On("GET /v1/events", 503, clitest.Problem(503, wire.Unavailable, "", "the feed could not be opened"))
	j := w.Pipe().Start(t, "task", "wait", "a")
	<-w.after
	w.become(clitest.Task("a", wire.StateSucceeded, clitest.Ran))
	j.Wait().Expect(t, 0, "a\tsucceeded\n", "")
}

func TestWait_OutlastsAServerThatGoesAway(t *testing.T) {
	w := watchTask(t, clitest.Task("a", wire.StateRunning))
	w.feed()
	var away sync.Map
	sh := w.Terminal()
	sh.Transport = clitest.RoundTripper(func(r *http.Request) (*http.Response, error) {
		if _, ok := away.Load("yes"); ok {
			return nil, http.ErrServerClosed
		}
		return w.Transport.RoundTrip(r)
	})
	j := sh.Start(t, "task", "wait", "a")
	<-w.after
	<-w.after
	away.Store("yes", true)
	close(w.tell)
	j.Err.Await(t, "the server does not answer, trying again")
	w.become(clitest.Task("a", wire.StateSucceeded, clitest.Ran))
	away.Delete("yes")
	if got := j.Wait(); got.Code != 0 || !strings.HasPrefix(got.Out, "a ") {
		t.Errorf("%+v", got)
	}
}

func TestWait_SaysOnceWhyATaskDoesNotBegin(t *testing.T) {
	const reason = "no living node runs tasks of type shell"
	w := watchTask(t, clitest.Task("a", wire.StateQueued, func(t *wire.Task) { t.Warnings = []string{reason} }))
	w.feed()
	j := w.Pipe().Start(t, "task", "wait", "a")
	<-w.after
	<-w.after // when the feed is there
	w.become(clitest.Task("a", wire.StateSucceeded, clitest.Ran))
	w.tell <- clitest.Event("task.succeeded", wire.StateSucceeded)
	j.Wait().Expect(t, 0, "a\tsucceeded\n", "warning: "+reason+"\n")
}

func TestWait_EndsAtTheTimeout(t *testing.T) {
	w := watchTask(t, clitest.Task("a", wire.StateRunning))
	w.feed()
	w.Pipe().Run(t, "task", "wait", "a", "--timeout", "100ms").Expect(t, 1, "", "dtsctl: a has not ended within 100ms\n")
}

func TestWait_RefusesATaskThatDoesNotExist(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/tasks/{id}", 404, clitest.Problem(404, wire.TaskNotFound, "", "no task a"))
	s.OnStream("GET /v1/events", func(r *http.Request, _ func(string, string, any)) { <-r.Context().Done() })
	s.Pipe().Run(t, "task", "wait", "a").Expect(t, 1, "", "dtsctl: no task a (task_not_found)\n")
}

func TestWait_CanBeInterrupted(t *testing.T) {
	w := watchTask(t, clitest.Task("a", wire.StateRunning))
	w.feed()
	j := w.Pipe().Start(t, "task", "wait", "a")
	<-w.after
	j.Interrupt()
	j.Wait().Expect(t, 130, "", "")
}

func TestSubmit_Waits(t *testing.T) {
	w := watchTask(t, clitest.Task("a", wire.StateFailed, clitest.Ran, func(t *wire.Task) { t.Error = new("exit status 3") }))
	w.feed()
	w.On("POST /v1/tasks", 201, clitest.Task("a", wire.StateScheduled))
	w.Pipe().Run(t, "task", "shell", "--wait", "--", "false").Expect(t, 1, "a\tfailed\n", "submitted a\ndtsctl: a failed: exit status 3\n")
	w.Pipe().Run(t, "task", "shell", "--id", "a", "--wait", "--", "false").Expect(t, 1, "a\tfailed\n", "dtsctl: a failed: exit status 3\n")
	w.Pipe().Run(t, "task", "shell", "--id", "a", "--wait", "-o", "json", "--", "false").Expect(t, 1, clitest.JSON(t, w.task)+"\n", "dtsctl: a failed: exit status 3\n")
}
