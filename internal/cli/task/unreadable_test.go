package task_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/clitest"
)

const keyWarning = "the key dts:{3}:wheel of partition 3 has the wrong type: dtsctl doctor tells more"

func TestList_SaysWhatCannotBeRead(t *testing.T) {
	s := clitest.Start(t)
	broken := wire.Task{
		ID: "b", Namespace: "default", State: wire.StateUnreadable, Damage: new("its state \"x\" cannot be read"),
	}
	s.On("GET /v1/tasks", 200, wire.TaskList{
		Tasks: []wire.Task{clitest.Task("a", wire.StateScheduled), broken}, Warnings: []string{keyWarning},
	})
	const rows = "a\tscheduled\tshell\tdefault\t0\t2026-01-02T15:07:05.000Z\t\t\t\t\tdefault\n" +
		"b\tunreadable\t\t\t0\t\t\t\tits state \"x\" cannot be read\t\tdefault\n"
	s.Pipe().Run(t, "task", "list").Expect(t, 0, rows, "warning: "+keyWarning+"\n")
	got := s.Pipe().Run(t, "task", "list", "-o", "json")
	if got.Code != 0 || !strings.Contains(got.Out, `"warnings":["`+keyWarning) || got.Err != "warning: "+keyWarning+"\n" {
		t.Errorf("%+v", got)
	}
	if got := s.Terminal().Run(t, "task", "list"); got.Code != 0 || got.Err != "warning: "+keyWarning+"\n" {
		t.Errorf("%+v", got)
	}
}

func TestReads_SayWhatCannotBeRead(t *testing.T) {
	s := clitest.Start(t)
	warnings := []string{keyWarning}
	s.On("GET /v1/tasks/{id}/attempts", 200, wire.AttemptList{Attempts: []wire.Attempt{}, Warnings: warnings})
	s.On("GET /v1/tasks/{id}/logs", 200, wire.LogPage{Lines: []wire.LogLine{}, Warnings: warnings})
	s.On("GET /v1/schedules", 200, wire.ScheduleList{Schedules: []wire.Schedule{}, Warnings: warnings})
	s.On("GET /v1/schedules/{id}/ledger", 200, wire.LedgerPage{Entries: []wire.LedgerEntry{}, Warnings: warnings})
	s.On("GET /v1/schedules/{id}/history", 200, wire.RevisionList{Revisions: []wire.Revision{}, Warnings: warnings})
	s.On("GET /v1/forecast", 200, wire.Forecast{PerMinute: []int{}, Hottest: []wire.HotMinute{}, Warnings: warnings})
	s.On("GET /v1/locks", 200, wire.LockList{Locks: []wire.Lock{}, Warnings: warnings})
	s.On("GET /v1/queues", 200, wire.QueueList{Queues: []wire.Queue{}, Warnings: warnings})
	s.On("GET /v1/namespaces", 200, wire.NamespaceList{Namespaces: []wire.NamespaceEntry{}, Warnings: warnings})
	s.On("GET /v1/nodes", 200, wire.NodeList{Nodes: []wire.Node{}, Warnings: warnings})
	for _, command := range []string{
		"task attempts a", "task logs a", "schedule list", "schedule ledger a", "schedule history a", "schedule forecast",
		"lock list", "queue list", "namespace list", "node list",
	} {
		for _, format := range []string{"", " -o json"} {
			got := s.Pipe().Run(t, strings.Fields(command+format)...)
			if got.Code != 0 || got.Err != "warning: "+keyWarning+"\n" {
				t.Errorf("%s: %+v", command+format, got)
			}
		}
	}
}

// The last page of a list does not repeat what an earlier one has said.
func TestList_SaysWhatCannotBeReadOnAnyPage(t *testing.T) {
	s := clitest.Start(t)
	s.Handle("GET /v1/tasks", func(w http.ResponseWriter, r *http.Request) {
		page := wire.TaskList{Tasks: []wire.Task{}, NextCursor: new("2"), Warnings: []string{"one", "two"}}
		switch r.URL.Query().Get("cursor") {
		case "2":
			page = wire.TaskList{Tasks: []wire.Task{}, NextCursor: new("3"), Warnings: []string{"two"}}
		case "3":
			page = wire.TaskList{Tasks: []wire.Task{}}
		}
		s.Reply(w, 200, page)
	})
	got := s.Pipe().Run(t, "task", "list", "--all", "-o", "json")
	if !strings.Contains(got.Out, `"warnings":["one","two"]`) || got.Err != "warning: one\nwarning: two\n" {
		t.Errorf("%+v", got)
	}
}

func TestGet_ShowsDamage(t *testing.T) {
	s := clitest.Start(t)
	damaged := func(t *wire.Task) { t.Damage = new("its payload is lost") }
	s.On("GET /v1/tasks/{id}", 200, clitest.Task("a", wire.StateScheduled, damaged))
	got := s.Pipe().Run(t, "task", "get", "a")
	if got.Code != 0 || !strings.Contains(got.Out, "\ndamage\tits payload is lost\n") {
		t.Errorf("%+v", got)
	}
}

