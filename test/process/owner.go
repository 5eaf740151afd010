package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Sockets returns the names of the sockets that the process has, as SocketAt has them.
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
