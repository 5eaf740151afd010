//go:build unix && !linux

package shellexec

import (
	"os/exec"
	"syscall"
)

// ownGroup puts the process into a group of its own.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// reap waits for the process to exit and calls exited. The number of the process is released by then, which matters
// only if another process gets it at once.
func reap(cmd *exec.Cmd, exited func()) error {
	err := cmd.Wait()
	exited()
	return err
}
