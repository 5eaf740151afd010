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
	"slices"
	"strings"
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
	s := &settings{grace: defaultGrace, env: passedEnv}
	return &executor.Descriptor{
		Type:         "shell",
		Timeout:      defaultTimeout,
		CheckPayload: func(payload json.RawMessage) error { _, err := parseCommand(payload); return err },
		OptIn:        "run tasks of type shell: whoever may submit, may run any command here",
		Settings:     s,
		New:          func(executor.Options) (executor.Executor, error) { return New(s.grace, s.env...), nil },
	}
}

// passedEnv are the variables of the node that most programs need.
var passedEnv = []string{"PATH", "HOME", "LANG"}

type settings struct {
	grace time.Duration
	env   []string
}

func (s *settings) Declare(flags *pflag.FlagSet) {
	flags.DurationVar(&s.grace, "shell-grace", s.grace, "time a shell command has to end before it is killed")
	flags.StringSliceVar(&s.env, "shell-env", s.env, "variables of the node's environment that shell commands get")
}

func (s *settings) Validate() error {
	for _, name := range s.env {
		if name == "" || strings.ContainsAny(name, "= \x00") || identity[name] != nil {
			return fmt.Errorf("shell-env: %q is not the name of a variable that can be passed on, such as PATH", name)
		}
	}
	return config.CheckSpan("shell-grace", s.grace, 0, graceLimit)
}

// Executor runs the command that the payload of an attempt names. The last lines of its standard output are the result.
// No shell is involved unless the command names one. The program is looked up in the node's own PATH.
//
// The command gets a process group of its own. When the attempt's context ends, the group gets SIGTERM and, after the
// grace period, SIGKILL. When the command ends, the rest of its group is killed. A descendant that left the group is
// neither found nor waited for: its output is no longer read.
type Executor struct {
	grace  time.Duration
	passed []string
}

// New makes an executor. grace is the time between SIGTERM and SIGKILL; 0 means 5 s. passed are the variables of the node's environment
// that commands get; none given, PATH, HOME and LANG.
func New(grace time.Duration, passed ...string) *Executor {
	if passed == nil {
		passed = passedEnv
	}
	return &Executor{grace: cmp.Or(grace, defaultGrace), passed: passed}
}

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

	out := &output{ctx: ctx, attempt: a}
	p, err := start(c, a, e.passed, out)
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
		err := errors.New(task.Cut(ending(p.cmd.ProcessState)+out.complaint(), task.ErrorLimit))
		if slices.Contains(c.final, p.cmd.ProcessState.ExitCode()) {
			err = executor.Permanent(err)
		}
		return "", err
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

func (c *command) exec(a executor.Attempt, passed []string) *exec.Cmd {
	cmd := exec.Command(c.argv[0], c.argv[1:]...) //nolint:noctx // a context would kill one process only; supervise stops the group
	cmd.Dir = c.dir
	cmd.Env = c.environ(a, passed)
	cmd.SysProcAttr = ownGroup()
	return cmd
}
