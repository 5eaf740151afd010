package control

import (
	"context"

	"github.com/dts-sched/dts/internal/cluster"
)

// ListNodes returns every node that is known, dead ones included.
func (c *Control) ListNodes(ctx context.Context, _ Caller) ([]cluster.Node, error) {
	return c.nodes.Nodes(ctx)
}
