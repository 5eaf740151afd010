// Package queue transports deliveries through asynq's queues: no other package of DTS's own transport imports asynq or uses its keys, whose
// names are in lua/contract. (The executor asynqexec does so with the queues of somebody else's fleet.)
//
// DTS reads and writes asynq's own format, as asynq 0.26 has it, in batches: Queues enqueues deliveries, a Consumer takes
// and settles them. asynq's tools, clients and servers can be used on the same queues. asynq itself is used where a single call is
// enough, in Queues.Forget and Queues.ForeignSlots, and for the UI at which people look, in package monitor.
//
// asynq's queues only transport. Attempts, retries, timeouts and recovery are implemented by DTS (packages store,
// scheduler and worker). The payload of a delivery is a reference to an attempt: the worker reads the task when it begins
// the attempt.
package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hibiken/asynq"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

const (
	// deliveryRetries is how often a server of asynq, if one serves the queue, delivers again after its handler returned an error.
	// DTS alone decides about another attempt, so such a server archives the delivery at once, and a leader ends the attempt. A
	// delivery whose take was lost does not need a retry: a leader returns it to its queue before its lease is over, and asynq's
	// servers look at it half a minute later.
	deliveryRetries = 0
	// deliverySlack is how much longer than the attempt a delivery may take: waiting for a slot, grace period,
	// reporting.
	deliverySlack = 10 * time.Minute
	// asynqLease is the duration to which workers extend their lease of a delivery; asynqBeat is the time between two
	// extensions. Both are asynq's.
	asynqLease = 30 * time.Second
	asynqBeat  = 5 * time.Second
	// abandoned is the rest of the lease at which a delivery counts as abandoned: its worker has missed two extensions.
	abandoned = asynqLease - 2*asynqBeat - 2*time.Second
	// takeLease is the lease of a delivery from its take to the first extension. It is shorter than asynqLease: a
	// delivery that is lost with its worker, or with the reply to the take, counts as abandoned after 0.9 to 1.9 s, as
	// asynq's leases end with a second: at the first look of its leader. One whose worker is slower to begin it may be
	// taken twice, and begins once.
	takeLease = abandoned + 1400*time.Millisecond
	// publishInterval is the time after which a queue is added to asynq's list of queues again. If it were added only
	// once, a deleted queue would stay invisible.
	publishInterval = 10 * time.Second
	// publishedLimit is of how many queues it is known that they were added; beyond, it is forgotten of all.
	publishedLimit = 10_000
	// publishPatience is how long a hand-over in a cluster waits until its queues are in asynq's list.
	publishPatience = 100 * time.Millisecond
	// handledRetention is how long asynq keeps a delivery that one of its own servers has handled, so that a leader sees it and
	// ends the attempt. Consumers delete what they have handled.
	handledRetention = 24 * time.Hour
	// settledRetention is how long the id of a settled delivery stays taken, which takes some 300 bytes: longer than a leader is
	// late with handing it over, unless its process was suspended.
	settledRetention = time.Minute
	// orphanGrace is how long after the end of its lease a taken delivery returns to its queue. asynq's own servers come
	// first, after 30 to 90 s: they archive it, so that none of them handles what a worker of DTS may have begun.
	orphanGrace = 2 * time.Minute
)

// Queues enqueues deliveries in asynq's queues and manages the queues. It is safe for concurrent use.
type Queues struct {
	db              *redisx.DB
	names           names
	keys            lua.Keyspace
	inspector       *asynq.Inspector
	publishInterval time.Duration
	errands         redisx.Errands // to the server of asynq's list of queues

	mu        sync.Mutex
	published map[string]time.Time // when each queue was added to asynq's list of queues, or that was tried
}

// Options describe where the queues are. DB is required.
type Options struct {
	DB     *redisx.DB // the caller closes it
	Prefix string     // prefix of the installation; "" means "dts"
}

// New returns the queues of one installation. It sends nothing to Redis.
func New(o Options) *Queues {
	return &Queues{
		db: o.DB, names: names(o.Prefix), keys: lua.NewKeyspace(o.Prefix, o.DB.Number()),
		inspector:       asynq.NewInspectorFromRedisClient(o.DB.UniversalClient),
		publishInterval: publishInterval, published: make(map[string]time.Time),
		errands: redisx.Errands{DB: o.DB, Patience: publishPatience},
	}
}

