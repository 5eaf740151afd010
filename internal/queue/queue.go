// Package queue is the wall around asynq: nothing outside it imports asynq or knows its keys.
//
// asynq is the transport of deliveries and nothing more. Attempts, retries, timeouts and recovery are DTS's
// own (packages store, scheduler and worker), because asynq's count in whole seconds, know no fences, and take
// one to two minutes to notice a dead worker. A delivery's payload is a reference: the worker gets the rest
// when it begins.
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
	// deliveryRetries is how often asynq tries a delivery again whose handler could not reach Redis. It must not
	// be 0: asynq would then archive a delivery whose reply was lost on the way to the worker.
	deliveryRetries = 10
	// deliverySlack is what a delivery may take longer than the attempt: waiting for a slot, grace, reporting.
	deliverySlack = 10 * time.Minute
	// asynqLease is how far ahead asynq's workers extend their lease of a delivery, and asynqBeat how often.
	asynqLease = 30 * time.Second
	asynqBeat  = 5 * time.Second
	// republish is how long a client is kept: asynq's client enters a queue into asynq's list of queues once and
	// never again, so after somebody deleted the queue it would stay invisible.
	republish = 10 * time.Second
)

// reference is the payload of a delivery.
type reference struct {
	Namespace string `json:"namespace"`
	Task      string `json:"task"`
	Attempt   int    `json:"attempt"`
}

// Queues hands deliveries to asynq, and looks after its queues. Safe for concurrent use.
type Queues struct {
	db        *redisx.DB
	names     names
	inspector *asynq.Inspector
	clients   chan client   // one place: the client in use
	republish time.Duration // how long it is used
}

type client struct {
	*asynq.Client
	since time.Time
}

// Options says where the queues are.
type Options struct {
	DB     *redisx.DB // used for as long as it is open; there is nothing to close
	Prefix string     // of the installation; "" means "dts"
}

// New makes a way to the queues.
func New(o Options) *Queues {
	q := &Queues{
		db: o.DB, names: names(o.Prefix), inspector: asynq.NewInspectorFromRedisClient(o.DB.UniversalClient),
		clients: make(chan client, 1), republish: republish,
	}
	q.clients <- client{}
	return q
}

// client is the asynq client of the moment.
func (q *Queues) client() *asynq.Client {
	c := <-q.clients
	if c.Client == nil || clock.Since(c.since) > q.republish {
		c = client{Client: asynq.NewClientFromRedisClient(q.db.UniversalClient), since: clock.Now()}
	}
	q.clients <- c
	return c.Client
}

// Enqueue puts a delivery into its queue. One that is there already is left as it is: that is no error.
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

// Restore makes sure that a delivery whose attempt has not begun is on its way to a worker: one that is lost,
// or was taken by a worker that died, or stems from a former task of the same id, is put into the queue anew.
// One that is on its way is left alone.
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
		return fmt.Errorf("looking for delivery %s: %w", d, err)
	case state == "active":
		return q.takeBack(ctx, id, keys)
	case state == "archived", state == "completed":
		return q.replace(ctx, d)
	}
	return nil
}

// takeBack returns a delivery to its queue if the worker that took it has not extended its lease twice.
func (q *Queues) takeBack(ctx context.Context, id string, keys lua.AsynqQueue) error {
	now, err := q.db.Time(ctx).Result()
	if err != nil {
		return fmt.Errorf("reading the time: %w", err)
	}
	stale := now.Add(asynqLease - 2*asynqBeat - 2*time.Second).Unix()
	_, err = redisx.Run(ctx, q.db, lua.Redeliver{
		Delivery: keys.Delivery(id), Active: keys.Active(), Deadline: keys.Deadline(), Pending: keys.Pending(), ID: id, Stale: int(stale),
	})
	return err
}

// replace deletes what asynq keeps of an old delivery and enqueues the new one in its place.
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

// Forget deletes a delivery that nobody needs any more, if it is not being worked on: one whose task was
// cancelled, or a dead letter that runs again.
func (q *Queues) Forget(d task.Delivery) error {
	err := q.inspector.DeleteTask(q.names.asynq(d.Queue), d.String())
	if err == nil || errors.Is(err, asynq.ErrTaskNotFound) || errors.Is(err, asynq.ErrQueueNotFound) {
		return nil
	}
	return fmt.Errorf("deleting delivery %s: %w", d, err)
}
