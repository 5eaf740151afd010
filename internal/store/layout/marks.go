package layout

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redisx"
)

// marks reads the marks of all partitions; "" for one that is not there or cannot be read. Error: one of Redis.
func (l *Layout) marks(ctx context.Context) ([]string, error) {
	pipe := l.DB.Pipeline()
	replies := make([]*redis.StringCmd, l.partitions)
	for p := range replies {
		replies[p] = pipe.Get(ctx, string(l.Keys.Partition(p).Mark()))
	}
	_, _ = pipe.Exec(ctx) // each reply has its error
	marks := make([]string, l.partitions)
	for p, reply := range replies {
		mark, err := reply.Result()
		if err != nil && !errors.Is(err, redis.Nil) && !redisx.IsDamage(err) {
			return nil, fmt.Errorf("reading the marks of the partitions: %w", err)
		}
		marks[p] = mark
	}
	return marks, nil
}

// isLost reports whether all data is gone, of which this process knows the field data of dts:meta. Leases and tasks
// cannot tell that: nodes take leases again within seconds, and restore tasks that run. Errors: that of forgotten, or
// one of Redis.
func (l *Layout) isLost(ctx context.Context, data string, forgotten func(context.Context) (bool, error)) (bool, error) {
	marks, err := l.marks(ctx)
	switch {
	case err != nil:
		return false, err
	case data != "" && slices.Contains(marks, data):
		return false, nil
	}
	return forgotten(ctx) // marks may have been lost, or never written by nodes of an earlier release
}

// Mark writes the marks that partitions lack, once for the data that Check has found. While Redis takes no writes, the
// next call tries again. Error: one of Redis.
func (l *Layout) Mark(ctx context.Context) error {
	data := l.data.Load().(string)
	if data == "" || l.marked.Load() == data {
		return nil
	}
	marks, err := l.marks(ctx)
	if err != nil {
		return err
	}
	pipe := l.DB.Pipeline()
	for p, mark := range marks {
		if mark != data {
			pipe.Set(ctx, string(l.Keys.Partition(p).Mark()), data, 0)
		}
	}
	_, err = pipe.Exec(ctx)
	switch {
	case redisx.IsFull(err), redisx.RefusedWrites(err) != "":
		return nil
	case err != nil:
		return fmt.Errorf("marking the partitions: %w", err)
	}
	l.marked.Store(data)
	return nil
}
