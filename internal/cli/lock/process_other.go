//go:build !unix

package lock

import (
	"os"
	"os/exec"
	"os/signal"
)

// process is the command. Where there are no process groups, it gets from the terminal what is typed.
type process struct{ cmd *exec.Cmd }

func newProcess(cmd *exec.Cmd, _ bool) *process { return &process{cmd: cmd} }

// catchSignals keeps dtsctl from ending before the command does, until stop is called.
func catchSignals() (signals <-chan os.Signal, stop func()) {
	caught := make(chan os.Signal, 16)
	signal.Notify(caught, os.Interrupt)
	return caught, func() { signal.Stop(caught) }
}

func (p *process) pass(os.Signal) {}
func (p *process) terminate()     { p.kill() }
func (p *process) kill()          { _ = p.cmd.Process.Kill() }

func codeOf(s *os.ProcessState) int { return s.ExitCode() }
