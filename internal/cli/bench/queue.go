package bench

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
)

// checkQueue tells the user if no worker serves the queue: the tasks would wait there for ever.
func checkQueue(ctx context.Context, c *rest.Client, opts *options) error {
	answer, err := rest.Read[wire.NodeList](c.ListNodesWithResponse(ctx, nil))
	if err != nil {
		return err
	}
	served := servedQueues(answer.Value.Nodes)
	if slices.Contains(served, opts.Queue) {
		return nil
	}
	p := opts.Printer
	p.Errorf("no worker serves the queue %s, so nothing was submitted", opts.Queue)
	if len(served) > 0 {
		p.Notef("Use one that workers serve (%s), such as with --queue %s,", strings.Join(served, ", "), suggested(served))
		p.Notef("or start a worker that serves it: dtsd serve --queues ...,%s=1", opts.Queue)
	} else {
		p.Notef("There is no worker at all. Start one: dtsd serve --queues default,%s=1", opts.Queue)
	}
	return command.ErrReported
}

// servedQueues returns the queues from which a node takes tasks, by name.
func servedQueues(nodes []wire.Node) []string {
	served := map[string]bool{}
	for _, n := range nodes {
		if n.State != wire.Alive {
			continue
		}
		for queue := range n.Queues {
			served[queue] = true
		}
	}
	return slices.Sorted(maps.Keys(served))
}

func suggested(served []string) string {
	if slices.Contains(served, "default") {
		return "default"
	}
	return served[0]
}
