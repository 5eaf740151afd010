package cli

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/client"
)

func anEvent(kind string, state client.State, change ...func(*client.Event)) client.Event {
	e := client.Event{Type: kind, Namespace: "default", Task: "a", State: state, Attempt: 1, At: now, Queue: "default", TaskType: "shell"}
	for _, f := range change {
		f(&e)
	}
	return e
}

func TestEventsPrintsALineEach(t *testing.T) {
	s := startStub(t)
	events := []client.Event{
		anEvent("task.scheduled", client.StateScheduled, func(e *client.Event) { e.Attempt, e.RunAt, e.Owner = 0, new(now.Add(time.Minute)), new("me") }),
		anEvent("task.running", client.StateRunning, func(e *client.Event) { e.Node = new("n1") }),
		anEvent("task.progress", client.StateRunning, func(e *client.Event) { e.Progress = new(0) }),
		anEvent("task.failed", client.StateFailed, func(e *client.Event) { e.Error = new("exit\n3") }),
		anEvent("task.newfangled", client.StateFailed),
	}
	s.onStream("GET /v1/events", func(r *http.Request, send func(string, string, any)) {
		for _, e := range events {
			send(e.Type, "", e)
		}
		send("dropped", "", client.Dropped{Count: 7})
		<-r.Context().Done()
	})
	for name, c := range map[string]struct {
		shell shell
		args  []string
		want  []string
	}{
		"in a pipe": {s.pipe(), nil, []string{
			"2026-01-02T15:04:05.000Z\ttask.scheduled\tdefault\ta\tscheduled\t0\tdefault\tshell\t\tme\t2026-01-02T15:05:05.000Z\t\t",
			"2026-01-02T15:04:05.000Z\ttask.running\tdefault\ta\trunning\t1\tdefault\tshell\tn1\t\t\t\t",
			"2026-01-02T15:04:05.000Z\ttask.progress\tdefault\ta\trunning\t1\tdefault\tshell\t\t\t\t0\t",
			"2026-01-02T15:04:05.000Z\ttask.failed\tdefault\ta\tfailed\t1\tdefault\tshell\t\t\t\t\texit 3",
			"2026-01-02T15:04:05.000Z\ttask.newfangled\tdefault\ta\tfailed\t1\tdefault\tshell\t\t\t\t\t",
		}},
		"on a terminal": {s.terminal(), nil, []string{
			"16:04:05.000  scheduled   a  due in 1 minute",
			"16:04:05.000  " + cyan + "running   " + reset + "  a  attempt 1  on n1",
			"16:04:05.000  progress    a  attempt 1  0 %",
			"16:04:05.000  " + red + "failed    " + reset + "  a  attempt 1  (exit 3)",
			"16:04:05.000  newfangled  a  attempt 1",
		}},
		"as JSON, on a terminal too": {s.terminal(), []string{"-o", "json"}, []string{
			jsonOf(t, events[0]), jsonOf(t, events[1]), jsonOf(t, events[2]), jsonOf(t, events[3]), jsonOf(t, events[4]),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			j := c.shell.start(t, append([]string{"events"}, c.args...)...)
			j.err.await(t, "dropped")
			j.interrupt()
			j.wait().expect(t, 0, strings.Join(c.want, "\n")+"\n", "dtsctl: 7 events were dropped\n")
		})
	}
}

func TestEventsAsksForWhatIsWanted(t *testing.T) {
	s := startStub(t)
	s.on("GET /v1/events", 400, problem(400, client.Invalid, "node", "node: is odd"))
	s.pipe().run(t, "events", "-n", "*", "--state", "failed", "--state", "cancelled", "--queue", "q", "--type", "t", "--owner", "o", "--node", "n", "--schedule", "a", "--task", "a@b").
		expect(t, 1, "", "dtsctl: node: is odd (invalid)\n")
	if got, want := s.last().line, "GET /v1/events?namespace=%2A&state=failed,cancelled&queue=q&type=t&owner=o&node=n&schedule=a&task=a%40b"; got != want {
		t.Errorf("asked %q, want %q", got, want)
	}
}

func TestEventsConnectsAgain(t *testing.T) {
	s := startStub(t)
	var connections atomic.Int32
	s.onStream("GET /v1/events", func(r *http.Request, send func(string, string, any)) {
		send("task.queued", "", anEvent("task.queued", client.StateQueued))
		switch connections.Add(1) {
		case 1: // the server stops
		case 2:
			panic(http.ErrAbortHandler) // the connection breaks
		default:
			send("task.failed", "", anEvent("task.failed", client.StateFailed))
			<-r.Context().Done()
		}
	})
	j := s.pipe().start(t, "events")
	j.out.await(t, "task.failed")
	j.interrupt()
	got := j.wait()
	if got.code != 0 || strings.Count(got.out, "task.queued") != 3 || strings.Count(got.err, "was lost") != 2 || strings.Count(got.err, "connected again") != 2 {
		t.Errorf("%+v", got)
	}
}

func TestEventsConnectsAgainWhereTheServerFallsSilent(t *testing.T) {
	s := startStub(t)
	var connections atomic.Int32
	s.onStream("GET /v1/events", func(r *http.Request, send func(string, string, any)) {
		if connections.Add(1) > 1 {
			send("task.failed", "", anEvent("task.failed", client.StateFailed))
		}
		<-r.Context().Done()
	})
	sh := s.pipe()
	sh.idle = 50 * time.Millisecond
	j := sh.start(t, "events")
	j.out.await(t, "task.failed")
	j.interrupt()
	if got := j.wait(); got.code != 0 || !strings.Contains(got.err, "it fell silent") {
		t.Errorf("%+v", got)
	}
}

