package control

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/why"
)

// warnings says what keeps tasks of a type from running that wait in a queue, as far as the last heartbeat tells: no
// living node serves the queue, or none that does runs the type. Both may change: the tasks are accepted. Nodes that
// drain count, as they mostly come again.
func (c *Control) warnings(ctx context.Context, taskType, queue string) []string {
	if c.nodes == nil || taskType == task.WorkflowType { // leaders carry these on
		return nil
	}
	view := c.nodes.View()
	return c.unlessForeign(ctx, queue, c.warned.of(view, taskType, queue, func() string {
		return c.unservedIn(view, taskType, queue, cluster.StateAlive, cluster.StateDraining)
	}))
}

// keptWarnings are the warnings by the newest list of nodes. Tasks of one kind come again and again, and the list
// changes with each heartbeat only. To find a warning takes longer with each node: some 2 us for each.
type keptWarnings struct {
	mu    sync.Mutex
	at    time.Time // of the list
	nodes []cluster.Node
	known map[[2]string]string // by type and queue
}

// keptLimit is of how many types and queues warnings are kept.
const keptLimit = 1000

// of returns the warning of a type and a queue, which find finds out; "" for none.
func (k *keptWarnings) of(view cluster.View, taskType, queue string, find func() string) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	same := k.at.Equal(view.At) && len(k.nodes) == len(view.Nodes)
	same = same && (len(k.nodes) == 0 || &k.nodes[0] == &view.Nodes[0])
	if k.known == nil || !same {
		k.at, k.nodes, k.known = view.At, view.Nodes, make(map[[2]string]string)
	}
	kind := [2]string{taskType, queue}
	text, known := k.known[kind]
	if !known {
		if len(k.known) >= keptLimit {
			clear(k.known)
		}
		text = find()
		k.known[kind] = text
	}
	return text
}

// unserved is warnings for nodes in those states.
func (c *Control) unserved(ctx context.Context, taskType, queue string, states ...string) []string {
	if c.nodes == nil || taskType == task.WorkflowType {
		return nil
	}
	return c.unlessForeign(ctx, queue, c.unservedIn(c.nodes.View(), taskType, queue, states...))
}

// unlessForeign returns a warning, if there is one and none of asynq's own servers serves the queue.
func (c *Control) unlessForeign(ctx context.Context, queue, warning string) []string {
	if warning == "" || c.queues != nil && c.servesForeign(ctx, queue) {
		return nil
	}
	return []string{warning}
}

// unservedIn says why no node in those states runs tasks of a type that wait in a queue; "" if one does, or nothing is
// known yet.
func (c *Control) unservedIn(view cluster.View, taskType, queue string, states ...string) string {
	if view.At.IsZero() {
		return ""
	}
	p := workersIn(view, queue, states...)
	switch {
	case p.CanRun(taskType):
		return ""
	case p.CanRun(""):
		return c.unrunnable(taskType, queue)
	}
	if cordon := p.Cordoned(""); cordon != nil {
		const text = "no node takes tasks of the queue %q: %s is cordoned (dtsctl node uncordon %s)"
		return fmt.Sprintf(text, queue, cordon.Of, cordon.Of)
	}
	const text = "no living node serves the queue %q: its tasks wait until one does (dtsd serve --queues %s=1)"
	return fmt.Sprintf(text, queue, queue)
}

// WhyWaiting says why a task has not begun though it is due, as far as that is known without looking at other tasks: it
// has no worker, or its queue is paused. It is nil for any other task, and for one that cannot be read. What it says
// may be some seconds old.
func (c *Control) WhyWaiting(ctx context.Context, t task.Task) []string {
	if c.nodes == nil || t.Damage != "" || t.State != task.Queued && t.State != task.Scheduled {
		return nil
	}
	if now := c.nodes.View().Now(); now.IsZero() || t.DueAt.After(now) {
		return nil
	}
	return c.unattended(ctx, t.Type, t.Queue)
}

// WhyHeldBack says why ticks of a schedule are due and not decided: the capacity of its queue holds them back. As
// WhyWaiting does, it also says whether the queue is paused or has no worker. It is nil for any other schedule.
func (c *Control) WhyHeldBack(ctx context.Context, s schedule.Schedule) []string {
	if c.limits == nil || !s.PausedAt.IsZero() {
		return nil
	}
	queue := s.Task.Queue
	capacity := c.limits.Of(ctx, queue)
	if capacity == 0 {
		return nil
	}
	held, err := c.store.Schedules.HeldBack(ctx, c.store.PartitionOf(s.Ref), []string{s.Ref.String()})
	if err != nil || len(held) == 0 {
		return nil
	}
	const full = "the queue %q is at its capacity of waiting tasks (%d): " +
		"ticks from %s on are held back until it has room (dtsctl queue capacity %s N)"
	reasons := []string{fmt.Sprintf(full, queue, capacity, held[0].Since.UTC().Format(time.RFC3339), queue)}
	return append(reasons, c.unattended(ctx, s.Task.Type, queue)...)
}

// unattended says why nobody begins tasks of a type that wait in a queue: it has no worker, or it is paused.
func (c *Control) unattended(ctx context.Context, taskType, queue string) []string {
	reasons := c.unserved(ctx, taskType, queue, cluster.StateAlive)
	if c.queues != nil && c.paused.is(ctx, queue, c.queues.Paused) {
		reasons = append(reasons, fmt.Sprintf("the queue %q is paused (dtsctl queue resume %s)", queue, queue))
	}
	return reasons
}

// workersIn returns a path through a queue, with the workers in those states, which all count as if they took tasks.
func workersIn(view cluster.View, queue string, states ...string) why.Path {
	p := why.Path{Queue: queue}
	for _, n := range view.Nodes {
		if n.Has(config.RoleWorker) && slices.Contains(states, n.State) {
			w := workerOf(n, queue)
			w.Draining = false // or else it is not among the states
			p.Workers = append(p.Workers, w)
		}
	}
	return p
}

// unrunnable says that no node that serves a queue runs a type, and how one would.
func (c *Control) unrunnable(taskType, queue string) string {
	text := fmt.Sprintf("no living node that serves the queue %q runs tasks of type %q", queue, taskType)
	if setting := c.types[taskType].Setting; setting != "" {
		text += " (dtsd serve --" + setting + ")"
	}
	return text
}

// foreignLifetime is how long a list of asynq's own servers is used.
const foreignLifetime = 5 * time.Second

// foreignSlots returns the slots of asynq's own servers, by queue; nil if they are not known.
func (c *Control) foreignSlots(ctx context.Context) map[string]int {
	return ifRead(c.foreign.Get(ctx, latest(foreignLifetime), c.queues.ForeignSlots))
}

// servesForeign reports whether one of asynq's own servers serves a queue; also if that is not known, so that nobody is
// warned for nothing.
func (c *Control) servesForeign(ctx context.Context, queue string) bool {
	slots := c.foreignSlots(ctx)
	return slots == nil || slots[queue] > 0
}