// Handed is what came of HandOver.
type Handed struct {
	Failures []error        // in the order of the deliveries; nil means that the delivery is there, or has ended
	At       []time.Time    // when Redis had answered, in the order of the deliveries; zero where it has not
	Lengths  map[string]int // deliveries that wait now, by queue
	Ended    map[int]Ended  // by place in the order of the deliveries
	Unlisted error          // why queues are not in asynq's list of queues, which asynq's tools read; nil if they are
}

// NewHanded is what came of handing n deliveries over, before anything has.
func NewHanded(n int) Handed {
	return Handed{
		Failures: make([]error, n), At: make([]time.Time, n), Lengths: make(map[string]int), Ended: make(map[int]Ended),
	}
}

// Failure returns one of the failures, which is enough to log; nil if there are none. That a queue is being listed still is none.
func (h Handed) Failure() error {
	for _, err := range h.Failures {
		if err != nil {
			return err
		}
	}
	if errors.Is(h.Unlisted, redisx.ErrLate) {
		return nil
	}
	return h.Unlisted
}

// Ended is the end of a delivery that one of asynq's own servers has handled. Error is why it failed for good; "" if it did not.
type Ended struct {
	Succeeded     bool
	Result, Error string
}

// Choose returns the nodes whose workers are to take that many deliveries of each type from a queue. If it returns none, all workers of
// the queue are woken.
type Choose func(queue string, byType map[string]int) []string

// HandOver makes sure that deliveries whose attempts have not begun reach a worker. It adds those that are missing to
// their queues, and wakes the chosen workers of a queue that was empty, or all if choose is nil. It enqueues a delivery again that
// belongs to an earlier task with the same id, or was taken by a worker that died. It does not change a delivery that waits for a
// worker, is held by a live one, or has ended, so a call can be repeated.
func (q *Queues) HandOver(ctx context.Context, deliveries []task.Delivery, choose Choose) Handed {
	h := NewHanded(len(deliveries))
	batches := q.batches(deliveries)
	calls := make([]lua.Enqueue, len(batches))
	total := make(map[string]map[string]int, 1) // deliveries by queue and type
	for _, d := range deliveries {
		name := d.Via()
		if total[name] == nil {
			total[name] = make(map[string]int, 1)
		}
		total[name][d.Type]++
	}
	for i, b := range batches {
		if choose != nil {
			b.call.Workers = q.channels(choose(b.call.Queue, total[b.call.Queue]))
		}
		calls[i] = b.call
	}
	h.Unlisted = q.publish(ctx, batches)
	results := redisx.RunEach[lua.EnqueueReply](ctx, q.db, calls)
	at := clock.Now()
	for i := range h.At {
		h.At[i] = at
	}
	for i, r := range results {
		if r.Err == nil {
			h.Lengths[deliveries[batches[i].places[0]].Via()] = r.Reply.Length
			for _, e := range r.Reply.Ended {
				h.Ended[batches[i].placeOf(e.ID)] = endedOf(e)
			}
			continue
		}
		for _, at := range batches[i].places {
			h.Failures[at] = fmt.Errorf("enqueueing %s: %w", deliveries[at], r.Err)
		}
	}
	return h
}

// channels returns the channels of the workers of nodes, as the scripts take them.
func (q *Queues) channels(nodes []string) string {
	channels := make([]string, len(nodes))
	for i, node := range nodes {
		channels[i] = string(q.keys.Worker(node))
	}
	return strings.Join(channels, " ")
}

func endedOf(e lua.EnqueueEnded) Ended {
	if e.State == asynq.TaskStateCompleted.String() {
		return Ended{Succeeded: true, Result: e.Result}
	}
	m, err := decode(e.Msg)
	if err != nil || m.failure == "" {
		return Ended{Error: "a server of asynq archived the delivery"}
	}
	return Ended{Error: m.failure}
}

// batch is a call for deliveries of one queue.
type batch struct {
	call   lua.Enqueue
	queue  string // asynq's name
	places []int  // of the deliveries in the list of all
}

// placeOf returns the place of the delivery with an id that the call has.
func (b *batch) placeOf(id string) int {
	return b.places[slices.IndexFunc(b.call.Deliveries, func(d lua.EnqueueDelivery) bool { return d.ID == id })]
}

// batches groups deliveries by queue, in groups that one script can take, in their order.
func (q *Queues) batches(deliveries []task.Delivery) []*batch {
	var all []*batch
	open := map[string]*batch{} // the batch of a queue that is not full
	for i, d := range deliveries {
		b := open[d.Via()]
		if b == nil || len(b.places) == batchLimit {
			b = q.newBatch(d.Via())
			open[d.Via()] = b
			all = append(all, b)
		}
		m := messageOf(d, b.queue)
		b.call.Deliveries = append(b.call.Deliveries, lua.EnqueueDelivery{ID: m.id, Msg: string(m.encode()), Stamp: stampOf(d.ClaimedAt)})
		b.places = append(b.places, i)
	}
	return all
}

