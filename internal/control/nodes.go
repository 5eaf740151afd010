package control

import (
	"context"
	"slices"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/redisx"
)

// ListNodes returns every node that is known, dead ones included. Under redisx.LeavingOut, what cannot be read is
// left out.
func (c *Control) ListNodes(ctx context.Context, who Caller) ([]cluster.Node, error) {
	if _, err := c.begin(ctx, who, "listNodes"); err != nil {
		return nil, err
	}
	nodes, err := c.nodes.Nodes(ctx)
	return slices.DeleteFunc(slices.Clone(nodes), func(n cluster.Node) bool {
		err := n.Check()
		return err != nil && redisx.LeaveOut(ctx, "%v", err)
	}), err
}
