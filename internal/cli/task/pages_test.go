package task_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/clitest"
)

func TestList_PrintsPagesAsTheyComeInAPipe(t *testing.T) {
	s := clitest.Start(t)
	printed := make(chan struct{})
	s.Handle("GET /v1/tasks", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("cursor") == "" {
			s.Reply(w, 200, wire.TaskList{Tasks: []wire.Task{clitest.Task("first", wire.StateFailed)}, NextCursor: new("c")})
			return
		}
		<-printed
		s.Reply(w, 200, wire.TaskList{Tasks: []wire.Task{clitest.Task("second", wire.StateFailed)}})
	})
	j := s.Pipe().Start(t, "task", "list", "--all")
	j.Out.Await(t, "first\t")
	close(printed)
	got := j.Wait()
	if got.Code != 0 || got.Err != "" || strings.Count(got.Out, "\n") != 2 || !strings.Contains(got.Out, "second\t") {
		t.Errorf("%+v", got)
	}
}

func TestList_IsBoundedOnATerminal(t *testing.T) {
	s := clitest.Start(t)
	pages := 0
	s.Handle("GET /v1/tasks", func(w http.ResponseWriter, _ *http.Request) {
		pages++
		list := wire.TaskList{NextCursor: new(fmt.Sprint("c", pages))}
		for i := range 500 {
			list.Tasks = append(list.Tasks, clitest.Task(fmt.Sprint(i), wire.StateFailed))
		}
		s.Reply(w, 200, list)
	})
	got := s.Terminal().Run(t, "task", "list", "--all")
	const want = "There are more; --cursor c20 lists those behind these, and --all in a pipe lists all of them.\n"
	if pages != 20 || got.Err != want {
		t.Errorf("%d pages, %q", pages, got.Err)
	}
}

// Who reads a document gets the same kind of document, whether tasks match or not.
func TestBulk_PrintsADocumentWithoutTasks(t *testing.T) {
	s := clitest.Start(t)
	at := wire.At(clitest.Now)
	s.On("POST /v1/bulk/preview", 200, wire.BulkPreview{AsOf: at, Examples: []wire.Task{}})
	b := wire.Bulk{
		ID: "b1", Action: wire.BulkActionRetry, Namespace: "default", State: wire.BulkStateRunning, AsOf: at, StartedAt: at,
	}
	s.On("POST /v1/bulk", 201, b)
	b.State, b.EndedAt = wire.BulkStateDone, &at
	s.On("GET /v1/bulk/{bulk}", 200, b)
	got := s.Pipe().Run(t, "task", "retry", "--queue", "low", "-o", "json")
	if got.Code != 0 || !strings.Contains(got.Out, `"state":"done"`) || got.Err != "No task matches.\n" {
		t.Errorf("%+v", got)
	}
	s.Pipe().Run(t, "task", "retry", "--queue", "low").Expect(t, 0, "", "No task matches.\n")
}
