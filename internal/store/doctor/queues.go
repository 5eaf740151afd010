package doctor

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/task"
)

const (
	waitingLimit  = 1000      // deliveries of each list of a queue at which an examination looks
	serversKeptBy = time.Hour // after which a dead server is left over
)

const (
	deliveryLeftovers = "delivery-leftovers"
	queueMisnamed     = "queue-misnamed"
	serverLeftovers   = "server-leftovers"
	metaLost          = "meta-lost"
)

var deliveryChecks = []string{"delivery-lost", "delivery-unleased", deliveryLeftovers}

// queueCollections are the queues of the installation that asynq knows, asynq's servers, and dts:meta.
func (e *examination) queueCollections(ctx context.Context) ([]collection, error) {
	names, err := e.o.Queues.Known(ctx)
	if err = e.passOver("asynq's list of queues", err, append([]string{queueMisnamed}, deliveryChecks...)...); err != nil {
		return nil, err
	}
	all := []collection{
		once("meta", metaLost, e.lookAtMeta), once("servers", serverLeftovers, e.lookAtServers),
		once("names", queueMisnamed, func(context.Context) error { e.lookAtNames(names); return nil }),
	}
	for _, name := range names {
		all = append(all, collection{name: "queue " + name, checks: deliveryChecks, look: func(ctx context.Context, _ uint64) ([]collection, uint64, error) {
			ids, err := e.o.Queues.Listed(ctx, name, waitingLimit)
			if err != nil {
				return nil, 0, err
			}
			if err := e.examineDeliveries(ctx, name, ids); err != nil {
				return nil, 0, err
			}
			return nil, 0, e.lookForLeftovers(ctx, name, ids)
		}})
	}
	return all, nil
}

// examineDeliveries examines deliveries of a queue, and repairs them.
func (e *examination) examineDeliveries(ctx context.Context, queueName string, ids []string) error {
	e.entries += len(ids)
	looked, err := e.inTurn(ctx, ids, examinePage, deliveryChecks, func(some []string) error {
		found, err := e.o.Queues.Examine(ctx, queueName, some, queue.Examination{Checks: e.wanted, Repair: e.Repair})
		for _, f := range found {
			e.found(f.Check, f.ID, f.Words)
		}
		return err
	})
	e.looked(looked, deliveryChecks...)
	return err
}

// lookAtNames looks for queues that asynq lists and that DTS does not, because of their names.
func (e *examination) lookAtNames(names []string) {
	e.looked(len(names), queueMisnamed)
	for _, name := range names {
		if err := task.ValidateQueue(name); err != nil {
			e.found(queueMisnamed, fmt.Sprintf("%q", task.CutMiddle(name, quoted)), "is in asynq's list of queues")
		}
	}
}

// lookForLeftovers looks for waiting deliveries of attempts that are not queued. Some are about to be deleted, so it looks twice.
func (e *examination) lookForLeftovers(ctx context.Context, queueName string, ids []string) error {
	if !e.wants(deliveryLeftovers) {
		return nil
	}
	suspects, err := e.notQueued(ctx, queueName, ids)
	if err != nil || len(suspects) == 0 {
		return err
	}
	if err := e.lookAgain(ctx); err != nil {
		return err
	}
	suspects, err = e.notQueued(ctx, queueName, suspects)
	for _, id := range suspects {
		e.found(deliveryLeftovers, id, "waits in queue "+queueName+", and its attempt is not queued")
	}
	if err != nil || !e.Repair {
		return err
	}
	_, err = e.inTurn(ctx, suspects, examinePage, []string{deliveryLeftovers}, func(some []string) error {
		return e.o.Queues.Drop(ctx, queueName, some)
	})
	return err
}

// notQueued returns those of the deliveries that wait in a queue, and belong to attempts that are not queued. If such a delivery is
// recalled, and its attempt is queued just then, its leader enqueues it again.
func (e *examination) notQueued(ctx context.Context, queueName string, ids []string) ([]string, error) {
	pending, err := e.o.Queues.Pending(ctx, queueName, ids)
	if err != nil {
		return nil, err
	}
	pipe := e.o.Layout.DB.Pipeline()
	states := make(map[string]*redis.StringCmd, len(pending))
	for _, id := range pending {
		if ref, _, err := task.ParseDelivery(id); err == nil {
			states[id] = pipe.HGet(ctx, string(e.o.Layout.KeysOf(ref).States()), ref.String())
		}
	}
	_, _ = pipe.Exec(ctx) // each reply has its error
	var not []string
	for id, state := range states {
		_, attempt, _ := task.ParseDelivery(id)
		f := strings.Fields(state.Val())
		if err := state.Err(); err != nil && err != redis.Nil { //nolint:errorlint // go-redis returns it as it is
			return nil, err
		}
		if len(f) < 2 || f[0] != string(task.Queued) || f[1] != strconv.Itoa(attempt) {
			not = append(not, id)
		}
	}
	return not, nil
}

// lookAtMeta looks for fields that dts:meta lacks.
func (e *examination) lookAtMeta(ctx context.Context) error {
	missing, err := e.o.Layout.MissingMeta(ctx)
	if err != nil {
		return err
	}
	e.looked(1, metaLost)
	for _, field := range missing {
		e.found(metaLost, field, "is missing in "+string(e.o.Layout.Keys.Meta()))
	}
	if len(missing) == 0 || !e.Repair {
		return nil
	}
	return e.o.Layout.RestoreMeta(ctx)
}

// lookAtServers looks for servers that asynq lists and that have been dead for long.
func (e *examination) lookAtServers(ctx context.Context) error {
	now, err := e.o.Layout.Now(ctx, 0)
	if err != nil {
		return err
	}
	before := now.Add(-serversKeptBy)
	dead, err := e.o.Queues.DeadServers(ctx, before, waitingLimit)
	if err != nil {
		return err
	}
	e.looked(len(dead), serverLeftovers)
	for _, s := range dead {
		e.found(serverLeftovers, s.Key, "has been dead since "+s.Since.UTC().Format(time.RFC3339))
	}
	if !e.Repair || !e.wants(serverLeftovers) {
		return nil
	}
	return e.o.Queues.DropDeadServers(ctx, before)
}
