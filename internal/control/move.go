package control

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/route"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
)

// MoveTask asks the worker of a running task to give it up, so that another worker goes on from its checkpoint. A
// handler that does not give up just goes on. to is the id or the name of the node that is to go on; "" for any other
// one. Errors: CodeInvalid while nodes of earlier releases live, and for a node that cannot run the task;
// CodeTaskNotFound; CodeNotRunning; CodeCannotMove for tasks that no handler runs; CodeUnavailable.
func (c *Control) MoveTask(ctx context.Context, who Caller, id, to string) (task.Task, error) {
	if _, err := c.begin(ctx, who, "moveTask", who.Ref(id)); err != nil {
		return task.Task{}, err
	}
	if !c.store.HasRoutes() {
		const text = "running tasks move as soon as no living node is of an earlier release: see dtsctl node list"
		return task.Task{}, task.Errorf(task.CodeInvalid, text)
	}
	t, err := c.store.Tasks.Get(ctx, who.Ref(id))
	if err != nil {
		return task.Task{}, err
	}
	if t.State != task.Running {
		return task.Task{}, task.Errorf(task.CodeNotRunning, "task %q is not running: it is %s", t.ID, t.State)
	}
	if !c.CanMove(t) {
		const text = "task %q is of the type %s, whose work cannot be told to give up: wait for the end of the attempt"
		return task.Task{}, task.Errorf(task.CodeCannotMove, text, t.ID, t.Type)
	}
	if to != "" {
		nodes, err := c.nodes.Nodes(ctx)
		if err == nil {
			err = canGoTo(t, nodes, to)
		}
		if err != nil {
			return task.Task{}, err
		}
	}
	return c.store.Tasks.Move(ctx, c.store.Tasks.RunOf(t), tasks.Asked{To: to, By: who.By()})
}

// CanMove reports whether a handler runs tasks of that type, which may give its work up.
func (c *Control) CanMove(t task.Task) bool {
	_, own := c.types[t.Type]
	return !own && t.Type != task.WorkflowType
}

// canGoTo returns why a running task cannot go to the node of an id or a name; nil if it can. Of several nodes of a
// name, one that can is enough. Error: CodeInvalid of the field to.
func canGoTo(t task.Task, nodes []cluster.Node, to string) error {
	refusal := fmt.Sprintf("no living node has the id or the name %q: see dtsctl node list", to)
	for _, n := range nodes {
		if n.ID != to && n.Name != to || n.State == cluster.StateDead {
			continue
		}
		if refusal = whyNotTo(t, n); refusal == "" {
			return nil
		}
	}
	return task.Invalid("to", "%s", refusal)
}

// whyNotTo returns why a running task cannot go to a living node; "" if it can.
func whyNotTo(t task.Task, n cluster.Node) string {
	reach, err := route.ParseReach(t.Reach)
	queue := cmp.Or(t.Queue, task.DefaultQueue)
	_, serves := n.Queues[queue]
	order := reach.Route.Order
	switch {
	case n.ID == t.Node:
		return fmt.Sprintf("the task runs on %s already: name another node", n.ID)
	case n.Cordon != nil:
		return fmt.Sprintf("the node %s is cordoned: name another one, or run dtsctl node uncordon %s", n.ID, n.Cordon.Of)
	case n.State == cluster.StateDraining:
		return fmt.Sprintf("the node %s shuts down: name another one", n.ID)
	case !n.Has(config.RoleWorker) || n.Capacity == 0:
		return fmt.Sprintf("the node %s takes no tasks: name one of the role %s", n.ID, config.RoleWorker)
	case !serves:
		const text = "the node %s does not serve the queue %q, only %q: name one that does"
		return fmt.Sprintf(text, n.ID, queue, slices.Sorted(maps.Keys(n.Queues)))
	case len(n.Types) > 0 && !slices.Contains(n.Types, t.Type):
		return fmt.Sprintf("the node %s does not run the type %q, only %q: name one that does", n.ID, t.Type, n.Types)
	case err != nil:
		return fmt.Sprintf("nobody can read where the task may run: %v", err)
	case !reach.Select.Matches(n.Values):
		const text = "the node %s does not satisfy the selector of the task, %q: name one that does"
		return fmt.Sprintf(text, n.ID, reach.Select)
	case n.SlotsFor(queue) < reach.Holds():
		const text = "the task holds %d slots of its node, and %s lets a task of the queue %q hold %d: name one that has more"
		return fmt.Sprintf(text, reach.Holds(), n.ID, queue, n.SlotsFor(queue))
	case len(order) > 0 && !slices.Contains(order, n.Name):
		return fmt.Sprintf("the node %s is not in the order of the task's route: name one of %q", n.ID, order)
	}
	return ""
}
