package lock_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/clitest"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

var deploy = wire.Lock{
	Name: "deploy", Namespace: "default", Holder: "host:1:x", Fence: 42, Since: wire.At(clitest.Now), ExpiresAt: wire.At(clitest.Now.Add(15 * time.Second)), TTL: "15s",
	Note: new("v42"),
}

// problem is a refusal.
func problem(status int, code wire.ProblemCode, detail string) wire.Problem {
	return wire.Problem{Type: "urn:dts:problem:" + string(code), Title: "t", Status: status, Code: code, Detail: detail, RequestID: "r"}
}

// grant is a server that grants the lock.
func grant(t *testing.T) *clitest.Stub {
	t.Helper()
	s := clitest.Start(t)
	s.On("POST /v1/locks/deploy/acquire", 200, deploy)
	s.On("POST /v1/locks/deploy/release", 200, wire.LockReleased{Released: true})
	return s
}

func TestLock_RunsTheCommandWithTheFence(t *testing.T) {
	s := grant(t)
	shell := s.Pipe()
	shell.Stdin = "typed"
	shell.Run(t, "lock", "deploy", "--note", "v42", "--", "sh", "-c", `echo "$DTS_LOCK_NAME $DTS_LOCK_FENCE $(cat)"`).
		Expect(t, 0, "deploy 42 typed\n", "")
	if got := s.Last(); !strings.HasPrefix(got.Line, "POST /v1/locks/deploy/release") || !strings.Contains(got.Body, `"fence":42`) {
		t.Errorf("the last request was %+v", got)
	}
}

func TestLock_EndsWithTheCodeOfTheCommand(t *testing.T) {
	s := grant(t)
	for code, command := range map[int]string{7: "exit 7", 128 + 15: "kill -TERM $$"} {
		s.Pipe().Run(t, "lock", "deploy", "--", "sh", "-c", command).Expect(t, code, "", "")
	}
	if got := s.Pipe().Run(t, "lock", "deploy", "--", "no-such-command"); got.Code != 127 || !strings.Contains(got.Err, "no-such-command") {
		t.Errorf("got %+v", got)
	}
	if got := s.Pipe().Run(t, "lock", "deploy", "--", "ls | wc"); got.Code != 127 || !strings.Contains(got.Err, "sh -c 'ls | wc'") {
		t.Errorf("got %+v", got)
	}
	if got := s.Pipe().Run(t, "lock", "deploy", "--", "/"); got.Code != 126 {
		t.Errorf("got %+v", got)
	}
	if got := s.Last(); !strings.HasPrefix(got.Line, "POST /v1/locks/deploy/release") {
		t.Errorf("the last request was %+v", got)
	}
}

func TestLock_DoesNotRunTheCommandWithoutTheLock(t *testing.T) {
	s := clitest.Start(t)
	s.On("POST /v1/locks/deploy/acquire", 409, problem(409, wire.LockHeld, "held by you"))
	for _, flag := range []string{"--try", "--wait=10ms"} {
		s.Terminal().Run(t, "lock", "deploy", flag, "--", "echo", "ran")
		if got := s.Pipe().Run(t, "lock", "deploy", flag, "--", "echo", "ran"); got.Code != 1 || got.Out != "" || got.Err != "dtsctl: held by you (lock_held)\n" {
			t.Errorf("%s: got %+v", flag, got)
		}
	}
	for _, args := range [][]string{
		{}, {"deploy"}, {"deploy", "--"}, {"deploy", "echo"}, {"deploy", "more", "--", "echo"}, {"deploy", "--try", "--wait", "1s", "--", "echo"},
		{"deploy", "--wait", "-1s", "--", "echo"},
	} {
		if got := s.Pipe().Run(t, append([]string{"lock"}, args...)...); got.Code != 2 {
			t.Errorf("%q: got %+v", args, got)
		}
	}
}

func TestLock_EndsTheCommandWhenTheLockIsLost(t *testing.T) {
	s := grant(t)
	s.On("POST /v1/locks/deploy/renew", 409, problem(409, wire.LockLost, "it expired"))
	for name, command := range map[string]string{
		"which obeys":      "trap 'echo ended; exit 3' TERM; echo began; while :; do sleep 0.02; done",
		"which ignores it": "trap '' TERM; echo began; while :; do sleep 0.02; done",
	} {
		got := s.Pipe().Run(t, "lock", "deploy", "--ttl", "1s", "--grace", "100ms", "--", "sh", "-c", command)
		obeyed := strings.Contains(got.Out, "ended")
		if got.Code != 125 || !strings.Contains(got.Err, "dtsctl: the lock deploy was lost") || obeyed != (name == "which obeys") {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

func TestLock_SaysThatTheLockCouldNotBeGivenBack(t *testing.T) {
	s := clitest.Start(t)
	s.On("POST /v1/locks/deploy/acquire", 200, deploy)
	s.On("POST /v1/locks/deploy/release", 503, problem(503, wire.Unavailable, "no Redis"))
	got := s.Pipe().Run(t, "lock", "deploy", "--", "true")
	if got.Code != 0 || !strings.Contains(got.Err, "could not be given back") || !strings.Contains(got.Err, "free within 15s") {
		t.Errorf("got %+v", got)
	}
}

func TestLock_SaysOnATerminalThatItWaits(t *testing.T) {
	s := clitest.Start(t)
	asked := 0
	s.Handle("POST /v1/locks/deploy/acquire", func(w http.ResponseWriter, _ *http.Request) {
		if asked++; asked == 1 {
			s.Reply(w, 409, problem(409, wire.LockHeld, "held by you"))
			return
		}
		s.Reply(w, 200, deploy)
	})
	s.On("POST /v1/locks/deploy/release", 200, wire.LockReleased{Released: true})
	got := s.Terminal().Run(t, "lock", "deploy", "--", "true")
	if got.Code != 0 || !strings.Contains(got.Err, "Waiting: held by you") {
		t.Errorf("got %+v", got)
	}
}

func TestList_PrintsLocks(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/locks", 200, wire.LockList{Locks: []wire.Lock{deploy}})
	s.Pipe().Run(t, "lock", "list").
		Expect(t, 0, "deploy\thost:1:x\t42\t2026-01-02T15:04:05.000Z\t2026-01-02T15:04:20.000Z\tv42\n", "")
}
