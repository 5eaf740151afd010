package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"github.com/dts-sched/dts/internal/task"
)

// DefaultGrace is how long a command has, once it was asked to stop, before it is killed.
const DefaultGrace = 5 * time.Second

// ShellOptions says how commands are run.
type ShellOptions struct {
	Grace time.Duration // between SIGTERM and SIGKILL; 0: DefaultGrace
}

// Shell runs a command of the node: the payload says which, its last lines of standard output are the
// result. No shell is involved unless the command names one. The program is looked up in the node's own
// PATH.
//
// The command gets a process group of its own. When its context ends, the group is sent SIGTERM and, after
// the grace period, SIGKILL; when the command ends, what is left of its group is killed. A descendant that
// left the group is not followed, but it holds nothing up: its output is no longer read.
type Shell struct{ grace time.Duration }

// NewShell makes an executor.
func NewShell(o ShellOptions) *Shell { return &Shell{grace: cmp.Or(o.Grace, DefaultGrace)} }

// Execute runs the command.
func (s *Shell) Execute(ctx context.Context, a Attempt) (string, error) {
	c, err := parseCommand(a.Payload)
	if err != nil {
		return "", err
	}
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	// Linux kills the process when the thread that started it ends (Pdeathsig), which is to happen when
	// this program dies, and not when Go gives a thread back: so the thread is held until the process has
	// ended.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	out := &output{attempt: a}
	p, err := start(c, a, out)
	if err != nil {
		return "", errors.New(task.Cut("cannot start the command: "+err.Error(), task.ErrorLimit))
	}
	err = p.wait(ctx, s.grace)
	switch {
	case p.stopped:
		return "", fmt.Errorf("%s: %w", ending(p.cmd.ProcessState), context.Cause(ctx))
	case p.cmd.ProcessState == nil: // it could not be waited for
		return "", errors.New(task.Cut(err.Error(), task.ErrorLimit))
	case !p.cmd.ProcessState.Success():
		return "", errors.New(task.Cut(ending(p.cmd.ProcessState)+out.complaint(), task.ErrorLimit))
	}
	return out.result(), nil
}

// ending is "exit status 3" or "killed by signal 9 (killed)".
func ending(state *os.ProcessState) string {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return fmt.Sprintf("killed by signal %d (%s)", status.Signal(), status.Signal())
	}
	return state.String()
}

func (c *command) exec(a Attempt) *exec.Cmd {
	cmd := exec.Command(c.argv[0], c.argv[1:]...) //nolint:noctx // a context kills one process only; supervise stops the group
	cmd.Dir = c.dir
	cmd.Env = c.environ(a)
	cmd.SysProcAttr = ownGroup()
	return cmd
}
