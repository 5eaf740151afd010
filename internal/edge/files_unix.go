//go:build unix

package edge

import "syscall"

// manyFiles stands for a limit that is none.
const manyFiles = 1 << 30

// openFiles is how many files this process may open; 0 if that is not known.
func openFiles() int {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return int(min(limit.Cur, manyFiles))
}
