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
	s := &settings{Options: Options{Grace: defaultGrace, Env: passedEnv}}
	return &executor.Descriptor{
		Type:         "shell",
		Timeout:      defaultTimeout,
		CheckPayload: func(_ context.Context, payload json.RawMessage) error { _, err := parseCommand(payload); return err },
		OptIn:        "run tasks of type shell: whoever may submit, may run any command here",
		Settings:     s,
		New: func(o executor.Options) (executor.Executor, error) {
			if err := hide(); err != nil && o.Log != nil {
				o.Log.Warn("cannot hide the environment of this node from shell commands", "error", err)
			}
			if err := s.check(o.Log); err != nil {
				return nil, err
			}
			return New(s.Options), nil
		},
	}
}

// passedEnv are the variables of the node that most programs need.
var passedEnv = []string{"PATH", "HOME", "LANG"}

// Options say what commands get from the node, and what they may do there.
type Options struct {
	Grace time.Duration // between SIGTERM and SIGKILL; default 5 s
	Env   []string      // variables of the node's environment that commands get; nil for PATH, HOME and LANG

	// Users are those as whom commands may run; the first is that of commands that name none. If there are none, commands run as the
	// user of this program.
	Users []string

	limits limits // the largest that a payload may name, and those that hold if it names none
}

type settings struct{ Options }

func (s *settings) Declare(flags *pflag.FlagSet) {
	flags.DurationVar(&s.Grace, "shell-grace", s.Grace, "time a shell command has to end before it is killed")
	flags.StringSliceVar(&s.Env, "shell-env", s.Env, "variables of the node's environment that shell commands get")
	flags.StringSliceVar(&s.Users, "shell-users", s.Users, "users as whom shell commands may run; the first if a task names none (default: only the user of dtsd)")
	flags.Lookup("shell-users").Annotations = map[string][]string{config.EmptyCounts: {}}
	s.limits.Declare(flags)
}

func (s *settings) Validate() error {
	for _, name := range s.Env {
		if name == "" || strings.ContainsAny(name, "= \x00") || isSet(name) {
			return fmt.Errorf("shell-env: %q is not the name of a variable that can be passed on, such as PATH", name)
		}
	}
	for _, name := range s.Users {
		if name == "" || strings.ContainsAny(name, ": \x00") {
			return fmt.Errorf("shell-users: %q is not the name of a user, such as nobody", name)
		}
	}
	if err := s.limits.Validate(); err != nil {
		return err
	}
	return config.CheckSpan("shell-grace", s.Grace, 0, graceLimit)
}

// Executor runs the command that the payload of an attempt names. The last lines of its standard output are the result.
// No shell is involved unless the command names one. The program is looked up in the node's own PATH.
//
// The command gets a process group of its own. When the attempt's context ends, the group gets SIGTERM and, after the
// grace period, SIGKILL. When the command ends, the rest of its group is killed, and on Linux its descendants that left the group and kept their
// environment. Others are neither found nor waited for: their output is no longer read.
type Executor struct{ o Options }

// New makes an executor.
func New(o Options) *Executor {
	o.Grace = cmp.Or(o.Grace, defaultGrace)
	if o.Env == nil {
		o.Env = passedEnv
	}
	return &Executor{o}
}

// Grace is the time between SIGTERM and SIGKILL.
func (e *Executor) Grace() time.Duration { return e.o.Grace }

// Execute runs the command.
func (e *Executor) Execute(ctx context.Context, a executor.Attempt) (string, error) {
	c, err := parseCommand(a.Payload)
	if err != nil {
		return "", err
	}
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if c.limits, err = c.limits.within(e.o.limits); err != nil {
		return "", err
	}
	as, err := accountOf(c.user, e.o.Users)
	if err != nil {
		return "", executor.Brief(err)
	}
	// Linux kills the process when the thread that started it ends (Pdeathsig). That must happen when this program
	// dies, and not when Go ends a thread it no longer needs, so this goroutine keeps the thread until the process has
	// ended.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	out := &output{attempt: a}
	p, err := c.start(a, e.o.Env, as, out)
	if err != nil {
		return "", executor.Brief(fmt.Errorf("cannot start the command: %w", err))
	}
	err = p.wait(ctx, e.o.Grace)
	switch {
	case p.stopped:
		return "", fmt.Errorf("%s: %w", ending(p.cmd.ProcessState), context.Cause(ctx))
	case p.cmd.ProcessState == nil: // waiting for the process failed
		return "", executor.Brief(err)
	case !p.cmd.ProcessState.Success():
		return "", c.failure(p.cmd.ProcessState, &out.last)
	}
	return out.result(), nil
}

// failure is the error for a command that ended by itself, and with no success.
func (c *command) failure(state *os.ProcessState, last *complaint) error {
	err := errors.New(task.CutError(ending(state)+c.limits.blame(state, last.newest())+last.String(), task.ErrorLimit))
	if slices.Contains(c.final, state.ExitCode()) {
		return executor.Permanent(err)
	}
	return err
}

// ending says how a process ended: "exit status 3", or "killed by signal 9 (killed)".
func ending(state *os.ProcessState) string {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return fmt.Sprintf("killed by signal %d (%s)", status.Signal(), status.Signal())
	}
	return state.String()
}

func (c *command) exec(a executor.Attempt, passed []string, as *account) *exec.Cmd {
	cmd := exec.Command(c.argv[0], c.argv[1:]...) //nolint:noctx // a context would kill one process only; supervise stops the group
	cmd.Dir = c.dir
	cmd.Env = c.environ(a, passed, as)
	cmd.SysProcAttr = ownGroup()
	as.set(cmd.SysProcAttr)
	c.limits.stopAtExec(cmd.SysProcAttr)
	return cmd
}
