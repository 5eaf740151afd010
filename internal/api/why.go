package api

import (
	"context"

	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/why"
)

// WhyTask answers GET /v1/tasks/{id}/why.
func (e *endpoints) WhyTask(c echo.Context, id wire.TaskID, _ WhyTaskParams) error {
	return e.answerWhy(c, e.Control.WhyTask, id)
}

// WhySchedule answers GET /v1/schedules/{id}/why.
func (e *endpoints) WhySchedule(c echo.Context, id wire.ScheduleID, _ WhyScheduleParams) error {
	return e.answerWhy(c, e.Control.WhySchedule, id)
}

// WhyQueue answers GET /v1/queues/{queue}/why.
func (e *endpoints) WhyQueue(c echo.Context, queue wire.QueueName) error {
	return e.answerWhy(c, e.Control.WhyQueue, queue)
}

func (e *endpoints) answerWhy(
	c echo.Context, ask func(context.Context, control.Caller, string) (control.Why, error), name string,
) error {
	answer, err := ask(c.Request().Context(), callerOf(c), name)
	if err != nil {
		return err
	}
	return e.ok(c, whyOf(answer))
}

// whyOf is what something waits for as the API shows it.
func whyOf(w control.Why) wire.Why {
	out := wire.Why{
		At: wire.AtIfAny(w.At), State: wire.Given(wire.State(w.State)), Now: wire.Given(w.Now), Also: []wire.WaitingFor{},
		Warnings: w.Warnings,
	}
	for i, r := range w.Reasons {
		if waits := waitingForOf(r); i == 0 {
			out.WaitingFor = &waits
		} else {
			out.Also = append(out.Also, waits)
		}
	}
	for _, r := range w.Beside {
		out.Beside = append(out.Beside, waitingForOf(r))
	}
	return out
}

func waitingForOf(r why.Reason) wire.WaitingFor {
	return wire.WaitingFor{
		Code: wire.WaitingForCode(r.Code), Since: wire.AtIfAny(r.Since), Detail: r.Detail, ToDo: r.Do, Ahead: r.Ahead,
		NextAttemptAt: wire.AtIfAny(r.NextAttemptAt), LastError: wire.Given(r.LastError), Tasks: r.Tasks,
	}
}
