package cli

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/client"
)

func TestGetShowsAllAboutATask(t *testing.T) {
	s := startStub(t)
	task := aTask("a", client.StateFailed, ran, func(t *client.Task) {
		t.Error, t.Labels, t.Owner = new("line 1\nline\t2\x1b[2J"), &client.Labels{"b": "2", "a": "1"}, new("me")
	})
	s.on("GET /v1/tasks/{id}", 200, task)
	s.pipe().run(t, "task", "get", "a").expect(t, 0, strings.Join([]string{
		"id\ta", "namespace\tdefault", "type\tshell", "queue\tdefault", "state\tfailed", "attempt\t1", "max_attempts\t4", "progress\t0",
		"run_at\t2026-01-02T15:07:05.000Z", "created_at\t2026-01-02T15:02:05.000Z", "started_at\t2026-01-02T15:04:01.500Z",
		"finished_at\t2026-01-02T15:04:03.000Z", "node\tn1", "error\tline 1 line 2[2J", `payload	{"command":["true"]}`, "timeout\t10m0s",
		`retry	{"max_attempts":4}`, "owner\tme", "labels\ta=1,b=2", "",
	}, "\n"), "")
	got := s.terminal().run(t, "task", "get", "a").out
	for _, want := range []string{"\nstate         " + red + "failed" + reset + "\n", "\nrun at        in 3 minutes\n", "\ncreated at    2 minutes ago\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	s.pipe().run(t, "task", "get", "a", "-o", "json").expect(t, 0, jsonOf(t, task)+"\n", "")
}

func TestIDsAreEscaped(t *testing.T) {
	s := startStub(t)
	s.on("GET /v1/tasks/{id}", 404, problem(404, client.TaskNotFound, "", "no such task"))
	for id, want := range map[string]string{
		"nightly@20260102T150405Z": "GET /v1/tasks/nightly@20260102T150405Z",
		"...":                      "GET /v1/tasks/...",
	} {
		s.pipe().run(t, "task", "get", id).expect(t, 1, "", "dtsctl: no such task (task_not_found)\n")
		if got := s.last().line; got != want {
			t.Errorf("asked %q, want %q", got, want)
		}
	}
}

func TestIDsThatNoTaskCanHaveReachTheServerAsTheyAre(t *testing.T) {
	var asked string
	sh := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r.RequestURI
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(400)
		_, _ = w.Write([]byte(jsonOf(t, problem(400, client.Invalid, "id", "id: is odd"))))
	})
	sh.run(t, "task", "get", "a/../b?c#d %").expect(t, 1, "", "dtsctl: id: is odd (invalid)\n")
	if want := "/v1/tasks/a%2F..%2Fb%3Fc%23d%20%25"; asked != want {
		t.Errorf("asked %q, want %q", asked, want)
	}
}

// pages serves n tasks in pages of the size that is asked for.
func pages(s *stub, n int) {
	s.mux.HandleFunc("GET /v1/tasks", func(w http.ResponseWriter, r *http.Request) {
		from, size := 0, 0
		_, _ = fmt.Sscan(r.URL.Query().Get("cursor"), &from)
		_, err := fmt.Sscan(r.URL.Query().Get("limit"), &size)
		must(s.t, err)
		list := client.TaskList{Tasks: []client.Task{}}
		for i := from; i < min(n, from+size); i++ {
			list.Tasks = append(list.Tasks, aTask(fmt.Sprint("t", i), client.StateScheduled))
		}
		if from+size < n {
			list.NextCursor = new(fmt.Sprint(from + size))
		}
		s.reply(w, 200, list)
	})
}

func TestListAsksForWhatItNeeds(t *testing.T) {
	for name, c := range map[string]struct {
		args  []string
		asked []string
		lines int
	}{
		"one page":  {nil, []string{"limit=50"}, 50},
		"few":       {[]string{"--limit", "3"}, []string{"limit=3"}, 3},
		"two pages": {[]string{"--limit", "700"}, []string{"limit=500", "limit=200&cursor=500"}, 700},
		"all":       {[]string{"--all"}, []string{"limit=500", "limit=500&cursor=500", "limit=500&cursor=1000"}, 1200},
		"filters": {
			[]string{"--limit", "1", "--state", "failed,queued", "--state", "running", "--queue", "q", "--type", "t", "--owner", "o p", "--node", "n", "-n", "ns"},
			[]string{"namespace=ns&state=failed,queued,running&queue=q&type=t&owner=o+p&node=n&limit=1"}, 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := startStub(t)
			pages(s, 1200)
			got := s.pipe().run(t, append([]string{"task", "list"}, c.args...)...)
			if got.code != 0 || strings.Count(got.out, "\n") != c.lines {
				t.Errorf("code %d, %d lines, want %d; %s", got.code, strings.Count(got.out, "\n"), c.lines, got.err)
			}
			var want []string
			for _, query := range c.asked {
				want = append(want, "GET /v1/tasks?"+query)
			}
			if got := s.lines(); strings.Join(got, "\n") != strings.Join(want, "\n") {
				t.Errorf("asked %q, want %q", got, want)
			}
		})
	}
}

