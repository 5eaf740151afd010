//go:build unix && !linux

package executor

import (
	"os/exec"
	"syscall"
)

// ownGroup puts the process into a group of its own.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// reap waits for the process to exit and calls exited. The process's number is free for others by then,
// which matters only if it is given away again at once.
func reap(cmd *exec.Cmd, exited func()) error {
	err := cmd.Wait()
	exited()
	return err
}
