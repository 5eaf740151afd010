package control

import (
	"context"
	"errors"
	"slices"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/route"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/why"
)

// runningOfEach is how many of the running tasks of each partition are looked at, to find those that hold slots.
const runningOfEach = 16

// goVia says through which queue a path goes, and of which type its tasks are.
func (c *Control) goVia(p *why.Path, queueName, taskType string) {
	p.Queue, p.Type, p.Setting = queueName, taskType, c.types[taskType].Setting
}

// readLeader reads who leads the partition of a path.
func (c *Control) readLeader(ctx context.Context, p *why.Path, u *unread) {
	leaders, err := c.store.Leaders(ctx, []int{p.Partition})
	p.Leader, p.LeaderUnknown = leaders[p.Partition], u.note("who leads", err)
}

// readFleet reads the nodes that take tasks, or did.
func (c *Control) readFleet(ctx context.Context, p *why.Path, u *unread) {
	p.FleetUnknown = true
	if c.nodes == nil {
		return
	}
	nodes, err := c.nodes.Nodes(ctx)
	if u.note("the list of nodes", err) {
		return
	}
	p.FleetUnknown, p.Workers = false, nil
	for _, n := range nodes {
		if n.Has(config.RoleWorker) {
			p.Workers = append(p.Workers, workerOf(n, p.Queue))
		}
	}
}

// workerOf is a node as a path through a queue knows it.
func workerOf(n cluster.Node, queue string) why.Worker {
	w := why.Worker{
		ID: n.ID, Name: n.Name, Labels: n.Values,
		Alive: n.State != cluster.StateDead, Draining: n.State == cluster.StateDraining, Types: n.Types,
		Capacity: n.Capacity, Most: n.SlotsFor(queue), Running: n.Running, LastBeat: n.LastBeat,
	}
	queues := n.Queues
	if n.Cordon != nil {
		queues = n.Cordon.Queues
		w.Cordon = &why.Cordon{
			Of: n.Cordon.Of, By: n.Cordon.By, Note: n.Cordon.Note, Drain: n.Cordon.Drain, Since: n.Cordon.Since,
		}
	}
	for name := range queues {
		w.Queues = append(w.Queues, name)
	}
	return w
}

// readQueue reads how the queue of a path stands, or the one that a node has for itself, and where a delivery is. Node
// and delivery may be "".
func (c *Control) readQueue(ctx context.Context, p *why.Path, node, delivery string, u *unread) why.Place {
	s, err := c.readStanding(ctx, p, node, delivery, u)
	if err != nil {
		return why.Nowhere
	}
	ahead := s.Pending
	if delivery != "" && s.Before >= 0 {
		ahead = s.Before
	}
	p.Ahead = &ahead
	switch place := why.Place(s.State); place {
	case why.Pending, why.Taken:
		return place
	}
	return why.Nowhere
}

// readStanding reads how the queue of a path stands, or the one that a node has for itself. If its server does not
// answer, that blocks the path.
func (c *Control) readStanding(
	ctx context.Context, p *why.Path, node, delivery string, u *unread,
) (queue.Standing, error) {
	if c.queues == nil {
		return queue.Standing{}, nil
	}
	s, err := c.queues.Standing(ctx, task.NodeQueue(p.Queue, node), delivery)
	c.noteStanding(p, s, err, u)
	return s, err
}

// noteStanding notes how the queue of a path stands.
func (c *Control) noteStanding(p *why.Path, s queue.Standing, err error, u *unread) {
	u.note("the queue", err)
	if blocked := c.blockedBy(err); blocked != nil {
		p.Blocked = blocked
	}
	p.Paused, p.PausedAt, p.PausedBy, p.PauseNote = s.Paused, s.PausedAt, s.PausedBy, s.Note
}

// readForeign reads the slots of asynq's own servers, unless nodes run all that waits. The list of these servers is
// read once in some seconds for all who ask.
func (c *Control) readForeign(ctx context.Context, p *why.Path, nodesRunAll bool, u *unread) {
	if c.queues == nil || p.FleetUnknown || nodesRunAll {
		return
	}
	slots := c.foreignSlots(ctx)
	if slots == nil {
		u.note("the list of asynq's servers", errUnread)
		p.Foreign = -1
		return
	}
	p.Foreign = slots[p.Queue]
}

// errUnread is the error of a reading that somebody else has made.
var errUnread = errors.New("no answer of Redis lately")

// readCapacity returns the capacity of a queue, 0 for any number of tasks.
func (c *Control) readCapacity(ctx context.Context, name string, u *unread) int {
	all, err := c.limits.All(ctx)
	u.note("the capacities of queues", err)
	return all[name]
}

// holdersAmong returns the tasks that run, those that began first at the beginning.
func holdersAmong(read []task.Task) []why.Running {
	var all []why.Running
	for _, t := range read {
		if t.State == task.Running {
			all = append(all, why.Running{
				Ref: t.Ref, Node: t.Node, StartedAt: t.StartedAt, Slots: route.SlotsOf(t.Reach),
			})
		}
	}
	slices.SortFunc(all, func(a, b why.Running) int { return a.StartedAt.Compare(b.StartedAt) })
	return all
}
