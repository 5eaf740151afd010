//go:build unix && !linux

package shellexec

import "syscall"

// canLimit is false: there is no way here to limit a process of another program before it runs. limits.within refuses all limits.
const canLimit = false

const limitOthersNeeds = "Linux"

func mayLimitOthers() bool { return false }

func (limits) stopAtExec(*syscall.SysProcAttr) {}

func (limits) apply(int) error { return nil }
