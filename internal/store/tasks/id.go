package tasks

import (
	"crypto/rand"
	mathrand "math/rand/v2"
	"sync"

	"github.com/oklog/ulid/v2"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/store/layout"
)

// idsTogether is how many ids in a row are of the same partition.
const idsTogether = 64

// ids makes ids for tasks that come without one. Many in a row share a partition, and the partitions take turns: what is
// submitted together then goes to Redis in one run of a script instead of one for each partition.
type ids struct {
	l *layout.Layout

	mu      sync.Mutex
	made    uint64                 // ids so far, from a random number on, so that nodes are not at the same partition
	entropy *ulid.MonotonicEntropy // of an id that follows another in the same millisecond, a little greater than that one's
}

func newIDs(l *layout.Layout) *ids {
	return &ids{l: l, made: uint64(mathrand.Uint32()), entropy: ulid.Monotonic(rand.Reader, 0)}
}

// NewID returns a ULID for a task that has no id. It sorts after those that this process made before, unless the clock of the
// machine stepped back in between.
func (s *Tasks) NewID(namespace string) string { return s.ids.next(namespace) }

// draw returns a ULID, and the partition whose turn it is. The lock also keeps two calls from taking the time in one order and
// the entropy in the other, which would begin anew for the earlier millisecond.
func (g *ids) draw() (id string, partition int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.made++
	u := ulid.MustNew(ulid.Timestamp(clock.Now()), g.entropy)
	return u.String(), int(g.made / idsTogether % uint64(g.l.Partitions()))
}

func (g *ids) next(namespace string) string {
	u, partition := g.draw()
	// The last characters are free to choose: the first ones of the random part give way, so that what makes the id unique in
	// its millisecond and keeps the order there moves up. 65 random bits are left; ids of one millisecond are less than 2^32
	// apart, so they overflow, and are out of order, once in 2^33 times.
	start := u[:randomStart] + u[randomStart+freeDigits:]
	return start + g.tail(layout.HashName(namespace, start), partition)
}

// tail returns the last digits that bring an id to a partition; start is the hash of the rest. If none do, it returns any: with
// 1,024 partitions that happens to one id in 10^13.
func (g *ids) tail(start layout.NameHash, partition int) string {
	for _, pair := range idPairs {
		h := start.Add(pair)
		for i := range len(ulid.Encoding) {
			if digit := ulid.Encoding[i : i+1]; g.l.PartitionWith(h.Add(digit)) == partition {
				return pair + digit
			}
		}
	}
	return idPairs[0] + ulid.Encoding[:1]
}

const (
	randomStart = 10 // where the random part of a ULID begins, after the time
	freeDigits  = 3  // of an id: a pair and one more
)

// idPairs are the pairs of digits of ULIDs.
var idPairs = func() []string {
	pairs := make([]string, 0, len(ulid.Encoding)*len(ulid.Encoding))
	for _, a := range ulid.Encoding {
		for _, b := range ulid.Encoding {
			pairs = append(pairs, string([]rune{a, b}))
		}
	}
	return pairs
}()
