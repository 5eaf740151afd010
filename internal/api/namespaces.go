package api

import (
	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/control"
)

// ListNamespaces answers GET /v1/namespaces.
func (e *endpoints) ListNamespaces(c echo.Context) error {
	ctx, left := leavingOut(c)
	found, err := e.Control.ListNamespaces(ctx, callerOf(c))
	if err != nil {
		return err
	}
	return e.ok(c, NamespaceList{Namespaces: each(found, namespaceOf), Warnings: left.Texts()})
}

func namespaceOf(n control.Namespace) NamespaceEntry {
	return NamespaceEntry{Name: n.Name, LastSubmittedAt: formatTime(n.LastSubmittedAt)}
}
