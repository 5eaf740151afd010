// Package shellexec runs tasks of type shell: it runs a command of the node for each attempt.
package shellexec

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/worker/executor"
)

const (
	defaultTimeout = 10 * time.Minute
	defaultGrace   = 5 * time.Second
	graceLimit     = 10 * time.Minute
)

// Describe describes the executor.
func Describe() *executor.Descriptor {
	s := &settings{grace: defaultGrace}
	return &executor.Descriptor{
		Type:         "shell",
		Timeout:      defaultTimeout,
		CheckPayload: func(payload json.RawMessage) error { _, err := parseCommand(payload); return err },
		OptIn:        "run tasks of type shell: whoever may submit, may run any command here",
		Settings:     s,
		New:          func(executor.Options) (executor.Executor, error) { return New(s.grace), nil },
	}
}

type settings struct{ grace time.Duration }

func (s *settings) Declare(flags *pflag.FlagSet) {
	flags.DurationVar(&s.grace, "shell-grace", s.grace, "time a shell command has to end before it is killed")
}

func (s *settings) Validate() error {
	return config.CheckSpan("shell-grace", s.grace, 0, graceLimit)
}

// Executor runs the command that the payload of an attempt names. The last lines of its standard output are the result.
// No shell is involved unless the command names one. The program is looked up in the node's own PATH.
//
// The command gets a process group of its own. When the attempt's context ends, the group gets SIGTERM and, after the
// grace period, SIGKILL. When the command ends, the rest of its group is killed. A descendant that left the group is
// neither found nor waited for: its output is no longer read.
type Executor struct{ grace time.Duration }

// New makes an executor. grace is the time between SIGTERM and SIGKILL; 0 means 5 s.
func New(grace time.Duration) *Executor { return &Executor{grace: cmp.Or(grace, defaultGrace)} }

// Grace is the time between SIGTERM and SIGKILL.
func (e *Executor) Grace() time.Duration { return e.grace }

// Execute runs the command.
func (e *Executor) Execute(ctx context.Context, a executor.Attempt) (string, error) {
	c, err := parseCommand(a.Payload)
	if err != nil {
		return "", err
	}
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	// Linux kills the process when the thread that started it ends (Pdeathsig). That must happen when this program
	// dies, and not when Go ends a thread it no longer needs, so this goroutine keeps the thread until the process has
	// ended.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	out := &output{attempt: a}
	p, err := start(c, a, out)
	if err != nil {
		return "", errors.New(task.Cut("cannot start the command: "+err.Error(), task.ErrorLimit))
	}
	err = p.wait(ctx, e.grace)
	switch {
	case p.stopped:
		return "", fmt.Errorf("%s: %w", ending(p.cmd.ProcessState), context.Cause(ctx))
	case p.cmd.ProcessState == nil: // waiting for the process failed
		return "", errors.New(task.Cut(err.Error(), task.ErrorLimit))
	case !p.cmd.ProcessState.Success():
		return "", errors.New(task.Cut(ending(p.cmd.ProcessState)+out.complaint(), task.ErrorLimit))
	}
	return out.result(), nil
}

// ending says how a process ended: "exit status 3", or "killed by signal 9 (killed)".
func ending(state *os.ProcessState) string {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return fmt.Sprintf("killed by signal %d (%s)", status.Signal(), status.Signal())
	}
	return state.String()
}

func (c *command) exec(a executor.Attempt) *exec.Cmd {
	cmd := exec.Command(c.argv[0], c.argv[1:]...) //nolint:noctx // a context would kill one process only; supervise stops the group
	cmd.Dir = c.dir
	cmd.Env = c.environ(a)
	cmd.SysProcAttr = ownGroup()
	return cmd
}
