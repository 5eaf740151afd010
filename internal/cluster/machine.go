package cluster

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"time"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/disk"
	"github.com/shirou/gopsutil/v4/load"
	"github.com/shirou/gopsutil/v4/mem"
	"github.com/shirou/gopsutil/v4/net"

	"github.com/dts-sched/dts/internal/clock"
)

// Machine is what a node measures of its machine. What cannot be read is nil, and left out. In a container, it is of
// the machine around it, but for the network, which is that of the container. The share of the CPU and the traffic are
// those since the previous reading.
type Machine struct {
	CPU     *float64 `json:"cpu,omitempty"`     // share of all processors that was busy, 0 to 1
	Load    *float64 `json:"load,omitempty"`    // processes that run, or wait to, as an average over a minute
	Memory  *Space   `json:"memory,omitempty"`  // used is what processes could not get
	Disk    *Space   `json:"disk,omitempty"`    // of the file system of the working directory, without what root keeps
	Network *Traffic `json:"network,omitempty"` // of all interfaces but loopback
}

// Check says what is impossible of a machine that somebody else has measured: the field, and what is wrong with it; ""
// if nothing is.
func (m *Machine) Check() (field, fault string) {
	switch {
	case m == nil:
	case m.CPU != nil && (*m.CPU < 0 || *m.CPU > 1):
		return "cpu", fmt.Sprintf("%v must be 0 to 1", *m.CPU)
	case m.Load != nil && (*m.Load < 0 || *m.Load > loadLimit):
		return "load", fmt.Sprintf("%v must be 0 to %d", *m.Load, loadLimit)
	case m.Memory != nil && m.Memory.Used > m.Memory.Total:
		return "memory", fmt.Sprintf("%d bytes of %d cannot be used", m.Memory.Used, m.Memory.Total)
	case m.Disk != nil && m.Disk.Used > m.Disk.Total:
		return "disk", fmt.Sprintf("%d bytes of %d cannot be used", m.Disk.Used, m.Disk.Total)
	}
	return "", ""
}

// loadLimit is the highest load that is believed.
const loadLimit = 1_000_000

// Space is how much of something is in use, in bytes.
type Space struct {
	Used  uint64 `json:"used"`
	Total uint64 `json:"total"`
}

// Share is how much of it is in use, 0 to 1.
func (s Space) Share() float64 {
	if s.Total == 0 {
		return 0
	}
	return float64(s.Used) / float64(s.Total)
}

// Traffic is how much went over the network, in bytes a second.
type Traffic struct {
	Received uint64 `json:"received"`
	Sent     uint64 `json:"sent"`
}

const (
	// leastSpan is the least time over which a share or a rate is measured: the system counts CPU time in hundredths of a
	// second. Readings that follow sooner have the former one.
	leastSpan = 100 * time.Millisecond
	// diskPatience is how long a reading waits for the file system, which may be on a server that is away. Heartbeats go
	// on without it.
	diskPatience = 10 * time.Millisecond
)

// machineMeter measures the machine. It is used by one goroutine at a time.
type machineMeter struct {
	source source
	disk   chan *Space // of the question that the file system has not answered yet; nil: there is none

	at      time.Time // of the totals
	busy    busyTime
	carried map[string]carried

	share   *float64 // the newest ones
	traffic *Traffic
}

// source is where a machineMeter reads. An error means that a value is not known.
type source struct {
	busy    func() (busyTime, error)
	load    func() (float64, error)
	memory  func() (Space, error)
	disk    func() (Space, error)
	carried func() (map[string]carried, error)
}

// busyTime are seconds of all processors since the machine has started.
type busyTime struct{ busy, all float64 }

// carried is what an interface has carried, in bytes.
type carried struct{ received, sent uint64 }

func newMachineMeter(s source) *machineMeter {
	m := &machineMeter{source: s}
	m.busy, m.carried = m.totals()
	m.at = clock.Now()
	return m
}

// read measures the machine. It returns nil if nothing of it can be read.
func (m *machineMeter) read() *Machine {
	if span := clock.Since(m.at); span >= leastSpan {
		busy, all := m.totals()
		m.share, m.traffic = shareOf(m.busy, busy), trafficOf(m.carried, all, span)
		m.busy, m.carried, m.at = busy, all, clock.Now()
	}
	r := &Machine{CPU: m.share, Network: m.traffic, Disk: m.readDisk()}
	if load, err := m.source.load(); err == nil {
		r.Load = &load
	}
	if memory, err := m.source.memory(); err == nil {
		r.Memory = &memory
	}
	if *r == (Machine{}) {
		return nil
	}
	return r
}

