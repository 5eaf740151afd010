//go:build unix && !linux

package lock

import "syscall"

// attributes puts the process into a group of its own, or not.
func attributes(ownGroup bool) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: ownGroup} }
