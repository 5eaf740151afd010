package cluster

import (
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/testkit"
)

// readings are what a source tells; what is not told cannot be read.
type readings struct {
	busy    *busyTime
	load    *float64
	memory  *Space
	disk    *Space
	carried map[string]carried
}

// source reads from r, which a test changes between two readings.
func (r *readings) source() source {
	return source{
		busy:   func() (busyTime, error) { return told(r.busy) },
		load:   func() (float64, error) { return told(r.load) },
		memory: func() (Space, error) { return told(r.memory) },
		disk:   func() (Space, error) { return told(r.disk) },
		carried: func() (map[string]carried, error) {
			if r.carried == nil {
				return nil, errUnknown
			}
			return r.carried, nil
		},
	}
}

func told[T any](v *T) (T, error) {
	if v == nil {
		return *new(T), errUnknown
	}
	return *v, nil
}

// all are readings in which everything is told.
func all() *readings {
	return &readings{
		busy: &busyTime{busy: 100, all: 400}, load: new(1.5), memory: &Space{Used: 3, Total: 8},
		disk:    &Space{Used: 20, Total: 50},
		carried: map[string]carried{"eth0": {1000, 500}, "eth1": {7, 7}},
	}
}

// pass lets time pass on the clock of the test.
func pass(t *testing.T, d time.Duration) {
	t.Helper()
	if err := clock.Sleep(t.Context(), d); err != nil {
		t.Fatal(err)
	}
}

func TestMachine_MeasuresSharesAndRatesBetweenReadings(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := all()
		m := newMachineMeter(r.source())
		levels := Machine{Load: new(1.5), Memory: &Space{3, 8}, Disk: &Space{20, 50}}
		expect := func(what string, cpu *float64, network *Traffic) {
			t.Helper()
			want := levels
			want.CPU, want.Network = cpu, network
			if diff := cmp.Diff(&want, m.read()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", what, diff)
			}
		}
		expect("at once", nil, nil)
		pass(t, 2*time.Second)
		r.busy = &busyTime{busy: 101, all: 404}
		r.carried = map[string]carried{"eth0": {3000, 600}, "eth1": {7, 7}}
		expect("after 2 s", new(0.25), &Traffic{Received: 1000, Sent: 50})
		pass(t, leastSpan-1)
		r.busy = &busyTime{busy: 101, all: 405}
		r.carried = map[string]carried{"eth0": {9000, 600}}
		expect("too soon after it", new(0.25), &Traffic{Received: 1000, Sent: 50})
		pass(t, time.Second+1-leastSpan)
		expect("since the reading before", new(0.0), &Traffic{Received: 6000})
	})
}

func TestMachine_LeavesOutWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		drop func(*readings)
		out  func(*Machine)
	}{
		"the CPU time": {func(r *readings) { r.busy = nil }, func(m *Machine) { m.CPU = nil }},
		"a CPU time that stands still": {
			func(r *readings) { r.busy = &busyTime{busy: 100, all: 400} }, func(m *Machine) { m.CPU = nil },
		},
		"the load":        {func(r *readings) { r.load = nil }, func(m *Machine) { m.Load = nil }},
		"the memory":      {func(r *readings) { r.memory = nil }, func(m *Machine) { m.Memory = nil }},
		"the file system": {func(r *readings) { r.disk = nil }, func(m *Machine) { m.Disk = nil }},
		"the network":     {func(r *readings) { r.carried = nil }, func(m *Machine) { m.Network = nil }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := all()
				m := newMachineMeter(r.source())
				pass(t, time.Second)
				r.busy = &busyTime{busy: 103, all: 404}
				r.carried = map[string]carried{"eth0": {1001, 502}}
				full := &Machine{
					CPU: new(0.75), Load: new(1.5), Memory: &Space{3, 8}, Disk: &Space{20, 50}, Network: &Traffic{1, 2},
				}
				c.drop(r)
				c.out(full)
				if diff := cmp.Diff(full, m.read()); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		})
	}
}

// After a reading that failed, the first that succeeds has nothing to compare with.
func TestMachine_StartsAgainAfterAFailedReading(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &readings{}
		m := newMachineMeter(r.source())
		for i, want := range []*Machine{nil, nil, {CPU: new(0.5), Network: &Traffic{Received: 10}}} {
			if i > 0 {
				r.busy = &busyTime{busy: float64(i), all: float64(2 * i)}
				r.carried = map[string]carried{"eth0": {uint64(10 * i), 0}}
			}
			pass(t, time.Second)
			if diff := cmp.Diff(want, m.read()); diff != "" {
				t.Errorf("reading %d (-want +got):\n%s", i, diff)
			}
		}
	})
}

