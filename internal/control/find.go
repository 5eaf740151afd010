package control

import (
	"context"
	"slices"

	"github.com/dts-sched/dts/internal/calls"
	"github.com/dts-sched/dts/internal/task"
)

// FoundTasks are the tasks that have an id.
type FoundTasks struct {
	Tasks  []task.Task // by namespace, without payloads, results and errors
	More   int         // how many others have it
	Partly bool        // not all namespaces were looked through
}

// taskNamespaces is in how many namespaces FindTasks looks for tasks.
const taskNamespaces = 2000

// FindTasks returns up to limit tasks of all namespaces that have an id. It looks into the namespaces that were used
// last. Errors: CodeInvalid for the id, CodeUnavailable.
func (c *Control) FindTasks(ctx context.Context, who Caller, id string, limit int) (found FoundTasks, _ error) {
	if _, err := c.begin(ctx, who, "getTask"); err != nil {
		return found, err
	}
	tasks, partly, err := c.tasksNamed(ctx, id, taskNamespaces)
	found.Tasks, found.Partly = tasks[:min(len(tasks), limit)], partly
	found.More = len(tasks) - len(found.Tasks)
	if err != nil {
		return found, err
	}
	return found, c.tellLastEnds(ctx, found.Tasks)
}

// tellLastEnds says of tasks that wait for a further attempt how the one before ended, as lists do. Error:
// CodeUnavailable.
func (c *Control) tellLastEnds(ctx context.Context, found []task.Task) error {
	var again []task.Ref
	for _, t := range found {
		if t.State == task.Scheduled && t.Attempt > 0 {
			again = append(again, t.Ref)
		}
	}
	ends, err := c.store.Tasks.LastEnds(ctx, again)
	for i, t := range found {
		if end, has := ends[t.Ref]; has {
			found[i].Outcome = end.Outcome
		}
	}
	return err
}

// A task is looked for in so many namespaces in one round trip, and in so many round trips at once.
const (
	namespacesAtOnce = 500
	findsAtOnce      = 4
)

// tasksNamed are the tasks that have an id in the most namespaces that were used last, by namespace. partly: there are
// other namespaces. Errors: those of FindTasks.
func (c *Control) tasksNamed(ctx context.Context, id string, most int) (_ []task.Task, partly bool, _ error) {
	if err := task.ValidateRef(task.Ref{Namespace: task.DefaultNamespace, ID: id}); err != nil {
		return nil, false, err
	}
	names, err := c.store.LatestNamespaces(ctx, most+1)
	if err != nil {
		return nil, false, err
	}
	partly = len(names) > most
	names = names[:min(len(names), most)]
	slices.Sort(names)
	parts := slices.Collect(slices.Chunk(names, namespacesAtOnce))
	found := make([][]task.Task, len(parts))
	err = calls.Each(findsAtOnce, parts, func(i int, names []string) (err error) {
		refs := make([]task.Ref, len(names))
		for k, name := range names {
			refs[k] = task.Ref{Namespace: name, ID: id}
		}
		found[i], err = c.store.Tasks.Briefs(ctx, refs)
		return err
	})
	return slices.Concat(found...), partly, err
}

// FoundNames are schedules or workflows whose ids begin with something.
type FoundNames struct {
	Refs   []task.Ref // by name
	More   bool       // there are others
	Partly bool       // not all namespaces were looked through
}

// Names are looked for in so many namespaces, and with about so many commands, as each partition has names.
const (
	nameNamespaces = 100
	nameCommands   = 1600
)

// FindSchedules returns up to limit schedules of all namespaces whose ids begin with a prefix. It looks into the
// namespaces that were used last, and reads nothing but names. Errors: CodeInvalid without a prefix, CodeUnavailable.
func (c *Control) FindSchedules(ctx context.Context, who Caller, prefix string, limit int) (FoundNames, error) {
	if _, err := c.begin(ctx, who, "listSchedules"); err != nil {
		return FoundNames{}, err
	}
	return c.findNames(ctx, prefix, limit, c.store.Schedules.Named)
}

// FindWorkflows is FindSchedules for workflows.
func (c *Control) FindWorkflows(ctx context.Context, who Caller, prefix string, limit int) (FoundNames, error) {
	if _, err := c.begin(ctx, who, "listWorkflows"); err != nil {
		return FoundNames{}, err
	}
	return c.findNames(ctx, prefix, limit, c.store.Workflows.Named)
}

// findNames returns what named finds in the namespaces that were used last.
func (c *Control) findNames(
	ctx context.Context, prefix string, limit int,
	named func(ctx context.Context, namespaces []string, prefix string, limit int) ([]task.Ref, error),
) (found FoundNames, _ error) {
	if prefix == "" {
		return found, task.Invalid("prefix", "must not be empty")
	}
	most := max(min(nameNamespaces, nameCommands/c.store.Layout.Partitions()), 1)
	namespaces, err := c.store.LatestNamespaces(ctx, most+1)
	if err != nil {
		return found, err
	}
	found.Partly = len(namespaces) > most
	found.Refs, err = named(ctx, namespaces[:min(len(namespaces), most)], prefix, limit+1)
	found.More = len(found.Refs) > limit
	found.Refs = found.Refs[:min(len(found.Refs), limit)]
	return found, err
}
