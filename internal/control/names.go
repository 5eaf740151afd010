package control

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// namesLifetime is how long the names are used under which tasks wait in partitions that take no further one. They are
// read only while tasks are submitted that nobody runs.
const namesLifetime = time.Second

// fullNames is latest for the names of full partitions.
type fullNames struct{ latest[layout.FullNames] }

// checkName refuses a task that nobody runs, for the reasons in why, if it would wait under a further name in a
// partition that takes no more. While the names cannot be read it lets every task in: the leader puts off what has no
// name. Error: CodeTooManyNames.
func (c *Control) checkName(ctx context.Context, d task.Definition, why []string) error {
	if len(why) == 0 {
		return nil
	}
	queue := cmp.Or(d.Queue, task.DefaultQueue)
	names := c.fullNames.get(ctx, namesLifetime, c.store.FullNames)[c.store.PartitionOf(d.Ref)]
	if names == nil || names[queue] || names[lua.LaneName(queue, d.Type)] {
		return nil
	}
	field := "type"
	if !c.servesQueue(queue) {
		field = "queue"
	}
	const rule = "%s, and tasks of %d queues and types wait already, as many as may: start workers, or cancel tasks"
	return &task.Error{Code: task.CodeTooManyNames, Field: field, Message: fmt.Sprintf(rule, why[0], len(names))}
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
