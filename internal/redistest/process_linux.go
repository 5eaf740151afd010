package redistest

import "syscall"

// dieWithParent lets the kernel end the server if the test binary dies without cleaning up: by a panic,
// or by go test's timeout.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
