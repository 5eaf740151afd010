// Package store keeps tasks in Redis: it is the only place that knows the keys and the form of what is in
// them. Every change of a task is one Lua script (package lua) and obeys the table in package task.
//
// Three kinds of callers change tasks, each under its own guard:
//   - anybody, through package control: Create, Change, Cancel, Retry, and the methods on schedules;
//   - the leader of a partition, through Lead: every script compares the leader's fence with the lease;
//   - the worker that began an attempt, through Run: every script compares its run token.
package store

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

// layout is the version of the keys and their content; a Redis with another one is refused.
const layout = "2"

// Store reads and changes the tasks of one Redis.
type Store struct {
	db         *redisx.DB
	keys       lua.Keyspace
	partitions int
	types      task.Types
	log        *slog.Logger
}

// Options says where the tasks are.
type Options struct {
	DB *redisx.DB
	// Prefix begins every key and channel; default "dts".
	Prefix string
	// Partitions is the number of partitions to start with; 0 means DefaultPartitions, or as many as there are.
	// It is fixed at the first start: another number is an error from then on.
	Partitions int
	// Types tells the timeouts of attempts; nil knows no type.
	Types task.Types
	// Log is told of data that cannot be read and is passed over; nil means nowhere.
	Log *slog.Logger
}

// Open finds out how many partitions there are, or fixes it at the first start. Errors: Redis does not
// answer, holds another layout, or another number of partitions than the one asked for.
func Open(ctx context.Context, o Options) (*Store, error) {
	s := &Store{db: o.DB, keys: lua.NewKeyspace(o.Prefix, o.DB.Number()), types: o.Types, log: o.Log}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	wanted := o.Partitions
	if wanted == 0 {
		wanted = DefaultPartitions
	}
	meta := string(s.keys.Meta())
	pipe := o.DB.TxPipeline()
	pipe.HSetNX(ctx, meta, "partitions", wanted)
	pipe.HSetNX(ctx, meta, "layout", layout)
	found := pipe.HMGet(ctx, meta, "partitions", "layout")
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, fmt.Errorf("reading %s: %w", meta, err)
	}
	return s, s.adopt(found.Val(), o.Partitions)
}

// adopt takes over what dts:meta says.
func (s *Store) adopt(meta []any, asked int) error {
	count, _ := meta[0].(string)
	n, err := strconv.Atoi(count)
	if err != nil || n < 1 {
		return fmt.Errorf("%s: %q is not a number of partitions", s.keys.Meta(), count)
	}
	if version, _ := meta[1].(string); version != layout {
		return fmt.Errorf("%s: the data has layout %q, this dtsd knows layout %s", s.keys.Meta(), version, layout)
	}
	if asked != 0 && asked != n {
		return fmt.Errorf("partitions: this Redis was started with %d, which cannot be changed to %d", n, asked)
	}
	s.partitions = n
	return nil
}

// Partitions is the number of partitions.
func (s *Store) Partitions() int { return s.partitions }

// PartitionOf is the partition in which a task lives: a schedule, its ticks and all that shares the part of
// the id before the first "@" live together.
func (s *Store) PartitionOf(r task.Ref) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(r.Namespace + ":" + r.Root()))
	return int(h.Sum32() % uint32(s.partitions))
}

// LeaseKeys are the keys of a partition's lease and of the counter its fencing tokens come from.
func (s *Store) LeaseKeys(partition int) (lua.LeaseKey, lua.EpochKey) {
	k := s.keys.Partition(partition)
	return k.Lease(), k.Epoch()
}

// partitionOf makes the keys of the partition in which a task or schedule lives.
func (s *Store) partitionOf(r task.Ref) lua.Partition { return s.keys.Partition(s.PartitionOf(r)) }

// NodesKey is the registry of nodes.
func (s *Store) NodesKey() lua.NodesKey { return s.keys.Nodes() }

// NodesChannel tells of nodes that come and go.
func (s *Store) NodesChannel() lua.MembersChannel { return s.keys.Members() }

// WakeChannel tells leaders of partitions whose first due time has moved forward, by their number, and
// everybody of leases that were released.
func (s *Store) WakeChannel() string { return string(s.keys.Wake()) }

// Now is the time of Redis. Error: CodeUnavailable.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	now, err := s.db.Time(ctx).Result()
	if err != nil {
		return time.Time{}, unavailable(err)
	}
	return now.UTC(), nil
}

// Ping asks Redis for a sign of life.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.db.Ping(ctx).Err(); err != nil {
		return unavailable(err)
	}
	return nil
}

// answer translates what a script refused with into what people are told.
func answer(err error, codes map[lua.Code]task.Code, ref task.Ref) error {
	if err == nil {
		return nil
	}
	var r *redisx.Refusal
	if !errors.As(err, &r) {
		return unavailable(err)
	}
	code, known := codes[r.Code]
	if !known {
		return fmt.Errorf("task %s: %w", ref, err)
	}
	return &task.Error{Code: code, Message: sentence(code, ref, r.Detail), Err: nil}
}

func sentence(code task.Code, ref task.Ref, detail string) string {
	switch code {
	case task.CodeTaskNotFound:
		return fmt.Sprintf("no task %q in namespace %q", ref.ID, ref.Namespace)
	case task.CodeTaskConflict:
		return fmt.Sprintf("the id %q is taken by a task with other content", ref.ID)
	case task.CodeNotWaiting:
		return fmt.Sprintf("task %q is %s: only a scheduled one can be changed", ref.ID, detail)
	case task.CodeFinished:
		return fmt.Sprintf("task %q has already ended: it is %s", ref.ID, detail)
	case task.CodeNotFinished:
		return fmt.Sprintf("task %q has not ended yet: it is %s", ref.ID, detail)
	case task.CodeNotRunning:
		return fmt.Sprintf("task %q does not run: it is %s", ref.ID, detail)
	case task.CodeStaleAttempt:
		return fmt.Sprintf("task %q runs attempt %s now", ref.ID, detail)
	case task.CodeChanged:
		return fmt.Sprintf("task %q was changed by somebody else just now: read it and try again", ref.ID)
	}
	return detail
}

// unavailable is the error for a Redis that does not answer or does not obey.
func unavailable(err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	var answered redis.Error
	if errors.As(err, &answered) && redis.HasErrorPrefix(err, "OOM") {
		return &task.Error{Code: task.CodeUnavailable, Message: "Redis is full", Err: err}
	}
	return &task.Error{Code: task.CodeUnavailable, Message: "Redis did not answer in time or refused; it may have done it all the same", Err: err}
}
