package main

import "syscall"

// dieWithParent lets the kernel end a child if the bench dies without cleaning up.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
