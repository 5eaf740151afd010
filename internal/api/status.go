package api

import (
	"time"

	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/status"
)

// GetStatus answers GET /v1/status.
func (e *endpoints) GetStatus(c echo.Context) error {
	found, err := e.Control.GetStatus(c.Request().Context(), callerOf(c))
	if err != nil {
		return err
	}
	return e.ok(c, wire.Status{
		At: wire.AtIfAny(found.At), Level: wire.StatusLevel(found.Level), Sentence: found.Sentence,
		Reasons: each(found.Reasons, statusReasonOf), Figures: statusFiguresOf(found.Figures), Warnings: found.Warnings,
	})
}

func statusReasonOf(r status.Reason) wire.StatusReason {
	return wire.StatusReason{
		Code: wire.StatusReasonCode(r.Code), Severity: wire.StatusReasonSeverity(r.Severity), Since: wire.AtIfAny(r.Since),
		About: wire.StatusReasonAbout(r.Kind), Namespace: wire.Given(r.Namespace), ID: wire.Given(r.ID), Detail: r.Detail,
		ToDo: r.Do, More: wire.Given(r.More),
	}
}

func statusFiguresOf(f status.Figures) wire.StatusFigures {
	out := wire.StatusFigures{
		Nodes: f.Nodes, Running: f.Running, Capacity: f.Capacity, Waiting: f.Waiting,
		WaitingUnderLimits: wire.Given(f.Limited),
		RedisMemory:        wire.Given(int64(f.Memory)), RedisMaxMemory: wire.Given(int64(f.MaxMemory)),
		RedisRoundTripMs: wire.Given(float32(f.RoundTrip.Seconds() * 1000)),
	}
	if f.Over > 0 {
		out.OverMs = new(f.Over.Milliseconds())
		out.BegunPerSecond, out.EndedPerSecond = new(float32(f.Begun)), new(float32(f.Ended))
		out.FailedPerSecond = new(float32(f.Failed))
	}
	if f.Over > 0 && f.Begun > 0 {
		out.LateP50Ms, out.LateP99Ms, out.LateMaxMs = millis(f.LateP50), millis(f.LateP99), millis(f.LateMost)
	}
	return out
}

func millis(d time.Duration) *int64 { return new(d.Milliseconds()) }
