//go:build unix

package lock

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// process is the command. It has a process group of its own, unless somebody sits at the terminal: then it shares the group of
// dtsctl, so that it can use the terminal, and gets from there what is typed.
type process struct {
	cmd    *exec.Cmd
	shared bool
}

func newProcess(cmd *exec.Cmd, onTerminal bool) *process {
	cmd.SysProcAttr = attributes(!onTerminal)
	return &process{cmd: cmd, shared: onTerminal}
}

// catchSignals catches the signals that are passed on, until stop is called.
func catchSignals() (signals <-chan os.Signal, stop func()) {
	caught := make(chan os.Signal, 16)
	signal.Notify(caught, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2)
	return caught, func() { signal.Stop(caught) }
}

// pass passes a signal on, unless the command has it already because it was typed.
func (p *process) pass(s os.Signal) {
	number, ok := s.(syscall.Signal)
	typed := number == syscall.SIGINT || number == syscall.SIGQUIT
	if ok && !(p.shared && typed) {
		p.send(number)
	}
}

func (p *process) terminate() { p.send(syscall.SIGTERM) }
func (p *process) kill()      { p.send(syscall.SIGKILL) }

// send sends a signal to the group, or to the command alone if the group is not its own. The command may have ended: then nothing
// gets it.
func (p *process) send(s syscall.Signal) {
	if p.shared {
		_ = p.cmd.Process.Signal(s)
		return
	}
	_ = syscall.Kill(-p.cmd.Process.Pid, s)
}

// codeOf returns the exit code as shells have it: that of the process, or 128 and the number of the signal that ended it.
func codeOf(s *os.ProcessState) int {
	if status, ok := s.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return s.ExitCode()
}
