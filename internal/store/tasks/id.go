package tasks

import (
	"math/rand/v2"
	"sync/atomic"

	"github.com/oklog/ulid/v2"

	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
)

// idsTogether is how many ids in a row are of the same partition.
const idsTogether = 64

// ids makes ids for tasks that come without one. Many in a row share a partition, and the partitions take turns: what is
// submitted together then goes to Redis in one run of a script instead of one for each partition.
type ids struct {
	l    *layout.Layout
	made atomic.Uint64 // ids so far, from a random number on, so that nodes are not at the same partition
}

func newIDs(l *layout.Layout) *ids {
	g := &ids{l: l}
	g.made.Store(uint64(rand.Uint32()))
	return g
}

// NewID returns a ULID for a task that has no id. Later ones of the same process sort after earlier ones.
func (s *Tasks) NewID(namespace string) string { return s.ids.next(namespace) }

func (g *ids) next(namespace string) string {
	partition := int(g.made.Add(1) / idsTogether % uint64(g.l.Partitions()))
	u := ulid.Make().String()
	// Two characters are free to choose: the first two of the random part give way, so that what makes the id unique in its
	// millisecond and keeps the order moves up.
	id := u[:randomStart] + u[randomStart+2:]
	for _, tail := range idTails {
		if g.l.PartitionOf(task.Ref{Namespace: namespace, ID: id + tail}) == partition {
			return id + tail
		}
	}
	return id + idTails[0]
}

// randomStart is where the random part of a ULID begins, after the time.
const randomStart = 10

// idTails are the pairs of digits of ULIDs.
var idTails = func() []string {
	tails := make([]string, 0, len(ulid.Encoding)*len(ulid.Encoding))
	for _, a := range ulid.Encoding {
		for _, b := range ulid.Encoding {
			tails = append(tails, string([]rune{a, b}))
		}
	}
	return tails
}()
