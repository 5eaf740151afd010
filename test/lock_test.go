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
type locks struct {
	redis  *redistest.Server
	client *dts.Client
	url    string
}

func newLocks(t *testing.T) locks {
	t.Helper()
	redis := redistest.Start(t)
	n := startNode(t, redis.URL(), "--roles", "api")
	c, err := dts.Open(redis.URL())
	testkit.Must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return locks{redis: redis, client: c, url: n.url}
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

const patient = "trap 'echo ended; exit 7' TERM; echo began; while :; do sleep 0.1; done"

// The subtests take the same lock on the same Redis, one after the other. The one that stops Redis comes last.
func TestLockCommand(t *testing.T) {
	t.Parallel()
	l := newLocks(t)
	t.Run("passes signals on and releases the lock", l.testSignal)
	t.Run("frees the lock when it was killed", l.testKill)
	t.Run("ends the command when the lock was lost", l.testLoss)
	t.Run("gives up with 1", l.testTry)
	t.Run("loses the lock without Redis", l.testOutage)
}

func (s locks) testSignal(t *testing.T) {
	j := startLock(t, s.url, patient)
	if !isHeld(t, s.client) {
		t.Error("the command runs without the lock")
	}
	testkit.Must(t, j.Process.Signal(syscall.SIGTERM))
	j.says("ended")
	j.endsWith(7)
	if isHeld(t, s.client) {
		t.Error("the lock is still held")
	}
}

func (s locks) testKill(t *testing.T) {
	j := startLock(t, s.url, patient, "--ttl", "1s")
	for held, err := range s.client.ListLocks(t.Context()) {
		testkit.Must(t, err)
		if held.TTL != time.Second {
			t.Errorf("%s would be free %s after the end of its holder", held.Name, held.TTL)
		}
	}
	testkit.Must(t, j.Process.Kill())
	l, err := s.client.Lock(t.Context(), "deploy", time.Minute)
	testkit.Must(t, err)
	testkit.Must(t, l.Unlock(t.Context()))
}

// A holder that stood still for longer than its lease learns that it lost the lock, and its renewal is refused.
func (s locks) testLoss(t *testing.T) {
	j := startLock(t, s.url, patient, "--ttl", "1s", "--grace", "10s")
	testkit.Must(t, j.Process.Signal(syscall.SIGSTOP))
	l, err := s.client.Lock(t.Context(), "deploy", time.Minute)
	testkit.Must(t, err)
	testkit.Must(t, j.Process.Signal(syscall.SIGCONT))
	j.says("the lock deploy was lost")
	j.says("ended")
	j.endsWith(125)
	if l.Context().Err() != nil || !isHeld(t, s.client) {
		t.Errorf("the new holder lost the lock: %v", context.Cause(l.Context()))
	}
	testkit.Must(t, l.Unlock(t.Context()))
}

func (s locks) testOutage(t *testing.T) {
	j := startLock(t, s.url, "trap '' TERM; echo began; while :; do sleep 0.1; done", "--ttl", "2s", "--grace", "200ms")
	s.redis.Pause()
	j.says("the lock deploy was lost")
	j.endsWith(125)
	s.redis.Continue()
}

func (s locks) testTry(t *testing.T) {
	l, err := s.client.Lock(t.Context(), "deploy", time.Minute)
	testkit.Must(t, err)
	out, err := exec.Command(filepath.Join(binaries, "dtsctl"), "--server", s.url, "lock", "deploy", "--try", "--", "echo", "ran").CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(out), "(lock_held)") || strings.Contains(string(out), "ran\n") {
		t.Errorf("got %v: %s", err, out)
	}
	testkit.Must(t, l.Unlock(t.Context()))
}
