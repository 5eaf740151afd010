package api

import (
	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/control"
)

// ListNamespaces answers GET /v1/namespaces.
func (e *endpoints) ListNamespaces(c echo.Context) error {
	ctx, left := leavingOut(c)
	found, err := e.Control.ListNamespaces(ctx, callerOf(c))
	if err != nil {
		return err
	}
	return e.ok(c, wire.NamespaceList{Namespaces: each(found, namespaceOf), Warnings: left.Texts()})
}

func namespaceOf(n control.Namespace) wire.NamespaceEntry {
	return wire.NamespaceEntry{Name: n.Name, LastSubmittedAt: wire.At(n.LastSubmittedAt)}
}
