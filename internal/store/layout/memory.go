package layout

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/redisx"
)

// Shares of Redis's maxmemory. There must be room for work to end, and a finished task needs more memory than one that waits.
const (
	NearlyFull = 0.9  // above it, new work is refused
	AlmostFull = 0.95 // above it, leaders hold ticks back, too, and delete finished tasks early
)

const (
	memoryLifetime = time.Second // how long a reading of the memory is used
	memoryTimeout  = time.Second // of reading it
)

// MemoryInUse is the share of its maxmemory that the server uses which holds a partition, as of about a second ago. It is 0 if there is
// no limit, and if Redis does not answer: the write that follows fails by itself then.
func (l *Layout) MemoryInUse(ctx context.Context, partition int) float64 {
	server, name, err := l.DB.ServerOf(ctx, string(l.Keys.Partition(partition).States()))
	if err != nil {
		return 0
	}
	r, known := l.memory.Load(name)
	if !known {
		r, _ = l.memory.LoadOrStore(name, &memory{})
	}
	return r.(*memory).inUse(func() float64 {
		ctx, cancel := context.WithTimeout(ctx, memoryTimeout)
		defer cancel()
		return readMemory(ctx, server)
	})
}

// MemoryInUseEach is MemoryInUse for several partitions, in order. All their servers are asked at once, so that silent ones are waited for together.
func (l *Layout) MemoryInUseEach(ctx context.Context, partitions []int) []float64 {
	if len(partitions) == 1 { // as of one submission
		return []float64{l.MemoryInUse(ctx, partitions[0])}
	}
	keys := make([]string, len(partitions))
	for i, p := range partitions {
		keys[i] = string(l.Keys.Partition(p).States())
	}
	inUse := make([]float64, len(partitions))
	_ = l.DB.EachServer(ctx, keys, func(_ redis.Cmdable, places []int) {
		of := l.MemoryInUse(ctx, partitions[places[0]])
		for _, i := range places {
			inUse[i] = of
		}
	})
	return inUse
}

// memory is how full one server is.
type memory struct {
	reading sync.Mutex // held while it is read
	known   atomic.Pointer[memoryReading]
}

type memoryReading struct {
	inUse float64
	at    time.Time
}

// inUse returns what is known, after another reading if that is too old. While somebody else reads, it returns what was known before.
func (m *memory) inUse(read func() float64) float64 {
	known := m.known.Load()
	switch {
	case known == nil:
		m.reading.Lock()
	case clock.Since(known.at) <= memoryLifetime || !m.reading.TryLock():
		return known.inUse
	}
	defer m.reading.Unlock()
	if newer := m.known.Load(); newer != known {
		return newer.inUse
	}
	m.known.Store(&memoryReading{inUse: read(), at: clock.Now()})
	return m.known.Load().inUse
}

// readMemory returns the share of its maxmemory that a server uses; 0 if it has none, or does not answer.
func readMemory(ctx context.Context, server redis.Cmdable) float64 {
	m, _ := redisx.ReadMemory(ctx, server)
	return m.InUse()
}
