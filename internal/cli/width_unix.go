//go:build unix

package cli

import (
	"os"

	"golang.org/x/sys/unix"
)

// widthOf is how many characters fit into a line of a terminal; 0 if that is not known.
func widthOf(f *os.File) int {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}
