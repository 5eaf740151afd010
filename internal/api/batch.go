package api

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/store"
	"github.com/dts-sched/dts/internal/task"
)

// SubmitTasks answers POST /v1/tasks/batch.
func (e *endpoints) SubmitTasks(c echo.Context, params SubmitTasksParams) error {
	ctx := c.Request().Context()
	if err := e.Admit(ctx); err != nil {
		return err
	}
	var in SubmissionBatch
	if err := bind(c, &in); err != nil {
		return err
	}
	results := make([]BatchResult, len(in.Tasks))
	defs := make([]task.Definition, 0, len(in.Tasks))
	asked := make([]int, 0, len(in.Tasks)) // defs[n] is for in.Tasks[asked[n]]
	for i, s := range in.Tasks {
		d, err := definitionOf(s, params.Namespace)
		if err != nil {
			results[i] = refused(c, err)
			continue
		}
		defs, asked = append(defs, d), append(asked, i)
	}
	if len(defs) > 0 {
		for n, created := range e.Tasks.Create(ctx, defs) {
			results[asked[n]] = e.resultOf(c, created)
		}
	}
	return ok(c, BatchAnswer{Results: results})
}

// resultOf says about one task of a batch what POST /v1/tasks would have answered.
func (e *endpoints) resultOf(c echo.Context, created store.Created) BatchResult {
	switch {
	case created.Err != nil:
		return refused(c, created.Err)
	case created.Existed:
		return BatchResult{Status: http.StatusOK, Task: e.taskOf(created.Task)}
	}
	return BatchResult{Status: http.StatusCreated, Task: e.taskOf(created.Task)}
}

func refused(c echo.Context, err error) BatchResult {
	p := problemOf(err, requestIDOf(c))
	return BatchResult{Status: p.Status, Error: p}
}
