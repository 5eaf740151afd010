package control

import "context"

// Chores does what one node does for all, until ctx ends: the node that leads partition 0. For a moment, two nodes may
// do it, which must do no harm.
func (c *Control) Chores(ctx context.Context) {
	together(
		func() { <-ctx.Done() },
	)
}
