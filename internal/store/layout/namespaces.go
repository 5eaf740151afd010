package layout

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// Namespace is a tenant to which tasks or schedules were submitted.
type Namespace struct {
	Name            string
	LastSubmittedAt time.Time // to the minute; ticks of schedules do not count
}

// NoteNamespaces records that something was submitted to namespaces now. Error: CodeUnavailable.
func (l *Layout) NoteNamespaces(ctx context.Context, names []string) error {
	_, err := redisx.Run(ctx, l.DB, lua.NoteNamespaces{Namespaces: l.Keys.Namespaces(), Names: names})
	if err != nil {
		return Unavailable(err)
	}
	return nil
}

// LatestNamespaces reads the names of up to n namespaces, those with the newest submissions first. What is no name is
// left out. Error: CodeUnavailable.
func (l *Layout) LatestNamespaces(ctx context.Context, n int) ([]string, error) {
	newest := redis.ZRangeArgs{Key: string(l.Keys.Namespaces()), Start: 0, Stop: n - 1, Rev: true}
	names, err := l.DB.ZRangeArgs(ctx, newest).Result()
	if err != nil && !redisx.LeaveOutKey(ctx, string(l.Keys.Namespaces()), err) {
		return nil, Unavailable(err)
	}
	return slices.DeleteFunc(names, func(name string) bool { return task.ValidateName("namespace", name) != nil }), nil
}

// Namespaces reads the namespaces that are kept, sorted by name. Under redisx.LeavingOut, what is no name is left out.
// Error: CodeUnavailable.
func (l *Layout) Namespaces(ctx context.Context) ([]Namespace, error) {
	members, err := l.DB.ZRangeWithScores(ctx, string(l.Keys.Namespaces()), 0, -1).Result()
	if err != nil && !redisx.LeaveOutKey(ctx, string(l.Keys.Namespaces()), err) {
		return nil, Unavailable(err)
	}
	found := make([]Namespace, 0, len(members))
	for _, m := range members {
		name, ok := m.Member.(string)
		if task.ValidateName("namespace", name) != nil && redisx.LeaveOut(ctx, "%q in the list of namespaces is no name", name) {
			continue
		}
		if ok {
			found = append(found, Namespace{Name: name, LastSubmittedAt: time.UnixMilli(int64(m.Score)).UTC()})
		}
	}
	slices.SortFunc(found, func(a, b Namespace) int { return cmp.Compare(a.Name, b.Name) })
	return found, nil
}
