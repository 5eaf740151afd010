package shellexec

import (
	"errors"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// ownGroup puts the process into a group of its own, and makes Linux kill it when this program dies, even by SIGKILL.
// Its descendants are not killed then: a command that may leave some behind should clean up at its next start.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// reap waits for the process to exit and calls exited before it releases the number of the process.
func reap(cmd *exec.Cmd, exited func()) error {
	err := error(unix.EINTR)
	for errors.Is(err, unix.EINTR) {
		err = unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
	}
	exited()
	return cmd.Wait()
}