func TestEventsGivesUpWhereTheServerSaysNoAfterABreak(t *testing.T) {
	s := startStub(t)
	var connections atomic.Int32
	s.onStream("GET /v1/events", func(*http.Request, func(string, string, any)) {})
	sh := s.pipe()
	sh.rt = roundTripper(func(r *http.Request) (*http.Response, error) {
		if connections.Add(1) > 1 {
			return answerOf(r, 400, jsonOf(t, problem(400, client.Invalid, "", "not any more"))), nil
		}
		return s.transport.RoundTrip(r)
	})
	got := sh.run(t, "events")
	if got.code != 1 || !strings.HasSuffix(got.err, "dtsctl: not any more (invalid)\n") {
		t.Errorf("%+v", got)
	}
}

func line(cursor, stream, text string) client.LogLine {
	return client.LogLine{Cursor: cursor, Attempt: 1, Stream: stream, At: now, Text: text}
}

func TestLogsAreReadPageByPage(t *testing.T) {
	s := startStub(t)
	s.mux.HandleFunc("GET /v1/tasks/{id}/logs", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("after") != "" {
			s.reply(w, 200, client.LogPage{Lines: []client.LogLine{line("1-1001", "stdout", "last")}, NextCursor: new("1-1001")})
			return
		}
		page := client.LogPage{NextCursor: new("1-1000")}
		for range 999 {
			page.Lines = append(page.Lines, line("1-1", "stdout", "out"))
		}
		page.Lines = append(page.Lines, line("1-1000", "stderr", "err"))
		s.reply(w, 200, page)
	})
	s.pipe().run(t, "task", "logs", "a").expect(t, 0, strings.Repeat("out\n", 999)+"last\n", "err\n")
	if got := strings.Join(s.lines(), "\n"); got != "GET /v1/tasks/a/logs?limit=1000\nGET /v1/tasks/a/logs?after=1-1000&limit=1000" {
		t.Errorf("asked %s", got)
	}
	s.pipe().run(t, "task", "logs", "a", "--tail", "3").expect(t, 0, "out\nlast\n", "err\n")
	s.pipe().run(t, "task", "logs", "a", "--tail", "0").expect(t, 0, "", "")
	s.pipe().run(t, "task", "logs", "a", "--tail", "1", "-o", "json").expect(t, 0, jsonOf(t, line("1-1001", "stdout", "last"))+"\n", "")
}

func TestLogsOfATaskThatWroteNothing(t *testing.T) {
	s := startStub(t)
	s.on("GET /v1/tasks/{id}/logs", 200, client.LogPage{Lines: []client.LogLine{}})
	s.pipe().run(t, "task", "logs", "a").expect(t, 0, "", "")
}

func TestLogsFollowGoesOnWhereItBroke(t *testing.T) {
	s := startStub(t)
	s.onStream("GET /v1/tasks/{id}/logs", func(r *http.Request, send func(string, string, any)) {
		switch r.URL.Query().Get("after") {
		case "":
			send("log", "1-1", line("1-1", "stdout", "one"))
			send("log", "1-2", line("1-2", "stderr", "two"))
			panic(http.ErrAbortHandler)
		case "1-2":
			send("log", "1-3", line("1-3", "dts", "killed"))
		case "1-3":
			send("log", "1-4", line("1-4", "stdout", "four"))
			send("end", "", aTask("a", client.StateFailed, ran))
			<-r.Context().Done()
		}
	})
	got := s.pipe().run(t, "task", "logs", "a", "-f")
	if got.code != 0 || got.out != "one\nfour\n" || !strings.HasPrefix(got.err, "two\ndtsctl: the connection to ") || !strings.Contains(got.err, "\ndts: killed\n") {
		t.Errorf("%+v", got)
	}
}

func TestLogsFollowAfterTheTail(t *testing.T) {
	s := startStub(t)
	s.mux.HandleFunc("GET /v1/tasks/{id}/logs", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("follow") == "" {
			s.reply(w, 200, client.LogPage{Lines: []client.LogLine{line("1-1", "stdout", "one"), line("1-2", "stdout", "two")}, NextCursor: new("1-2")})
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write([]byte("event: log\nid: 1-3\ndata: " + jsonOf(t, line("1-3", "stdout", "three")) + "\n\nevent: end\ndata: {}\n\n"))
	})
	s.pipe().run(t, "task", "logs", "a", "-f", "--tail", "1").expect(t, 0, "two\nthree\n", "")
	if got := s.last().line; got != "GET /v1/tasks/a/logs?follow=true&after=1-2" {
		t.Errorf("asked %s", got)
	}
}

func TestLogsFollowEndsWithZeroWhenInterrupted(t *testing.T) {
	s := startStub(t)
	s.onStream("GET /v1/tasks/{id}/logs", func(r *http.Request, send func(string, string, any)) {
		send("log", "1-1", line("1-1", "stdout", "one"))
		<-r.Context().Done()
	})
	j := s.pipe().start(t, "task", "logs", "a", "-f")
	j.out.await(t, "one\n")
	j.interrupt()
	j.wait().expect(t, 0, "one\n", "")
}
