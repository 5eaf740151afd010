package tasks

import (
	"context"
	"slices"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// batchLimit is the most tasks in one run of a script: a script holds up all others.
const batchLimit = 64

// part is some tasks of one partition, by their places in a list.
type part struct {
	keys   lua.Partition
	places []int
}

// parts groups tasks by partition, at most batchLimit in a part.
func (s *Tasks) parts(refs []task.Ref) []part {
	var all []part
	for p, places := range s.byPartition(refs) {
		for some := range slices.Chunk(places, batchLimit) {
			all = append(all, part{keys: s.l.Keys.Partition(p), places: some})
		}
	}
	return all
}

// byPartition groups the places of refs by the partition of their tasks.
func (s *Tasks) byPartition(refs []task.Ref) map[int][]int {
	groups := make(map[int][]int)
	for i, ref := range refs {
		p := s.l.PartitionOf(ref)
		groups[p] = append(groups[p], i)
	}
	return groups
}

// runParts runs a script on each part, all in one round trip. call makes the call for a part; answer is called for each task
// with its place in the list, its place in the part, and the result of the part.
func runParts[R any, C lua.Call[R]](
	ctx context.Context, db *redisx.DB, parts []part, call func(p part) C, answer func(place, inPart int, r redisx.Result[R]),
) {
	calls := make([]C, len(parts))
	for n, p := range parts {
		calls[n] = call(p)
	}
	for n, result := range redisx.RunEach[R](ctx, db, calls) {
		for k, place := range parts[n].places {
			answer(place, k, result)
		}
	}
}
