package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hibiken/asynq"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// DropNodeQueues deletes the queues of nodes that have gone, as soon as they hold nothing. A node has another id, and
// so other queues, when it starts again. What waits there still is of attempts that leaders hand over to others, or
// have ended: it is removed. Tasks of other asynq clients stay, and so do dead letters. Error: one of Redis, after
// which some may be deleted.
func (q *Queues) DropNodeQueues(ctx context.Context, gone func(node string) bool) (dropped int, _ error) {
	all, err := q.all(ctx)
	if err != nil {
		return 0, err
	}
	var failures []error
	for _, asynqName := range all {
		name, _ := q.names.queue(asynqName)
		if _, node := task.SplitNodeQueue(name); node == "" || !gone(node) {
			continue
		}
		is, err := q.dropEmpty(ctx, name)
		if is {
			dropped++
		}
		if err != nil {
			failures = append(failures, fmt.Errorf("deleting queue %s: %w", name, err))
		}
	}
	return dropped, errors.Join(failures...)
}

// dropEmpty removes what waits in a queue for a node that has gone, and deletes the queue if it holds nothing then.
func (q *Queues) dropEmpty(ctx context.Context, name string) (dropped bool, _ error) {
	k := lua.AsynqQueue(q.names.asynq(name))
	waiting, err := q.db.LRange(ctx, string(k.Pending()), -batchLimit, -1).Result()
	if err != nil {
		return false, err
	}
	ours := slices.DeleteFunc(waiting, func(id string) bool { _, _, err := task.ParseDelivery(id); return err != nil })
	if len(ours) > 0 {
		if err := q.Drop(ctx, name, ours); err != nil {
			return false, err
		}
	}
	held, err := q.db.Exists(ctx, string(k.Pending()), string(k.Active()), string(k.Scheduled()), string(k.Retry()),
		string(k.Archived()), string(k.Completed())).Result()
	if err != nil || held > 0 {
		return false, err
	}
	err = q.inspector.DeleteQueue(q.names.asynq(name), false)
	if errors.Is(err, asynq.ErrQueueNotFound) || errors.Is(err, asynq.ErrQueueNotEmpty) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, q.db.Del(ctx, string(k.Processed()), string(k.Several())).Err() // the others expire
}
