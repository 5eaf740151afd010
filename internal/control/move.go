package control

import (
	"context"

	"github.com/dts-sched/dts/internal/task"
)

// MoveTask asks the worker of a running task to give it up, so that another worker goes on from its checkpoint. A
// handler that does not give up just goes on. Errors: CodeInvalid while nodes of earlier releases live;
// CodeTaskNotFound; CodeNotRunning; CodeCannotMove for tasks that no handler runs.
func (c *Control) MoveTask(ctx context.Context, who Caller, id string) (task.Task, error) {
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
	if _, own := c.types[t.Type]; own || t.Type == task.WorkflowType {
		const text = "task %q is of the type %s, whose work cannot be told to give up: wait for the end of the attempt"
		return task.Task{}, task.Errorf(task.CodeCannotMove, text, t.ID, t.Type)
	}
	return c.store.Tasks.Move(ctx, c.store.Tasks.RunOf(t))
}
