package shellexec

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/dts-sched/dts/internal/clock"
)

const (
	sweepLimit  = time.Second      // how long what a command left behind may take to die
	looksLimit  = 5                // looks after processes that have just ended
	sweepPause  = time.Millisecond // between two looks
	windowLimit = 1000             // numbers that are looked at one by one
	wrapTime    = 10 * time.Second // in which the system does not give out all numbers of processes
	lastPID     = "/proc/loadavg"  // its last field is the newest number of a process
)

// endLeftovers kills the processes that the command left behind outside of its group. They are known by the variable
// that they inherited, so one that has dropped its environment is not found, nor one whose environment this program
// may not read. It is called when the command has ended and its group is killed.
func (p *process) endLeftovers() {
	ended := map[int]bool{}
	for looks, begin := 1, clock.Now(); ; looks++ {
		found, news := p.sweep(syscall.SIGKILL, ended)
		if !found && (!news || looks >= looksLimit) || clock.Since(begin) > sweepLimit {
			return
		}
		if found {
			_ = clock.Sleep(context.Background(), sweepPause)
		}
	}
}

// askLeftovers asks those outside of the group to end. Those in it get the signal with the group.
func (p *process) askLeftovers() { p.sweep(syscall.SIGTERM, map[int]bool{}) }

// sweep signals the processes of the command, and reports whether there are any, or one that is about to run another
// program and cannot be told yet; and whether others have ended that are not in ended, where it adds them: they may
// have started some just before.
func (p *process) sweep(s syscall.Signal, ended map[int]bool) (found, news bool) {
	for _, pid := range p.candidates() {
		environ, err := readProc(pid, "environ")
		switch {
		case errors.Is(err, fs.ErrPermission): // it belongs to somebody else
		case p.marks(environ):
			p.send(pid, s)
			found = true
		case err == nil && len(environ) > 0: // of another command, or of another program
		case err == nil && isStarting(pid):
			found = true
		case !ended[pid]:
			ended[pid], news = true, true
		}
	}
	return found, news
}

// candidates are the numbers that processes may have that were started since the command was. Soon after its start,
// they are those from its own to the newest one, which takes no look at all others; later, the numbers may have begun
// again from the lowest.
func (p *process) candidates() (pids []int) {
	main, newest := p.cmd.Process.Pid, newestPID()
	if newest < main || newest-main > windowLimit || clock.Since(p.started) > wrapTime {
		return allPIDs()
	}
	for pid := main + 1; pid <= newest; pid++ {
		pids = append(pids, pid)
	}
	return pids
}

func allPIDs() (pids []int) {
	folder, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer func() { _ = folder.Close() }()
	names, _ := folder.Readdirnames(-1)
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// newestPID is the number of the process that was started last. Numbers begin again from the lowest ones after the
// highest.
func newestPID() int {
	text, _ := os.ReadFile(lastPID)
	fields := strings.Fields(string(text))
	if len(fields) == 0 {
		return 0
	}
	pid, _ := strconv.Atoi(fields[len(fields)-1])
	return pid
}

// marks reports whether an environment is that of a process of the command.
func (p *process) marks(environ []byte) bool {
	return bytes.Contains(append([]byte{0}, environ...), []byte("\x00"+markVariable+"="+p.mark+"\x00"))
}

// send signals a process of the command. Its number may belong to another one by now, but the handle does not change.
func (p *process) send(pid int, s syscall.Signal) {
	handle, err := os.FindProcess(pid)
	if err != nil {
		return
	}
	defer func() { _ = handle.Release() }()
	environ, err := readProc(pid, "environ")
	group, _ := syscall.Getpgid(pid)
	if err == nil && p.marks(environ) && (s == syscall.SIGKILL || group != p.cmd.Process.Pid) {
		_ = handle.Signal(s)
	}
}

// isStarting reports whether a process is just about to run another program, so that its environment cannot be read
// yet.
func isStarting(pid int) bool {
	arguments, err := readProc(pid, "cmdline")
	if err != nil || len(arguments) > 0 {
		return false
	}
	// This fails for threads of the kernel, and for who has ended.
	_, err = os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "exe"))
	return err == nil
}

func readProc(pid int, file string) ([]byte, error) {
	return os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
}
