package lock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/flags"
)

// The exit codes that are not those of the command.
const (
	exitLost     = 125
	exitCannot   = 126
	exitNotFound = 127
)

// pipeDelay is how long the output of what the command left behind is read after its end, where it is not a file of its own.
const pipeDelay = time.Second

// run runs the command to its end, or ends it when the lease is lost. Its error is an *command.ExitError, unless the command ended
// with 0.
func (o *options) run(lease *rest.Lease, signals <-chan os.Signal) error {
	p := o.process(lease.Fence())
	if err := p.cmd.Start(); err != nil {
		o.Printer.Errorf("%v", err)
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
			o.Printer.Warn(flags.LineWarnings(o.Command))
			return &command.ExitError{Code: exitNotFound}
		}
		return &command.ExitError{Code: exitCannot}
	}
	ended := make(chan error, 1)
	go func() { ended <- p.cmd.Wait() }()
	err := o.attend(lease.Context(), p, signals, ended)
	if isLost(lease) {
		p.kill() // what the command left behind
		return &command.ExitError{Code: exitLost}
	}
	return exitOf(p.cmd, err)
}

// process returns the command, ready to start.
func (o *options) process(fence int64) *process {
	cmd := exec.Command(o.Command[0], o.Command[1:]...) //nolint:noctx // attend ends it
	cmd.Stdin, cmd.Stdout, cmd.Stderr = o.In, o.Printer.Out, o.Printer.Err
	cmd.Env = append(os.Environ(), "DTS_LOCK_NAME="+o.Name, "DTS_LOCK_FENCE="+strconv.FormatInt(fence, 10))
	cmd.WaitDelay = pipeDelay
	return newProcess(cmd, o.onTerminal())
}

// attend passes signals on until the command has ended. When the lease is lost, it ends the command.
func (o *options) attend(leased context.Context, p *process, signals <-chan os.Signal, ended <-chan error) error {
	lost := leased.Done()
	var tooLong <-chan time.Time
	for {
		select {
		case err := <-ended:
			return err
		case s := <-signals:
			p.pass(s)
		case <-lost:
			o.Printer.Errorf("the lock %s was lost (%v): ending the command", o.Name, context.Cause(leased))
			p.terminate()
			grace := time.NewTimer(o.Grace)
			defer grace.Stop()
			lost, tooLong = nil, grace.C
		case <-tooLong:
			p.kill()
		}
	}
}

func isLost(lease *rest.Lease) bool {
	return errors.Is(context.Cause(lease.Context()), rest.ErrLockLost)
}

// exitOf returns what the end of the command means for dtsctl; err is that of Wait.
func exitOf(cmd *exec.Cmd, err error) error {
	var exit *exec.ExitError
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay):
		return nil
	case errors.As(err, &exit):
		return &command.ExitError{Code: codeOf(exit.ProcessState)}
	}
	return fmt.Errorf("running %s: %w", cmd.Path, err)
}