// totals are zero and nil where they cannot be read.
func (m *machineMeter) totals() (busyTime, map[string]carried) {
	busy, err := m.source.busy()
	if err != nil {
		busy = busyTime{}
	}
	all, err := m.source.carried()
	if err != nil {
		all = nil
	}
	return busy, all
}

// readDisk asks for the file system, unless an earlier question has no answer yet.
func (m *machineMeter) readDisk() *Space {
	if m.disk == nil {
		answer := make(chan *Space, 1)
		m.disk = answer
		go func() {
			space, err := m.source.disk()
			if err != nil {
				answer <- nil
				return
			}
			answer <- &space
		}()
	}
	patience := time.NewTimer(diskPatience)
	defer patience.Stop()
	select {
	case space := <-m.disk:
		m.disk = nil
		return space
	case <-patience.C:
		return nil
	}
}

// shareOf returns which share of the time between two readings was busy, to a tenth of a percent. It is nil if one
// could not be read, or the system counts no time.
func shareOf(before, now busyTime) *float64 {
	all := now.all - before.all
	if before.all <= 0 || all <= 0 {
		return nil
	}
	share := min(max((now.busy-before.busy)/all, 0), 1)
	return new(math.Round(share*1000) / 1000)
}

// trafficOf returns what the interfaces carried a second that are in both readings. An interface that comes, or whose
// counters begin again, counts from the next reading on. It is nil if one could not be read.
func trafficOf(before, now map[string]carried, span time.Duration) *Traffic {
	if before == nil || now == nil {
		return nil
	}
	var received, sent uint64
	for name, n := range now {
		if b, known := before[name]; known && n.received >= b.received && n.sent >= b.sent {
			received, sent = received+n.received-b.received, sent+n.sent-b.sent
		}
	}
	second := func(bytes uint64) uint64 { return uint64(math.Round(float64(bytes) / span.Seconds())) }
	return &Traffic{Received: second(received), Sent: second(sent)}
}

var errUnknown = errors.New("the system does not tell")

// system reads the machine on which this process runs.
func system() source {
	return source{busy: readBusy, load: readLoad, memory: readMemory, disk: readDisk, carried: readCarried}
}

func readBusy() (busyTime, error) {
	all, err := cpu.Times(false)
	switch {
	case err != nil:
		return busyTime{}, fmt.Errorf("reading the CPU time of the machine: %w", err)
	case len(all) == 0:
		return busyTime{}, errUnknown
	}
	t := all[0] // user and nice contain the time of guests
	busy := t.User + t.System + t.Nice + t.Irq + t.Softirq + t.Steal
	return busyTime{busy: busy, all: busy + t.Idle + t.Iowait}, nil
}

func readLoad() (float64, error) {
	if runtime.GOOS == "windows" { // gopsutil counts it there from the first call on
		return 0, errUnknown
	}
	l, err := load.Avg()
	if err != nil {
		return 0, fmt.Errorf("reading the load of the machine: %w", err)
	}
	return l.Load1, nil
}

func readMemory() (Space, error) {
	m, err := mem.VirtualMemory()
	switch {
	case err != nil:
		return Space{}, fmt.Errorf("reading the memory of the machine: %w", err)
	case m.Total == 0 || m.Available > m.Total:
		return Space{}, errUnknown
	}
	return Space{Used: m.Total - m.Available, Total: m.Total}, nil
}

func readDisk() (Space, error) {
	d, err := disk.Usage(".")
	switch {
	case err != nil:
		return Space{}, fmt.Errorf("reading the file system of the working directory: %w", err)
	case d.Used+d.Free == 0:
		return Space{}, errUnknown
	}
	return Space{Used: d.Used, Total: d.Used + d.Free}, nil // d.Total has what is kept for root, too
}

func readCarried() (map[string]carried, error) {
	if runtime.GOOS != "linux" && runtime.GOOS != "windows" { // gopsutil runs netstat there, at each heartbeat
		return nil, errUnknown
	}
	interfaces, err := net.IOCounters(true)
	if err != nil {
		return nil, fmt.Errorf("reading what the network of the machine carries: %w", err)
	}
	all := make(map[string]carried, len(interfaces))
	for _, i := range interfaces {
		if !isLoopback(i.Name) {
			all[i.Name] = carried{received: i.BytesRecv, sent: i.BytesSent}
		}
	}
	return all, nil
}

// isLoopback reports whether an interface is one on which the machine talks to itself: lo of Linux, lo0 of BSD and
// macOS, Loopback... of Windows.
func isLoopback(name string) bool {
	return name == "lo" || name == "lo0" || strings.HasPrefix(name, "Loopback ")
}
