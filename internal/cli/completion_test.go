package cli_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/clitest"
)

func TestCompletion_KnowsTheStates(t *testing.T) {
	if got := (clitest.Shell{}).Run(t, "completion", "bash"); got.Code != 0 || !strings.Contains(got.Out, "dtsctl") {
		t.Errorf("%+v", got)
	}
	got := (clitest.Shell{}).Run(t, "__complete", "task", "list", "--state", "s")
	if got.Code != 0 || !strings.HasPrefix(got.Out, "scheduled\n") {
		t.Errorf("%+v", got)
	}
}

func TestCompletion_OffersFilesWhereTheyFit(t *testing.T) {
	const files, none = ":0\n", ":4\n"
	for line, want := range map[string]string{
		"schedule get |": none, "task cancel a |": none, "queue pause |": none, "task list --type |": none,
		"node list |":    none,
		"schedule put |": none, "lock |": none, "apply --selector |": none, "version |": none,
		"apply |": files, "apply -f |": files, "import crontab |": files, "task submit --file |": files,
		"flow run -f |": files, "flow graph --file |": files, "flow show |": none,
		"task shell -- |": files,
		"lock a -- |":     files, "schedule put a -- |": files, "task grpc a b --descriptor-set |": files,
	} {
		args := strings.Fields(strings.TrimSuffix(line, "|"))
		sh := clitest.Shell{Server: "http://127.0.0.1:1"} // nobody answers
		got := sh.Run(t, append(append([]string{"__complete"}, args...), "")...)
		if got.Code != 0 || !strings.HasSuffix(got.Out, want) || strings.Contains(got.Err, "dtsctl:") {
			t.Errorf("%s: %s", line, got.Out)
		}
	}
}

func TestCompletion_OffersNamesFromTheServer(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/tasks", 200, wire.TaskList{Tasks: []wire.Task{
		clitest.Task("b1", wire.StateQueued), clitest.Task("a2", wire.StateFailed),
		clitest.Task("n@20260102T150405Z", wire.StateFailed),
	}})
	now := wire.At(clitest.Now)
	s.On("GET /v1/schedules", 200, wire.ScheduleList{Schedules: []wire.Schedule{{
		ID: "nightly", Every: new("1h"), Namespace: "default", Revision: 1, Task: wire.TaskTemplate{Type: "x"},
		CreatedAt: now, UpdatedAt: now, Cursor: now,
	}}})
	queues := []wire.Queue{{Name: "low", Latency: "0s"}, {Name: "high", Latency: "0s"}}
	s.On("GET /v1/queues", 200, wire.QueueList{Queues: queues})
	namespaces := []wire.NamespaceEntry{{Name: "shop", LastSubmittedAt: now}}
	s.On("GET /v1/namespaces", 200, wire.NamespaceList{Namespaces: namespaces})
	node := func(id string, types ...string) wire.Node {
		return wire.Node{
			ID: id, State: "alive", Types: types, Roles: []string{}, Partitions: []int{}, Queues: map[string]int{},
			StartedAt: now, LastBeat: now,
		}
	}
	s.On("GET /v1/nodes", 200, wire.NodeList{Nodes: []wire.Node{node("n1", "http", "shell"), node("n2", "http")}})
	bulk := func(id string) wire.Bulk {
		return wire.Bulk{
			ID: id, Action: wire.BulkActionRetry, Namespace: "default", State: wire.BulkStateDone, AsOf: now, StartedAt: now,
		}
	}
	s.On("GET /v1/bulk", 200, wire.BulkList{Bulks: []wire.Bulk{bulk("k2"), bulk("k1")}})
	for line, want := range map[string]string{
		"task get |": "b1 a2 n@20260102T150405Z", "task cancel b1 |": "a2 n@20260102T150405Z", "task get b1 |": "",
		"task logs a|": "a2",
		"task why |":   "b1 a2 n@20260102T150405Z", "task requeue --to |": "low high", "task requeue --to low a|": "a2",
		"task submit --type |": "http shell",
		"task list --queue h|": "high", "task list --schedule |": "nightly", "task list --node |": "n1 n2",
		"task list -n |": "shop",
		"schedule get |": "nightly", "schedule get nigh|": "nightly", "schedule get x|": "",
		"schedule pause nightly |": "", "schedule export |": "nightly",
		"schedule put |": "nightly", "schedule put a --type s|": "shell", "schedule backfill a --to |": "",
		"schedule rollback nightly |": "",
		"queue pause |":               "low high", "queue stats |": "low high", "queue capacity |": "low high",
		"queue why l|": "low",
		"bulk get |":   "k2 k1", "bulk stop k1|": "k1", "task logs a --stream |": "stdout stderr dts",
		"node get |":      "n1 n2",
		"events --type |": "http shell", "namespace list |": "", "task http |": "",
	} {
		line = strings.TrimSuffix(line, "|")
		args := strings.Fields(line)
		if strings.HasSuffix(line, " ") {
			args = append(args, "")
		}
		got := s.Pipe().Run(t, append([]string{"__complete"}, args...)...)
		if lines := strings.Fields(strings.TrimSuffix(got.Out, ":4\n")); got.Code != 0 || strings.Join(lines, " ") != want {
			t.Errorf("%s: %q, want %q: %+v", line, lines, want, got)
		}
	}
}

// Completion asks for little, in the namespace of the command line.
func TestCompletion_AsksForLittle(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/tasks", 200, wire.TaskList{Tasks: []wire.Task{}})
	s.On("GET /v1/schedules", 200, wire.ScheduleList{Schedules: []wire.Schedule{}})
	many := wire.QueueList{Queues: []wire.Queue{}}
	for i := range 80 {
		many.Queues = append(many.Queues, wire.Queue{Name: fmt.Sprint("q", i), Latency: "0s"})
	}
	s.On("GET /v1/queues", 200, many)
	for line, want := range map[string]string{
		"-n shop task get x": "GET /v1/tasks?namespace=shop&fields=owner&limit=200",
		"task get nightly@2": "GET /v1/tasks?schedule=nightly&fields=owner&limit=200",
		"schedule get ni":    "GET /v1/schedules?prefix=ni&limit=50",
	} {
		s.Pipe().Run(t, append([]string{"__complete"}, strings.Fields(line)...)...)
		if got := s.Last().Line; got != want {
			t.Errorf("%s: asked %s, want %s", line, got, want)
		}
	}
	if got := s.Pipe().Run(t, "__complete", "queue", "pause", ""); strings.Count(got.Out, "q") != 50 {
		t.Errorf("offered %s", got.Out)
	}
}

// A server that refuses, or that is none, offers nothing.
func TestCompletion_IsSilentWithoutAServer(t *testing.T) {
	for name, sh := range map[string]clitest.Shell{
		"none":   {Server: "http://127.0.0.1:1"},
		"no URL": {Server: "::"},
		"refuses": clitest.Serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable)
		}),
		"hangs": {Transport: clitest.RoundTripper(func(r *http.Request) (*http.Response, error) {
			if deadline, ok := r.Context().Deadline(); !ok || time.Until(deadline) > time.Second {
				t.Errorf("it waits until %s", deadline)
			}
			return nil, context.DeadlineExceeded
		})},
	} {
		got := sh.Run(t, "__complete", "schedule", "get", "")
		if got.Code != 0 || got.Out != ":4\n" || strings.Contains(got.Err, "dtsctl:") {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
