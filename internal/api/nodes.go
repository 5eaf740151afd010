package api

import (
	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/api/wire"
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
