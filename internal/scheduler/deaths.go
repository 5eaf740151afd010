package scheduler

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/task"
)

// lossOf says how the attempt of a lapsed run ends. ok is false if that depends on whether its node has died, and
// this is not known yet: the next look decides. It depends on that if the node of the attempt before has died.
func (t *term) lossOf(ctx context.Context, lapsed task.Task, f *fates) (loss partition.Loss, ok bool) {
	loss.Reason = fmt.Sprintf("node %s died or lost the attempt: the lease of its run is over", lapsed.Node)
	if lapsed.Attempt == 1 || t.s.o.Unhurried || !lapsed.CancelRequested.IsZero() {
		return loss, true
	}
	attempts, err := t.s.o.Store.Tasks.Attempts(ctx, lapsed.Ref)
	n := len(attempts)
	if err == nil && n > 1 && attempts[n-1].Number == lapsed.Attempt && attempts[n-2].Outcome == task.OutcomeLost {
		if err = f.read(ctx); err == nil {
			attempts[n-1].Outcome, attempts[n-1].FinishedAt = task.OutcomeLost, f.now
			return t.lossAmong(lapsed, attempts, f, loss)
		}
	}
	t.warn(ctx, "cannot tell whether a task kills its workers", err) // and end the attempt all the same
	return loss, true
}

// lossAmong is lossOf for a run whose attempts are known; loss is what follows unless nodes in a row have died.
func (t *term) lossAmong(
	lapsed task.Task, attempts []task.Attempt, f *fates, loss partition.Loss,
) (_ partition.Loss, ok bool) {
	n := len(attempts)
	if before := lapsed.CountDeaths(attempts[:n-1], f.died); len(before.Nodes) == 0 {
		return loss, true
	}
	if !f.decided(attempts[n-1]) {
		return loss, false
	}
	if deaths := lapsed.CountDeaths(attempts, f.died); deaths.Repeated() {
		loss = t.s.lossAfter(lapsed, deaths, f.now)
	}
	return loss, true
}

// lossAfter says how an attempt ends with which at least the second worker in a row has died.
func (s *Scheduler) lossAfter(lapsed task.Task, deaths task.Deaths, now time.Time) partition.Loss {
	loss := partition.Loss{Deaths: deaths, Reason: fmt.Sprintf("node %s died while it ran the task, as did before it %s",
		deaths.Nodes[0], strings.Join(deaths.Nodes[1:min(len(deaths.Nodes), task.PoisonDeaths)], " and "))}
	again := func(due time.Time) bool {
		_, ok := lapsed.NextAttempt(task.OutcomeLost, due, 0, 0)
		return ok
	}
	switch {
	case deaths.Poison():
		loss.Reason += ": the task is not tried again, as it seems to kill its workers"
	case deaths.Suspect() && again(now):
		turn, ok := s.takeTurn(now)
		if !ok || !again(turn) { // no turn before max_elapsed: it is due at once, and never ends as poison
			break
		}
		loss.Due = turn
		loss.Reason += ": the next attempt waits for a turn, apart from those of other such tasks"
	}
	return loss
}

// turns are those that this node has given to suspects.
type turns struct {
	mu   sync.Mutex
	last time.Time
}

// takeTurn returns the next turn of this node. ok is false if none is free soon.
func (s *Scheduler) takeTurn(now time.Time) (turn time.Time, ok bool) {
	leaders := s.o.Members.View().Alive(config.RoleScheduler)
	s.turns.mu.Lock()
	defer s.turns.mu.Unlock()
	if s.turns.last.Sub(now) > task.TurnsAhead { // the clock of Redis was set back
		s.turns.last = now
	}
	turn, ok = task.NextTurn(now, s.turns.last, max(slices.Index(leaders, s.o.Node), 0), max(len(leaders), 1))
	if ok {
		s.turns.last = turn
	}
	return turn, ok
}

// fates knows which workers have died. It reads the list of nodes once.
type fates struct {
	members Members
	lease   time.Duration // of a run
	now     time.Time     // by the clock of Redis
	nodes   map[string]cluster.Node
}

// read reads the list of nodes. Error: *task.Error with CodeUnavailable.
func (f *fates) read(ctx context.Context) error {
	if f.nodes != nil {
		return nil
	}
	nodes, err := f.members.Nodes(ctx)
	if err != nil {
		return err
	}
	f.nodes = make(map[string]cluster.Node, len(nodes))
	for _, n := range nodes {
		f.nodes[n.ID] = n
	}
	for _, n := range f.members.View().Nodes { // the registry spares nodes after an outage
		if known, ok := f.nodes[n.ID]; ok && n.State != cluster.StateDead {
			known.State = n.State
			f.nodes[n.ID] = known
		}
	}
	return nil
}

// decided reports whether it is known that the node of a lapsed run lives or has died. A node extends its runs every
// third of a lease. So one that has died was silent for at least two thirds of it when the lease was over.
func (f *fates) decided(a task.Attempt) bool {
	n, listed := f.nodes[a.Node]
	return !listed || n.State == cluster.StateDead || f.now.Sub(n.LastBeat) < 2*f.lease/3
}

// died reports whether the worker of a lost attempt died with it, and until when it lived at most. A node that was
// cut off lived on, and one that is not on the list may have left it.
func (f *fates) died(a task.Attempt) (latest time.Time, ok bool) {
	n, listed := f.nodes[a.Node]
	switch {
	case listed && n.StartedAt.After(a.FinishedAt): // a worker by HTTP that has started again under its name
		return a.FinishedAt, true
	case !listed || n.State != cluster.StateDead || n.LastBeat.After(a.FinishedAt):
		return time.Time{}, false
	case n.Via != "": // the node goes on to beat for a worker by HTTP while that may only be silent
		return a.FinishedAt, true
	}
	if latest = n.LastBeat.Add(n.Beat); latest.After(a.FinishedAt) {
		latest = a.FinishedAt
	}
	return latest, true
}
