package process

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Owns reports whether the process has a socket, as SocketAt names it.
func (p *Process) Owns(socket string) bool {
	dir := fmt.Sprintf("/proc/%d/fd", p.cmd.Process.Pid)
	files, _ := os.ReadDir(dir) // of a process that lives
	return slices.ContainsFunc(files, func(f os.DirEntry) bool {
		target, _ := os.Readlink(filepath.Join(dir, f.Name()))
		return target == socket
	})
}

// SocketAt is the name of the socket that has a port of 127.0.0.1; "" if there is none, and where there is no /proc.
func SocketAt(port int) string {
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return ""
	}
	address := fmt.Sprintf("0100007F:%04X", port)
	for lines := bufio.NewScanner(bytes.NewReader(table)); lines.Scan(); {
		const local, inode = 1, 9 // columns
		if fields := strings.Fields(lines.Text()); len(fields) > inode && fields[local] == address {
			return "socket:[" + fields[inode] + "]"
		}
	}
	return ""
}
