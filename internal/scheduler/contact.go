package scheduler

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/schedule"
)

// contact knows for how long Redis has taken this node's writes without a break, and whether its clock jumped: it compares the time of Redis
// with how much time has passed here. A Redis that answers and refuses writes, as one without enough replicas does, keeps runs from being extended
// as much as one that is silent. A leader takes runs for lost only if both were in order for the lease of a run, and after a break for as
// long again as that was, up to another lease: before, their workers may have been unable to extend that, or it may only seem to be over. The
// partitions of a cluster are on several servers, each with a clock of its own, and none answers for a partition whose slot moves, so it knows
// that for each partition.
type contact struct {
	lease   time.Duration // of a run
	sharded bool          // Redis is a cluster
	probe   func(ctx context.Context, observe func(partition int, r reading))
	jumped  func(partition int, by time.Duration) // by is negative if the clock was set back

	mu    sync.Mutex
	known map[int]*witness // by partition; of a Redis that is one server, all partitions are 0
}

// reading is a time of Redis, which this node has read between two moments of its own clock.
type reading struct{ now, from, until time.Time }

// witness is what this node has seen of the Redis of a partition.
type witness struct {
	settled time.Time // when every living worker can have extended its runs since the newest break or jump
	last    reading
	wrote   time.Time       // when it took a write last
	back    time.Time       // when it took the first write after the newest break
	jumps   int             // so far
	skipped []schedule.Span // times that the clock of Redis jumped over since it was set back, the newest skippedLimit
}

// skippedLimit is how many jumps ahead are known. Ticks of earlier ones have been decided, unless jumps follow each other faster than looks at ticks.
const skippedLimit = 4

// run probes Redis three times in the lease of a run, until ctx ends.
func (c *contact) run(ctx context.Context) error {
	interval := c.lease / 3
	for ctx.Err() == nil {
		start := clock.Now()
		call, cancel := context.WithTimeout(ctx, interval)
		c.probe(call, c.observe)
		cancel()
		_ = clock.Sleep(ctx, max(interval-clock.Since(start), interval/10))
	}
	return nil
}

// observe notes what Redis has answered to something that it refuses if it takes no writes.
func (c *contact) observe(partition int, r reading) { c.note(partition, r, true) }

// compare notes what Redis has answered to something that only reads.
func (c *contact) compare(partition int, r reading) { c.note(partition, r, false) }

// note notes an answer of Redis, and says so if its clock has jumped since the one before.
func (c *contact) note(partition int, r reading, wrote bool) {
	if jump := c.keep(partition, r, wrote); jump != 0 {
		c.jumped(partition, jump)
	}
}

// keep keeps an answer of Redis, and returns by how much its clock has jumped since the one before: 0 if it did not.
func (c *contact) keep(partition int, r reading, wrote bool) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.witness(partition)
	if r.until.Before(w.last.from) {
		return 0
	}
	jump := time.Duration(0)
	if !w.last.now.IsZero() {
		jump = c.jump(w.last, r)
	}
	if jump != 0 {
		w.jumps++
		w.skip(r.now, jump)
	}
	broken := wrote && c.broken(w, r.until)
	settled := r.until.Add(c.lease)
	if broken && !w.wrote.IsZero() {
		settled = settled.Add(min(r.until.Sub(w.wrote), c.lease))
		w.back = r.until
	}
	if (jump != 0 || broken) && settled.After(w.settled) {
		w.settled = settled
	}
	w.last = r
	if wrote {
		w.wrote = r.until
	}
	return jump
}

// skip notes that the clock of Redis jumped, and shows a time now.
func (w *witness) skip(now time.Time, jump time.Duration) {
	if jump < 0 {
		w.skipped = nil
		return
	}
	before := w.skipped[max(len(w.skipped)-skippedLimit+1, 0):]
	w.skipped = append(slices.Clone(before), schedule.Span{From: now.Add(-jump), Until: now}) // others may be reading what was there
}

// jump returns by how much the clock of Redis went on in excess of this node's between two readings: 0 if it may be less than a third
// of a run's lease, which harms nothing.
func (c *contact) jump(before, r reading) time.Duration {
	passed := r.now.Sub(before.now)
	most, least := r.until.Sub(before.from), r.from.Sub(before.until)
	if passed-most < c.lease/3 && passed-least > -c.lease/3 {
		return 0
	}
	return passed - (most+least)/2
}

// witness returns what is known of the Redis of a partition. The caller holds mu.
func (c *contact) witness(partition int) *witness {
	if !c.sharded {
		partition = 0
	}
	w := c.known[partition]
	if w == nil {
		w = &witness{}
		c.known[partition] = w
	}
	return w
}

// broken reports whether Redis took no write for so long that runs may miss their extensions. Probes are a third of a lease apart.
func (c *contact) broken(w *witness, now time.Time) bool {
	return w.wrote.IsZero() || now.Sub(w.wrote) > c.lease/2
}

// missing returns for how long Redis must still take writes until runs of a partition may be taken for lost; 0 or less: not any more.
func (c *contact) missing(partition int) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	w, now := c.witness(partition), clock.Now()
	if c.broken(w, now) {
		return c.lease
	}
	return w.settled.Sub(now)
}

// recovering returns for how long no delivery of a partition may be taken for lost; 0 or less: any may. That is while its Redis takes no writes, and
// then for the time that workers need to begin what they had taken before.
func (c *contact) recovering(partition int, grace time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	w, now := c.witness(partition), clock.Now()
	if c.broken(w, now) {
		return c.lease / 10 // and ask again
	}
	return w.back.Add(grace).Sub(now)
}

// jumps returns how often the clock of a partition's Redis has jumped, and the times that it jumped over lately, in order.
func (c *contact) jumps(partition int) (count int, skipped []schedule.Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.witness(partition)
	return w.jumps, w.skipped
}
