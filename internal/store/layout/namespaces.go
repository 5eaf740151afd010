package layout

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// NamespacesLimit is how many namespaces are kept: those with the newest submissions.
const NamespacesLimit = 10_000

// Namespace is a tenant to which tasks or schedules were submitted.
type Namespace struct {
	Name            string
	LastSubmittedAt time.Time // to the minute; ticks of schedules do not count
}

// NoteNamespace records that a task or schedule was submitted to a namespace at that time. Error: CodeUnavailable.
func (l *Layout) NoteNamespace(ctx context.Context, name string, at time.Time) error {
	key := string(l.Keys.Namespaces())
	pipe := l.DB.TxPipeline()
	pipe.ZAddGT(ctx, key, redis.Z{Score: float64(at.UnixMilli()), Member: name})
	pipe.ZRemRangeByRank(ctx, key, 0, -NamespacesLimit-1)
	if _, err := pipe.Exec(ctx); err != nil {
		return Unavailable(err)
	}
	return nil
}

// Namespaces reads the namespaces that are kept, sorted by name. Error: CodeUnavailable.
func (l *Layout) Namespaces(ctx context.Context) ([]Namespace, error) {
	members, err := l.DB.ZRangeWithScores(ctx, string(l.Keys.Namespaces()), 0, -1).Result()
	if err != nil {
		return nil, Unavailable(err)
	}
	found := make([]Namespace, 0, len(members))
	for _, m := range members {
		if name, ok := m.Member.(string); ok {
			found = append(found, Namespace{Name: name, LastSubmittedAt: time.UnixMilli(int64(m.Score)).UTC()})
		}
	}
	slices.SortFunc(found, func(a, b Namespace) int { return cmp.Compare(a.Name, b.Name) })
	return found, nil
}
