package api

import (
	"encoding/json"
	"maps"
	"net/http"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/api/wire"
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
	members := make([]Member, len(in.Tasks))
	for i, raw := range in.Tasks {
		members[i].Submission, members[i].Err = e.memberOf(c, raw)
	}
	submitted, err := e.submissions(params.DryRun).SubmitEach(c.Request().Context(), callerOf(c), members)
	if err != nil {
		return err
	}
	return e.ok(c, wire.BatchAnswer{Results: each(submitted, func(s Submitted) wire.BatchResult { return e.resultOf(c, s) })})
}

// memberOf is one submission of a batch, each of which can name a namespace of its own. It may be no larger than a
// submission that is alone.
func (e *endpoints) memberOf(c echo.Context, raw json.RawMessage) (s wire.Submission, err error) {
	if limit := e.server.Options().BodyLimit; int64(len(raw)) > limit {
		return s, task.Errorf(edge.CodeBodyTooLarge, "the task is larger than %d bytes", limit)
	}
	if err := e.decoding.check(c.Request().Context(), e.submission, raw); err != nil {
		return s, err
	}
	if err := decode(raw, &s); err != nil {
		return s, err
	}
	_, err = callerIn(c, wire.Value(s.Namespace))
	return s, err
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
func (e *endpoints) resultOf(c echo.Context, s Submitted) wire.BatchResult {
	switch {
	case s.Err != nil:
		e.noteRefusal(s.Err)
		return refused(c, s.Err)
	case s.Existed:
		return wire.BatchResult{Status: http.StatusOK, Task: &s.Task}
	}
	return wire.BatchResult{Status: http.StatusCreated, Task: &s.Task}
}

// invalidsOf is the invalid fields of a problem; nil for none.
func invalidsOf(in []edge.Invalid) []wire.InvalidField {
	if len(in) == 0 {
		return nil
	}
	return each(in, func(i edge.Invalid) wire.InvalidField {
		return wire.InvalidField{Field: wire.Given(i.Field), Detail: i.Detail}
	})
}

func refused(c echo.Context, err error) wire.BatchResult {
	p := edge.ProblemFor(c, err)
	return wire.BatchResult{Status: p.Status, Error: &wire.Problem{
		Type: p.Type, Title: p.Title, Status: p.Status, Detail: p.Detail, Code: wire.ProblemCode(p.Code), Field: wire.Given(p.Field),
		RetryAfter: wire.Given(p.RetryAfter), RequestID: p.RequestID, Errors: invalidsOf(p.Errors),
	}}
}
