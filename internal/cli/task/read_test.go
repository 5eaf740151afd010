package task_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/clitest"
	"github.com/dts-sched/dts/internal/cli/printer"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func TestGet_ShowsEverythingAboutATask(t *testing.T) {
	s := clitest.Start(t)
	task := clitest.Task("a", wire.StateFailed, clitest.Ran, func(t *wire.Task) {
		t.Error, t.Labels, t.Owner = new("line 1\nline\t2\x1b[2J"), &wire.Labels{"b": "2", "a": "1"}, new("me")
		t.ProgressNote, t.Checkpoint = new("row 5"), json.RawMessage(`{"row":5}`)
	})
	s.On("GET /v1/tasks/{id}", 200, task)
	s.Pipe().Run(t, "task", "get", "a").Expect(t, 0, strings.Join([]string{
		"id\ta", "namespace\tdefault", "type\tshell", "queue\tdefault", "state\tfailed", "attempt\t1", "max_attempts\t4", "progress\t0", "progress_note\trow 5",
		"run_at\t2026-01-02T15:07:05.000Z", "created_at\t2026-01-02T15:02:05.000Z", "started_at\t2026-01-02T15:04:01.500Z",
		"finished_at\t2026-01-02T15:04:03.000Z", "node\tn1", "error\tline 1 line 2[2J", "checkpoint\t{\"row\":5}", `payload	{"command":["true"]}`, "timeout\t10m0s",
		`retry	{"max_attempts":4}`, "owner\tme", "labels\ta=1,b=2", "",
	}, "\n"), "")
	got := s.Terminal().Run(t, "task", "get", "a").Out
	for _, want := range []string{"\nstate          " + printer.Red + "failed" + printer.Reset + "\n", "\nrun at         in 3 minutes\n", "\ncreated at     2 minutes ago\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	s.Pipe().Run(t, "task", "get", "a", "-o", "json").Expect(t, 0, clitest.JSON(t, task)+"\n", "")
}

func TestGet_ShowsWhereItRuns(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/tasks/{id}", 200, clitest.Task("a", wire.StateScheduled, func(t *wire.Task) {
		t.Select, t.Prefer = new("gpu"), wire.Preferences{{Select: "zone=eu", Weight: new(10)}, {Select: "a<b"}}
		t.Route = &wire.Route{By: new(wire.RouteHash), Key: new("k")}
	}))
	const want = "\nselect\tgpu\nprefer\t10:zone=eu; 1:a<b\nroute\t" + `{"by":"hash","key":"k"}` + "\n"
	if got := s.Pipe().Run(t, "task", "get", "a").Out; !strings.Contains(got, want) {
		t.Errorf("no %q in\n%s", want, got)
	}
}

func TestGet_ShowsThePrecedence(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/tasks/{id}", 200, clitest.Task("a", wire.StateScheduled, func(t *wire.Task) {
		t.Priority, t.FairKey, t.FairWeight = new(9), new("customer-7"), new(3)
		t.LimitKey, t.Cost, t.Slots = new("b,a"), new(5), new(2)
	}))
	const want = "\npriority\t9\nfair_key\tcustomer-7\nfair_weight\t3\nlimit_key\tb,a\ncost\t5\nslots\t2\n"
	if got := s.Pipe().Run(t, "task", "get", "a").Out; !strings.Contains(got, want) {
		t.Errorf("no %q in\n%s", want, got)
	}
}

// People are told why the last attempt has a higher number than the retry policy says; a pipe gets the number.
func TestGet_ExplainsMoreAttemptsThanThePolicyHas(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/tasks/{id}", 200, clitest.Task("a", wire.StateScheduled, func(t *wire.Task) { t.MaxAttempts = 5 }))
	want := "max attempts  5 (4 of retry, and 1 more for attempts that were snoozed, interrupted, moved or made before a retry)\n"
	if got := s.Terminal().Run(t, "task", "get", "a").Out; !strings.Contains(got, want) {
		t.Errorf("no %q in\n%s", want, got)
	}
	if got := s.Pipe().Run(t, "task", "get", "a").Out; !strings.Contains(got, "\nmax_attempts\t5\n") {
		t.Errorf("a pipe gets\n%s", got)
	}
}

// A task that waits for another one of its key has no due time.
func TestGet_NamesTheTaskThatItWaitsFor(t *testing.T) {
	s := clitest.Start(t)
	waiting := clitest.Task("a", wire.StateScheduled, func(t *wire.Task) {
		t.RunAt, t.Once = wire.Time{}, &wire.TaskOnce{Mode: wire.OnceLatest, Key: "mine", After: new("mine@k1")}
	})
	s.On("GET /v1/tasks/{id}", 200, waiting)
	s.On("POST /v1/tasks/{id}/retry", 200, waiting)
	s.On("GET /v1/tasks", 200, wire.TaskList{Tasks: []wire.Task{waiting}})
	got := s.Terminal().Run(t, "task", "get", "a").Out
	if !strings.Contains(got, "\nwaits for     the end of mine@k1\n") || strings.Contains(got, "run at") {
		t.Errorf("it says\n%s", got)
	}
	if got := s.Terminal().Run(t, "task", "retry", "a").Out; !strings.Contains(got, "scheduled until the end of mine@k1") {
		t.Errorf("in a sentence: %s", got)
	}
	s.Pipe().Run(t, "task", "list").Expect(t, 0, "a\tscheduled\tshell\tdefault\t0\t\t\t\t\t\tdefault\n", "")
}

