package layout

import (
	"cmp"
	"context"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/calls"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/task"
)

// Names are looked for with about so many commands in one round trip, and in so many round trips at once.
const (
	namedCommands = 400
	namedAtOnce   = 4
)

// Named returns up to limit names of some namespaces whose ids begin with a prefix, sorted. set is the key of a sorted
// set of a partition that has such names, all with the score 0. Error: CodeUnavailable.
func (l *Layout) Named(
	ctx context.Context, set func(partition int) string, namespaces []string, prefix string, limit int,
) ([]task.Ref, error) {
	parts := slices.Collect(slices.Chunk(namespaces, max(namedCommands/l.Partitions(), 1)))
	found := make([][]task.Ref, len(parts))
	err := calls.Each(namedAtOnce, parts, func(i int, some []string) (err error) {
		found[i], err = l.named(ctx, set, some, prefix, limit)
		return err
	})
	if err != nil {
		return nil, err
	}
	refs := slices.Concat(found...)
	slices.SortFunc(refs, func(a, b task.Ref) int { return cmp.Compare(a.String(), b.String()) })
	return refs[:min(len(refs), limit)], nil
}

// named is Named in one round trip. The names are not sorted, and up to limit of each namespace and partition.
func (l *Layout) named(
	ctx context.Context, set func(partition int) string, namespaces []string, prefix string, limit int,
) ([]task.Ref, error) {
	pipe := l.DB.Pipeline()
	var found []*redis.StringSliceCmd
	for _, namespace := range namespaces {
		begin := namespace + ":" + prefix
		by := &redis.ZRangeBy{Min: "[" + begin, Max: "(" + begin + "\xff", Count: int64(limit)}
		for p := range l.Partitions() {
			found = append(found, pipe.ZRangeByLex(ctx, set(p), by))
		}
	}
	if err := redisx.ExecReads(ctx, pipe); err != nil {
		return nil, Unavailable(err)
	}
	var refs []task.Ref
	for _, names := range found {
		refs = append(refs, RefsOf(names.Val())...)
	}
	return refs, nil
}

// RefsOf reads names. Members of sets that are none are left out.
func RefsOf(members []string) []task.Ref {
	refs := make([]task.Ref, 0, len(members))
	for _, m := range members {
		if ref, err := task.ParseRef(m); err == nil {
			refs = append(refs, ref)
		}
	}
	return refs
}
