package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hibiken/asynq"

	"github.com/dts-sched/dts/internal/task"
)

// List reads every queue, by name.
func (q *Queues) List(context.Context) ([]Info, error) {
	names, err := q.inspector.Queues()
	if err != nil {
		return nil, unavailable(err)
	}
	slices.Sort(names)
	infos := make([]Info, 0, len(names))
	for _, name := range names {
		i, err := q.inspector.GetQueueInfo(name)
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
// Error: CodeQueueNotFound.
func (q *Queues) Pause(ctx context.Context, name string) error {
	return q.switchQueue(ctx, name, true, q.inspector.PauseQueue)
}

// Resume lets workers go on. Error: CodeQueueNotFound.
func (q *Queues) Resume(ctx context.Context, name string) error {
	return q.switchQueue(ctx, name, false, q.inspector.UnpauseQueue)
}

func (q *Queues) switchQueue(ctx context.Context, name string, paused bool, do func(string) error) error {
	if err := task.ValidateQueue(name); err != nil {
		return err
	}
	known, err := q.db.SIsMember(ctx, knownQueues, name).Result()
	if err != nil {
		return unavailable(err)
	}
	if !known {
		return task.Errorf(task.CodeQueueNotFound, "no queue %q", name)
	}
	is, err := q.db.Exists(ctx, pausedKey(name)).Result()
	if err != nil {
		return unavailable(err)
	}
	if (is == 1) == paused {
		return nil
	}
	if err := do(name); err != nil {
		return unavailable(fmt.Errorf("queue %s: %w", name, err))
	}
	return nil
}

// pausedKey is a STRING that exists while the queue is paused.
func pausedKey(queue string) string { return "asynq:{" + queue + "}:paused" }

func unavailable(err error) error {
	return &task.Error{Code: task.CodeUnavailable, Message: "Redis did not do it", Err: err}
}