func TestGet_EscapesIDs(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/tasks/{id}", 404, clitest.Problem(404, wire.TaskNotFound, "", "no such task"))
	for id, want := range map[string]string{
		"nightly@20260102T150405Z": "GET /v1/tasks/nightly@20260102T150405Z",
		"...":                      "GET /v1/tasks/...",
	} {
		s.Pipe().Run(t, "task", "get", id).Expect(t, 1, "", "dtsctl: no such task (task_not_found)\n")
		if got := s.Last().Line; got != want {
			t.Errorf("asked %q, want %q", got, want)
		}
	}
}

func TestGet_SendsInvalidIDsAsTheyAre(t *testing.T) {
	var asked string
	sh := clitest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r.RequestURI
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(400)
		_, _ = w.Write([]byte(clitest.JSON(t, clitest.Problem(400, wire.Invalid, "id", "id: is odd"))))
	})
	sh.Run(t, "task", "get", "a/../b?c#d %").Expect(t, 1, "", "dtsctl: id: is odd (invalid)\n")
	if want := "/v1/tasks/a%2F..%2Fb%3Fc%23d%20%25"; asked != want {
		t.Errorf("asked %q, want %q", asked, want)
	}
}

// pages serves n tasks in pages of the size that is asked for.
func pages(s *clitest.Stub, n int) {
	s.Handle("GET /v1/tasks", func(w http.ResponseWriter, r *http.Request) {
		from, size := 0, 0
		_, _ = fmt.Sscan(r.URL.Query().Get("cursor"), &from)
		_, err := fmt.Sscan(r.URL.Query().Get("limit"), &size)
		testkit.Must(s.T, err)
		list := wire.TaskList{Tasks: []wire.Task{}}
		for i := from; i < min(n, from+size); i++ {
			list.Tasks = append(list.Tasks, clitest.Task(fmt.Sprint("t", i), wire.StateScheduled))
		}
		if from+size < n {
			list.NextCursor = new(fmt.Sprint(from + size))
		}
		s.Reply(w, 200, list)
	})
}

// Programs that write JSON for pages in HTML escape the signs &, < and >.
func TestGet_ShowsSignsOfJSONAsTheyAre(t *testing.T) {
	const payload = `{"command":["a \u0026\u0026 b","\u003Cx\u003e","\\u0026","\u00e9"]}`
	const shown = `{"command":["a && b","<x>","\\u0026","\u00e9"]}`
	s := clitest.Start(t)
	raw := strings.Replace(clitest.JSON(t, clitest.Task("a", wire.StateScheduled)), `{"command":["true"]}`, payload, 1)
	s.Handle("GET /v1/tasks/{id}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(raw))
	})
	for _, sh := range []clitest.Shell{s.Pipe(), s.Terminal()} {
		if got := sh.Run(t, "task", "get", "a").Out; !strings.Contains(got, shown) {
			t.Errorf("got %s", got)
		}
		got := strings.NewReplacer(" ", "", "\n", "").Replace(sh.Run(t, "task", "get", "a", "-o", "json").Out)
		if !strings.Contains(got, strings.ReplaceAll(shown, " ", "")) {
			t.Errorf("got %s", got)
		}
	}
}

func TestList_AsksForWhatItNeeds(t *testing.T) {
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
			s := clitest.Start(t)
			pages(s, 1200)
			got := s.Pipe().Run(t, append([]string{"task", "list"}, c.args...)...)
			if got.Code != 0 || strings.Count(got.Out, "\n") != c.lines {
				t.Errorf("code %d, %d lines, want %d; %s", got.Code, strings.Count(got.Out, "\n"), c.lines, got.Err)
			}
			var want []string
			for _, query := range c.asked {
				want = append(want, "GET /v1/tasks?"+query)
			}
			if got := s.Lines(); strings.Join(got, "\n") != strings.Join(want, "\n") {
				t.Errorf("asked %q, want %q", got, want)
			}
		})
	}
}

