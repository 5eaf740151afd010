package scheduler

import (
	"context"
	"math"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/handover"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/telemetry"
)

// plan is what the terms of a node share to decide what they hand over: the planner, which decides, and the calls that
// tell it what Redis knows.
type plan struct {
	s *Scheduler

	mu      sync.Mutex
	planner *handover.Planner
	known   bool      // the planner knows of nodes
	at      time.Time // of the view that it knows

	leftOut telemetry.Seldom // when a warning said that claims are not told of all workers
	asking  sync.Mutex       // is held while Redis is asked, so that one term asks for all
	errands redisx.Errands   // to servers of a cluster that may be silent
	probes  redisx.Errands   // to those that are, for which nobody waits
}

func newPlan(s *Scheduler) *plan {
	o := handover.Options{
		HandOver: s.o.HandOver, Partitions: s.o.Store.Partitions.Count(), Ask: s.pace.ask, Look: s.pace.names,
		Seed: rand.Uint64(),
	}
	return &plan{
		s: s, planner: handover.New(o),
		errands: redisx.Errands{DB: s.o.DB, Patience: redisx.Patience}, probes: redisx.Errands{DB: s.o.DB},
	}
}

// tell tells the planner something, or asks it, and wakes the terms that may claim then.
func (p *plan) tell(do func(h *handover.Planner, now time.Time)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if view := p.s.o.Members.View(); !p.known || !view.At.Equal(p.at) {
		p.known, p.at = true, view.At
		fleet := fleetOf(view)
		fleet.Workers = append(fleet.Workers, ownWorker)
		p.planner.SetFleet(fleet)
	}
	do(p.planner, clock.Now())
	for _, partition := range p.planner.Wakes() {
		signal(p.s.roomWakes[partition])
	}
}

// fleetOf returns the nodes of a view that live.
func fleetOf(view cluster.View) handover.Fleet {
	f := handover.Fleet{Leaders: len(view.Alive(config.RoleScheduler))}
	for _, n := range view.Nodes {
		if n.State == cluster.StateAlive && n.Has(config.RoleWorker) {
			w := handover.Node{
				ID: n.ID, Queues: n.Queues, Types: n.Types, Capacity: n.Capacity, Running: n.Running, Guest: n.Via != "",
				Placed: n.Placed, Largest: n.Largest, Name: n.Name, Labels: n.Values,
				CPU: math.NaN(), Memory: math.NaN(), Beat: n.LastBeat,
				Response: time.Duration(n.Response * float64(time.Millisecond)),
			}
			if m := n.Machine; m != nil && m.CPU != nil {
				w.CPU = *m.CPU
			}
			if m := n.Machine; m != nil && m.Memory != nil {
				w.Memory = m.Memory.Share()
			}
			w.Weight, _ = strconv.Atoi(n.Labels[config.WeightLabel]) // 0, which counts as 1, for what is no number
			f.Workers = append(f.Workers, w)
		}
	}
	return f
}

// workersChanged is called when workers have come or gone.
func (p *plan) workersChanged() {
	leftOut := 0
	p.tell(func(h *handover.Planner, now time.Time) {
		h.WorkersChanged(now)
		leftOut = h.LeftOut()
	})
	if leftOut > 0 && p.leftOut.Due("") {
		p.s.o.Log.Warn("workers by HTTP name more queues and types than leaders can tell: tasks that only those with the "+
			"most names serve wait", "workers", leftOut, "limit", handover.ServedLimit)
	}
}

// choose is queue.Choose: the nodes to wake for deliveries of a queue that was empty.
func (p *plan) choose(queue string, byType map[string]int) (nodes []string) {
	p.tell(func(h *handover.Planner, _ time.Time) { nodes = h.Choose(queue, byType, rand.IntN) })
	return nodes
}

// grant returns what the term of a partition may claim at once. If no task on its wheel is due, ok is false unless some
// of its waiting tasks may be claimed. If ok, the caller tells the planner afterwards what was claimed.
func (p *plan) grant(ctx context.Context, partition int, due bool) (g handover.Grant, ok bool) {
	p.ask(ctx, partition)
	p.tell(func(h *handover.Planner, now time.Time) { g, ok = h.Grant(partition, due, now) })
	return g, ok
}

// ask reads from Redis what the queues may get of which tasks wait in a partition, unless that was done a moment ago.
func (p *plan) ask(ctx context.Context, partition int) {
	var lanes []handover.Lane
	p.tell(func(h *handover.Planner, _ time.Time) { lanes = h.Waiting(partition) })
	if len(lanes) == 0 { // what others ask for is nothing to wait for
		return
	}
	p.asking.Lock()
	defer p.asking.Unlock()
	p.s.warn(ctx, partition, "cannot look for asynq's own servers", p.readForeign(ctx, lanes))
	var levels map[string]int
	p.tell(func(h *handover.Planner, now time.Time) { lanes, levels = h.Asks(partition, now) })
	if len(levels) == 0 {
		return
	}
	looks, err := p.lookAt(ctx, levels)
	p.s.warn(ctx, partition, "cannot look for room in queues; their backlog waits", err)
	p.tell(func(h *handover.Planner, now time.Time) { h.Looked(lanes, looks, now) })
}

// readForeign reads the slots of asynq's own servers if no node serves some of the lanes. The caller holds asking.
// Errors: redisx.ErrLate if Redis has not answered yet, else one of Redis; then only what was known before is known.
func (p *plan) readForeign(ctx context.Context, lanes []handover.Lane) error {
	var due, late bool
	p.tell(func(h *handover.Planner, now time.Time) { due, late = h.ForeignDue(lanes, now) })
	switch {
	case !due:
		return nil
	case late:
		return redisx.ErrLate
	}
	return p.readSlots(ctx, lanes)
}

// split separates deliveries by who can take them. If no node can take some, it asks asynq for its own servers, unless
// that was done a moment ago. Error: as of readForeign.
func (p *plan) split(ctx context.Context, deliveries []task.Delivery) (s handover.Split, err error) {
	split := func(h *handover.Planner, _ time.Time) { s = h.Split(deliveries) }
	if p.tell(split); len(s.Strange) == 0 {
		return s, nil
	}
	p.asking.Lock()
	defer p.asking.Unlock()
	err = p.readForeign(ctx, s.Strange)
	p.tell(split)
	return s, err
}
