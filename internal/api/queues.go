package api

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/task"
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

// SetQueueCapacity answers PUT /v1/queues/{queue}/capacity.
func (e *endpoints) SetQueueCapacity(c echo.Context, queue wire.QueueName) error {
	return setCapacity(c, queue, e.Control.SetQueueCapacity)
}

// LimitQueue answers PUT /v1/queues/{queue}/limit, the old name.
func (e *endpoints) LimitQueue(c echo.Context, queue wire.QueueName) error {
	return setCapacity(c, queue, e.Control.LimitQueue)
}

func setCapacity(
	c echo.Context, queue string, set func(ctx context.Context, who control.Caller, queue string, capacity int) error,
) error {
	var in wire.QueueCapacity
	if err := bind(c, &in); err != nil {
		return err
	}
	capacity, err := capacityIn(in)
	if err != nil {
		return err
	}
	if err := set(c.Request().Context(), callerOf(c), queue, capacity); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// capacityIn reads the field capacity, or limit, its old name. Error: CodeInvalid, if there is neither, or they differ.
func capacityIn(in wire.QueueCapacity) (int, error) {
	switch {
	case in.Capacity == nil && in.Limit == nil:
		return 0, task.Invalid("capacity", "is missing: give a number, 0 for any number of tasks")
	case in.Capacity == nil:
		return *in.Limit, nil
	case in.Limit != nil && *in.Limit != *in.Capacity:
		return 0, task.Invalid("capacity", "is %d, and limit, its old name, is %d: leave out limit", *in.Capacity, *in.Limit)
	}
	return *in.Capacity, nil
}

// ResumeQueue answers POST /v1/queues/{queue}/resume.
func (e *endpoints) ResumeQueue(c echo.Context, queue wire.QueueName) error {
	if err := e.Control.ResumeQueue(c.Request().Context(), callerOf(c), queue); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}
