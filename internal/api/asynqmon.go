package api

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/edge"
	"github.com/dts-sched/dts/internal/task"
)

// metricsPath is where Prometheus reads metrics.
const metricsPath = "/metrics"

// monitorPath is where the monitor is; its pages ask for the path and "/api/".
const monitorPath = "/monitor"

// monitorSize is how many tasks a request of the monitor lists at most: its pages ask for no more.
const monitorSize = 100

// monitorSwitch is the path below which the monitor's pages pause and resume a queue: "<queue>:pause" and
// "<queue>:resume".
const monitorSwitch = monitorPath + "/api/queues/"

// switchQueue answers a request of the monitor's pages that pauses or resumes a queue of DTS, as the API does: so it is
// known who did it, workers are woken, and those who follow events hear of it. done is false for any other request.
func (e *endpoints) switchQueue(c echo.Context) (done bool, err error) {
	name, isSwitch := strings.CutPrefix(c.Request().URL.Path, monitorSwitch)
	name, word, _ := strings.Cut(name, ":")
	isSwitch = isSwitch && c.Request().Method == http.MethodPost && (word == "pause" || word == "resume")
	if !isSwitch || !e.MonitorWritable {
		return false, nil
	}
	known, err := e.Control.SwitchQueue(c.Request().Context(), callerOf(c), name, word == "pause")
	if err != nil || !known {
		return err != nil, err
	}
	return true, c.NoContent(http.StatusNoContent)
}

// monitorTurn lets a request of the monitor's pages read Redis when its turn comes, as those for pages of lists, and
// refuses one for too many tasks.
func (e *endpoints) monitorTurn(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if done, err := e.switchQueue(c); done {
			return err
		}
		if err := e.Control.Monitor(c.Request().Context(), callerOf(c)); err != nil {
			return err
		}
		if !strings.HasPrefix(c.Request().URL.Path, monitorPath+"/api/") {
			return next(c)
		}
		if size := c.QueryParam("size"); size != "" {
			if n, err := strconv.Atoi(size); err != nil || n < 1 || n > monitorSize {
				return task.Invalid("size", "is %q, must be 1 to %d", task.Cut(size, 20), monitorSize)
			}
		}
		end, err := edge.TakeTurn(c.Request().Context(), c, e.Control)
		if err != nil {
			return err
		}
		defer end()
		return next(c)
	}
}
