package scheduler

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/store"
	"github.com/dts-sched/dts/internal/task"
)

const (
	slowUpkeep  = 4   // every so many looks, all of the rest is done too
	restorePage = 500 // deliveries that have not begun looked at in one go
	forgetLimit = 500 // finished tasks forgotten by one script
)

// pace is how often upkeep looks, and how long a delivery may take to begin before it is looked after.
type pace struct{ upkeep, restore time.Duration }

var defaultPace = pace{upkeep: 15 * time.Second, restore: 10 * time.Second}

// attemptSlack is what an attempt may take longer than its timeout, for grace and for reporting, before it is taken
// from a node that lives.
const attemptSlack = 10 * time.Minute

// upkeep looks after the partition until ctx ends or the lease is over: at once, whenever nodes come or go,
// and from time to time. A look that failed is repeated soon: the nodes may have changed just when Redis did not
// answer, and they do not change again.
func (t *seat) upkeep(ctx context.Context) error {
	changed, stop := t.s.o.Members.Watch()
	defer stop()
	keeper := keeper{seat: t}
	for round := 0; ctx.Err() == nil; {
		if err := keeper.look(ctx, round); errors.Is(err, store.ErrFenced) {
			return err
		} else if err != nil {
			t.failed(ctx, "upkeep failed", err)
			continue
		}
		timer := time.NewTimer(t.s.pace.upkeep*3/4 + rand.N(t.s.pace.upkeep/2)) // spread over the partitions
		select {
		case <-ctx.Done():
		case <-changed:
			round = 0
		case <-timer.C:
			round++
		}
		timer.Stop()
	}
	return nil
}

type keeper struct {
	*seat
	position int64 // where to go on looking through the queued tasks
	busy     bool  // there was something to forget at the last time
}

// look does one round. What fails keeps nothing else from being done: forgetting is what makes room in a Redis so full
// that it refuses the rest.
func (k *keeper) look(ctx context.Context, round int) error {
	var failures []error
	if round%slowUpkeep == 0 || k.busy {
		failures = append(failures, k.forget(ctx))
	}
	if round%slowUpkeep == 0 {
		failures = append(failures, k.reap(ctx))
	}
	return errors.Join(append(failures, k.restore(ctx))...)
}

// reap takes running attempts from nodes that are dead, and from nodes that live but must have forgotten them, since
// they run for much longer than their timeout allows. The nodes are read after the tasks: a node begins nothing before
// it is in the registry, so one that is missing there is gone.
func (k *keeper) reap(ctx context.Context) error {
	running, err := k.leader.Running(ctx)
	if err != nil || len(running) == 0 {
		return err
	}
	nodes, err := k.s.o.Members.Nodes(ctx)
	if err != nil {
		return fmt.Errorf("reading the nodes: %w", err)
	}
	now, err := k.leader.Now(ctx)
	if err != nil {
		return fmt.Errorf("reading the time: %w", err)
	}
	alive := make(map[string]bool, len(nodes))
	for _, n := range nodes {
		alive[n.ID] = n.State != cluster.StateDead
	}
	reaped := 0
	for _, t := range running {
		reason := lost(t, alive[t.Node], now)
		if reason == "" {
			continue
		}
		if err := k.leader.Reap(ctx, t, reason); err != nil {
			return err
		}
		reaped++
	}
	if reaped > 0 {
		k.s.o.Metrics.Reaped.Add(float64(reaped))
		k.s.o.Log.Info("took attempts from nodes", "partition", k.partition, "count", reaped)
		k.s.wake(k.partition)
	}
	return nil
}

// lost says why a running attempt counts as lost, "" if it does not.
func lost(t task.Task, alive bool, now time.Time) string {
	switch {
	case !alive:
		return fmt.Sprintf("node %s died", t.Node)
	case now.Sub(t.StartedAt) > t.EffectiveTimeout()+attemptSlack:
		return fmt.Sprintf("node %s did not end it in time", t.Node)
	}
	return ""
}

// restore looks for deliveries that should have begun long ago, a page at a time, and sends those on their way
// again that have got lost between asynq and a worker.
func (k *keeper) restore(ctx context.Context) error {
	late, next, err := k.leader.Queued(ctx, k.s.pace.restore, k.position, restorePage)
	if err != nil {
		return err
	}
	for _, d := range late {
		if err := k.s.o.Queues.Restore(ctx, d); err != nil {
			return err
		}
	}
	k.position = next
	k.s.o.Metrics.Restored.Add(float64(len(late)))
	return nil
}

// forget deletes finished tasks whose retention is over, and those that are too many. It learns by the way whether
// something on the wheel, or a schedule, is due: dispatch and tick are told, should they have missed that, as after a step
// of Redis's clock.
func (k *keeper) forget(ctx context.Context) error {
	keep := max(k.s.o.Keep/len(k.s.locks), 1)
	k.busy = false
	for ctx.Err() == nil {
		swept, err := k.leader.Sweep(ctx, keep, forgetLimit)
		if err != nil {
			return err
		}
		if swept.Due > 0 {
			k.s.wake(k.partition)
		}
		if swept.DueSchedules > 0 {
			k.s.wakeTick(k.partition)
		}
		k.busy = k.busy || swept.Forgotten > 0
		k.s.o.Metrics.Forgotten.Add(float64(swept.Forgotten))
		if swept.Forgotten < forgetLimit {
			return nil
		}
	}
	return nil
}
