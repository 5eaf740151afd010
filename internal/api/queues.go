package api

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/api/wire"
)

// ListQueues answers GET /v1/queues.
func (e *endpoints) ListQueues(c echo.Context) error {
	ctx, left := leavingOut(c)
	queues, err := e.Control.ListQueues(ctx, callerOf(c))
	if err != nil {
		return err
	}
	return e.ok(c, wire.QueueList{Queues: each(queues, queueOf), Warnings: left.Texts()})
}

// PauseQueue answers POST /v1/queues/{queue}/pause.
func (e *endpoints) PauseQueue(c echo.Context, queue wire.QueueName) error {
	var in wire.QueuePause
	if err := bind(c, &in); err != nil {
		return err
	}
	if err := e.Control.PauseQueue(c.Request().Context(), callerOf(c), queue, wire.Value(in.Note)); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// LimitQueue answers PUT /v1/queues/{queue}/limit.
func (e *endpoints) LimitQueue(c echo.Context, queue wire.QueueName) error {
	var in wire.QueueLimit
	if err := bind(c, &in); err != nil {
		return err
	}
	if err := e.Control.LimitQueue(c.Request().Context(), callerOf(c), queue, in.Limit); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// ResumeQueue answers POST /v1/queues/{queue}/resume.
func (e *endpoints) ResumeQueue(c echo.Context, queue wire.QueueName) error {
	if err := e.Control.ResumeQueue(c.Request().Context(), callerOf(c), queue); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}
