package api

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/task"
)

// SubmitTasks answers POST /v1/tasks/batch.
func (e *endpoints) SubmitTasks(c echo.Context, _ SubmitTasksParams) error {
	var in SubmissionBatch
	if err := bind(c, &in); err != nil {
		return err
	}
	results := make([]BatchResult, len(in.Tasks))
	defs := make([]task.Definition, 0, len(in.Tasks))
	places := make([]int, 0, len(in.Tasks)) // defs[n] is for in.Tasks[places[n]]
	for i, s := range in.Tasks {
		d, err := memberOf(c, s)
		if err != nil {
			results[i] = refused(c, err)
			continue
		}
		defs, places = append(defs, d), append(places, i)
	}
	submitted, err := e.Control.SubmitEach(c.Request().Context(), callerOf(c), defs)
	if err != nil {
		return err
	}
	for n, s := range submitted {
		results[places[n]] = e.resultOf(c, s)
	}
	return ok(c, BatchAnswer{Results: results})
}

// memberOf is the task that one submission of a batch asks for, each of which can name a namespace of its own.
func memberOf(c echo.Context, s Submission) (task.Definition, error) {
	who, err := callerIn(c, s.Namespace)
	if err != nil {
		return task.Definition{}, err
	}
	d, err := definitionOf(s)
	d.Namespace = who.Namespace
	return d, err
}

// resultOf says about one task of a batch what POST /v1/tasks would have answered.
func (e *endpoints) resultOf(c echo.Context, s control.Submitted) BatchResult {
	switch {
	case s.Err != nil:
		return refused(c, s.Err)
	case s.Existed:
		return BatchResult{Status: http.StatusOK, Task: e.taskOf(s.Task)}
	}
	return BatchResult{Status: http.StatusCreated, Task: e.taskOf(s.Task)}
}

func refused(c echo.Context, err error) BatchResult {
	p := problemOf(err, requestIDOf(c))
	return BatchResult{Status: p.Status, Error: p}
}
