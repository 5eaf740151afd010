package shellexec

import (
	"golang.org/x/sys/unix"
)

const switchNeeds = "root, or the capabilities CAP_SETUID, CAP_SETGID and CAP_KILL"

// maySwitch reports whether this thread may start processes of other users, and end them.
func maySwitch() bool { return hasAll(unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_KILL) }

// hasAll reports whether this thread has all of these capabilities, of the first 32.
func hasAll(capabilities ...int) bool {
	var sets [2]unix.CapUserData
	if unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &sets[0]) != nil {
		return false
	}
	for _, c := range capabilities {
		if sets[0].Effective&(1<<c) == 0 {
			return false
		}
	}
	return true
}

// start calls begin, which starts a process of the user. Capabilities that this program passes on to what it starts (ambient ones, as of
// systemd's AmbientCapabilities) would let that process become any other user, so they are withheld from it. Only this thread has none
// meanwhile.
func (a *account) start(begin func() error) error {
	if a == nil || a.credential == nil {
		return begin()
	}
	for c := range uintptr(unix.CAP_LAST_CAP + 1) {
		set, err := unix.PrctlRetInt(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_IS_SET, c, 0, 0)
		if err != nil || set == 0 {
			continue // one that this kernel does not know
		}
		if err := ambient(unix.PR_CAP_AMBIENT_LOWER, c); err != nil {
			return err
		}
		defer func() { _ = ambient(unix.PR_CAP_AMBIENT_RAISE, c) }()
	}
	return begin()
}

func ambient(change int, capability uintptr) error {
	return unix.Prctl(unix.PR_CAP_AMBIENT, uintptr(change), capability, 0, 0)
}
