package cli

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/dts-sched/dts/internal/api/client"
)

// watchedTask is a task that a test moves on while dtsctl waits for it.
type watchedTask struct {
	*stub
	mu    sync.Mutex
	task  client.Task
	tell  chan client.Event // what goes into the feed
	after chan struct{}     // gets one for every look at the task
}

func watchTask(t *testing.T, task client.Task) *watchedTask {
	w := &watchedTask{stub: startStub(t), task: task, tell: make(chan client.Event), after: make(chan struct{}, 100)}
	w.mux.HandleFunc("GET /v1/tasks/{id}", func(rw http.ResponseWriter, _ *http.Request) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.reply(rw, 200, w.task)
		w.after <- struct{}{}
	})
	return w
}

// feed lets the server have a feed of events; closing tell ends it.
func (w *watchedTask) feed() {
	w.onStream("GET /v1/events", func(r *http.Request, send func(string, string, any)) {
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

func (w *watchedTask) become(task client.Task) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.task = task
}

func TestWaitTellsHowATaskEnded(t *testing.T) {
	for state, c := range map[client.State]struct {
		code   int
		colour string
	}{
		client.StateSucceeded: {0, green}, client.StateFailed: {1, red}, client.StateCancelled: {1, yellow},
	} {
		w := watchTask(t, aTask("a", state, ran))
		w.feed()
		w.pipe().run(t, "task", "wait", "a").expect(t, c.code, "a\t"+string(state)+"\n", "")
		sh := w.terminal()
		got := sh.run(t, "task", "wait", "a")
		if want := "a " + c.colour + string(state) + reset + " after 1.5s\n"; got.out != want || got.code != c.code {
			t.Errorf("on a terminal it is %q with %d, want %q with %d", got.out, got.code, want, c.code)
		}
		sh.env = map[string]string{"NO_COLOR": "1"}
		if got, want := sh.run(t, "task", "wait", "a").out, "a "+string(state)+" after 1.5s\n"; got != want {
			t.Errorf("without colour it is %q, want %q", got, want)
		}
	}
}

func TestWaitShowsATerminalWhatTheTaskReturned(t *testing.T) {
	w := watchTask(t, aTask("a", client.StateSucceeded, ran, func(t *client.Task) { t.Result = new("two\nlines\x1b[2J\n") }))
	w.feed()
	sh := w.terminal()
	sh.env = map[string]string{"NO_COLOR": "1"}
	sh.run(t, "task", "wait", "a").expect(t, 0, "a succeeded after 1.5s\ntwo\nlines[2J\n", "")
	w.pipe().run(t, "task", "wait", "a").expect(t, 0, "a\tsucceeded\n", "")
}

func TestWaitIsToldByTheFeed(t *testing.T) {
	w := watchTask(t, aTask("a", client.StateQueued))
	w.feed()
	j := w.terminal().start(t, "task", "wait", "a")
	<-w.after // at the start
	<-w.after // when the feed is there
	w.tell <- anEvent("task.running", client.StateRunning)
	w.tell <- anEvent("task.progress", client.StateRunning, func(e *client.Event) { e.Progress = new(40) })
	j.err.await(t, "a running, attempt 1, 40 %")
	if len(w.after) > 0 {
		t.Error("it looked at the task for an event that is not its end")
	}
	w.become(aTask("a", client.StateFailed, ran, func(t *client.Task) { t.Error = new("exit status 3") }))
	w.tell <- anEvent("task.failed", client.StateFailed)
	j.wait().expect(t, 1, "a "+red+"failed"+reset+" after 1.5s (exit status 3)\n",
		"a queued\r\x1b[Ka running, attempt 1\r\x1b[Ka running, attempt 1, 40 %\r\x1b[K")
}

func TestWaitDoesWithoutAFeed(t *testing.T) {
	w := watchTask(t, aTask("a", client.StateRunning))
	w.on("GET /v1/events", 503, problem(503, client.Unavailable, "", "the feed could not be opened"))
	j := w.pipe().start(t, "task", "wait", "a")
	<-w.after
	w.become(aTask("a", client.StateSucceeded, ran))
	j.wait().expect(t, 0, "a\tsucceeded\n", "")
}

func TestWaitOutlastsAServerThatGoesAway(t *testing.T) {
	w := watchTask(t, aTask("a", client.StateRunning))
	w.feed()
	var away sync.Map
	sh := w.terminal()
	sh.rt = roundTripper(func(r *http.Request) (*http.Response, error) {
		if _, ok := away.Load("yes"); ok {
			return nil, http.ErrServerClosed
		}
		return w.transport.RoundTrip(r)
	})
	j := sh.start(t, "task", "wait", "a")
	<-w.after
	<-w.after
	away.Store("yes", true)
	close(w.tell)
	j.err.await(t, "the server does not answer, trying again")
	w.become(aTask("a", client.StateSucceeded, ran))
	away.Delete("yes")
	if got := j.wait(); got.code != 0 || !strings.HasPrefix(got.out, "a ") {
		t.Errorf("%+v", got)
	}
}

func TestWaitEndsWhenTheTimeIsUp(t *testing.T) {
	w := watchTask(t, aTask("a", client.StateRunning))
	w.feed()
	w.pipe().run(t, "task", "wait", "a", "--timeout", "100ms").expect(t, 1, "", "dtsctl: a has not ended within 100ms\n")
}

func TestWaitForATaskThatDoesNotExist(t *testing.T) {
	s := startStub(t)
	s.on("GET /v1/tasks/{id}", 404, problem(404, client.TaskNotFound, "", "no task a"))
	s.onStream("GET /v1/events", func(r *http.Request, _ func(string, string, any)) { <-r.Context().Done() })
	s.pipe().run(t, "task", "wait", "a").expect(t, 1, "", "dtsctl: no task a (task_not_found)\n")
}

func TestWaitCanBeInterrupted(t *testing.T) {
	w := watchTask(t, aTask("a", client.StateRunning))
	w.feed()
	j := w.pipe().start(t, "task", "wait", "a")
	<-w.after
	j.interrupt()
	j.wait().expect(t, 130, "", "")
}

func TestSubmitWaits(t *testing.T) {
	w := watchTask(t, aTask("a", client.StateFailed, ran))
	w.feed()
	w.on("POST /v1/tasks", 201, aTask("a", client.StateScheduled))
	w.pipe().run(t, "task", "shell", "--wait", "--", "false").expect(t, 1, "a\tfailed\n", "submitted a\n")
	w.pipe().run(t, "task", "shell", "--id", "a", "--wait", "--", "false").expect(t, 1, "a\tfailed\n", "")
	w.pipe().run(t, "task", "shell", "--id", "a", "--wait", "-o", "json", "--", "false").expect(t, 1, jsonOf(t, w.task)+"\n", "")
}
