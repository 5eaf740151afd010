package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hibiken/asynq"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// List reads every queue, by name.
func (q *Queues) List(context.Context) ([]Info, error) {
	all, err := q.inspector.Queues()
	if err != nil {
		return nil, unavailable(err)
	}
	slices.Sort(all)
	infos := make([]Info, 0, len(all))
	for _, theirs := range all {
		name, ours := q.names.queue(theirs)
		if !ours {
			continue
		}
		i, err := q.inspector.GetQueueInfo(theirs)
		if errors.Is(err, asynq.ErrQueueNotFound) {
			continue
		}
		if err != nil {
			return nil, unavailable(err)
		}
		infos = append(infos, Info{
			Name: name, Paused: i.Paused, Size: i.Size, Pending: i.Pending, Active: i.Active, Archived: i.Archived,
			Processed: i.Processed, Failed: i.Failed, Latency: i.Latency, MemoryUsage: i.MemoryUsage,
		})
	}
	return infos, nil
}

// Pause keeps workers from taking deliveries from a queue. A paused one may be paused again.
// Errors: CodeInvalid for the name, CodeQueueNotFound.
func (q *Queues) Pause(ctx context.Context, name string) error {
	return q.change(ctx, name, func() error { return q.db.SetNX(ctx, q.pausedKey(name), clock.Now().Unix(), 0).Err() })
}

// Resume lets workers go on. Errors: CodeInvalid for the name, CodeQueueNotFound.
func (q *Queues) Resume(ctx context.Context, name string) error {
	return q.change(ctx, name, func() error { return q.db.Del(ctx, q.pausedKey(name)).Err() })
}

// change does something to a queue that exists. asynq's inspector is not asked to do it: it calls a repetition an
// error, so that of two who do the same at once one would fail.
func (q *Queues) change(ctx context.Context, name string, do func() error) error {
	if err := task.ValidateQueue(name); err != nil {
		return err
	}
	known, err := q.db.SIsMember(ctx, string(lua.AsynqQueues), q.names.asynq(name)).Result()
	if err != nil {
		return unavailable(err)
	}
	if !known {
		return task.Errorf(task.CodeQueueNotFound, "no queue %q", name)
	}
	if err := do(); err != nil {
		return unavailable(fmt.Errorf("queue %s: %w", name, err))
	}
	return nil
}

// pausedKey is the key that exists while a queue is paused.
func (q *Queues) pausedKey(name string) string {
	return string(lua.AsynqQueue(q.names.asynq(name)).Paused())
}

func unavailable(err error) error {
	return &task.Error{Code: task.CodeUnavailable, Message: "Redis did not answer in time or refused; it may have done it all the same", Err: err}
}