func TestListPrintsTasks(t *testing.T) {
	s := startStub(t)
	tasks := []client.Task{
		aTask("b", client.StateFailed, ran, func(t *client.Task) { t.Error = new(strings.Repeat("x", 100)) }),
		aTask("long-id", client.StateScheduled),
	}
	s.on("GET /v1/tasks", 200, client.TaskList{Tasks: tasks, NextCursor: new("c")})
	s.pipe().run(t, "task", "list", "--limit", "2").expect(t, 0,
		"b\tfailed\tshell\tdefault\t1\t2026-01-02T15:07:05.000Z\t2026-01-02T15:04:03.000Z\tn1\t"+strings.Repeat("x", 100)+"\n"+
			"long-id\tscheduled\tshell\tdefault\t0\t2026-01-02T15:07:05.000Z\t\t\t\n", "")
	s.terminal().run(t, "task", "list", "--limit", "2").expect(t, 0,
		"ID       STATE      TYPE   QUEUE    ATTEMPT  DUE           FINISHED       NODE  ERROR\n"+
			"b        "+red+"failed"+reset+"     shell  default  1        in 3 minutes  2 seconds ago  n1    "+strings.Repeat("x", 59)+"…\n"+
			"long-id  scheduled  shell  default  0        in 3 minutes\n", "There are more; --all lists them.\n")
	s.pipe().run(t, "task", "list", "--limit", "2", "-o", "json").expect(t, 0, jsonOf(t, client.TaskList{Tasks: tasks, NextCursor: new("c")})+"\n", "")
}

func TestAnEmptyListIsNothingForAScript(t *testing.T) {
	s := startStub(t)
	s.on("GET /v1/tasks", 200, client.TaskList{Tasks: []client.Task{}})
	s.pipe().run(t, "task", "list").expect(t, 0, "", "")
	s.terminal().run(t, "task", "list").expect(t, 0, "Nothing found.\n", "")
	s.pipe().run(t, "task", "list", "-o", "json").expect(t, 0, "{\"tasks\":[]}\n", "")
	s.pipe().run(t, "task", "list", "-o", "yaml").expect(t, 0, "---\ntasks: []\n", "")
}

func TestAttemptsShowTheHistory(t *testing.T) {
	s := startStub(t)
	s.on("GET /v1/tasks/{id}/attempts", 200, client.AttemptList{Attempts: []client.Attempt{
		{Number: 1, Node: "n1", StartedAt: now.Add(-time.Hour), FinishedAt: new(now.Add(-time.Hour + 1234*time.Millisecond)), Outcome: new(client.OutcomeLost), Error: new("died")},
		{Number: 2, Node: "n2", StartedAt: now},
	}})
	s.pipe().run(t, "task", "attempts", "a").expect(t, 0,
		"1\tlost\t2026-01-02T14:04:05.000Z\t1.234s\tn1\tdied\n2\t\t2026-01-02T15:04:05.000Z\t\tn2\t\n", "")
	s.terminal().run(t, "task", "attempts", "a").expect(t, 0,
		"NUMBER  OUTCOME  STARTED     TOOK  NODE  ERROR\n1       "+red+"lost"+reset+"     1 hour ago  1.2s  n1    died\n2                now               n2\n", "")
}

func TestNodeList(t *testing.T) {
	s := startStub(t)
	s.on("GET /v1/nodes", 200, client.NodeList{Nodes: []client.Node{{
		ID: "n1", Host: "h", IP: "10.0.0.1", Version: "v1", Roles: []string{"api", "worker"}, State: "alive", Capacity: 10, Running: 3,
		Partitions: []int{0, 1, 2, 7}, Queues: map[string]int{"low": 1, "default": 3}, CPU: 0.125, Memory: 20 << 20, StartedAt: now.Add(-50 * time.Hour), LastBeat: now.Add(-time.Second),
	}}})
	s.pipe().run(t, "node", "list").expect(t, 0,
		"n1\talive\th\t10.0.0.1\tv1\tapi,worker\t3\t10\t0,1,2,7\tdefault=3,low=1\t0.125\t20971520\t2025-12-31T13:04:05.000Z\t2026-01-02T15:04:04.000Z\n", "")
	if got := s.terminal().run(t, "node", "list").out; !strings.Contains(got, "0-2, 7      default=3, low=1  12 %  20.0 MiB  2 days ago  1 second ago\n") {
		t.Errorf("got\n%s", got)
	}
}

func TestQueueList(t *testing.T) {
	s := startStub(t)
	s.on("GET /v1/queues", 200, client.QueueList{Queues: []client.Queue{
		{Name: "default", Size: 3, Pending: 2, Active: 1, Processed: 9, Failed: 4, Latency: "1.5s"}, {Name: "low", Paused: true, Archived: 1, Latency: "0s"},
	}})
	s.pipe().run(t, "queue", "list").expect(t, 0, "default\topen\t3\t2\t1\t0\t9\t4\t1.5s\nlow\tpaused\t0\t0\t0\t1\t0\t0\t0s\n", "")
	s.terminal().run(t, "queue", "list").expect(t, 0,
		"NAME     STATE   SIZE  PENDING  ACTIVE  ARCHIVED  PROCESSED  FAILED  LATENCY\n"+
			"default  open    3     2        1       0         9          4       1.5s\n"+
			"low      "+yellow+"paused"+reset+"  0     0        0       1         0          0       0s\n", "")
}