func TestList_PrintsTasks(t *testing.T) {
	s := clitest.Start(t)
	tasks := []wire.Task{
		clitest.Task("b", wire.StateFailed, clitest.Ran, func(t *wire.Task) { t.Error = new(strings.Repeat("x", 100)) }),
		clitest.Task("long-id", wire.StateScheduled),
	}
	s.On("GET /v1/tasks", 200, wire.TaskList{Tasks: tasks, NextCursor: new("c")})
	s.Pipe().Run(t, "task", "list", "--limit", "2").Expect(t, 0,
		"b\tfailed\tshell\tdefault\t1\t2026-01-02T15:07:05.000Z\t2026-01-02T15:04:03.000Z\tn1\t"+strings.Repeat("x", 100)+
			"\t2026-01-02T15:04:01.500Z\tdefault\n"+
			"long-id\tscheduled\tshell\tdefault\t0\t2026-01-02T15:07:05.000Z\t\t\t\t\tdefault\n", "There are more; --all lists them.\n")
	s.Terminal().Run(t, "task", "list", "--limit", "2").Expect(t, 0,
		"ID       STATE      TYPE   QUEUE    ATTEMPT  DUE           FINISHED       NODE  STARTED        ERROR\n"+
			"b        "+printer.Red+"failed"+printer.Reset+"     shell  default  1        in 3 minutes  2 seconds ago  n1    4 seconds ago  "+strings.Repeat("x", 59)+"…\n"+
			"long-id  scheduled  shell  default  0        in 3 minutes\n", "There are more; --all lists them.\n")
	s.Pipe().Run(t, "task", "list", "--limit", "2", "-o", "json").Expect(t, 0, clitest.JSON(t, wire.TaskList{Tasks: tasks, NextCursor: new("c")})+"\n", "")
}

func TestList_ShowsAllNamespaces(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/tasks", 200, wire.TaskList{Tasks: []wire.Task{clitest.Task("b", wire.StateScheduled)}})
	s.Terminal().Run(t, "task", "list", "-A").Expect(t, 0,
		"NAMESPACE  ID  STATE      TYPE   QUEUE    ATTEMPT  DUE           FINISHED  NODE  STARTED  ERROR\n"+
			"default    b   scheduled  shell  default  0        in 3 minutes\n", "")
	if got := s.Lines(); len(got) != 1 || got[0] != "GET /v1/tasks?namespace=%2A&limit=50" {
		t.Errorf("asked %q", got)
	}
}

func TestList_PrintsNothingForAnEmptyListInAPipe(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/tasks", 200, wire.TaskList{Tasks: []wire.Task{}})
	s.Pipe().Run(t, "task", "list").Expect(t, 0, "", "")
	s.Terminal().Run(t, "task", "list").Expect(t, 0, "Nothing found.\n", "")
	s.Pipe().Run(t, "task", "list", "-o", "json").Expect(t, 0, "{\"tasks\":[]}\n", "")
	s.Pipe().Run(t, "task", "list", "-o", "yaml").Expect(t, 0, "---\ntasks: []\n", "")
}

func TestAttempts_ShowsTheHistory(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/tasks/{id}/attempts", 200, wire.AttemptList{Attempts: []wire.Attempt{
		{Number: 1, Node: "n1", StartedAt: wire.At(clitest.Now.Add(-time.Hour)), FinishedAt: new(wire.At(clitest.Now.Add(-time.Hour + 1234*time.Millisecond))), Outcome: new(wire.OutcomeLost), Error: new("died")},
		{Number: 2, Node: "n2", StartedAt: wire.At(clitest.Now)},
	}})
	s.Pipe().Run(t, "task", "attempts", "a").Expect(t, 0,
		"1\tlost\t2026-01-02T14:04:05.000Z\t1.234s\tn1\tdied\n2\t\t2026-01-02T15:04:05.000Z\t\tn2\t\n", "")
	s.Terminal().Run(t, "task", "attempts", "a").Expect(t, 0,
		"NUMBER  OUTCOME  STARTED     TOOK  NODE  ERROR\n1       "+printer.Red+"lost"+printer.Reset+"     1 hour ago  1.2s  n1    died\n2                now               n2\n", "")
}

func TestList_FiltersBySchedule(t *testing.T) {
	s := clitest.Start(t)
	tick := clitest.Task("a@20260102T150705Z", wire.StateScheduled, func(t *wire.Task) { t.Schedule, t.Tick = new("a"), new(wire.At(clitest.Now.Add(3*time.Minute))) })
	s.On("GET /v1/tasks", 200, wire.TaskList{Tasks: []wire.Task{tick}})
	s.On("GET /v1/tasks/{id}", 200, tick)
	if got := s.Pipe().Run(t, "task", "list", "--schedule", "a"); got.Code != 0 || s.Last().Line != "GET /v1/tasks?schedule=a&limit=50" {
		t.Errorf("%+v asked %s", got, s.Last().Line)
	}
	got := s.Pipe().Run(t, "task", "get", "a@20260102T150705Z").Out
	if want := "\nschedule\ta\ntick\t2026-01-02T15:07:05.000Z\n"; !strings.Contains(got, want) {
		t.Errorf("no %q in %q", want, got)
	}
}
