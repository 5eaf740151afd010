package api

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/edge"
)

// preferredWait returns how long a client prefers to wait for the answer, by its header Prefer (RFC 7240), and at most
// control.AwaitLimit. ok is false if it says nothing of that. What the RFC does not know is ignored, as it asks for.
func preferredWait(h http.Header) (_ time.Duration, ok bool) {
	for preference := range strings.SplitSeq(h.Get("Prefer"), ",") {
		token, _, _ := strings.Cut(preference, ";") // parameters follow
		name, value, _ := strings.Cut(token, "=")
		if !strings.EqualFold(strings.TrimSpace(name), "wait") {
			continue
		}
		seconds, err := strconv.ParseUint(strings.Trim(strings.TrimSpace(value), `"`), 10, 31)
		if err != nil {
			return 0, false // the first one counts
		}
		return min(time.Duration(seconds)*time.Second, control.AwaitLimit), true
	}
	return 0, false
}

// awaitOperation is the operation that may wait for the end of a task.
const awaitOperation = "getTask"

// limitAwaited bounds the time of a request by limit, and by more if the client prefers to wait. It joins several
// headers Prefer, as the generated code takes only one.
func limitAwaited(limit time.Duration) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		atOnce, later := edge.LimitTime(limit)(next), edge.LimitTime(limit+control.AwaitLimit)(next)
		return func(c echo.Context) error {
			h := c.Request().Header
			if all := h.Values("Prefer"); len(all) > 1 {
				h.Set("Prefer", strings.Join(all, ","))
			}
			if _, ok := preferredWait(h); ok {
				return later(c)
			}
			return atOnce(c)
		}
	}
}

// awaitEnd waits for the end of a task as long as the client prefers, and notes that in the answer. It does not wait
// while too many do, and no longer when the server stops. Errors: those of control.AwaitTask.
func (e *endpoints) awaitEnd(ctx context.Context, c echo.Context, id string) error {
	wait, ok := preferredWait(c.Request().Header)
	if !ok {
		return nil
	}
	leave, err := e.results.Enter(c)
	if err != nil {
		return nil // it is a preference
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	defer context.AfterFunc(e.server.Stopping(), cancel)()
	if err := e.Control.AwaitTask(ctx, callerOf(c), id); err != nil {
		return err
	}
	c.Response().Header().Set("Preference-Applied", fmt.Sprintf("wait=%d", int(wait.Seconds())))
	return nil
}