// The server has looked at many tasks for each page, and few match.
func TestList_StopsAfterAWhile(t *testing.T) {
	s := clitest.Start(t)
	s.Handle("GET /v1/tasks", func(w http.ResponseWriter, r *http.Request) {
		page := wire.TaskList{Tasks: []wire.Task{}, NextCursor: new("c2"), Incomplete: new(true)}
		switch r.URL.Query().Get("cursor") {
		case "c1":
			page.Tasks = append(page.Tasks, clitest.Task("b", wire.StateFailed))
		case "c2":
			page = wire.TaskList{Tasks: []wire.Task{clitest.Task("c", wire.StateFailed)}}
		}
		s.Reply(w, 200, page)
	})
	const stopped = "Stopped with 1, as few of those that were looked at match. Go on with --cursor c2, " +
		"look longer with --within, or at all of them with --all.\n"
	for _, format := range []string{"table", "json"} {
		got := s.Pipe().Run(t, "task", "list", "--within", "0s", "--cursor", "c1", "-o", format)
		if got.Code != 0 || got.Err != stopped || !strings.Contains(got.Out, "b") {
			t.Errorf("%s: %+v", format, got)
		}
	}
	for _, args := range [][]string{
		{"task", "list", "--cursor", "c1"}, {"task", "list", "--cursor", "c1", "--within", "0s", "--all"},
	} {
		if got := s.Pipe().Run(t, args...); got.Code != 0 || got.Err != "" || strings.Count(got.Out, "\n") != 2 {
			t.Errorf("%v: %+v", args, got)
		}
	}
	got := s.Terminal().Run(t, "task", "list", "--within", "0s")
	if got.Code != 0 || !strings.HasPrefix(got.Err, "Stopped with 0, ") {
		t.Errorf("on a terminal: %+v", got)
	}
	if got := s.Pipe().Run(t, "task", "list", "--within", "-1s"); got.Code != 2 {
		t.Errorf("less than no time: %+v", got)
	}
}

// The status of such an answer was 200, so nothing but its last event tells.
func TestLogs_FollowFailsIfTheStreamSaysSo(t *testing.T) {
	s := clitest.Start(t)
	s.OnStream("GET /v1/tasks/{id}/logs", func(_ *http.Request, send func(string, string, any)) {
		send("log", "1-1", logLine("1-1", "stdout", "one"))
		send("problem", "", clitest.Problem(500, wire.DataUnreadable, "", "the line 1-2 of its log has no time"))
	})
	s.Pipe().Run(t, "task", "logs", "a", "-f").
		Expect(t, 1, "one\n", "dtsctl: the line 1-2 of its log has no time (data_unreadable)\n")
}

func TestLogs_FollowOutlastsAProblemThatPasses(t *testing.T) {
	s := clitest.Start(t)
	s.OnStream("GET /v1/tasks/{id}/logs", func(r *http.Request, send func(string, string, any)) {
		if r.URL.Query().Get("after") == "" {
			send("log", "1-1", logLine("1-1", "stdout", "one"))
			send("problem", "", clitest.Problem(503, wire.Unavailable, "", "Redis does not answer"))
			return
		}
		send("log", "1-2", logLine("1-2", "stdout", "two"))
		send("end", "", clitest.Task("a", wire.StateSucceeded, clitest.Ran))
	})
	got := s.Pipe().Run(t, "task", "logs", "a", "-f")
	if got.Code != 0 || got.Out != "one\ntwo\n" || !strings.Contains(got.Err, "Redis does not answer (unavailable)") {
		t.Errorf("%+v", got)
	}
}

// Whoever submits again what was lost must not take it for well.
func TestSubmit_SaysWhatCannotBeRead(t *testing.T) {
	s := clitest.Start(t)
	broken := clitest.Task("a", wire.StateScheduled, func(t *wire.Task) { t.Damage = new("its payload is lost") })
	s.On("POST /v1/tasks", 200, broken)
	s.On("POST /v1/tasks/batch", 200, wire.BatchAnswer{Results: []wire.BatchResult{{Status: 200, Task: &broken}}})
	sh := s.Pipe()
	sh.Stdin = `{"id": "a", "type": "x"}`
	const warning = "warning: its payload is lost\n"
	for _, line := range []string{
		"task submit --id a --type x", "task http --id a http://x", "task shell --id a -- x", "task submit -f -",
	} {
		if got := sh.Run(t, strings.Fields(line)...); got.Code != 0 || !strings.HasPrefix(got.Err, warning) {
			t.Errorf("%s: %+v", line, got)
		}
	}
	sh.Stdin = "tasks: [{id: a, type: x}]"
	if got := sh.Run(t, "apply", "-f", "-"); got.Code != 0 || !strings.HasPrefix(got.Err, warning) {
		t.Errorf("apply: %+v", got)
	}
}
