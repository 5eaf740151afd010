//go:build unix && !linux

package shellexec

// hide does nothing: only Linux has /proc/PID/environ and a switch for it.
func hide() error { return nil }
