package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/redistest"
)

// shellBlocks are the commands of the README's sh blocks, one a line, continued lines joined.
func shellBlocks(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
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
	cmd.Env = append(os.Environ(), "GORACE="+quickRace)
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
	for _, line := range shellBlocks(t) {
		if !strings.HasPrefix(line, "go run ./cmd/dtsctl") && !strings.HasPrefix(line, "curl") {
			continue
		}
		run++
		out := bash(t, line, "go run ./cmd/dtsctl", control+" --server "+n.url, "http://127.0.0.1:8080", n.url)
		for command, want := range map[string]string{
			"echo hello": "succeeded", "--id check": "check", "task list": "flaky", "task attempts flaky": "attempt 1 fails",
			"schedule put": "cleanup", "schedule next": "+0", "schedule audit": "proved", "curl": `"state":"scheduled"`,
		} {
			if strings.Contains(line, command) && !strings.Contains(out, want) {
				t.Errorf("%s: no %q in\n%s", line, want, out)
			}
		}
	}
	if run < 8 {
		t.Errorf("only %d commands were found in the README", run)
	}
	await(t, 30*time.Second, "the demo has cancelled the task of an hour, so that none of its processes is left", func() bool {
		return n.task("too-long").State == "cancelled"
	})
}

func TestREADME_TwoNodesFindEachOther(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	var serves, others []string
	for _, line := range shellBlocks(t) {
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
