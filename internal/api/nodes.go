package api

import (
	"context"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/route"
)

// ListNodes answers GET /v1/nodes.
func (e *endpoints) ListNodes(c echo.Context, params ListNodesParams) error {
	selector, err := route.ParseSelector(params.Select)
	if err != nil {
		return err
	}
	ctx, left := leavingOut(c)
	nodes, err := e.Control.ListNodes(ctx, callerOf(c))
	if err != nil {
		return err
	}
	matching := slices.DeleteFunc(slices.Clone(nodes), func(n cluster.Node) bool { return !selector.Matches(n.Values) })
	return e.ok(c, wire.NodeList{Nodes: each(matching, nodeOf), Warnings: left.Texts()})
}

// GetNode answers GET /v1/nodes/{node}.
func (e *endpoints) GetNode(c echo.Context, id wire.NodeID) error {
	ctx, left := leavingOut(c)
	d, err := e.Control.GetNode(ctx, callerOf(c), id)
	if err != nil {
		return err
	}
	answer := wire.NodeDetail{ID: d.ID, Lost: each(d.Lost, lostOf), Warnings: left.Texts()}
	if d.Node != nil {
		answer.Node = new(nodeOf(*d.Node))
	}
	return e.ok(c, answer)
}

// CordonNode answers POST /v1/nodes/{node}/cordon.
func (e *endpoints) CordonNode(c echo.Context, node wire.NodeOrName) error {
	var in wire.NodeCordoning
	if err := bind(c, &in); err != nil {
		return err
	}
	var r reader
	how := control.Cordoning{
		Note: wire.Value(in.Note), For: r.span("for", wire.Value(in.For)), Drain: wire.Value(in.Drain),
	}
	if r.err != nil {
		return r.err
	}
	return e.cordoned(c, func(ctx context.Context) ([]cluster.Node, error) {
		return e.Control.CordonNode(ctx, callerOf(c), node, how)
	})
}

// UncordonNode answers POST /v1/nodes/{node}/uncordon.
func (e *endpoints) UncordonNode(c echo.Context, node wire.NodeOrName) error {
	return e.cordoned(c, func(ctx context.Context) ([]cluster.Node, error) {
		return e.Control.UncordonNode(ctx, callerOf(c), node)
	})
}

// cordoned answers which nodes a change of cordons concerns.
func (e *endpoints) cordoned(c echo.Context, do func(context.Context) ([]cluster.Node, error)) error {
	ctx, left := leavingOut(c)
	nodes, err := do(ctx)
	if err != nil {
		return err
	}
	return e.ok(c, wire.NodeList{Nodes: each(nodes, nodeOf), Warnings: left.Texts()})
}

func lostOf(l control.LostAttempt) wire.LostAttempt {
	return wire.LostAttempt{
		Task: l.Ref.ID, Namespace: l.Ref.Namespace, Attempt: l.Number, LostAt: wire.At(l.At),
		State: wire.Given(wire.State(l.Task.State)), Node: wire.Given(l.Task.Node),
	}
}
