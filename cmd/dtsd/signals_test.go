//go:build unix

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/testkit"
)

// rerunArgs holds the arguments of dtsd for a test that runs itself once more as dtsd.
const rerunArgs = "DTSD_TEST_ARGS"

// spawned is a dtsd in a process of its own.
type spawned struct {
	*exec.Cmd
	url   string
	ended chan error
}

// spawn starts "dtsd dev --demo", waits until it serves, and then reads neither its output nor its log any more.
func spawn(t *testing.T) *spawned {
	t.Helper()
	// A program ignores what its parent ignores, as under nohup, but not what its parent catches.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), rerunArgs+"=dtsd dev --demo --listen 127.0.0.1:0 --log-level debug")
	out, err := cmd.StdoutPipe()
	testkit.Must(t, err)
	log, err := cmd.StderrPipe()
	testkit.Must(t, err)
	testkit.Must(t, cmd.Start())
	testkit.Must(t, log.Close())
	d := &spawned{cmd, "", make(chan error, 1)}
	at := regexp.MustCompile(`API +(http://[0-9.:]+)/`)
	for lines := bufio.NewScanner(out); d.url == "" && lines.Scan(); {
		if found := at.FindStringSubmatch(lines.Text()); found != nil {
			d.url = found[1]
		}
	}
	testkit.Must(t, out.Close())
	if d.url == "" {
		t.Fatalf("dtsd has ended before it served: %v", cmd.Wait())
	}
	go func() { d.ended <- cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return d
}

func (d *spawned) post(t *testing.T, path, body string) {
	t.Helper()
	resp, err := http.Post(d.url+path, "application/json", strings.NewReader(body))
	testkit.Must(t, err)
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode >= 300 {
		text, _ := io.ReadAll(resp.Body)
		t.Fatalf("POST %s is answered with %s: %s", path, resp.Status, text)
	}
}

// get returns the status of an answer, and its members "state" and "error" if it has them.
func (d *spawned) get(t *testing.T, path string) (status int, state, reason string) {
	t.Helper()
	resp, err := http.Get(d.url + path)
	if err != nil {
		return 0, "", err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	var answer struct{ State, Error string }
	_ = json.NewDecoder(resp.Body).Decode(&answer)
	return resp.StatusCode, answer.State, answer.Error
}

func (d *spawned) submit(t *testing.T, id, script string) {
	t.Helper()
	d.post(t, "/v1/tasks", fmt.Sprintf(
		`{"id": %q, "type": "shell", "payload": {"command": ["sh", "-c", %q]}, "retry": {"max_attempts": 1}}`, id, script))
}

// A node whose log and output nobody reads any more works on, and drains when its terminal goes away. The commands
// that it runs have the signals that every program begins with.
func TestMain_OutlivesItsReadersAndDrainsOnSIGHUP(t *testing.T) {
	if args := os.Getenv(rerunArgs); args != "" {
		os.Args = strings.Fields(args)
		main()
		return
	}
	t.Parallel()
	d := spawn(t)
	d.submit(t, "pipe", "kill -PIPE $$; echo survived")
	testkit.Eventually(t, "the end of a command by SIGPIPE", func() bool {
		_, state, reason := d.get(t, "/v1/tasks/pipe")
		return state == "failed" && strings.HasPrefix(reason, "killed by signal 13")
	})

	release := filepath.Join(t.TempDir(), "release")
	d.submit(t, "keep", "until [ -e "+release+" ]; do sleep 0.02; done")
	testkit.Eventually(t, "a task that runs", func() bool {
		_, state, _ := d.get(t, "/v1/tasks/keep")
		return state == "running"
	})
	testkit.Eventually(t, "the end of the demo", func() bool { // the node would wait for its task that takes an hour
		_, state, _ := d.get(t, "/v1/tasks/too-long")
		return state == "cancelled"
	})
	testkit.Must(t, d.Process.Signal(syscall.SIGHUP))
	testkit.Eventually(t, "a node that drains", func() bool {
		status, _, _ := d.get(t, "/readyz")
		return status == http.StatusServiceUnavailable
	})
	testkit.Must(t, d.Process.Signal(syscall.SIGHUP))
	if status, state, _ := d.get(t, "/v1/tasks/keep"); status != http.StatusOK || state != "running" {
		t.Errorf("after the second SIGHUP, the API says %d, and the task is %q", status, state)
	}
	testkit.Must(t, os.WriteFile(release, nil, 0o600))
	select {
	case err := <-d.ended:
		testkit.Must(t, err)
	case <-time.After(30 * time.Second):
		t.Fatal("it does not end")
	}
}

// Under nohup, a process goes on when its terminal goes away.
func TestUntilStopped_IgnoresSIGHUPUnderNohup(t *testing.T) {
	if os.Getenv(rerunArgs) != "" {
		ctx := untilStopped()
		for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGTERM} {
			testkit.Must(t, syscall.Kill(os.Getpid(), s))
		}
		<-ctx.Done()
		fmt.Println("stopped by", context.Cause(ctx))
		return
	}
	t.Parallel()
	const nohup = `trap "" HUP; exec "$0" "$@"`
	cmd := exec.CommandContext(t.Context(), "sh", "-c", nohup, os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), rerunArgs+"=x")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "stopped by terminated") {
		t.Errorf("%v: %s", err, out)
	}
}
