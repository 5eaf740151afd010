package control

import (
	"context"
	"slices"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/redisx"
)

// ListNodes returns every node that is known, dead ones included. Under redisx.LeavingOut, what cannot be read is left out.
func (c *Control) ListNodes(ctx context.Context, _ Caller) ([]cluster.Node, error) {
	nodes, err := c.nodes.Nodes(ctx)
	return slices.DeleteFunc(slices.Clone(nodes), func(n cluster.Node) bool {
		known := slices.Contains([]string{cluster.StateAlive, cluster.StateDraining, cluster.StateDead}, n.State)
		return (!known || n.StartedAt.IsZero()) && redisx.LeaveOut(ctx, "entry of node %q: it has no state, or no start", n.ID)
	}), err
}
