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

// SocketAt is the name of the socket of the connection from one port of 127.0.0.1 to another one; "" if there is none, and where there is no /proc.
func SocketAt(from, to int) string {
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return ""
	}
	source, destination := fmt.Sprintf("0100007F:%04X", from), fmt.Sprintf("0100007F:%04X", to)
	for lines := bufio.NewScanner(bytes.NewReader(table)); lines.Scan(); {
		const local, remote, inode = 1, 2, 9 // columns
		if fields := strings.Fields(lines.Text()); len(fields) > inode && fields[local] == source && fields[remote] == destination {
			return "socket:[" + fields[inode] + "]"
		}
	}
	return ""
}
