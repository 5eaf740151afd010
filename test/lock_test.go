package test

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dts-sched/dts"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/test/process"
)

// lockJob is a running "dtsctl lock deploy".
type lockJob struct {
	*exec.Cmd
	t     *testing.T
	lines chan string // of its output
	done  chan int    // its exit code
}

// startLock runs a shell command under the lock deploy, and waits until it has written its first line.
func startLock(t *testing.T, url, command string, flags ...string) *lockJob {
	t.Helper()
	args := append([]string{"--server", url, "lock", "deploy"}, flags...)
	j := &lockJob{
		Cmd: exec.Command(filepath.Join(binaries, "dtsctl"), append(args, "--", "sh", "-c", command)...),
		t:   t, lines: make(chan string, 100), done: make(chan int, 1),
	}
	j.Env = append(os.Environ(), "GORACE="+process.QuickRace)
	out, err := j.StdoutPipe()
	testkit.Must(t, err)
	j.Stderr = j.Stdout
	testkit.Must(t, j.Start())
	go func() {
		scanner := bufio.NewScanner(out)
		for scanner.Scan() {
			j.lines <- scanner.Text()
		}
		close(j.lines)
		_ = j.Wait()
		j.done <- j.ProcessState.ExitCode()
	}()
	t.Cleanup(func() {
		_ = j.Process.Signal(syscall.SIGCONT)
		_ = j.Process.Kill()
	})
	j.says("began")
	return j
}

// says waits for a line that contains a text.
func (j *lockJob) says(text string) {
	j.t.Helper()
	for {
		line, ok := <-j.lines
		if !ok {
			j.t.Fatalf("ended without saying %q", text)
		}
		if strings.Contains(line, text) {
			return
		}
	}
}

func (j *lockJob) endsWith(code int) {
	j.t.Helper()
	if got := testkit.Receive(j.t, j.done, "the end of dtsctl"); got != code {
		j.t.Errorf("ended with %d, want %d", got, code)
	}
}

// locks is a client and a server for dtsctl lock.
func locks(t *testing.T) (*redistest.Server, *dts.Client, string) {
	t.Helper()
	redis := redistest.Start(t)
	n := startNode(t, redis.URL(), "--roles", "api")
	c, err := dts.Open(redis.URL())
	testkit.Must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return redis, c, n.url
}

// isHeld reports whether somebody holds the lock deploy.
func isHeld(t *testing.T, c *dts.Client) bool {
	t.Helper()
	for l, err := range c.ListLocks(t.Context()) {
		testkit.Must(t, err)
		if l.Name == "deploy" {
			return true
		}
	}
	return false
}

const patient = "trap 'echo ended; exit 7' TERM; echo began; while :; do sleep 0.02; done"

func TestLockCommand_PassesSignalsOnAndReleasesTheLock(t *testing.T) {
	t.Parallel()
	_, c, url := locks(t)
	j := startLock(t, url, patient)
	if !isHeld(t, c) {
		t.Error("the command runs without the lock")
	}
	testkit.Must(t, j.Process.Signal(syscall.SIGTERM))
	j.says("ended")
	j.endsWith(7)
	if isHeld(t, c) {
		t.Error("the lock is still held")
	}
}

func TestLockCommand_FreesTheLockWhenItWasKilled(t *testing.T) {
	t.Parallel()
	_, c, url := locks(t)
	j := startLock(t, url, patient, "--ttl", "1s")
	for held, err := range c.ListLocks(t.Context()) {
		testkit.Must(t, err)
		if held.TTL != time.Second {
			t.Errorf("%s would be free %s after the end of its holder", held.Name, held.TTL)
		}
	}
	testkit.Must(t, j.Process.Kill())
	l, err := c.Lock(t.Context(), "deploy", time.Minute)
	testkit.Must(t, err)
	testkit.Must(t, l.Unlock(t.Context()))
}

// A holder that stood still for longer than its lease learns that it lost the lock, and its renewal is refused.
func TestLockCommand_EndsTheCommandWhenTheLockWasLost(t *testing.T) {
	t.Parallel()
	_, c, url := locks(t)
	j := startLock(t, url, patient, "--ttl", "1s", "--grace", "10s")
	testkit.Must(t, j.Process.Signal(syscall.SIGSTOP))
	l, err := c.Lock(t.Context(), "deploy", time.Minute)
	testkit.Must(t, err)
	testkit.Must(t, j.Process.Signal(syscall.SIGCONT))
	j.says("the lock deploy was lost")
	j.says("ended")
	j.endsWith(125)
	if l.Context().Err() != nil || !isHeld(t, c) {
		t.Errorf("the new holder lost the lock: %v", context.Cause(l.Context()))
	}
	testkit.Must(t, l.Unlock(t.Context()))
}

func TestLockCommand_LosesTheLockWithoutRedis(t *testing.T) {
	t.Parallel()
	redis, _, url := locks(t)
	j := startLock(t, url, "trap '' TERM; echo began; while :; do sleep 0.02; done", "--ttl", "2s", "--grace", "200ms")
	redis.Pause()
	j.says("the lock deploy was lost")
	j.endsWith(125)
	redis.Continue()
}

func TestLockCommand_GivesUpWithOne(t *testing.T) {
	t.Parallel()
	_, c, url := locks(t)
	l, err := c.Lock(t.Context(), "deploy", time.Minute)
	testkit.Must(t, err)
	out, err := exec.Command(filepath.Join(binaries, "dtsctl"), "--server", url, "lock", "deploy", "--try", "--", "echo", "ran").CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(out), "(lock_held)") || strings.Contains(string(out), "ran\n") {
		t.Errorf("got %v: %s", err, out)
	}
	testkit.Must(t, l.Unlock(t.Context()))
}
