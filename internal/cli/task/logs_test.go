package task_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/clitest"
)

func logLine(cursor, stream, text string) wire.LogLine {
	return wire.LogLine{Cursor: cursor, Attempt: 1, Stream: stream, At: wire.At(clitest.Now), Text: text}
}

func TestLogs_ReadsPageByPage(t *testing.T) {
	s := clitest.Start(t)
	s.Handle("GET /v1/tasks/{id}/logs", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("after") != "" {
			s.Reply(w, 200, wire.LogPage{Lines: []wire.LogLine{logLine("1-1001", "stdout", "last")}, NextCursor: new("1-1001")})
			return
		}
		page := wire.LogPage{NextCursor: new("1-1000")}
		for range 999 {
			page.Lines = append(page.Lines, logLine("1-1", "stdout", "out"))
		}
		page.Lines = append(page.Lines, logLine("1-1000", "stderr", "err"))
		s.Reply(w, 200, page)
	})
	s.Pipe().Run(t, "task", "logs", "a").Expect(t, 0, strings.Repeat("out\n", 999)+"last\n", "err\n")
	if got := strings.Join(s.Lines(), "\n"); got != "GET /v1/tasks/a/logs?limit=1000\nGET /v1/tasks/a/logs?after=1-1000&limit=1000" {
		t.Errorf("asked %s", got)
	}
}

// A page with long lines ends early, and goes on with what comes before it.
func TestLogs_ReadsATailFromTheEnd(t *testing.T) {
	s := clitest.Start(t)
	s.Handle("GET /v1/tasks/{id}/logs", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("before") == "1-8" {
			page := []wire.LogLine{logLine("1-6", "stdout", "six"), logLine("1-7", "stderr", "seven")}
			s.Reply(w, 200, wire.LogPage{Lines: page, PreviousCursor: new("1-6")})
			return
		}
		page := []wire.LogLine{logLine("1-8", "stdout", "eight"), logLine("1-9", "stdout", "nine")}
		s.Reply(w, 200, wire.LogPage{Lines: page, NextCursor: new("1-9"), PreviousCursor: new("1-8")})
	})
	s.Pipe().Run(t, "task", "logs", "a", "--tail", "4", "--attempt", "last", "--grep", "x y", "--stream", "stdout").
		Expect(t, 0, "six\neight\nnine\n", "seven\n")
	want := "GET /v1/tasks/a/logs?tail=4&attempt=last&stream=stdout&grep=x+y\n" +
		"GET /v1/tasks/a/logs?before=1-8&attempt=last&stream=stdout&grep=x+y&limit=2"
	if got := strings.Join(s.Lines(), "\n"); got != want {
		t.Errorf("asked %s", got)
	}
	s.Pipe().Run(t, "task", "logs", "a", "--tail", "0").Expect(t, 0, "", "")
	s.Pipe().Run(t, "task", "logs", "a", "--tail", "2", "--before", "1-8").Expect(t, 0, "six\n", "seven\n")
	s.Pipe().Run(t, "task", "logs", "a", "--before", "1-8", "-f").Expect(t, 2, "", "dtsctl: --before and --follow exclude each other\nRun 'dtsctl task logs --help' for what it takes.\n")
}

// What a task writes must not move the cursor, set the title or reorder the text of a terminal. A pipe gets what it
// wrote.
func TestLogs_AreHarmlessOnATerminal(t *testing.T) {
	const text = "\x1b[1;31mred\x1b[0m\x1b]0;title\x07 \u202eabc\u009b2J\r"
	s := clitest.Start(t)
	s.On("GET /v1/tasks/{id}/logs", 200, wire.LogPage{Lines: []wire.LogLine{
		logLine("1-1", "stdout", text), logLine("1-2", "stderr", text), logLine("1-3", "dts", text),
	}})
	const shown = "red]0;title abc2J\n"
	s.Terminal().Run(t, "task", "logs", "a").Expect(t, 0, shown, shown+"dts: "+shown)
	s.Pipe().Run(t, "task", "logs", "a").Expect(t, 0, text+"\n", text+"\ndts: "+text+"\n")
}

