package api

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/edge"
	"github.com/dts-sched/dts/internal/task"
)

// healthTag is that of operations for probes. They take any parameters: those of a probe must not make a node look
// dead.
const healthTag = "health"

// perOperation is what each operation of the document has in front of its handler, by operation id.
func (e *endpoints) perOperation(doc *openapi3.T) map[string][]echo.MiddlewareFunc {
	chains := map[string][]echo.MiddlewareFunc{}
	for _, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			chains[op.OperationID] = e.chain(method, op, ParametersOf(item, op))
		}
	}
	return chains
}

// ParametersOf are the parameters of an operation: its own, and those of its path that it does not define anew.
func ParametersOf(item *openapi3.PathItem, op *openapi3.Operation) openapi3.Parameters {
	all := slices.Clone(op.Parameters)
	for _, p := range item.Parameters {
		if op.Parameters.GetByInAndName(p.Value.In, p.Value.Name) == nil {
			all = append(all, p)
		}
	}
	return all
}

func (e *endpoints) chain(method string, op *openapi3.Operation, parameters openapi3.Parameters) []echo.MiddlewareFunc {
	v := e.validator(op, parameters)
	chain := []echo.MiddlewareFunc{e.admit(op, v)}
	if hasLargeAnswer(method, op) {
		chain = append(chain, e.guardShare) // behind what counts refusals
	}
	chain = append(chain, e.limitTime(op))
	if !slices.Contains(op.Tags, healthTag) {
		chain = append(chain, v.check)
	}
	if answerOf(op) == answerPage {
		chain = append(chain, e.page)
	}
	return chain
}

// validator checks the requests of an operation.
func (e *endpoints) validator(op *openapi3.Operation, parameters openapi3.Parameters) validator {
	v := validator{parameters: parameters, turns: e.decoding}
	if op.RequestBody != nil {
		v.body = op.RequestBody.Value.Content.Get(jsonType).Schema.Value
		v.bodyless = !op.RequestBody.Value.Required
	}
	v.goesOn = slices.Contains([]string{putSchedule, "putWorkflow", "submitRun"}, op.OperationID)
	if op.OperationID == batchOperation {
		v.body = withoutItems(v.body, "tasks")
		v.lenient = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}
	}
	return v
}

// admit reads the body and lets the request in. It bounds the requests that create work, after their bodies have
// arrived and before anything of them is looked at: what looks at them waits for a processor, as what they ask for
// waits for Redis. It counts those that are refused.
func (e *endpoints) admit(op *openapi3.Operation, v validator) echo.MiddlewareFunc {
	operation, _ := control.OperationNamed(op.OperationID)
	creates := operation.MakesWork
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		if !creates && v.body == nil {
			return next
		}
		return func(c echo.Context) (err error) {
			if creates {
				defer func() { e.noteRefusal(err) }()
			}
			release, err := v.receive(e.server, c)
			if err != nil {
				return err
			}
			defer release()
			if creates {
				leave, err := edge.Arrive(c, e.Control, op.OperationID)
				if err != nil {
					return err
				}
				defer leave()
			}
			return next(c)
		}
	}
}

// limitTime gives what the operation waits for a deadline. Operations that can stream set their own.
func (e *endpoints) limitTime(op *openapi3.Operation) echo.MiddlewareFunc {
	if streams(op) {
		return func(next echo.HandlerFunc) echo.HandlerFunc { return next }
	}
	limit := e.server.Options().RequestTimeout
	switch op.OperationID {
	case takeOperation:
		limit += control.TakeWaitLimit
	case awaitOperation:
		return limitAwaited(limit)
	}
	return edge.LimitTime(limit)
}

func streams(op *openapi3.Operation) bool {
	return op.Responses.Status(http.StatusOK) != nil &&
		op.Responses.Status(http.StatusOK).Value.Content.Get(edge.StreamType) != nil
}

// noteRefusal tells whoever counts refusals why a request that creates work, or a task of a batch, was refused: by its
// code if that says that the same may be accepted later. What is unavailable may have been accepted nevertheless.
func (e *endpoints) noteRefusal(err error) {
	if err == nil || e.Refused == nil {
		return
	}
	if code := edge.CodeOf(err); slices.Contains(Refusals, code) {
		e.Refused(string(code))
	}
}

// Refusals are the codes that Options.Refused is called with.
var Refusals = []task.Code{
	task.CodeOverloaded, control.CodeQueueFull, control.CodeTooManyNames, task.CodeUnavailable,
}

// EachOperation calls f for each operation of the document, with its path there, its method, and the status of its
// answer if all is well.
func EachOperation(f func(route, method string, status int)) error {
	d, err := describe()
	if err != nil {
		return err
	}
	for path, item := range d.doc.Paths.Map() {
		for method, op := range item.Operations() {
			for status := range op.Responses.Map() {
				if n, err := strconv.Atoi(status); err == nil && n < http.StatusMultipleChoices {
					f(path, method, n)
				}
			}
		}
	}
	return nil
}

// costlyExtension is the member of an operation of the document whose answer takes long to compute.
const costlyExtension = "x-costly"

// costly are the paths of Echo with such an operation.
func costly(doc *openapi3.T) []string {
	var paths []string
	for path, item := range doc.Paths.Map() {
		for _, op := range item.Operations() {
			if op.Extensions[costlyExtension] == true {
				paths = append(paths, routeOf(path))
			}
		}
	}
	return paths
}

// routeOf is the path of Echo, such as /v1/tasks/:id, that the document calls /v1/tasks/{id}.
func routeOf(path string) string { return strings.NewReplacer("{", ":", "}", "").Replace(path) }
