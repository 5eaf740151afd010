package shellexec

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dts-sched/dts/internal/worker/executor"
)

const canLimit = true

const limitOthersNeeds = "the capability CAP_SYS_RESOURCE"

// mayLimitOthers reports whether this thread may set limits of processes of other users. Root in a container often may not.
func mayLimitOthers() bool { return hasAll(unix.CAP_SYS_RESOURCE) }

// killAfter is how much more CPU time a process gets that does not end by SIGXCPU.
const killAfter = time.Second

// stopAtExec makes the process stop at the first instruction of the command, and not run before limits.apply lets it. It stops there
// because this thread traces it; see docs/adr/0016-limits-are-set-on-a-stopped-process.md.
func (l limits) stopAtExec(attr *syscall.SysProcAttr) { attr.Ptrace = l.exist() }

// apply sets the limits of a process that stopped at its exec, and lets it run. The caller's thread must have started the process. If
// apply fails, the process has not run, and the caller kills it.
func (l limits) apply(pid int) error {
	if !l.exist() {
		return nil
	}
	if stopped, err := waitForStop(pid); err != nil || !stopped {
		return err // one that did not stop was killed, as wait will tell
	}
	if err := l.set(pid); err != nil {
		return err
	}
	return unix.PtraceDetach(pid)
}

// waitForStop returns false if the process has ended instead. It leaves the process to be waited for.
func waitForStop(pid int) (stopped bool, err error) {
	var info unix.Siginfo
	for err = error(unix.EINTR); errors.Is(err, unix.EINTR); {
		err = unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil)
	}
	const trapped = 4 // CLD_TRAPPED
	return err == nil && info.Code == trapped, err
}

func (l limits) set(pid int) error {
	for _, one := range []struct {
		field      string
		resource   int
		soft, hard uint64
	}{
		// RLIMIT_DATA and not RLIMIT_AS: many runtimes reserve much more address space than they use.
		{"memory", unix.RLIMIT_DATA, uint64(l.memory), uint64(l.memory)},
		{"cpu_time", unix.RLIMIT_CPU, uint64(l.cpu / time.Second), uint64((l.cpu + killAfter) / time.Second)},
		{"open_files", unix.RLIMIT_NOFILE, uint64(l.files), uint64(l.files)},
	} {
		if one.soft == 0 {
			continue
		}
		if err := lower(pid, one.resource, one.soft, one.hard); err != nil {
			return cannotLimit(one.field, err)
		}
	}
	return nil
}

// lower sets a limit, unless a lower one holds already.
func lower(pid, resource int, soft, hard uint64) error {
	var current unix.Rlimit
	if err := unix.Prlimit(pid, resource, nil, &current); err != nil {
		return err
	}
	return unix.Prlimit(pid, resource, &unix.Rlimit{Cur: min(soft, current.Max), Max: min(hard, current.Max)}, nil)
}

func cannotLimit(field string, err error) error {
	if errors.Is(err, unix.EPERM) {
		return executor.Permanent(fmt.Errorf("limits.%s: this node cannot limit commands that run as another user: that needs "+limitOthersNeeds, field))
	}
	return fmt.Errorf("limits.%s: %w", field, err)
}