// The server ends a page that has many bytes.
func TestLogs_FollowShortPages(t *testing.T) {
	s := clitest.Start(t)
	s.Handle("GET /v1/tasks/{id}/logs", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("after") == "1-1" {
			s.Reply(w, 200, wire.LogPage{Lines: []wire.LogLine{logLine("1-2", "stdout", "two")}, NextCursor: new("1-2")})
			return
		}
		page := []wire.LogLine{logLine("1-1", "stdout", "one")}
		s.Reply(w, 200, wire.LogPage{Lines: page, NextCursor: new("1-1"), More: new(true)})
	})
	s.Pipe().Run(t, "task", "logs", "a").Expect(t, 0, "one\ntwo\n", "")
}

func TestLogs_PrintsNothingForATaskThatWroteNothing(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/tasks/{id}/logs", 200, wire.LogPage{Lines: []wire.LogLine{}})
	s.Pipe().Run(t, "task", "logs", "a").Expect(t, 0, "", "")
}

func TestLogs_FollowGoesOnWhereTheConnectionBroke(t *testing.T) {
	s := clitest.Start(t)
	s.OnStream("GET /v1/tasks/{id}/logs", func(r *http.Request, send func(string, string, any)) {
		switch r.URL.Query().Get("after") {
		case "":
			send("log", "1-1", logLine("1-1", "stdout", "one"))
			send("log", "1-2", logLine("1-2", "stderr", "two"))
			panic(http.ErrAbortHandler)
		case "1-2":
			send("log", "1-3", logLine("1-3", "dts", "killed"))
		case "1-3":
			send("log", "1-4", logLine("1-4", "stdout", "four"))
			send("end", "", clitest.Task("a", wire.StateFailed, clitest.Ran))
			<-r.Context().Done()
		}
	})
	got := s.Pipe().Run(t, "task", "logs", "a", "-f")
	if got.Code != 0 || got.Out != "one\nfour\n" || !strings.HasPrefix(got.Err, "two\ndtsctl: the connection to ") || !strings.Contains(got.Err, "\ndts: killed\n") {
		t.Errorf("%+v", got)
	}
}

func TestLogs_FollowBeginsAfterTheTail(t *testing.T) {
	s := clitest.Start(t)
	s.Handle("GET /v1/tasks/{id}/logs", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("follow") == "" {
			s.Reply(w, 200, wire.LogPage{Lines: []wire.LogLine{logLine("1-1", "stdout", "one"), logLine("1-2", "stdout", "two")}, NextCursor: new("1-2")})
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write([]byte("event: log\nid: 1-3\ndata: " + clitest.JSON(t, logLine("1-3", "stdout", "three")) + "\n\nevent: end\ndata: {}\n\n"))
	})
	s.Pipe().Run(t, "task", "logs", "a", "-f", "--tail", "1").Expect(t, 0, "two\nthree\n", "")
	if got := s.Last().Line; got != "GET /v1/tasks/a/logs?follow=true&after=1-2" {
		t.Errorf("asked %s", got)
	}
}

func TestLogs_FollowTellsWhatCannotBeRead(t *testing.T) {
	s := clitest.Start(t)
	s.OnStream("GET /v1/tasks/{id}/logs", func(_ *http.Request, send func(string, string, any)) {
		send("log", "1-1", logLine("1-1", "stdout", "one"))
		send("dropped", "", wire.Dropped{Reason: wire.DroppedUnreadable, Detail: new("a line cannot be read")})
		send("log", "1-3", logLine("1-3", "stdout", "three"))
		send("end", "", wire.Task{})
	})
	s.Pipe().Run(t, "task", "logs", "a", "-f").Expect(t, 0, "one\nthree\n", "warning: a line cannot be read\n")
}

func TestLogs_FollowEndsWithZeroWhenInterrupted(t *testing.T) {
	s := clitest.Start(t)
	s.OnStream("GET /v1/tasks/{id}/logs", func(r *http.Request, send func(string, string, any)) {
		send("log", "1-1", logLine("1-1", "stdout", "one"))
		<-r.Context().Done()
	})
	j := s.Pipe().Start(t, "task", "logs", "a", "-f")
	j.Out.Await(t, "one\n")
	j.Interrupt()
	j.Wait().Expect(t, 0, "one\n", "")
}
