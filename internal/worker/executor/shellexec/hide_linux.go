package shellexec

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// hide keeps commands, which may run as the user of this process, from reading its environment and memory, where the
// password of Redis is, and from attaching to it. Those with CAP_SYS_PTRACE still can. The process leaves no core
// dump.
func hide() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("prctl PR_SET_DUMPABLE: %w", err)
	}
	return nil
}
