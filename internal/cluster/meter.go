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

// Meter measures the CPU time and memory that this process uses.
type Meter struct {
	process *process.Process

	mu      sync.Mutex
	readAt  time.Time // time of the last reading
	cpuUsed float64   // CPU seconds used until readAt
}

// Usage is one reading of a Meter.
type Usage struct {
	CPU    float64 // share of all processors since the previous reading, 0 to 1
	Memory uint64  // resident bytes
}

// NewMeter starts measuring. It returns an error if the system does not report the CPU time of this process.
func NewMeter() (*Meter, error) {
	p, err := process.NewProcess(int32(os.Getpid())) //nolint:gosec // process ids fit
	if err != nil {
		return nil, fmt.Errorf("measuring this process: %w", err)
	}
	m := &Meter{process: p, readAt: clock.Now()}
	m.cpuUsed, err = m.cpuSeconds()
	return m, err
}

// Read returns the usage since the last Read, or since NewMeter. A value that cannot be read is 0, and the error
// says why.
func (m *Meter) Read() (Usage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	used, cpuErr := m.cpuSeconds()
	var u Usage
	if available := clock.Since(m.readAt).Seconds() * float64(runtime.NumCPU()); cpuErr == nil && available > 0 {
		u.CPU = min(max((used-m.cpuUsed)/available, 0), 1)
		m.readAt, m.cpuUsed = clock.Now(), used
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
