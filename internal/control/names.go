package control

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

const (
	// namesLifetime is how long the names are used under which tasks wait in partitions that have many. They are read only
	// while tasks are submitted that nobody runs.
	namesLifetime = time.Second
	// nearlyDue is how far ahead a task may be due for which there must be a name. What is due later is taken: somebody
	// may run it then.
	nearlyDue = time.Minute
)

// checkName refuses a task that nobody runs, for the reasons in why, if it is due soon and would wait under a further
// name, and its namespace may have no more in that partition. While the names cannot be read it lets every task in: it
// waits without a name. Error: CodeTooManyNames.
func (c *Control) checkName(ctx context.Context, d task.Definition, why []string) error {
	if len(why) == 0 || d.Delay > nearlyDue || !d.RunAt.IsZero() && d.RunAt.After(c.now(ctx, d.Ref).Add(nearlyDue)) {
		return nil
	}
	queue, field := cmp.Or(d.Queue, task.DefaultQueue), "queue"
	name := queue // as place_of of lanes.lua decides
	if c.servesQueue(queue) {
		name, field = lua.LaneName(queue, d.Type), "type"
	}
	crowded := ifRead(c.crowdedNames.Get(ctx, latest(namesLifetime), c.store.CrowdedNames))
	names, many := crowded[c.store.PartitionOf(d.Ref)]
	if !many || names.MayHave(d.Namespace, name) {
		return nil
	}
	const rule = "%s, and tasks of %d queues and types wait already, %d of them of this namespace, as many as may: " +
		"start workers, or cancel tasks"
	message := fmt.Sprintf(rule, why[0], len(names.All), names.Of[d.Namespace])
	return &task.Error{Code: CodeTooManyNames, Field: field, Message: message}
}

// known reports which of the tasks are there already, or were. Whether their content is the same is for create to say.
func (c *Control) known(ctx context.Context, defs []task.Definition) []bool {
	known := make([]bool, len(defs))
	for i, p := range c.store.Tasks.Preview(ctx, defs) {
		known[i] = p.Existed || task.CodeOf(p.Err) == task.CodeTaskConflict
	}
	return known
}

// servesQueue reports whether a worker node serves a queue, of whatever types.
func (c *Control) servesQueue(queue string) bool {
	return slices.ContainsFunc(c.nodes.View().Nodes, func(n cluster.Node) bool {
		_, serves := n.Queues[queue]
		return serves && n.State != cluster.StateDead && n.Has(config.RoleWorker)
	})
}

// warner returns warnings for types and queues, and finds those of each pair out once.
func (c *Control) warner(ctx context.Context) func(taskType, queue string) []string {
	known := make(map[[2]string][]string, 1)
	return func(taskType, queue string) []string {
		kind := [2]string{taskType, queue}
		warnings, found := known[kind]
		if !found {
			warnings = c.warnings(ctx, taskType, queue)
			known[kind] = warnings
		}
		return warnings
	}
}
