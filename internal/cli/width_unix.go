//go:build unix

package cli

import (
	"os"

	"golang.org/x/sys/unix"
)

// widthOf returns how many columns a line of a terminal has, 0 if it is unknown.
func widthOf(f *os.File) int {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}
