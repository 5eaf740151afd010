package process

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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
	ends := fmt.Appendf(nil, "0100007F:%04X 0100007F:%04X ", from, to)
	_, rest, _ := bytes.Cut(table, ends)
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	const inode = 6 // the place after the two addresses
	if fields := bytes.Fields(line); len(fields) > inode {
		return "socket:[" + string(fields[inode]) + "]"
	}
	return ""
}
