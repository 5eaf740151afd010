package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/lua"
)

// tendLimit is the most queues that one call of Tend looks at, so that its cost does not grow with their number.
const tendLimit = 32

// Tended is what Tend did. Next is where the next call goes on: behind the queues that were looked at, also if that failed for some of
// them; at the same position if there is no list of queues.
type Tended struct {
	Next      int
	Forwarded int // tasks of other asynq clients that were due
	Orphans   int // deliveries put back whose worker had died
	Deleted   int // dead letters beyond asynq's limits, and finished tasks whose retention was over
}

// Tend does for queues of the installation what asynq's servers do besides handling tasks, so that tasks of other asynq
// clients run when they are due, and nothing stays for ever. It does up to 100 of each kind for each queue, for up to 32
// queues from position on, which is 0 at first and then the Next of the call before. It goes on with the other queues if one
// fails. Errors: those of Redis, joined; each names its queue.
func (q *Queues) Tend(ctx context.Context, position int) (Tended, error) {
	names, next, err := q.toTend(ctx, position)
	if err != nil {
		return Tended{Next: position}, err
	}
	tended := Tended{Next: next}
	names, err = q.occupied(ctx, names)
	if err != nil {
		return tended, err
	}
	calls := make([]lua.TendQueue, len(names))
	for i, name := range names {
		calls[i] = q.tending(name)
	}
	var failures []error
	for i, r := range redisx.RunEach[lua.TendQueueReply](ctx, q.db, calls) {
		if r.Err != nil {
			failures = append(failures, fmt.Errorf("queue %s: %w", names[i], r.Err))
			continue
		}
		tended.Forwarded += r.Reply.Forwarded
		tended.Orphans += r.Reply.Orphans
		tended.Deleted += r.Reply.Deleted
	}
	return tended, errors.Join(failures...)
}

// toTend returns up to tendLimit queues of the installation from position on, by asynq's names, and the position after them: 0 after the
// last.
func (q *Queues) toTend(ctx context.Context, position int) (found []string, next int, _ error) {
	all, err := q.all(ctx)
	if err != nil {
		return nil, 0, err
	}
	slices.Sort(all)
	found = all[min(position, len(all)):]
	if len(found) < tendLimit {
		return found, 0, nil
	}
	return found[:tendLimit], position + tendLimit, nil
}

// occupied returns those of the queues, by asynq's names, that hold something to be tended.
func (q *Queues) occupied(ctx context.Context, queues []string) ([]string, error) {
	pipe := q.db.Pipeline()
	holds := make([]*redis.IntCmd, len(queues))
	for i, name := range queues {
		c := q.tending(name)
		holds[i] = pipe.Exists(ctx, string(c.Active), string(c.Scheduled), string(c.Retry), string(c.Archived), string(c.Completed))
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, fmt.Errorf("looking at asynq's queues: %w", err)
	}
	var occupied []string
	for i, name := range queues {
		if holds[i].Val() > 0 {
			occupied = append(occupied, name)
		}
	}
	return occupied, nil
}

// tending returns the call that tends a queue, by asynq's name.
func (q *Queues) tending(asynqName string) lua.TendQueue {
	name, _ := q.names.queue(asynqName)
	k := lua.AsynqQueue(asynqName)
	return lua.TendQueue{
		Pending: k.Pending(), Active: k.Active(), Deadline: k.Deadline(), Scheduled: k.Scheduled(), Retry: k.Retry(),
		Archived: k.Archived(), Completed: k.Completed(), Longest: asynqLease, Cut: takeLease, Grace: orphanGrace, Arrivals: q.keys.Arrivals(name),
	}
}

// lengthsOf returns how many deliveries wait in each queue, by asynq's names, in one round trip.
func lengthsOf(ctx context.Context, db *redisx.DB, queues []string) []redisx.Result[int64] {
	pipe := db.Pipeline()
	replies := make([]*redis.IntCmd, len(queues))
	for i, key := range pendingOf(queues) {
		replies[i] = pipe.LLen(ctx, key)
	}
	_, _ = pipe.Exec(ctx) // each reply has its error
	lengths := make([]redisx.Result[int64], len(queues))
	for i, r := range replies {
		lengths[i] = redisx.Result[int64]{Reply: r.Val(), Err: r.Err()}
	}
	return lengths
}
