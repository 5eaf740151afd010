package cluster

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/shirou/gopsutil/v4/process"

	"github.com/dts-sched/dts/internal/clock"
)

// Meter measures the CPU time and memory that this process uses, and its machine.
type Meter struct {
	process *process.Process
	machine *machineMeter

	mu      sync.Mutex
	readAt  time.Time // time of the last reading
	cpuUsed float64   // CPU seconds used until readAt
	share   float64   // of all processors, before readAt
}

// Usage is one reading of a Meter.
type Usage struct {
	CPU    float64 // share of all processors since the reading before, as long as leastSpan ago; 0 to 1
	Memory uint64  // resident bytes

	Machine *Machine // nil if nothing of it can be read
}

// NewMeter starts measuring. It returns an error if the system does not report the CPU time of this process.
func NewMeter() (*Meter, error) {
	p, err := process.NewProcess(int32(os.Getpid())) //nolint:gosec // process ids fit
	if err != nil {
		return nil, fmt.Errorf("measuring this process: %w", err)
	}
	m := &Meter{process: p, machine: newMachineMeter(system()), readAt: clock.Now()}
	m.cpuUsed, err = m.cpuSeconds()
	return m, err
}

// Read returns the usage since the last Read, or since NewMeter: what follows sooner than leastSpan has the CPU of the
// reading before. A value of the process that cannot be read
// is 0, and the error says why; one of the machine is left out.
func (m *Meter) Read() (Usage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	used, cpuErr := m.cpuSeconds()
	u := Usage{Machine: m.machine.read()}
	if cpuErr == nil {
		if span := clock.Since(m.readAt); span >= leastSpan {
			m.share = min(max((used-m.cpuUsed)/span.Seconds()/float64(runtime.NumCPU()), 0), 1)
			m.readAt, m.cpuUsed = clock.Now(), used
		}
		u.CPU = m.share
	}
	memory, memErr := m.process.MemoryInfo()
	if memErr == nil {
		u.Memory = memory.RSS
	}
	return u, errors.Join(cpuErr, memErr)
}

// cpuSeconds returns the user and system CPU seconds that this process has used since its start.
func (m *Meter) cpuSeconds() (float64, error) {
	t, err := m.process.Times()
	if err != nil {
		return 0, fmt.Errorf("reading the CPU time of this process: %w", err)
	}
	return t.User + t.System, nil
}
