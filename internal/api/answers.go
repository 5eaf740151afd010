package api

import (
	"context"
	"net/http"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/edge"
	"github.com/dts-sched/dts/internal/redisx"
)

// answerExtension is the member of an operation of the document that says what its answer takes. Without it, a change
// has an answer as large as a task or a schedule, and a reading one that is made at once.
const answerExtension = "x-answer"

const (
	// answerPage takes several MB to make, so few requests read one at a time. readLogs takes its turn itself, as it may
	// be a stream.
	answerPage = "page"

	// answerSmall is smaller than edge.SmallAnswer. So the change goes on while an address exceeds its share: running
	// attempts, held locks and the queues depend on it. The answer of extendAttempts repeats its body, which counts
	// until then.
	answerSmall = "small"

	// answerGuarded may be large, and the handler looks at the share itself, when it knows.
	answerGuarded = "guarded"
)

// answerOf is what the document says of the answer of an operation; "" if nothing.
func answerOf(op *openapi3.Operation) string {
	kind, _ := op.Extensions[answerExtension].(string)
	return kind
}

// page has a request wait until it may read a page.
func (e *endpoints) page(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		end, err := edge.TakeTurn(c.Request().Context(), c, e.Control)
		if err != nil {
			return err
		}
		defer end()
		return next(c)
	}
}

// leavingOut has the request leave out what cannot be read in Redis, and returns what collects that for the answer.
func leavingOut(c echo.Context) (context.Context, *redisx.LeftOut) {
	return redisx.LeavingOut(c.Request().Context())
}

func (e *endpoints) ok(c echo.Context, v any) error { return e.server.JSON(c, http.StatusOK, v) }

// hasLargeAnswer reports whether guardShare guards an operation.
func hasLargeAnswer(method string, op *openapi3.Operation) bool {
	return method != http.MethodGet && answerOf(op) == ""
}

// guardShare is CheckShare of the server.
func (e *endpoints) guardShare(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if err := e.server.CheckShare(c); err != nil {
			return err
		}
		return next(c)
	}
}
