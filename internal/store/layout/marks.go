package layout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// markPatience is how long Mark waits for a server.
const markPatience = 2 * time.Second

// below returns the numbers of the first n partitions.
func below(n int) []int {
	partitions := make([]int, n)
	for p := range partitions {
		partitions[p] = p
	}
	return partitions
}

// marks reads the marks of those partitions; "" for one that is not there or cannot be read. Error: that of a partition
// that does not answer; the marks of the others are returned with it.
func (l *Layout) marks(ctx context.Context, partitions []int) ([]string, error) {
	keys := make([]string, len(partitions))
	for i, p := range partitions {
		keys[i] = string(l.Keys.Partition(p).Mark())
	}
	marks, err := l.DB.GetEach(ctx, keys)
	if err != nil {
		err = fmt.Errorf("reading marks of partitions: %w", err)
	}
	return marks, err
}

// isLost reports whether all data is gone, of which this process knows the field data of dts:meta. Leases and tasks
// cannot tell that: nodes take leases again within seconds, and restore tasks that run. One mark proves that the data
// is there, also while other partitions do not answer. Errors: that of forgotten, or one of Redis.
func (l *Layout) isLost(ctx context.Context, data string, forgotten func(context.Context) (bool, error)) (bool, error) {
	marks, err := l.marks(ctx, below(l.partitions))
	switch {
	case data != "" && slices.Contains(marks, data):
		return false, nil
	case err != nil:
		return false, err
	}
	return forgotten(ctx) // marks may have been lost, or never written by nodes of an earlier release
}

// Mark writes the marks that partitions lack of the data that Check has found. Nodes call it again and again: Redis may
// have lost marks, and reading them keeps a Redis that evicts what is least used from evicting them. Each server of
// a cluster has two seconds. Error: those of the servers whose partitions it could not mark, joined.
func (l *Layout) Mark(ctx context.Context) error {
	data := l.data.Load().(string)
	if data == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, markPatience)
	defer cancel()
	keys := make([]string, l.partitions)
	for p := range keys {
		keys[p] = string(l.Keys.Partition(p).Mark())
	}
	var mu sync.Mutex
	var failures []error
	err := l.DB.EachServer(ctx, keys, func(_ redis.Cmdable, partitions []int) {
		err := l.markAt(ctx, data, partitions)
		mu.Lock()
		defer mu.Unlock()
		failures = append(failures, err)
	})
	return errors.Join(append(failures, err)...)
}

// markAt is Mark for partitions of one server. It writes nothing if dts:meta has no such data by now: Redis may have
// lost everything since the last Check, and marks would hide that from the next one. Error: one of Redis.
func (l *Layout) markAt(ctx context.Context, data string, partitions []int) error {
	marks, err := l.marks(ctx, partitions)
	if err != nil {
		return err
	}
	pipe := l.DB.Pipeline()
	for i, mark := range marks {
		if mark != data {
			pipe.Set(ctx, string(l.Keys.Partition(partitions[i]).Mark()), data, 0)
		}
	}
	if pipe.Len() == 0 {
		return nil
	}
	if found, err := l.readMeta(ctx); err != nil || found.Data != data {
		return err
	}
	if _, err = pipe.Exec(ctx); err != nil {
		return fmt.Errorf("marking partitions: %w", err)
	}
	return nil
}
