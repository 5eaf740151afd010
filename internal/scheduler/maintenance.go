package scheduler

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/task"
)

const (
	slowRounds  = 4   // reaping and forgetting run once in so many rounds
	restorePage = 500 // queued deliveries read at once
	forgetLimit = 500 // finished tasks deleted by one script
)

// pace is the time between two rounds of maintenance, and how long a delivery may wait to begin before it is checked.
type pace struct{ maintenance, restore time.Duration }

var defaultPace = pace{maintenance: 15 * time.Second, restore: 10 * time.Second}

// attemptSlack is how much longer than its timeout an attempt may run on a living node, for grace and for reporting,
// before it counts as lost.
const attemptSlack = 10 * time.Minute

// maintain runs rounds of maintenance until ctx ends or the lease is over: at once, whenever nodes come or go, and at
// intervals. A round that failed is repeated soon, because the change of nodes that caused it is not signalled again.
func (t *term) maintain(ctx context.Context) error {
	changed, stop := t.s.o.Members.Watch()
	defer stop()
	m := maintainer{term: t}
	for round := 0; ctx.Err() == nil; {
		if err := m.round(ctx, round); errors.Is(err, partition.ErrFenced) {
			return err
		} else if err != nil {
			t.failed(ctx, "maintenance failed", err)
			continue
		}
		timer := time.NewTimer(t.s.pace.maintenance*3/4 + rand.N(t.s.pace.maintenance/2)) // spread the partitions' rounds
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

// maintainer is the state between rounds of maintenance.
type maintainer struct {
	*term
	position int64 // where the next page of queued tasks begins
	busy     bool  // the last round deleted finished tasks
}

// round does one round. A step that fails does not prevent the others: deleting finished tasks is what frees memory in a
// Redis that is full and refuses the rest.
func (m *maintainer) round(ctx context.Context, round int) error {
	var failures []error
	if round%slowRounds == 0 || m.busy {
		failures = append(failures, m.forget(ctx))
	}
	if round%slowRounds == 0 {
		failures = append(failures, m.reap(ctx))
	}
	return errors.Join(append(failures, m.restore(ctx))...)
}

// reap ends running attempts of nodes that are dead, and those that run much longer than their timeout on nodes that live
// but must have lost them. The nodes are read after the tasks: a node registers before it begins anything, so one that is
// missing from the registry is gone.
func (m *maintainer) reap(ctx context.Context) error {
	running, err := m.leader.Running(ctx)
	if err != nil || len(running) == 0 {
		return err
	}
	nodes, err := m.s.o.Members.Nodes(ctx)
	if err != nil {
		return fmt.Errorf("reading the nodes: %w", err)
	}
	now, err := m.leader.Now(ctx)
	if err != nil {
		return fmt.Errorf("reading the time: %w", err)
	}
	alive := make(map[string]bool, len(nodes))
	for _, n := range nodes {
		alive[n.ID] = n.State != cluster.StateDead
	}
	reaped := 0
	for _, t := range running {
		reason := lossOf(t, m.s.o.Types.Timeout(t.Definition), alive[t.Node], now)
		if reason == "" {
			continue
		}
		if err := m.leader.Reap(ctx, t, now, reason); err != nil {
			return err
		}
		reaped++
	}
	if reaped > 0 {
		m.s.o.Metrics.Reaped.Add(float64(reaped))
		m.s.o.Log.Info("recovered lost attempts", "partition", m.partition, "count", reaped)
		m.s.wake(m.partition)
	}
	return nil
}

// lossOf returns why a running attempt, which may take up to timeout, counts as lost; "" if it does not.
func lossOf(t task.Task, timeout time.Duration, alive bool, now time.Time) string {
	switch {
	case !alive:
		return fmt.Sprintf("node %s died", t.Node)
	case now.Sub(t.StartedAt) > timeout+attemptSlack:
		return fmt.Sprintf("node %s did not end it in time", t.Node)
	}
	return ""
}

// restore checks deliveries that should have begun long ago, one page a round, and delivers those again that were lost
// between asynq and a worker.
func (m *maintainer) restore(ctx context.Context) error {
	late, next, err := m.leader.Queued(ctx, m.s.pace.restore, m.position, restorePage)
	if err != nil {
		return err
	}
	for _, err := range m.s.o.Queues.EnqueueEach(ctx, late) {
		if err != nil {
			return err
		}
	}
	m.position = next
	m.s.o.Metrics.Restored.Add(float64(len(late)))
	return nil
}

// forget deletes finished tasks whose retention is over, and the oldest ones if there are too many. The same script
// counts due tasks and schedules: dispatch and tick are woken in case they missed a wake-up, as after a step of Redis's
// clock.
func (m *maintainer) forget(ctx context.Context) error {
	keep := max(m.s.o.Keep/len(m.s.locks), 1)
	m.busy = false
	for ctx.Err() == nil {
		swept, err := m.leader.Sweep(ctx, keep, forgetLimit)
		if err != nil {
			return err
		}
		if swept.Due > 0 {
			m.s.wake(m.partition)
		}
		if swept.DueSchedules > 0 {
			m.s.wakeTick(m.partition)
		}
		m.busy = m.busy || swept.Forgotten > 0
		m.s.o.Metrics.Forgotten.Add(float64(swept.Forgotten))
		if swept.Forgotten < forgetLimit {
			return nil
		}
	}
	return nil
}
