package api

import (
	"context"
	"fmt"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/task"
)

// readyTimeout is for all checks of /readyz together: who asks does not wait long for an answer.
const readyTimeout = time.Second

// Healthz answers GET /healthz.
func (e *endpoints) Healthz(c echo.Context) error {
	return e.ok(c, wire.Health{Status: wire.HealthStatusOk, Version: e.Version})
}

// Readyz answers GET /readyz.
func (e *endpoints) Readyz(c echo.Context) error {
	ctx, cancel := context.WithTimeout(c.Request().Context(), readyTimeout)
	defer cancel()
	names := []string{}
	for _, check := range e.Ready {
		if err := check.Do(ctx); err != nil {
			return &task.Error{Code: task.CodeUnavailable, Message: fmt.Sprintf("%s: %v", check.Name, err), Err: err}
		}
		names = append(names, check.Name)
	}
	return e.ok(c, wire.Readiness{Status: wire.ReadinessStatusOk, Checks: names, Warnings: e.warnings()})
}

// warnings are what /readyz tells besides.
func (e *endpoints) warnings() []string {
	if e.Warnings == nil {
		return nil
	}
	return e.Warnings()
}

// Openapi answers GET /openapi.json.
func (e *endpoints) Openapi(c echo.Context) error { return c.JSONBlob(200, e.document) }
