package api

import (
	"encoding/json"
	"maps"
	"net/http"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/edge"
	"github.com/dts-sched/dts/internal/task"
)

// batchOperation is the operation whose tasks are checked one by one, so that one which is refused does not hold back the others.
const batchOperation = "submitTasks"

// resultSize is about how many bytes the answer has for a task of a batch, besides what it repeats of the body.
const resultSize = 1 << 10

// SubmitTasks answers POST /v1/tasks/batch.
func (e *endpoints) SubmitTasks(c echo.Context, params SubmitTasksParams) error {
	var in struct {
		Tasks []json.RawMessage `json:"tasks"`
	}
	if err := bind(c, &in); err != nil {
		return err
	}
	release, err := e.server.Reserve(c, int64(len(in.Tasks))*resultSize)
	if err != nil {
		return err
	}
	defer release()
	results := make([]BatchResult, len(in.Tasks))
	defs := make([]task.Definition, 0, len(in.Tasks))
	places := make([]int, 0, len(in.Tasks)) // defs[n] is for in.Tasks[places[n]]
	for i, raw := range in.Tasks {
		d, err := e.memberOf(c, raw)
		if err != nil {
			results[i] = refused(c, err)
			continue
		}
		defs, places = append(defs, d), append(places, i)
	}
	submit := e.Control.SubmitEach
	if params.DryRun {
		submit = e.Control.PreviewEach
	}
	submitted, err := submit(c.Request().Context(), callerOf(c), defs)
	if err != nil {
		return err
	}
	for n, s := range submitted {
		results[places[n]] = e.resultOf(c, s)
	}
	return e.ok(c, BatchAnswer{Results: results})
}

// memberOf is the task that one submission of a batch asks for, each of which can name a namespace of its own. It may
// be no larger than a submission that is alone.
func (e *endpoints) memberOf(c echo.Context, raw json.RawMessage) (task.Definition, error) {
	if limit := e.server.Options().BodyLimit; int64(len(raw)) > limit {
		return task.Definition{}, task.Errorf(edge.CodeBodyTooLarge, "the task is larger than %d bytes", limit)
	}
	if err := e.decoding.check(c.Request().Context(), e.submission, raw); err != nil {
		return task.Definition{}, err
	}
	var s Submission
	if err := decode(raw, &s); err != nil {
		return task.Definition{}, err
	}
	who, err := callerIn(c, s.Namespace)
	if err != nil {
		return task.Definition{}, err
	}
	d, err := definitionOf(s)
	d.Namespace = who.Namespace
	return d, err
}

// withoutItems returns the schema of an object in which the items of one of its arrays can be anything.
func withoutItems(schema *openapi3.Schema, array string) *openapi3.Schema {
	loose, loosened := *schema, *schema.Properties[array].Value
	loosened.Items = nil
	loose.Properties = maps.Clone(schema.Properties)
	loose.Properties[array] = &openapi3.SchemaRef{Value: &loosened}
	return &loose
}

// resultOf says about one task of a batch what POST /v1/tasks would have answered.
func (e *endpoints) resultOf(c echo.Context, s control.Submitted) BatchResult {
	switch {
	case s.Err != nil:
		e.noteRefusal(s.Err)
		return refused(c, s.Err)
	case s.Existed:
		return BatchResult{Status: http.StatusOK, Task: e.submittedOf(s)}
	}
	return BatchResult{Status: http.StatusCreated, Task: e.submittedOf(s)}
}

func refused(c echo.Context, err error) BatchResult {
	p := edge.ProblemFor(c, err)
	return BatchResult{Status: p.Status, Error: Problem{
		Type: p.Type, Title: p.Title, Status: p.Status, Detail: p.Detail, Code: ProblemCode(p.Code), Field: p.Field,
		RetryAfter: p.RetryAfter, RequestID: p.RequestID,
	}}
}
