package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/test/process"
)

// shellBlocks are the commands of the sh blocks in a section of the README, one a line, continued lines joined.
func shellBlocks(t *testing.T, section string) []string {
	t.Helper()
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "\n## "+section+"\n")
	if !found {
		t.Fatalf("the README has no section %q", section)
	}
	rest, _, _ = strings.Cut(rest, "\n## ")
	var lines []string
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(rest, -1) {
		joined := strings.ReplaceAll(block[1], "\\\n", " ")
		lines = append(lines, strings.Split(strings.TrimSpace(joined), "\n")...)
	}
	return lines
}

// bash runs a command from the root of the repository, with what the README says replaced by what the test runs.
func bash(t *testing.T, command string, replacements ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-c", strings.NewReplacer(replacements...).Replace(command))
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), "GORACE="+process.QuickRace)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v\n%s", command, err, out)
	}
	return string(out)
}

// The commands of the README's quickstart do what they say, word for word but for the port and the binaries.
func TestREADME_QuickstartWorks(t *testing.T) {
	t.Parallel()
	n := startProcess(t, "dev", "--demo", "--log-level", "info")
	await(t, 30*time.Second, "the demo's flaky task has succeeded", func() bool {
		answer, err := n.GetTaskWithResponse(t.Context(), "flaky", nil)
		return err == nil && answer.JSON200 != nil && answer.JSON200.State == "succeeded"
	})
	control := filepath.Join(binaries, "dtsctl")
	run := 0
	for _, line := range shellBlocks(t, "Try it in a minute") {
		if !strings.HasPrefix(line, "go run ./cmd/dtsctl") && !strings.HasPrefix(line, "curl") {
			continue
		}
		run++
		out := bash(t, line, "go run ./cmd/dtsctl", control+" --server "+n.url, "http://127.0.0.1:8080", n.url)
		for command, want := range map[string]string{
			"echo hello": "succeeded", "--id check": "check", "task list": "flaky", "task attempts flaky": "attempt 1 fails",
			"schedule put": "cleanup", "schedule next": "+0", "schedule audit": "proved", "limit set": "key:*",
			"curl": `"state":"scheduled"`,
		} {
			if strings.Contains(line, command) && !strings.Contains(out, want) {
				t.Errorf("%s: no %q in\n%s", line, want, out)
			}
		}
	}
	if run < 10 {
		t.Errorf("only %d commands were found in the README", run)
	}
	await(t, 30*time.Second, "the demo has cancelled the task of an hour, so that none of its processes is left", func() bool {
		return n.task("too-long").State == "cancelled"
	})
	await(t, 30*time.Second, "the demo's schedule that fails has paused itself", func() bool {
		answer, err := n.GetScheduleWithResponse(t.Context(), "feed", nil)
		return err == nil && answer.JSON200 != nil && answer.JSON200.PausedAt != nil
	})
	expectNoError(t, n)
}

// Whoever runs the first commands on nodes of the second section, which do not run shell, is told so, and loses no attempt.
func TestREADME_QuickstartUsesNoAttemptsWithoutShell(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	examineAtTheEnd(t, redis.URL())
	n := startProcess(t, "serve", "--redis", redis.URL(), "--listen", "127.0.0.1:0")
	control := filepath.Join(binaries, "dtsctl")
	for _, line := range shellBlocks(t, "Try it in a minute") {
		if strings.Contains(line, "dtsctl task shell") || strings.HasPrefix(line, "curl") {
			bash(t, line, "go run ./cmd/dtsctl", control+" --server "+n.url, "http://127.0.0.1:8080", n.url, " --wait", "", `, "delay": "3s"`, "")
		}
	}
	list := func() []wire.Task {
		answer, err := n.ListTasksWithResponse(t.Context(), &client.ListTasksParams{Type: new("shell")})
		if err != nil || answer.JSON200 == nil {
			t.Fatalf("listing tasks: %v, %s", err, answer.Body)
		}
		return answer.JSON200.Tasks
	}
	await(t, 30*time.Second, "the leader has taken them off the wheel", func() bool {
		answer, err := n.ListQueuesWithResponse(t.Context())
		return err == nil && answer.JSON200 != nil && slices.ContainsFunc(answer.JSON200.Queues, func(q wire.Queue) bool { return q.Waiting == 2 })
	})
	for _, task := range list() {
		if task.Attempt != 0 || task.State != wire.StateScheduled || len(task.Warnings) != 1 || !strings.Contains(task.Warnings[0], "--enable-shell") {
			t.Errorf("%s is %s, attempt %d, with the warnings %q", task.ID, task.State, task.Attempt, task.Warnings)
		}
	}
}

func TestREADME_TwoNodesFindEachOther(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	examineAtTheEnd(t, redis.URL())
	var serves, others []string
	for _, line := range shellBlocks(t, "Run it for real") {
		switch {
		case strings.HasPrefix(line, "bin/dtsd serve "):
			serves = append(serves, line)
		case strings.HasPrefix(line, "bin/dtsctl "):
			others = append(others, line)
		}
	}
	if len(serves) != 2 || len(others) != 1 {
		t.Fatalf("found %q and %q", serves, others)
	}
	var nodes []*node
	for _, line := range serves {
		flags := strings.Fields(strings.TrimPrefix(line, "bin/dtsd "))
		for i, flag := range flags {
			switch {
			case strings.HasPrefix(flag, "redis://"):
				flags[i] = redis.URL()
			case flag == "--listen":
				flags[i+1] = "127.0.0.1:0"
			}
		}
		nodes = append(nodes, startProcess(t, flags...))
	}
	control := filepath.Join(binaries, "dtsctl")
	out := bash(t, others[0], "bin/dtsctl", control+" --server "+nodes[0].url)
	for _, n := range nodes {
		if !strings.Contains(out, n.id) {
			t.Errorf("%s is not in\n%s", n.id, out)
		}
	}
}

// The commands of the section about Go functions, word for word but for ports and binaries.
func TestREADME_GoWorkerWorks(t *testing.T) {
	t.Parallel()
	lines := shellBlocks(t, "Run your own Go functions")
	if len(lines) != 5 || !strings.HasPrefix(lines[0], "go run ./cmd/dtsd dev --redis-listen ") || !strings.HasSuffix(lines[1], " go run ./examples/go-worker") {
		t.Fatalf("found %q", lines)
	}
	redis := fmt.Sprintf("127.0.0.1:%d", redistest.FreePort(t))
	n := startProcess(t, "dev", "--log-level", "info", "--redis-listen", redis)
	worker := exec.Command("bash", "-c", strings.NewReplacer("127.0.0.1:6380", redis, "go run ./examples/go-worker", "exec "+filepath.Join(binaries, "go-worker")).Replace(lines[1]))
	testkit.Must(t, worker.Start())
	t.Cleanup(func() {
		testkit.Must(t, worker.Process.Signal(syscall.SIGTERM))
		testkit.Must(t, worker.Wait())
	})
	await(t, 30*time.Second, "the worker has run the first tick", func() bool { return len(n.all("succeeded")) > 0 })
	for i, want := range []string{"succeeded", "greeting name=Grace attempt=1", "fired"} {
		out := bash(t, lines[i+2], "go run ./cmd/dtsctl", filepath.Join(binaries, "dtsctl")+" --server "+n.url)
		if !strings.Contains(out, want) {
			t.Errorf("%s: no %q in\n%s", lines[i+2], want, out)
		}
	}
	expectNoError(t, n)
}
