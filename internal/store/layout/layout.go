// Package layout knows where DTS keeps things in Redis: the partitions and their keys, the version of the data, and how
// sorted sets are read in pages.
package layout

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// DefaultPartitions is the number of partitions of a Redis that has none yet.
const DefaultPartitions = 16

// version is the version of the keys and their content; a Redis with another one is refused.
const version = "2"

// Layout is the layout of one installation in one Redis.
type Layout struct {
	DB         *redisx.DB
	Keys       lua.Keyspace
	partitions int
	Log        *slog.Logger // told of data that cannot be read and is skipped
}

// Options says where the tasks are.
type Options struct {
	DB *redisx.DB
	// Prefix begins every key and channel; default "dts".
	Prefix string
	// Partitions is the number of partitions to start with; 0 means DefaultPartitions, or as many as there are.
	// It is fixed at the first start: another number is an error from then on.
	Partitions int
	// Log is told of data that cannot be read and is skipped; nil means nowhere.
	Log *slog.Logger
}

// Open finds out how many partitions there are, or fixes it at the first start. Errors: Redis does not
// answer, holds another layout, or another number of partitions than the one asked for.
func Open(ctx context.Context, o Options) (*Layout, error) {
	l := &Layout{DB: o.DB, Keys: lua.NewKeyspace(o.Prefix, o.DB.Number()), Log: o.Log}
	if l.Log == nil {
		l.Log = slog.New(slog.DiscardHandler)
	}
	wanted := o.Partitions
	if wanted == 0 {
		wanted = DefaultPartitions
	}
	meta := string(l.Keys.Meta())
	pipe := o.DB.TxPipeline()
	pipe.HSetNX(ctx, meta, "partitions", wanted)
	pipe.HSetNX(ctx, meta, "layout", version)
	found := pipe.HMGet(ctx, meta, "partitions", "layout")
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, fmt.Errorf("reading %s: %w", meta, err)
	}
	return l, l.adopt(found.Val(), o.Partitions)
}

// adopt takes over what dts:meta says.
func (l *Layout) adopt(meta []any, asked int) error {
	count, _ := meta[0].(string)
	n, err := strconv.Atoi(count)
	if err != nil || n < 1 {
		return fmt.Errorf("%s: %q is not a number of partitions", l.Keys.Meta(), count)
	}
	if found, _ := meta[1].(string); found != version {
		return fmt.Errorf("%s: the data has layout %q, this dtsd knows layout %s", l.Keys.Meta(), found, version)
	}
	if asked != 0 && asked != n {
		return fmt.Errorf("partitions: this Redis was started with %d, which cannot be changed to %d", n, asked)
	}
	l.partitions = n
	return nil
}

// Partitions is the number of partitions.
func (l *Layout) Partitions() int { return l.partitions }

// PartitionOf is the partition in which a task lives: a schedule, its ticks and all that shares the part of
// the id before the first "@" live together.
func (l *Layout) PartitionOf(r task.Ref) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(r.Namespace + ":" + r.Root()))
	return int(h.Sum32() % uint32(l.partitions))
}

// KeysOf makes the keys of the partition in which a task or schedule lives.
func (l *Layout) KeysOf(r task.Ref) lua.Partition { return l.Keys.Partition(l.PartitionOf(r)) }

// Now is the time of Redis. Error: CodeUnavailable.
func (l *Layout) Now(ctx context.Context) (time.Time, error) {
	now, err := l.DB.Time(ctx).Result()
	if err != nil {
		return time.Time{}, Unavailable(err)
	}
	return now.UTC(), nil
}

// Ping asks Redis for a sign of life.
func (l *Layout) Ping(ctx context.Context) error {
	if err := l.DB.Ping(ctx).Err(); err != nil {
		return Unavailable(err)
	}
	return nil
}

// Unavailable is the error for a Redis that does not answer or does not obey.
func Unavailable(err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	var answered redis.Error
	if errors.As(err, &answered) && redis.HasErrorPrefix(err, "OOM") {
		return &task.Error{Code: task.CodeUnavailable, Message: "Redis is full", Err: err}
	}
	return &task.Error{Code: task.CodeUnavailable, Message: "Redis did not answer in time or refused; the change may nevertheless have been made", Err: err}
}
