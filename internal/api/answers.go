package api

import (
	"context"
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/edge"
	"github.com/dts-sched/dts/internal/redisx"
)

// paged are the operations whose answers take several MB to make. readLogs takes its turn itself, as it may be a
// stream.
var paged = []string{"listTasks", "listSchedules", "listRevisions", "auditSchedule", "listQueues", "listLocks"}

// cancelOperation has an answer as large as its task, and guards it itself.
const cancelOperation = "cancelTask"

// smallAnswers are the changes that go on while an address exceeds its share: running attempts, held locks and the
// queues depend on them. Their answers are smaller than edge.SmallAnswer. That of extendAttempts repeats its body,
// which counts until it is answered.
var smallAnswers = []string{
	"reportProgress", "reportAttempt", "finishAttempt", "extendAttempts", "leaveWorker",
	"acquireLock", "renewLock", "releaseLock", "pauseQueue", "resumeQueue", "limitQueue",
	"deleteSchedule", "triggerSchedule",
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
func hasLargeAnswer(method, operation string) bool {
	return method != http.MethodGet && operation != cancelOperation && !slices.Contains(smallAnswers, operation)
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