func (q *Queues) newBatch(queue string) *batch {
	name := q.names.asynq(queue)
	k := lua.AsynqQueue(name)
	return &batch{queue: name, call: lua.Enqueue{
		Pending: k.Pending(), Active: k.Active(), Deadline: k.Deadline(), Archived: k.Archived(), Completed: k.Completed(), Called: k.Called(),
		Skipped: k.Skipped(), Several: k.Several(), Stale: abandoned, Arrivals: q.keys.Arrivals(queue), Queue: queue,
		Workers: "", Deliveries: nil,
	}}
}

// publish adds the queues of the batches to asynq's list of queues, unless that was done, or tried, a short time ago. The server that has the list may
// be silent, and those of the queues not.
func (q *Queues) publish(ctx context.Context, batches []*batch) error {
	now := clock.Now()
	var due []string
	q.mu.Lock()
	for _, b := range batches {
		if at, known := q.published[b.queue]; !known || now.Sub(at) >= q.publishInterval {
			due = append(due, b.queue)
			if !known && len(q.published) >= publishedLimit {
				clear(q.published)
			}
			q.published[b.queue] = now
		}
	}
	q.mu.Unlock()
	if len(due) == 0 {
		return nil
	}
	return redisx.CallEach(ctx, &q.errands, redisx.Calls[struct{}]{
		Keys: []string{string(lua.AsynqQueues)},
		Do: func([]int) []redisx.Result[struct{}] {
			return []redisx.Result[struct{}]{{Err: publish(ctx, q.db, due)}}
		},
	})[0].Err
}

// Wait waits for calls of HandOver that it does not wait for itself, as a server of a cluster is silent.
func (q *Queues) Wait() { q.errands.Wait() }

// Key returns a key of a queue, by which it has its server in a cluster.
func (q *Queues) Key(queue string) string {
	return string(lua.AsynqQueue(q.names.asynq(queue)).Pending())
}

// Recall removes those deliveries from their queues that no worker has taken, and returns them and those that were not there: a leader has
// claimed them, and not handed them over yet. Error: one of Redis, after which some may have been removed.
func (q *Queues) Recall(ctx context.Context, deliveries []task.Delivery) ([]task.Delivery, error) {
	byQueue := make(map[string][]task.Delivery, 1)
	for _, d := range deliveries {
		byQueue[d.Via()] = append(byQueue[d.Via()], d)
	}
	var recalled []task.Delivery
	var failures []error
	for name, some := range byQueue {
		call := lua.Recall{Pending: lua.AsynqQueue(q.names.asynq(name)).Pending(), Ids: make([]string, len(some))}
		for i, d := range some {
			call.Ids[i] = d.String()
		}
		reply, err := redisx.Run(ctx, q.db, call)
		if err != nil {
			failures = append(failures, fmt.Errorf("recalling deliveries from queue %s: %w", name, err))
			continue
		}
		for _, d := range some {
			if slices.Contains(reply.Recalled, d.String()) {
				recalled = append(recalled, d)
			}
		}
	}
	return recalled, errors.Join(failures...)
}

// Settle removes a delivery that one of asynq's own servers has handled, and whose attempt has ended in DTS too, from what asynq's
// tools show. For a minute it stays as handled, so that a leader that hands it over late does not have it handled again. Error: one
// of Redis.
func (q *Queues) Settle(ctx context.Context, d task.Delivery) error {
	k := lua.AsynqQueue(q.names.asynq(d.Via()))
	pipe := q.db.Pipeline()
	pipe.ZRem(ctx, string(k.Completed()), d.String())
	pipe.ZRem(ctx, string(k.Archived()), d.String())
	pipe.Expire(ctx, string(k.Delivery(d.String())), settledRetention)
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("settling delivery %s: %w", d, err)
	}
	return nil
}

// Forget deletes a delivery that is no longer needed: its task was cancelled, or is a dead letter that is retried.
// A missing delivery is not an error. asynq refuses to delete a delivery that a worker has taken; Forget returns that
// error.
func (q *Queues) Forget(d task.Delivery) error {
	err := q.inspector.DeleteTask(q.names.asynq(d.Via()), d.String())
	if err == nil || errors.Is(err, asynq.ErrTaskNotFound) || errors.Is(err, asynq.ErrQueueNotFound) {
		return nil
	}
	return fmt.Errorf("deleting delivery %s: %w", d, err)
}
