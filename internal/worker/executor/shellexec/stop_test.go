//go:build unix

package shellexec

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/worker/executor"
	"github.com/dts-sched/dts/internal/worker/executor/executortest"
)

// running is an Execute that has not returned yet.
type running struct {
	*executortest.Recorder
	cancel context.CancelCauseFunc
	ended  chan error
}

func (r *running) wait(t *testing.T) error {
	t.Helper()
	select {
	case err := <-r.ended:
		return err
	case <-time.After(20 * time.Second):
		t.Fatal("Execute does not return")
		return nil
	}
}

func goRun(t *testing.T, grace time.Duration, script string) *running {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	r := &running{sh(t, script), cancel, make(chan error, 1)}
	go func() {
		_, err := New(Options{Grace: grace}).Execute(ctx, r.Attempt)
		r.ended <- err
	}()
	return r
}

// alive says whether a process runs. One that has ended does not, even if its new parent has not reaped it yet.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	state, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
	return err != nil || !strings.HasPrefix(strings.TrimSpace(string(state)), "Z")
}

func wantGone(t *testing.T, pid int) {
	t.Helper()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	end := time.After(10 * time.Second)
	for alive(pid) {
		select {
		case <-again.C:
		case <-end:
			t.Fatalf("process %d still runs after 10 s", pid)
		}
	}
}

func TestExecutor_RunsNothingWhenTheContextHasEnded(t *testing.T) {
	cause := errors.New("too late")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	file := filepath.Join(t.TempDir(), "ran")
	_, err := New(Options{}).Execute(ctx, sh(t, "touch "+file).Attempt)
	if _, statErr := os.Stat(file); !errors.Is(err, cause) || statErr == nil {
		t.Errorf("error is %v, the file: %v", err, statErr)
	}
}

func TestExecutor_AsksTheWholeGroupToStop(t *testing.T) {
	r := goRun(t, longGrace, `sleep 1000 & echo $!; wait`)
	pid := waitForPID(t, r)
	cause := errors.New("timed out after 10m")
	r.cancel(cause)
	if err := r.wait(t); !errors.Is(err, cause) || err.Error() != "killed by signal 15 (terminated): timed out after 10m" {
		t.Errorf("error is %v", err)
	}
	wantGone(t, pid)
}

func TestExecutor_GivesTheCommandTimeToCleanUp(t *testing.T) {
	r := goRun(t, longGrace, `trap 'echo tidy; exit 0' TERM; echo ready; while :; do sleep 0.05; done`)
	r.WaitForLine(t)
	cause := errors.New("cancelled")
	r.cancel(cause)
	if err := r.wait(t); !errors.Is(err, cause) || !strings.HasPrefix(err.Error(), "exit status 0") {
		t.Errorf("error is %v", err)
	}
	if got := r.Lines["stdout"]; got[len(got)-1] != "tidy" {
		t.Errorf("log is %q", got)
	}
}

// A shell without a trap dies of SIGTERM at once. The program that it waits for gets its grace period all the same.
func TestExecutor_GivesAProgramOfAShellTimeToCleanUp(t *testing.T) {
	r := goRun(t, longGrace, `sh -c 'trap "sleep 0.3; echo tidy; exit 0" TERM; echo ready; while :; do sleep 0.05; done'; echo never`)
	r.WaitForLine(t)
	r.cancel(errors.New("cancelled"))
	_ = r.wait(t)
	if got := r.Lines["stdout"]; !slices.Equal(got, []string{"ready", "tidy"}) {
		t.Errorf("log is %q", got)
	}
}

func TestExecutor_GivesACommandThatClosedItsOutputTimeToCleanUp(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tidy")
	r := goRun(t, longGrace, `trap 'sleep 0.3; touch `+file+`; exit 0' TERM; echo ready; exec >/dev/null 2>&1; while :; do sleep 0.05; done`)
	r.WaitForLine(t)
	r.cancel(errors.New("cancelled"))
	_ = r.wait(t)
	if _, err := os.Stat(file); err != nil {
		t.Errorf("it was killed before it was done: %v", err)
	}
}

func TestExecutor_KillsAfterTheGrace(t *testing.T) {
	const grace = 300 * time.Millisecond
	r := goRun(t, grace, `trap '' TERM; sh -c 'echo $$; while :; do sleep 0.05; done' & wait; while :; do sleep 0.05; done`)
	pid := waitForPID(t, r)
	cause, asked := errors.New("timed out"), clock.Now()
	r.cancel(cause)
	if err := r.wait(t); !errors.Is(err, cause) || !strings.HasPrefix(err.Error(), "killed by signal 9 (killed)") {
		t.Errorf("error is %v", err)
	}
	if took := clock.Since(asked); took < grace {
		t.Errorf("killed after %s already", took)
	}
	wantGone(t, pid)
}

func TestExecutor_KillsAtOnceWithoutGrace(t *testing.T) {
	r := goRun(t, longGrace, `trap '' TERM; sh -c 'echo $$; while :; do sleep 0.05; done' & wait`)
	pid := waitForPID(t, r)
	r.cancel(fmt.Errorf("this node lost Redis: %w", executor.ErrNoGrace))
	if err := r.wait(t); !errors.Is(err, executor.ErrNoGrace) || !strings.HasPrefix(err.Error(), "killed by signal 9 (killed)") {
		t.Errorf("error is %v", err)
	}
	wantGone(t, pid)
}

func TestExecutor_KillsProcessesThatTheCommandLeavesBehind(t *testing.T) {
	for name, script := range map[string]string{
		"with its output":    `sh -c 'trap "" TERM; while :; do sleep 0.05; done' & echo $!`,
		"without its output": `sleep 1000 >/dev/null 2>&1 & echo $!`,
	} {
		t.Run(name, func(t *testing.T) {
			r := sh(t, script)
			got, err := run(t, r)
			if err != nil {
				t.Fatal(err)
			}
			pid, err := strconv.Atoi(got)
			if err != nil {
				t.Fatal(err)
			}
			wantGone(t, pid)
		})
	}
}

// A descendant with a session and an environment of its own cannot be found. It must not delay the end of the attempt.
func TestExecutor_DoesNotWaitForADescendantThatLeftTheGroup(t *testing.T) {
	testkit.NotQuick(t)
	script := `env -i setsid sh -c 'echo $$ >&2; exec sleep 1000' & while :; do sleep 0.05; done`
	t.Run("when the command ends", func(t *testing.T) {
		r := sh(t, `env -i setsid sh -c 'echo $$ >&2; exec sleep 1000' & sleep 0.3; echo done`)
		if got, err := run(t, r); err != nil || got != "done" {
			t.Errorf("got %q, %v", got, err)
		}
		killLeftover(t, r)
	})
	t.Run("when it is stopped", func(t *testing.T) {
		r := goRun(t, 300*time.Millisecond, script)
		r.WaitForLine(t)
		r.cancel(errors.New("cancelled"))
		_ = r.wait(t)
		killLeftover(t, r.Recorder)
	})
	t.Run("when it is stopped without grace", func(t *testing.T) {
		r := goRun(t, longGrace, script)
		r.WaitForLine(t)
		r.cancel(executor.ErrNoGrace)
		_ = r.wait(t)
		killLeftover(t, r.Recorder)
	})
}