func TestTrafficOf_CountsNoInterfaceThatBeginsAgain(t *testing.T) {
	t.Parallel()
	before := map[string]carried{"eth0": {100, 100}, "again": {900, 900}, "gone": {5, 5}}
	now := map[string]carried{"eth0": {160, 120}, "again": {950, 10}, "fresh": {70, 70}}
	if diff := cmp.Diff(&Traffic{Received: 30, Sent: 10}, trafficOf(before, now, 2*time.Second)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A file system on a server that is away never answers: the rest must be told all the same, and nobody asks again.
func TestMachine_WaitsForNoSilentFileSystem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked, answer := 0, make(chan struct{})
		s := all().source()
		s.disk = func() (Space, error) {
			asked++
			<-answer
			return Space{20, 50}, nil
		}
		m := newMachineMeter(s)
		for range 3 {
			start := clock.Now()
			got := m.read()
			if took := clock.Since(start); got.Disk != nil || got.Load == nil || took != diskPatience {
				t.Fatalf("after %s: %+v", took, got)
			}
		}
		close(answer)
		if got := m.read(); got.Disk == nil || asked != 1 {
			t.Errorf("asked %d times, and got %+v", asked, got)
		}
	})
}

func TestIsLoopback_KnowsTheNamesOfSystems(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"lo": true, "lo0": true, "Loopback Pseudo-Interface 1": true, "eth0": false, "lowpan0": false, "local": false,
	} {
		if got := isLoopback(name); got != want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestSystem_TellsWhatProcSays reads /proc itself, before and after.
func TestSystem_TellsWhatProcSays(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("/proc is of Linux")
	}
	before := readProc(t)
	s := system()
	load, err := s.load()
	if err != nil {
		t.Fatal(err)
	}
	memory, err := s.memory()
	if err != nil {
		t.Fatal(err)
	}
	disk, err := s.disk()
	if err != nil {
		t.Fatal(err)
	}
	busy, err := s.busy()
	if err != nil {
		t.Fatal(err)
	}
	network, err := s.carried()
	if err != nil {
		t.Fatal(err)
	}
	after := readProc(t)
	if load != before.load && load != after.load {
		t.Errorf("the load is %v, and was %v and %v", load, before.load, after.load)
	}
	free, near := float64(memory.Total-memory.Used), 0.02*float64(before.memory) // it changes meanwhile
	least, most := min(before.free, after.free)-near, max(before.free, after.free)+near
	if memory.Total != before.memory || free < least || free > most {
		t.Errorf("of %+v bytes of memory, %.0f are free, want %.0f to %.0f of %d", memory, free, least, most, before.memory)
	}
	off := math.Abs(float64(disk.Total) - float64(before.disk))
	if off > near || disk.Used == 0 || disk.Used > disk.Total {
		t.Errorf("the file system is %+v, want %d bytes", disk, before.disk)
	}
	const tick = 0.01 // of the CPU time, in seconds: sums are rounded in different orders
	if busy.all < before.busy.all-tick || busy.all > after.busy.all+tick ||
		busy.busy < before.busy.busy-tick || busy.busy > after.busy.busy+tick {
		t.Errorf("the CPU time is %+v, and was %+v and %+v", busy, before.busy, after.busy)
	}
	if len(network) != len(before.network) {
		t.Errorf("the interfaces are %v, want %v", network, before.network)
	}
	for name, n := range network {
		b, a := before.network[name], after.network[name]
		if n.received < b.received || n.received > a.received || n.sent < b.sent || n.sent > a.sent {
			t.Errorf("%s has carried %+v, and had %+v and %+v", name, n, b, a)
		}
	}
}

// A system without /proc must not look like an idle machine without memory. What the kernel tells by calls is told.
func TestSystem_SaysNothingWithoutProc(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("/proc is of Linux")
	}
	for name, files := range map[string]map[string]string{
		"no files": {}, "empty files": {"stat": "", "meminfo": "", "net/dev": ""},
		"files of zeros": {
			"stat": "cpu  0 0 0 0 0 0 0 0 0 0\n", "meminfo": "MemTotal: 0 kB\nMemAvailable: 0 kB\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			proc := t.TempDir()
			testkit.Must(t, os.Mkdir(filepath.Join(proc, "net"), 0o700))
			for file, text := range files {
				testkit.Must(t, os.WriteFile(filepath.Join(proc, file), []byte(text), 0o600))
			}
			t.Setenv("HOST_PROC", proc) // gopsutil reads there
			m := newMachineMeter(system())
			m.at = m.at.Add(-time.Second)
			got := m.read()
			if got == nil || got.CPU != nil || got.Memory != nil || got.Network != nil || got.Load == nil {
				t.Errorf("the machine is %s", show(got))
			}
			testkit.Eventually(t, "a reading has the disk, which may be slow", func() bool { return m.read().Disk != nil })
		})
	}
}

