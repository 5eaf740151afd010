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

// Meter measures what this process uses of its machine.
type Meter struct {
	process *process.Process

	mu   sync.Mutex
	at   time.Time // of the last reading
	busy float64   // CPU seconds used until then
}

// Usage is one reading of a Meter.
type Usage struct {
	CPU    float64 // share of the machine since the reading before: 1 is all its processors
	Memory uint64  // resident bytes
}

// NewMeter starts to measure. Errors: the system does not say what this process uses.
func NewMeter() (*Meter, error) {
	p, err := process.NewProcess(int32(os.Getpid())) //nolint:gosec // process ids fit
	if err != nil {
		return nil, fmt.Errorf("measuring this process: %w", err)
	}
	m := &Meter{process: p, at: clock.Now()}
	m.busy, err = m.cpuSeconds()
	return m, err
}

// Read measures since the last Read, or since NewMeter. What cannot be read is 0.
func (m *Meter) Read() (Usage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	busy, cpuErr := m.cpuSeconds()
	var u Usage
	if passed := clock.Since(m.at).Seconds() * float64(runtime.NumCPU()); cpuErr == nil && passed > 0 {
		u.CPU = min(max((busy-m.busy)/passed, 0), 1)
		m.at, m.busy = clock.Now(), busy
	}
	memory, memErr := m.process.MemoryInfo()
	if memErr == nil {
		u.Memory = memory.RSS
	}
	return u, errors.Join(cpuErr, memErr)
}

func (m *Meter) cpuSeconds() (float64, error) {
	t, err := m.process.Times()
	if err != nil {
		return 0, fmt.Errorf("reading the CPU time of this process: %w", err)
	}
	return t.User + t.System, nil
}
