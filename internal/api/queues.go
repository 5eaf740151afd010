package api

import (
	"net/http"

	"github.com/labstack/echo/v4"
)

// ListQueues answers GET /v1/queues.
func (e *endpoints) ListQueues(c echo.Context) error {
	queues, err := e.Queues.List(c.Request().Context())
	if err != nil {
		return err
	}
	return ok(c, QueueList{Queues: each(queues, queueOf)})
}

// PauseQueue answers POST /v1/queues/{queue}/pause.
func (e *endpoints) PauseQueue(c echo.Context, queue QueueName) error {
	if err := e.Queues.Pause(c.Request().Context(), queue); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// ResumeQueue answers POST /v1/queues/{queue}/resume.
func (e *endpoints) ResumeQueue(c echo.Context, queue QueueName) error {
	if err := e.Queues.Resume(c.Request().Context(), queue); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}
