package complete

import (
	"context"
	"slices"
	"strings"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
)

// Asks are the operations that completion asks the server for.
var Asks = []string{"listTasks", "listSchedules", "listQueues", "listNodes", "listNamespaces", "listBulks", "listRuns",
	"listWorkflows", "listLimits"}

// source returns names in the order in which they are offered. Not all of them have to begin with the word.
type source func(ctx context.Context, c *rest.Client, word string) ([]string, error)

// argumentSources are those of arguments, by the noun and the name of the argument.
var argumentSources = map[string]source{
	"task ID": tasks, "schedule ID": schedules, "queue QUEUE": queues, "node NODE": nodes,
	"bulk ID": bulks, "flow RUN": runs, "flow WORKFLOW": workflows, "limit NAME": limits,
}

// flagSources are those of flags.
var flagSources = map[string]source{
	"namespace": namespaces, "node": nodes, "queue": queues, "schedule": schedules, "type": types,
}

// taskLimit is how many of the newest tasks are searched for ids.
const taskLimit = 200

// tasks returns ids of new tasks: of those of a schedule if the word names one.
func tasks(ctx context.Context, c *rest.Client, word string) ([]string, error) {
	params := client.ListTasksParams{
		Namespace: c.Namespace, Limit: new(taskLimit), Fields: []wire.TaskField{wire.TaskFieldOwner}, // none with a payload
	}
	if id, _, ok := strings.Cut(word, "@"); ok {
		params.Schedule = &id
	}
	list, err := rest.Read[wire.TaskList](c.ListTasksWithResponse(ctx, &params))
	return each(list.Value.Tasks, func(t wire.Task) string { return t.ID }), err
}

// runs returns ids of new runs of workflows.
func runs(ctx context.Context, c *rest.Client, _ string) ([]string, error) {
	params := client.ListRunsParams{Namespace: c.Namespace, Limit: new(taskLimit)}
	list, err := rest.Read[wire.TaskList](c.ListRunsWithResponse(ctx, &params))
	return each(list.Value.Tasks, func(t wire.Task) string { return t.ID }), err
}

// workflows returns ids of workflows that were put.
func workflows(ctx context.Context, c *rest.Client, word string) ([]string, error) {
	params := client.ListWorkflowsParams{Namespace: c.Namespace, Limit: new(most)}
	if word != "" {
		params.Prefix = &word
	}
	list, err := rest.Read[wire.WorkflowList](c.ListWorkflowsWithResponse(ctx, &params))
	return each(list.Value.Workflows, func(w wire.Workflow) string { return w.ID }), err
}

func schedules(ctx context.Context, c *rest.Client, word string) ([]string, error) {
	params := client.ListSchedulesParams{Namespace: c.Namespace, Limit: new(most)}
	if word != "" {
		params.Prefix = &word
	}
	list, err := rest.Read[wire.ScheduleList](c.ListSchedulesWithResponse(ctx, &params))
	return each(list.Value.Schedules, func(s wire.Schedule) string { return s.ID }), err
}

func queues(ctx context.Context, c *rest.Client, _ string) ([]string, error) {
	list, err := rest.Read[wire.QueueList](c.ListQueuesWithResponse(ctx))
	return each(list.Value.Queues, func(q wire.Queue) string { return q.Name }), err
}

func limits(ctx context.Context, c *rest.Client, _ string) ([]string, error) {
	list, err := rest.Read[wire.LimitList](c.ListLimitsWithResponse(ctx))
	return each(list.Value.Limits, func(l wire.LimitEntry) string { return l.Name }), err
}

func namespaces(ctx context.Context, c *rest.Client, _ string) ([]string, error) {
	list, err := rest.Read[wire.NamespaceList](c.ListNamespacesWithResponse(ctx))
	return each(list.Value.Namespaces, func(n wire.NamespaceEntry) string { return n.Name }), err
}

func nodes(ctx context.Context, c *rest.Client, _ string) ([]string, error) {
	list, err := rest.Read[wire.NodeList](c.ListNodesWithResponse(ctx, nil))
	return each(list.Value.Nodes, func(n wire.Node) string { return n.ID }), err
}

// bulks returns the ids of bulk actions, the newest first.
func bulks(ctx context.Context, c *rest.Client, _ string) ([]string, error) {
	list, err := rest.Read[wire.BulkList](c.ListBulksWithResponse(ctx, &client.ListBulksParams{Namespace: c.Namespace}))
	return each(list.Value.Bulks, func(b wire.Bulk) string { return b.ID }), err
}

// types returns the types that the nodes run.
func types(ctx context.Context, c *rest.Client, _ string) (names []string, err error) {
	list, err := rest.Read[wire.NodeList](c.ListNodesWithResponse(ctx, nil))
	for _, n := range list.Value.Nodes {
		names = append(names, n.Types...)
	}
	slices.Sort(names)
	return slices.Compact(names), err
}

// each returns the names of things.
func each[T any](things []T, name func(T) string) []string {
	names := make([]string, len(things))
	for i, t := range things {
		names[i] = name(t)
	}
	return names
}
