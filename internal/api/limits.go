package api

import (
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/task"
)

// ListLimits answers GET /v1/limits.
func (e *endpoints) ListLimits(c echo.Context) error {
	ctx, left := leavingOut(c)
	limits, err := e.Control.ListLimits(ctx, callerOf(c))
	if err != nil {
		return err
	}
	return e.ok(c, wire.LimitList{Limits: each(limits, limitOf), Warnings: left.Texts()})
}

// GetLimit answers GET /v1/limits/{name}.
func (e *endpoints) GetLimit(c echo.Context, name wire.LimitName) error {
	ctx, _ := leavingOut(c)
	found, err := e.Control.FindLimit(ctx, callerOf(c), name)
	if err != nil {
		return err
	}
	return e.ok(c, limitOf(found))
}

// SetLimit answers PUT /v1/limits/{name}.
func (e *endpoints) SetLimit(c echo.Context, name wire.LimitName, params SetLimitParams) error {
	var in wire.LimitRule
	if err := bind(c, &in); err != nil {
		return err
	}
	rule := control.LimitRule{
		Slots: wire.Value(in.Slots), Rate: wire.Value(in.Rate), Per: periods[wire.Value(in.Per)], Burst: wire.Value(in.Burst),
	}
	put := control.LimitPut{Rule: rule, DryRun: params.DryRun}
	change, err := e.Control.SetLimit(c.Request().Context(), callerOf(c), name, put)
	if err != nil {
		return err
	}
	c.Response().Header().Set(changeHeader, changeBy(change.Created, change.Changed))
	if len(change.Removed) > 0 {
		c.Response().Header().Set("Dts-Removed", strings.Join(change.Removed, ", "))
	}
	return c.NoContent(http.StatusNoContent)
}

// DeleteLimit answers DELETE /v1/limits/{name}.
func (e *endpoints) DeleteLimit(c echo.Context, name wire.LimitName) error {
	if err := e.Control.DeleteLimit(c.Request().Context(), callerOf(c), name); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// PauseLimit answers POST /v1/limits/{name}/pause.
func (e *endpoints) PauseLimit(c echo.Context, name wire.LimitName) error {
	var in wire.LimitPause
	if err := bind(c, &in); err != nil {
		return err
	}
	var r reader
	pause := control.LimitPause{For: r.span("for", wire.Value(in.For)), Note: wire.Value(in.Note)}
	if in.Until != nil {
		pause.Until = in.Until.Time
	}
	if r.err != nil {
		return r.err
	}
	if err := e.Control.PauseLimit(c.Request().Context(), callerOf(c), name, pause); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// ResumeLimit answers POST /v1/limits/{name}/resume.
func (e *endpoints) ResumeLimit(c echo.Context, name wire.LimitName) error {
	if err := e.Control.ResumeLimit(c.Request().Context(), callerOf(c), name); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// periods are the times that a rate can be about.
var periods = map[wire.LimitPer]time.Duration{
	wire.PerSecond: time.Second, wire.PerMinute: time.Minute, wire.PerHour: time.Hour,
}

func limitOf(i control.LimitInfo) wire.LimitEntry {
	out := wire.LimitEntry{
		Name: i.Name, Slots: wire.Given(i.Rule.Slots), Rate: wire.Given(i.Rule.Rate), Burst: wire.Given(i.Rule.Burst),
		Paused: i.Paused, Note: wire.Given(i.Note), PausedBy: wire.Given(i.PausedBy), By: wire.Given(i.By), At: wire.At(i.At),
		Held: i.Held, Waiting: i.Waiting, Names: nil, Uses: each(i.Uses, limitUseOf), SetAs: wire.Given(i.SetAs),
		Holders: each(i.Holders, func(r task.Ref) wire.LimitHolder {
			return wire.LimitHolder{ID: r.ID, Namespace: r.Namespace}
		}),
	}
	for name, period := range periods {
		if period == i.Rule.Per {
			out.Per = &name
		}
	}
	if !i.Until.IsZero() {
		out.PausedUntil = new(wire.At(i.Until))
	}
	if i.IsWildcard {
		out.Names = &i.Names
	}
	return out
}

func limitUseOf(u control.LimitUse) wire.LimitUse {
	return wire.LimitUse{Name: u.Name, Held: u.Held, Waiting: u.Waiting}
}
