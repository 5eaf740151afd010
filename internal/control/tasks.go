package control

import (
	"cmp"
	"context"
	"strings"

	"github.com/dts-sched/dts/internal/index"
	"github.com/dts-sched/dts/internal/store/listing"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua/contract"
)

// TaskFilter narrows a list of tasks; its namespace is the caller's, which may be EveryNamespace.
type TaskFilter = tasks.Filter

// TaskSpan is a part of time.
type TaskSpan = tasks.Span

// taskOrders are by what lists of tasks are sorted.
var taskOrders = map[string]index.By{
	"state": index.StateTime, "created": index.Created, "due": index.Due, "ended": index.Ended, "duration": index.Took,
}

// TaskOrder is the order of a list of tasks that is sorted by that: state, created, due, ended or duration. Error:
// CodeInvalid for sort.
func TaskOrder(sort string, ascending bool) (index.Order, error) {
	by, known := taskOrders[cmp.Or(sort, "state")]
	if !known {
		return index.Order{}, task.Invalid("sort", "must be state, created, due, ended or duration")
	}
	return index.Order{By: by, Asc: ascending}, nil
}

// TaskPage is a part of a list of tasks.
type TaskPage = tasks.Page

// GetTask returns one task. The caller's namespace may be EveryNamespace, if only one task has that id. Errors:
// CodeTaskNotFound; CodeInvalid for the namespace if several have it.
func (c *Control) GetTask(ctx context.Context, who Caller, id string) (task.Task, error) {
	if _, err := c.begin(ctx, who, "getTask", who.Ref(id)); err != nil {
		return task.Task{}, err
	}
	if who.Namespace == EveryNamespace {
		return c.findTask(ctx, id)
	}
	return c.store.Tasks.Get(ctx, who.Ref(id))
}

// GetTaskWithAttempts returns a task without its checkpoint, and its attempts, oldest first. Both tell of the same
// moment. Error: CodeTaskNotFound.
func (c *Control) GetTaskWithAttempts(ctx context.Context, who Caller, id string) (task.Task, []task.Attempt, error) {
	if _, err := c.begin(ctx, who, "getTask", who.Ref(id)); err != nil {
		return task.Task{}, nil, err
	}
	return c.store.Tasks.FindWithAttempts(ctx, who.Ref(id))
}

// findTask returns the task with that id in whatever namespace. Errors: those of GetTask.
func (c *Control) findTask(ctx context.Context, id string) (task.Task, error) {
	found, _, err := c.tasksNamed(ctx, id, contract.NamespacesLimit)
	if err != nil {
		return task.Task{}, err
	}
	switch len(found) {
	case 0:
		return task.Task{}, task.Errorf(task.CodeTaskNotFound, "no task %q in any namespace", id)
	case 1:
		return c.store.Tasks.Get(ctx, found[0].Ref)
	}
	names := make([]string, len(found))
	for i, t := range found {
		names[i] = t.Ref.Namespace
	}
	return task.Task{}, task.Invalid("namespace", "tasks of %d namespaces have this id: name one of them: %s",
		len(names), strings.Join(names[:min(len(names), 10)], ", "))
}

// TaskState returns the state of one task. Error: CodeTaskNotFound.
func (c *Control) TaskState(ctx context.Context, who Caller, id string) (task.State, error) {
	if _, err := c.begin(ctx, who, "getTask", who.Ref(id)); err != nil {
		return "", err
	}
	return c.store.Tasks.State(ctx, who.Ref(id))
}

// LastEnd is how the newest attempt of a task that has ended did.
type LastEnd = tasks.LastEnd

// LastEnds returns how the newest attempts of tasks of the caller's namespace ended, by the ids of the tasks: of those
// that have an error or a further attempt. Error: CodeUnavailable.
func (c *Control) LastEnds(ctx context.Context, who Caller, ids []string) (map[string]LastEnd, error) {
	if _, err := c.begin(ctx, who, "getTask"); err != nil {
		return nil, err
	}
	refs := make([]task.Ref, len(ids))
	for i, id := range ids {
		refs[i] = who.Ref(id)
	}
	found, err := c.store.Tasks.LastEnds(ctx, refs)
	ends := make(map[string]LastEnd, len(found))
	for ref, end := range found {
		ends[ref.ID] = end
	}
	return ends, err
}

// ListTasks returns up to limit tasks, newest first, from a cursor on ("": from the start). A page can be shorter
// than limit and not be the last one. The caller's namespace may be EveryNamespace. Errors: CodeInvalid for the
// cursor, and for the namespace if there are too many.
func (c *Control) ListTasks(ctx context.Context, who Caller, f TaskFilter, limit int, cursor string) (TaskPage, error) {
	if _, err := c.begin(ctx, who, "listTasks"); err != nil {
		return TaskPage{}, err
	}
	f.Namespace = who.Namespace
	return c.store.Listing.List(ctx, f, limit, cursor)
}

// TaskCount is how many tasks are in a state; About says that there are more.
type TaskCount = listing.Count

// CountTasks counts the tasks that match a filter by state, up to 1,000 of each. If the filter names states without
// scheduled, and nothing else, tasks of one namespace that have ended are counted exactly. The caller's namespace may
// be EveryNamespace.
func (c *Control) CountTasks(ctx context.Context, who Caller, f TaskFilter) (map[task.State]TaskCount, error) {
	if _, err := c.begin(ctx, who, "listTasks"); err != nil {
		return nil, err
	}
	f.Namespace = who.Namespace
	return c.store.Listing.CountStates(ctx, f)
}

// ListAndCountTasks is ListTasks, and counts the tasks of all states that match the filter otherwise, up to 100 of
// each. Errors: those of ListTasks.
func (c *Control) ListAndCountTasks(
	ctx context.Context, who Caller, f TaskFilter, limit int, cursor string,
) (TaskPage, map[task.State]TaskCount, error) {
	if _, err := c.begin(ctx, who, "listTasks"); err != nil {
		return TaskPage{}, nil, err
	}
	f.Namespace = who.Namespace
	return c.store.Listing.ListAndCount(ctx, f, limit, cursor)
}

// Attempts returns the attempts of a task, oldest first, including the one that runs now. Error: CodeTaskNotFound.
func (c *Control) Attempts(ctx context.Context, who Caller, id string) ([]task.Attempt, error) {
	if _, err := c.begin(ctx, who, "listAttempts", who.Ref(id)); err != nil {
		return nil, err
	}
	return c.store.Tasks.Attempts(ctx, who.Ref(id))
}

// ReportProgress records how far an attempt is, in percent, and a note on what it does. It is for programs that run the
// attempt far from its worker. Errors: CodeInvalid, CodeTaskNotFound, CodeNotRunning, CodeStaleAttempt.
func (c *Control) ReportProgress(ctx context.Context, who Caller, id string, attempt, percent int, note string) error {
	if _, err := c.begin(ctx, who, "reportProgress", who.Ref(id)); err != nil {
		return err
	}
	return c.store.Tasks.ReportProgress(ctx, who.Ref(id), attempt, percent, note)
}
