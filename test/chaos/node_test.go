package chaos

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/test/process"
)

// member is one of the fleet: a program that is started again after its death, which reaches Redis through proxies where the deployment has them.
type member struct {
	round   *round
	name    string // in messages
	program string
	args    []string
	network []*redistest.Proxy // its ways to the servers of Redis; none: direct
	through *member            // the node whose API it uses; nil: it reaches Redis itself
	serves  bool               // it has an API
	hurt    sync.Mutex         // held by the fault that concerns the member

	mu        sync.Mutex
	api       *client.ClientWithResponses
	launched  *process.Process   // the newest one, perhaps not running yet; by it, proxies know whose connections there are
	processes []*process.Process // all that have run, the newest one last
}

// start starts the program; its old process has ended.
func (m *member) start() {
	p, err := process.Launch(binaries, m.program, m.args...)
	if err != nil {
		m.round.t.Errorf("%s: %v", m.name, err)
		return
	}
	m.mu.Lock()
	m.launched = p
	m.mu.Unlock()
	if err := p.AwaitRunning(); err != nil {
		m.round.t.Errorf("%s: %v", m.name, err)
		return
	}
	api, err := client.NewClientWithResponses(p.URL, client.WithHTTPClient(patient))
	if err != nil {
		m.round.t.Errorf("%s: %v", m.name, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.api, m.processes = api, append(m.processes, p)
}

// current returns the newest process, nil if none was started.
func (m *member) current() *process.Process {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.processes) == 0 {
		return nil
	}
	return m.processes[len(m.processes)-1]
}

// sockets are the names of the sockets of the newest process, also of one that does not run yet.
func (m *member) sockets() map[string]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.launched == nil {
		return nil
	}
	return m.launched.Sockets()
}

func (m *member) client() *client.ClientWithResponses {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.api
}

func (m *member) url() string { return m.current().URL }

// kill ends the process as a crash does.
func (m *member) kill() {
	p := m.current()
	p.Kill()
	if !p.WasKilled() {
		m.round.violation("%s ended by itself: %v", m.name, p.Err())
	}
}

// stop asks the process to end, which it must do cleanly.
func (m *member) stop() {
	m.checkAlive()
	if err := m.current().Stop(); err != nil {
		m.round.violation("%s did not end cleanly: %v", m.name, err)
	}
}

// checkAlive reports whether the process runs. Only faults may end it, and they start it again.
func (m *member) checkAlive() bool {
	select {
	case <-m.current().Done():
		m.round.violation("%s ended by itself: %v", m.name, m.current().Err())
		return false
	default:
		return true
	}
}

// ids are those that its processes have in the histories of tasks.
func (m *member) ids() (all []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.processes {
		all = append(all, p.ID)
	}
	return all
}

// dependsOn are the members without which it cannot work.
func (m *member) dependsOn() []string {
	if m.through != nil {
		return []string{m.name, m.through.name}
	}
	return []string{m.name}
}

func (m *member) signal(s syscall.Signal) {
	if err := m.current().Signal(s); err != nil {
		m.round.t.Errorf("%s: %v", m.name, err)
	}
}

// found begins the line that a member logs when it notices another primary, or that Redis restarted, and told the one when it has told that primary what it
// knows.
const (
	found = "Redis has restarted or failed over"
	told  = "reported attempts to the new Redis primary"
)

// said returns when the member said something first since a time; never if it did not.
func (m *member) said(what string, since time.Time) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.processes {
		for line := range strings.Lines(p.Log()) {
			var entry struct {
				Time time.Time
				Msg  string
			}
			_ = json.Unmarshal([]byte(line), &entry) // a panic is not JSON
			if strings.HasPrefix(entry.Msg, what) && entry.Time.After(since) {
				return entry.Time
			}
		}
	}
	return never
}

// raced reports whether the race detector has found something in any process of the member.
func (m *member) raced() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(m.processes, (*process.Process).Raced)
}

// keepLogs writes the logs of all processes of the member to a directory.
func (m *member) keepLogs(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, p := range m.processes {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%d.log", m.name, i+1)), []byte(p.Log()), 0o600); err != nil {
			return err
		}
	}
	return nil
}