// proc is what /proc and the kernel say of the machine.
type proc struct {
	load    float64
	memory  uint64
	free    float64
	disk    uint64
	busy    busyTime
	network map[string]carried
}

// readProc reads as a person does, by the manual page proc(5).
func readProc(t *testing.T) proc {
	t.Helper()
	p := proc{network: map[string]carried{}}
	p.load = number(t, fields(t, "loadavg", "")[0])
	p.memory = 1024 * uint64(number(t, fields(t, "meminfo", "MemTotal:")[1]))
	p.free = 1024 * number(t, fields(t, "meminfo", "MemAvailable:")[1])
	for i, text := range fields(t, "stat", "cpu ")[1:9] { // user, nice, system, idle, iowait, irq, softirq, steal
		p.busy.all += number(t, text) / 100
		if i != 3 && i != 4 {
			p.busy.busy += number(t, text) / 100
		}
	}
	for _, line := range strings.Split(read(t, "net/dev"), "\n")[2:] {
		name, rest, found := strings.Cut(strings.TrimSpace(line), ":")
		if n := strings.Fields(rest); found && name != "lo" {
			p.network[name] = carried{uint64(number(t, n[0])), uint64(number(t, n[8]))}
		}
	}
	var of unix.Statfs_t
	if err := unix.Statfs(".", &of); err != nil {
		t.Fatal(err)
	}
	p.disk = (of.Blocks - of.Bfree + of.Bavail) * uint64(of.Bsize) //nolint:gosec // sizes are positive
	return p
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("/proc/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// fields are the fields of the line of a file in /proc that begins with a word.
func fields(t *testing.T, name, word string) []string {
	t.Helper()
	for line := range strings.Lines(read(t, name)) {
		if strings.HasPrefix(line, word) {
			return strings.Fields(line)
		}
	}
	t.Fatalf("/proc/%s has no %q", name, word)
	return nil
}

func number(t *testing.T, text string) float64 {
	t.Helper()
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// The system counts CPU time in hundredths of a second, so that a share of a few of them would be 0 or 1.
func TestMeter_MeasuresNoShareOfAShortTime(t *testing.T) {
	t.Parallel()
	start := clock.Now()
	m, err := NewMeter()
	if err != nil {
		t.Fatal(err)
	}
	for burnt := m.cpuUsed; burnt < m.cpuUsed+0.02; burnt, err = m.cpuSeconds() {
		if err != nil {
			t.Fatal(err)
		}
	}
	if u, err := m.Read(); err != nil || u.CPU != 0 && clock.Since(start) < leastSpan {
		t.Errorf("after a short time, the process uses %v of the processors: %v", u.CPU, err)
	}
	for clock.Since(m.readAt) < leastSpan { // works meanwhile
	}
	if u, err := m.Read(); err != nil || u.CPU <= 0 || u.CPU > 1 {
		t.Errorf("after a longer time, it uses %v of the processors: %v", u.CPU, err)
	}
}

func TestMeter_TellsTheMachineBesideTheProcess(t *testing.T) {
	t.Parallel()
	m, err := NewMeter()
	if err != nil {
		t.Fatal(err)
	}
	start := clock.Now()
	u, err := m.Read()
	if r := u.Machine; err != nil || r.Memory == nil || r.Disk == nil || r.Load == nil {
		t.Errorf("the first reading is %s: %v", show(r), err)
	}
	for clock.Since(start) < leastSpan || u.Machine.CPU == nil { // works meanwhile; the test's own timeout is the limit
		u, err = m.Read()
	}
	if r := u.Machine; err != nil || r.CPU == nil || *r.CPU <= 0 || *r.CPU > 1 || r.Network == nil {
		t.Errorf("the next one is %s: %v", show(r), err)
	}
}

func show(m *Machine) string { return cmp.Diff((*Machine)(nil), m) }

func BenchmarkMeter(b *testing.B) {
	m, err := NewMeter()
	if err != nil {
		b.Fatal(err)
	}
	b.Run("process", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = m.cpuSeconds()
			_, _ = m.process.MemoryInfo()
		}
	})
	b.Run("machine", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			m.machine.at = time.Time{} // so that shares and rates are measured each time
			m.machine.read()
		}
	})
}
