// Package queue encapsulates asynq: no other package imports asynq or uses its keys. Their names are in lua/contract.
//
// asynq only transports deliveries. Attempts, retries, timeouts and recovery are implemented by DTS (packages
// store, scheduler and worker), because those of asynq count in whole seconds, have no fences, and take one to
// two minutes to notice a dead worker. The payload of a delivery is a reference to an attempt: the worker reads
// the task when it begins the attempt.
package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

const (
	// deliveryRetries is how often asynq delivers again after the handler returned an error because it could not
	// reach Redis. It must not be 0: asynq would then archive a delivery if Redis's answer to the worker that took
	// it was lost.
	deliveryRetries = 10
	// deliverySlack is how much longer than the attempt a delivery may take: waiting for a slot, grace period,
	// reporting.
	deliverySlack = 10 * time.Minute
	// asynqLease is the duration to which asynq's workers extend their lease of a delivery; asynqBeat is the time
	// between two extensions.
	asynqLease = 30 * time.Second
	asynqBeat  = 5 * time.Second
	// clientLifetime is how long an asynq client is used. A client adds each queue to asynq's list of queues only
	// once, so with a permanent client a deleted queue would stay invisible.
	clientLifetime = 10 * time.Second
)

// reference is the payload of a delivery.
type reference struct {
	Namespace string `json:"namespace"`
	Task      string `json:"task"`
	Attempt   int    `json:"attempt"`
}

// Queues enqueues deliveries in asynq and manages its queues. It is safe for concurrent use.
type Queues struct {
	db             *redisx.DB
	names          names
	inspector      *asynq.Inspector
	clients        chan client   // holds the current client; capacity 1
	clientLifetime time.Duration // how long a client is used
}

// client is an asynq client with the time of its creation.
type client struct {
	*asynq.Client
	createdAt time.Time
}

// Options describe where the queues are. DB is required.
type Options struct {
	DB     *redisx.DB // the caller closes it
	Prefix string     // prefix of the installation; "" means "dts"
}

// New returns the queues of one installation. It sends nothing to Redis.
func New(o Options) *Queues {
	q := &Queues{
		db: o.DB, names: names(o.Prefix), inspector: asynq.NewInspectorFromRedisClient(o.DB.UniversalClient),
		clients: make(chan client, 1), clientLifetime: clientLifetime,
	}
	q.clients <- client{}
	return q
}

// client returns the current asynq client, which it replaces after clientLifetime.
func (q *Queues) client() *asynq.Client {
	c := <-q.clients
	if c.Client == nil || clock.Since(c.createdAt) > q.clientLifetime {
		c = client{Client: asynq.NewClientFromRedisClient(q.db.UniversalClient), createdAt: clock.Now()}
	}
	q.clients <- c
	return c.Client
}

// Enqueue adds a delivery to its queue. If the delivery exists already, Enqueue calls Restore for it.
func (q *Queues) Enqueue(ctx context.Context, d task.Delivery) error {
	err := q.enqueue(ctx, d)
	if !errors.Is(err, asynq.ErrTaskIDConflict) {
		return err
	}
	return q.Restore(ctx, d)
}

func (q *Queues) enqueue(ctx context.Context, d task.Delivery) error {
	payload, err := json.Marshal(reference{d.Ref.Namespace, d.Ref.ID, d.Attempt})
	if err != nil {
		return fmt.Errorf("encoding delivery %s: %w", d, err)
	}
	_, err = q.client().EnqueueContext(ctx, asynq.NewTask(d.Type, payload),
		asynq.TaskID(d.String()), asynq.Queue(q.names.asynq(d.Queue)), asynq.MaxRetry(deliveryRetries),
		asynq.Timeout(d.Timeout+deliverySlack))
	if err != nil {
		return fmt.Errorf("enqueueing %s: %w", d, err)
	}
	return nil
}

// Restore makes sure that a delivery whose attempt has not begun reaches a worker. It enqueues the delivery again
// if it is missing, was taken by a worker that died, or belongs to an earlier task with the same id. It does not
// change a delivery that waits for a worker or is held by a live one.
func (q *Queues) Restore(ctx context.Context, d task.Delivery) error {
	id, keys := d.String(), lua.AsynqQueue(q.names.asynq(d.Queue))
	state, err := q.db.HGet(ctx, string(keys.Delivery(id)), "state").Result()
	switch {
	case errors.Is(err, redis.Nil):
		if err := q.enqueue(ctx, d); err != nil && !errors.Is(err, asynq.ErrTaskIDConflict) {
			return err
		}
		return nil
	case err != nil:
		return fmt.Errorf("reading the state of delivery %s: %w", d, err)
	case state == "active":
		return q.takeBack(ctx, id, keys)
	case state == "archived", state == "completed":
		return q.replace(ctx, d)
	}
	return nil
}

// takeBack returns a delivery to its queue if the worker that took it failed to extend its lease twice.
func (q *Queues) takeBack(ctx context.Context, id string, keys lua.AsynqQueue) error {
	now, err := q.db.Time(ctx).Result()
	if err != nil {
		return fmt.Errorf("reading the time of Redis: %w", err)
	}
	stale := now.Add(asynqLease - 2*asynqBeat - 2*time.Second).Unix()
	_, err = redisx.Run(ctx, q.db, lua.Redeliver{
		Delivery: keys.Delivery(id), Active: keys.Active(), Deadline: keys.Deadline(), Pending: keys.Pending(), ID: id, Stale: int(stale),
	})
	return err
}

// replace deletes the archived or completed delivery with the same id and enqueues the new one.
func (q *Queues) replace(ctx context.Context, d task.Delivery) error {
	err := q.inspector.DeleteTask(q.names.asynq(d.Queue), d.String())
	if err != nil && !errors.Is(err, asynq.ErrTaskNotFound) && !errors.Is(err, asynq.ErrQueueNotFound) {
		return fmt.Errorf("deleting the old delivery %s: %w", d, err)
	}
	if err := q.enqueue(ctx, d); err != nil && !errors.Is(err, asynq.ErrTaskIDConflict) {
		return err
	}
	return nil
}

// Forget deletes a delivery that is no longer needed: its task was cancelled, or is a dead letter that is retried.
// A missing delivery is not an error. asynq refuses to delete a delivery that a worker has taken; Forget returns that
// error.
func (q *Queues) Forget(d task.Delivery) error {
	err := q.inspector.DeleteTask(q.names.asynq(d.Queue), d.String())
	if err == nil || errors.Is(err, asynq.ErrTaskNotFound) || errors.Is(err, asynq.ErrQueueNotFound) {
		return nil
	}
	return fmt.Errorf("deleting delivery %s: %w", d, err)
}
