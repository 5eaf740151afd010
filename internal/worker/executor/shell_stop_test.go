//go:build unix

package executor

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
)

// running is an Execute that has not returned yet.
type running struct {
	*recorder
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
		_, err := NewShell(ShellOptions{Grace: grace}).Execute(ctx, r.Attempt)
		r.ended <- err
	}()
	return r
}

// alive says whether a process runs. One that has ended, but was not reaped by whoever inherited it, does
// not.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	state, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
	return err != nil || !strings.HasPrefix(strings.TrimSpace(string(state)), "Z")
}

func wantGone(t *testing.T, pid int) {
	t.Helper()
	eventually(t, fmt.Sprintf("process %d is gone", pid), func() bool { return !alive(pid) })
}

func TestShellRunsNothingWhenTheContextHasEnded(t *testing.T) {
	cause := errors.New("too late")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	file := filepath.Join(t.TempDir(), "ran")
	_, err := NewShell(ShellOptions{}).Execute(ctx, sh(t, "touch "+file).Attempt)
	if _, statErr := os.Stat(file); !errors.Is(err, cause) || statErr == nil {
		t.Errorf("error is %v, the file: %v", err, statErr)
	}
}

func TestShellAsksTheWholeGroupToStop(t *testing.T) {
	r := goRun(t, longGrace, `sleep 1000 & echo $!; wait`)
	pid := r.waitForPID(t)
	cause := errors.New("timed out after 10m")
	r.cancel(cause)
	if err := r.wait(t); !errors.Is(err, cause) || err.Error() != "killed by signal 15 (terminated): timed out after 10m" {
		t.Errorf("error is %v", err)
	}
	wantGone(t, pid)
}

func TestShellLetsTheCommandTidyUp(t *testing.T) {
	r := goRun(t, longGrace, `trap 'echo tidy; exit 0' TERM; echo ready; while :; do sleep 0.05; done`)
	r.waitForLine(t)
	cause := errors.New("cancelled")
	r.cancel(cause)
	if err := r.wait(t); !errors.Is(err, cause) || !strings.HasPrefix(err.Error(), "exit status 0") {
		t.Errorf("error is %v", err)
	}
	if got := r.lines["stdout"]; got[len(got)-1] != "tidy" {
		t.Errorf("log is %q", got)
	}
}

// A shell without a trap dies of SIGTERM at once; the program it waits for has its grace period all the same.
func TestShellLetsAProgramOfAShellTidyUp(t *testing.T) {
	r := goRun(t, longGrace, `sh -c 'trap "sleep 0.3; echo tidy; exit 0" TERM; echo ready; while :; do sleep 0.05; done'; echo never`)
	r.waitForLine(t)
	r.cancel(errors.New("cancelled"))
	_ = r.wait(t)
	if got := r.lines["stdout"]; !slices.Equal(got, []string{"ready", "tidy"}) {
		t.Errorf("log is %q", got)
	}
}

func TestShellLetsACommandTidyUpThatClosedItsOutput(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tidy")
	r := goRun(t, longGrace, `trap 'sleep 0.3; touch `+file+`; exit 0' TERM; echo ready; exec >/dev/null 2>&1; while :; do sleep 0.05; done`)
	r.waitForLine(t)
	r.cancel(errors.New("cancelled"))
	_ = r.wait(t)
	if _, err := os.Stat(file); err != nil {
		t.Errorf("it was killed before it was done: %v", err)
	}
}

func TestShellKillsAfterTheGrace(t *testing.T) {
	const grace = 300 * time.Millisecond
	r := goRun(t, grace, `trap '' TERM; sh -c 'echo $$; while :; do sleep 0.05; done' & wait; while :; do sleep 0.05; done`)
	pid := r.waitForPID(t)
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

func TestShellKillsAtOnceWithoutGrace(t *testing.T) {
	r := goRun(t, longGrace, `trap '' TERM; sh -c 'echo $$; while :; do sleep 0.05; done' & wait`)
	pid := r.waitForPID(t)
	r.cancel(fmt.Errorf("this node lost Redis: %w", ErrNoGrace))
	if err := r.wait(t); !errors.Is(err, ErrNoGrace) || !strings.HasPrefix(err.Error(), "killed by signal 9 (killed)") {
		t.Errorf("error is %v", err)
	}
	wantGone(t, pid)
}

func TestShellKillsWhatTheCommandLeavesBehind(t *testing.T) {
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

// A descendant that made itself a session of its own cannot be found; it must not hold the attempt up.
func TestShellDoesNotWaitForARunawayThatHoldsItsOutput(t *testing.T) {
	script := `setsid sh -c 'echo $$ >&2; exec sleep 1000' & while :; do sleep 0.05; done`
	t.Run("when the command ends", func(t *testing.T) {
		r := sh(t, `setsid sh -c 'echo $$ >&2; exec sleep 1000' & sleep 0.3; echo done`)
		if got, err := run(t, r); err != nil || got != "done" {
			t.Errorf("got %q, %v", got, err)
		}
		killLeftover(t, r)
	})
	t.Run("when it is stopped", func(t *testing.T) {
		r := goRun(t, 300*time.Millisecond, script)
		r.waitForLine(t)
		r.cancel(errors.New("cancelled"))
		_ = r.wait(t)
		killLeftover(t, r.recorder)
	})
	t.Run("when it is stopped without grace", func(t *testing.T) {
		r := goRun(t, longGrace, script)
		r.waitForLine(t)
		r.cancel(ErrNoGrace)
		_ = r.wait(t)
		killLeftover(t, r.recorder)
	})
}
