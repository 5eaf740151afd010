package lock

import "syscall"

// attributes puts the process into a group of its own, or not, and has Linux end it when dtsctl dies, even by SIGKILL.
func attributes(ownGroup bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: ownGroup, Pdeathsig: syscall.SIGTERM}
}
