package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Sockets returns the names of the sockets that the process has, as SocketsTo has them.
func (p *Process) Sockets() map[string]bool {
	dir := fmt.Sprintf("/proc/%d/fd", p.cmd.Process.Pid)
	files, _ := os.ReadDir(dir) // of a process that lives
	names := make(map[string]bool, len(files))
	for _, f := range files {
		if target, _ := os.Readlink(filepath.Join(dir, f.Name())); strings.HasPrefix(target, "socket:") {
			names[target] = true
		}
	}
	return names
}

// SocketsTo returns the names of the sockets at the far ends of the connections to a port of 127.0.0.1, by their own ports. It is empty where
// there is no /proc.
func SocketsTo(port int) map[int]string {
	table, _ := os.ReadFile("/proc/net/tcp")
	names := make(map[int]string)
	to := fmt.Sprintf("0100007F:%04X", port)
	for line := range strings.Lines(string(table)) {
		const remote, inode = 2, 9 // places
		fields := strings.Fields(line)
		if len(fields) <= inode || fields[remote] != to {
			continue
		}
		var from int
		if _, err := fmt.Sscanf(fields[remote-1], "0100007F:%04X", &from); err == nil {
			names[from] = "socket:[" + fields[inode] + "]"
		}
	}
	return names
}
