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

// Ends are the ports at both ends of a connection over 127.0.0.1.
type Ends struct{ From, To int }

// SocketsTo returns the names of the sockets at the far ends of the connections to ports of 127.0.0.1, by From, which is their own, and To. It is
// empty where there is no /proc.
func SocketsTo(ports ...int) map[Ends]string {
	to := make(map[string]int, len(ports))
	for _, port := range ports {
		to[fmt.Sprintf("0100007F:%04X", port)] = port
	}
	table, _ := os.ReadFile("/proc/net/tcp") // takes some ms, however few connections there are
	names := make(map[Ends]string)
	for line := range strings.Lines(string(table)) {
		const local, inode = 0, 8 // places behind the number of the line
		_, line, _ = strings.Cut(line, ": ")
		if len(line) < len("0100007F:0000 0100007F:0000") {
			continue
		}
		port, wanted := to[line[14:27]]
		if !wanted {
			continue
		}
		fields := strings.Fields(line)
		var from int
		if _, err := fmt.Sscanf(fields[local], "0100007F:%04X", &from); err == nil {
			names[Ends{from, port}] = "socket:[" + fields[inode] + "]"
		}
	}
	return names
}
