package queue

import (
	"context"
	"fmt"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// CodeNotFound: no worker node has served this queue, and no task was put into it.
const CodeNotFound task.Code = "queue_not_found"

// Pause stops workers from taking deliveries from a queue; by is who wants it, "" if nobody knows, and note is why. What
// they have taken may still begin.
// Pausing a paused queue is not an error, and changes nothing.
// Errors: *task.Error with CodeInvalid for an invalid name, CodeNotFound or CodeUnavailable.
func (q *Queues) Pause(ctx context.Context, name, by, note string) error {
	return q.change(ctx, name, func() error {
		_, err := redisx.Run(ctx, q.db, lua.PauseQueue{
			Paused: lua.AsynqQueue(q.names.asynq(name)).Paused(), Queue: name, By: by, Note: note, Changes: q.keys.Changes(),
		})
		return err
	})
}

// Resume lets workers take deliveries from a queue again, and wakes them; by is who wants it, "" if nobody knows. Resuming
// a queue that is not paused is not an error.
// Errors: as for Pause.
func (q *Queues) Resume(ctx context.Context, name, by string) error {
	return q.change(ctx, name, func() error {
		_, err := redisx.Run(ctx, q.db, lua.ResumeQueue{
			Paused: lua.AsynqQueue(q.names.asynq(name)).Paused(), Queue: name, By: by, Arrivals: q.keys.Arrivals(name),
			Changes: q.keys.Changes(),
		})
		return err
	})
}

// NameOf returns the name of a queue that asynq knows by a name. ours is false if it is none of this installation, or one
// that DTS cannot name.
func (q *Queues) NameOf(asynqName string) (name string, ours bool) {
	name, ours = q.names.queue(asynqName)
	return name, ours && task.ValidateQueue(name) == nil
}

// Paused reports whether a queue is paused. Error: CodeUnavailable.
func (q *Queues) Paused(ctx context.Context, name string) (bool, error) {
	n, err := q.db.Exists(ctx, q.pausedKey(name)).Result()
	if err != nil {
		return false, unavailable(err)
	}
	return n > 0, nil
}

// CountPending counts the deliveries that wait for a worker in a queue. Error: CodeUnavailable.
func (q *Queues) CountPending(ctx context.Context, name string) (int, error) {
	n, err := q.db.LLen(ctx, string(lua.AsynqQueue(q.names.asynq(name)).Pending())).Result()
	if err != nil {
		return 0, unavailable(err)
	}
	return int(n), nil
}

// Add puts a queue on asynq's list of queues, on which those are that got a delivery or have a worker. Error: CodeUnavailable.
func (q *Queues) Add(ctx context.Context, name string) error {
	if err := publish(ctx, q.db, []string{q.names.asynq(name)}); err != nil {
		return unavailable(err)
	}
	return nil
}

// change calls do if the queue exists. It does not use asynq's inspector, which returns an error when a queue is
// already in the requested state: of two equal requests at once, one would fail.
func (q *Queues) change(ctx context.Context, name string, do func() error) error {
	if err := task.ValidateQueue(name); err != nil {
		return err
	}
	known, err := q.db.SIsMember(ctx, string(lua.AsynqQueues), q.names.asynq(name)).Result()
	if err != nil {
		return unavailable(err)
	}
	if !known {
		return task.Errorf(CodeNotFound, "no queue %q", name)
	}
	if err := do(); err != nil {
		return unavailable(fmt.Errorf("queue %s: %w", name, err))
	}
	return nil
}

// pausedKey returns the key that exists while a queue is paused.
func (q *Queues) pausedKey(name string) string {
	return string(lua.AsynqQueue(q.names.asynq(name)).Paused())
}

// unavailable wraps an error of Redis in a *task.Error with CodeUnavailable.
func unavailable(err error) error {
	return &task.Error{Code: task.CodeUnavailable, Message: redisx.WhyNot(err), Err: err}
}
