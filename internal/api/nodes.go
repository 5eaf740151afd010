package api

import (
	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/control"
)

// ListNodes answers GET /v1/nodes.
func (e *endpoints) ListNodes(c echo.Context) error {
	ctx, left := leavingOut(c)
	nodes, err := e.Control.ListNodes(ctx, callerOf(c))
	if err != nil {
		return err
	}
	return e.ok(c, wire.NodeList{Nodes: each(nodes, nodeOf), Warnings: left.Texts()})
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

func lostOf(l control.LostAttempt) wire.LostAttempt {
	return wire.LostAttempt{
		Task: l.Ref.ID, Namespace: l.Ref.Namespace, Attempt: l.Number, LostAt: wire.At(l.At),
		State: wire.Given(wire.State(l.Task.State)), Node: wire.Given(l.Task.Node),
	}
}
