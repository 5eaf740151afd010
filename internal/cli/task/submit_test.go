package task_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/clitest"
	"github.com/dts-sched/dts/internal/cli/printer"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestSubmit_HelpSaysTheDefaultNumberOfAttempts(t *testing.T) {
	const want = `goes through the queue "default", and has 25
attempts, 4 if it is of type shell.`
	if got := clitest.Start(t).Pipe().Run(t, "task", "submit", "--help").Out; !strings.Contains(got, want) {
		t.Errorf("got %s", got)
	}
}

func TestSubmit_SendsWhatTheFlagsSay(t *testing.T) {
	file := filepath.Join(t.TempDir(), "payload.json")
	testkit.Must(t, os.WriteFile(file, []byte("{\"a\": \"<b>\"}\n"), 0o600))
	set := filepath.Join(t.TempDir(), "set.binpb")
	testkit.Must(t, os.WriteFile(set, []byte{255, 0}, 0o600))
	for name, c := range map[string]struct {
		args  []string
		stdin string
		want  string
	}{
		"the type alone":       {[]string{"submit", "--type", "x"}, "", `{"type":"x"}`},
		"a payload":            {[]string{"submit", "--type", "x", "--payload", `[1, 2]`}, "", `{"payload":[1,2],"type":"x"}`},
		"a payload from file":  {[]string{"submit", "--type", "x", "--payload", "@" + file}, "", `{"payload":{"a":"<b>"},"type":"x"}`},
		"a payload from stdin": {[]string{"submit", "--type", "x", "--payload", "@-"}, `"s"`, `{"payload":"s","type":"x"}`},
		"a delay":              {[]string{"submit", "--type", "x", "--delay", "90s"}, "", `{"delay":"1m30s","type":"x"}`},
		"a time":               {[]string{"submit", "--type", "x", "--at", "2026-03-04T05:06:07+01:00"}, "", `{"run_at":"2026-03-04T04:06:07.000Z","type":"x"}`},
		"a local time":         {[]string{"submit", "--type", "x", "--at", "2026-03-04 05:06"}, "", `{"run_at":"2026-03-04T04:06:00.000Z","type":"x"}`},
		"a local time with s":  {[]string{"submit", "--type", "x", "--at", "2026-03-04 05:06:07"}, "", `{"run_at":"2026-03-04T04:06:07.000Z","type":"x"}`},
		"tries":                {[]string{"submit", "--type", "x", "--max-attempts", "1"}, "", `{"retry":{"max_attempts":1},"type":"x"}`},
		"time for tries":       {[]string{"submit", "--type", "x", "--max-elapsed", "90s"}, "", `{"retry":{"max_elapsed":"1m30s"},"type":"x"}`},
		"delays of tries":      {[]string{"submit", "--type", "x", "--retry-delays", "1m,90s"}, "", `{"retry":{"delays":["1m0s","1m30s"]},"type":"x"}`},
		"a key":                {[]string{"submit", "--type", "x", "--once", "singleton:a"}, "", `{"once":{"key":"a","mode":"singleton"},"type":"x"}`},
		"a key and times": {
			[]string{"submit", "--type", "x", "--once", "debounce:a,wait=5s,max=1m"}, "",
			`{"once":{"key":"a","max":"1m","mode":"debounce","wait":"5s"},"type":"x"}`,
		},
		"a throttle": {
			[]string{"submit", "--type", "x", "--once", "throttle:a,every=1m,excess=delay"}, "",
			`{"once":{"every":"1m","excess":"delay","key":"a","mode":"throttle"},"type":"x"}`,
		},
		"a turn": {
			[]string{
				"submit", "--type", "x", "--priority", "9", "--fair-key", "k", "--fair-weight", "3", "--limit-key", "b,a",
			}, "",
			`{"fair_key":"k","fair_weight":3,"limit_key":"b,a","priority":9,"type":"x"}`,
		},
		"nodes": {
			[]string{
				"submit", "--type", "x", "--select", "zone in (eu,us),gpu", "--prefer", "10:zone in (eu,us)", "--prefer", "a=b",
				"--route", "hash", "--route-key", "k", "--sticky", "prefer",
			}, "",
			`{"prefer":[{"select":"zone in (eu,us)","weight":10},{"select":"a=b","weight":1}],` +
				`"route":{"by":"hash","key":"k","sticky":"prefer"},"select":"zone in (eu,us),gpu","type":"x"}`,
		},
		"an order of nodes": {
			[]string{"shell", "--route", "failover", "--route-order", "b,a", "--", "true"}, "",
			`{"payload":{"command":["true"]},"route":{"by":"failover","order":["b","a"]},"type":"shell"}`,
		},
		"a load": {
			[]string{"http", "https://e.x", "--route", "weighted", "--route-load", "cpu=0.5,memory=.2, response=0"}, "",
			`{"payload":{"url":"https://e.x"},"route":{"by":"weighted","load":{"cpu":0.5,"memory":0.2,"response":0}},` +
				`"type":"http"}`,
		},
		"http with a limit key": {
			[]string{"http", "https://e.x", "--limit-key", "a", "--cost", "5", "--slots", "2"}, "",
			`{"cost":5,"limit_key":"a","payload":{"url":"https://e.x"},"slots":2,"type":"http"}`,
		},
		"http that pauses its keys": {
			[]string{"http", "https://e.x", "--limit-key", "a", "--pause-keys"}, "",
			`{"limit_key":"a","payload":{"url":"https://e.x","pause":"key"},"type":"http"}`,
		},
		"http with a turn":  {[]string{"http", "https://e.x", "--priority", "0"}, "", `{"payload":{"url":"https://e.x"},"priority":0,"type":"http"}`},
		"shell with a turn": {[]string{"shell", "--fair-key", "k", "--", "true"}, "", `{"fair_key":"k","payload":{"command":["true"]},"type":"shell"}`},
		"the rest": {
			[]string{"submit", "--type", "x", "--id", "a", "--queue", "q", "--timeout", "5s", "--retention", "1h", "--owner", "me", "--label", "b=c=d", "--label", "a="}, "",
			`{"id":"a","labels":{"a":"","b":"c=d"},"owner":"me","queue":"q","retention":"1h0m0s","timeout":"5s","type":"x"}`,
		},
		"http": {[]string{"http", "https://e.x/?a=1&b=2"}, "", `{"payload":{"url":"https://e.x/?a=1&b=2"},"type":"http"}`},
		"http that is expected": {
			[]string{"http", "https://e.x", "--retry-codes", "404,420-422", "--expect", `{"contains": "ok"}`}, "",
			`{"payload":{"url":"https://e.x","retry_codes":[404,"420-422"],"expect":{"contains":"ok"}},"type":"http"}`,
		},
		"shell with final codes": {
			[]string{"shell", "--final-exit-codes", "2,64", "--", "true"}, "", `{"payload":{"command":["true"],"final_exit_codes":[2,64]},"type":"shell"}`,
		},
		"shell as another user, with limits": {
			[]string{"shell", "--user", "reports", "--memory", "512MiB", "--cpu-time", "90s", "--open-files", "64", "--", "true"}, "",
			`{"payload":{"command":["true"],"user":"reports","limits":{"memory":"512MiB","cpu_time":"1m30s","open_files":64}},"type":"shell"}`,
		},
		"grpc": {[]string{"grpc", "a:1", "b.C/D"}, "", `{"payload":{"target":"a:1","method":"b.C/D"},"type":"grpc"}`},
		"grpc with all": {
			[]string{
				"grpc", "a:1", "b.C/D", "-d", `{"n": 1}`, "-H", "Authorization: Bearer abc", "--tls-ca", "@-", "--tls-server-name", "b",
				"--descriptor-set", set, "--retry-codes", "NOT_FOUND,ABORTED",
			}, "PEM",
			`{"payload":{"target":"a:1","method":"b.C/D","request":{"n":1},"metadata":{"Authorization":"Bearer abc"},"tls":{"ca":"PEM","server_name":"b"},` +
				`"descriptor_set":"/wA=","retry_codes":["NOT_FOUND","ABORTED"]},"type":"grpc"}`,
		},
		"grpc with a file of the node": {
			[]string{"grpc", "a:1", "b.C/D", "--tls", "--descriptor-file", "b.binpb"}, "",
			`{"payload":{"target":"a:1","method":"b.C/D","tls":{},"descriptor_file":"b.binpb"},"type":"grpc"}`,
		},
		"http with all": {
			[]string{"http", "https://e.x", "-X", "PUT", "-H", "A: b: c", "-H", "D:e", "-d", "text", "--success-codes", "200,300-302", "--id", "h"}, "",
			`{"id":"h","payload":{"method":"PUT","url":"https://e.x","headers":{"A":"b: c","D":"e"},"body":"text","success_codes":[200,"300-302"]},"type":"http"}`,
		},
		"http with a JSON body":      {[]string{"http", "https://e.x", "-d", ` {"a": 1}`}, "", `{"payload":{"url":"https://e.x","body":{"a":1}},"type":"http"}`},
		"http with a number as text": {[]string{"http", "https://e.x", "-d", `1`}, "", `{"payload":{"url":"https://e.x","body":"1"},"type":"http"}`},
		"http with a body from file": {[]string{"http", "https://e.x", "-d", "@-"}, "{half", `{"payload":{"url":"https://e.x","body":"{half"},"type":"http"}`},
		"shell":                      {[]string{"shell", "--", "echo", "-n", "a b"}, "", `{"payload":{"command":["echo","-n","a b"]},"type":"shell"}`},
		"shell without dashes":       {[]string{"shell", "--id", "s", "echo", "--id", "x"}, "", `{"id":"s","payload":{"command":["echo","--id","x"]},"type":"shell"}`},
		"shell with all": {
			[]string{"shell", "--env", "A=b", "--dir", "/tmp", "--stdin", "@-", "--delay", "1h", "--", "cat"}, "in\n",
			`{"delay":"1h0m0s","payload":{"command":["cat"],"env":{"A":"b"},"dir":"/tmp","stdin":"in\n"},"type":"shell"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := clitest.Start(t)
			s.On("POST /v1/tasks", 201, clitest.Task("a", wire.StateScheduled))
			sh := s.Pipe()
			sh.Stdin = c.stdin
			sh.Run(t, append([]string{"task"}, c.args...)...).Expect(t, 0, "a\n", "")
			if got := s.Last(); got.Body != c.want || got.Line != "POST /v1/tasks" {
				t.Errorf("sent %s\n%s, want\n%s", got.Line, got.Body, c.want)
			}
		})
	}
}

func TestSubmit_PrintsTheTask(t *testing.T) {
	s := clitest.Start(t)
	task := clitest.Task("a", wire.StateScheduled)
	s.On("POST /v1/tasks", 201, task)
	args := []string{"task", "submit", "--type", "x"}
	s.Terminal().Run(t, args...).Expect(t, 0, "a scheduled due in 3 minutes\n", "")
	s.Pipe().Run(t, append(args, "-o", "json")...).Expect(t, 0, clitest.JSON(t, task)+"\n", "")
	if got := s.Terminal().Run(t, append(args, "-o", "json")...); !strings.Contains(got.Out, "\n  \"id\": \"a\",\n") {
		t.Errorf("a terminal gets %q", got.Out)
	}
	if got := s.Pipe().Run(t, append(args, "-o", "yaml")...); !strings.Contains(got.Out, "\nid: a\n") || !strings.Contains(got.Out, "run_at: \"2026-01-02T15:07:05.000Z\"\n") {
		t.Errorf("YAML is %q", got.Out)
	}
}

const lineWarning = "warning: all of 'ls | wc' is taken as the name of a program; to have a shell run it, write: -- sh -c 'ls | wc'\n"

func TestShell_WarnsOfALineForAShell(t *testing.T) {
	s := clitest.Start(t)
	s.On("POST /v1/tasks", 201, clitest.Task("a", wire.StateScheduled))
	s.Pipe().Run(t, "task", "shell", "--", "ls | wc").Expect(t, 0, "a\n", lineWarning)
	s.Pipe().Run(t, "task", "shell", "--", "sh", "-c", "ls | wc").Expect(t, 0, "a\n", "")
}

func TestSubmit_TellsThatTheTaskWasSubmittedBefore(t *testing.T) {
	s := clitest.Start(t)
	s.On("POST /v1/tasks", 200, clitest.Task("a", wire.StateSucceeded, clitest.Ran))
	args := []string{"task", "submit", "--type", "x", "--id", "a"}
	s.Pipe().Run(t, args...).Expect(t, 0, "a\n", "")
	s.Terminal().Run(t, args...).Expect(t, 0, "a "+printer.Green+"succeeded"+printer.Reset+" after 1.5s, as it was submitted before\n", "")
}

func TestSubmit_TellsWhatTheServerRefuses(t *testing.T) {
	s := clitest.Start(t)
	s.On("POST /v1/tasks", 400, clitest.Problem(400, wire.Invalid, "payload.url", "payload.url: is missing"))
	s.Pipe().Run(t, "task", "submit", "--type", "http").Expect(t, 1, "", "dtsctl: payload.url: is missing (invalid)\n")
}

func TestSubmit_TakesTheNamespaceOfTheFlagOrTheEnvironment(t *testing.T) {
	s := clitest.Start(t)
	s.On("POST /v1/tasks", 201, clitest.Task("a", wire.StateScheduled))
	sh := s.Pipe()
	sh.Env = map[string]string{"DTSCTL_NAMESPACE": "env"}
	sh.Run(t, "task", "shell", "true").Expect(t, 0, "a\n", "")
	if got := s.Last().Line; got != "POST /v1/tasks?namespace=env" {
		t.Error(got)
	}
	sh.Run(t, "-n", "flag", "task", "shell", "true").Expect(t, 0, "a\n", "")
	if got := s.Last().Line; got != "POST /v1/tasks?namespace=flag" {
		t.Error(got)
	}
}

func TestSubmit_TellsTheWarningsOfTheServer(t *testing.T) {
	s := clitest.Start(t)
	warned := func(id string) wire.Task {
		task := clitest.Task(id, wire.StateScheduled)
		task.Warnings = []string{"no living node serves the queue \"q\""}
		return task
	}
	s.On("POST /v1/tasks", 201, warned("a"))
	const want = "warning: no living node serves the queue \"q\"\n"
	s.Pipe().Run(t, "task", "submit", "--type", "x").Expect(t, 0, "a\n", want)
	b, c := warned("b"), warned("c")
	s.On("POST /v1/tasks/batch", 200, wire.BatchAnswer{Results: []wire.BatchResult{{Status: 201, Task: &b}, {Status: 201, Task: &c}}})
	sh := s.Pipe()
	sh.Stdin = "{\"type\": \"x\"}\n{\"type\": \"x\"}\n"
	sh.Run(t, "task", "submit", "-f", "-").Expect(t, 0, "1\tb\t201\t\n2\tc\t201\t\n", want+"2 of 2 tasks were accepted\n")
}
