package edge

import (
	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/tracing"
)

// callerHeader is how a client says who it is. Nobody checks it.
const callerHeader = "Dts-Caller"

// arrivedKey is where the Caller of a request is kept that was let in before it was read.
const arrivedKey = "arrived"

// identify refuses a request whose client says in a wrong way who it is. Paths whose Policy says Always take any
// header: that of a probe, or of a proxy before it, must not make a node look dead. Error: CodeInvalid.
func (s *Server) identify(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if name := c.Request().Header.Get(callerHeader); name != "" && !s.policyOf(c).Always {
			err := task.ValidateLine(callerHeader, name, control.CallerLimit, "give a name, as in ann@vm-a")
			if err != nil {
				return err
			}
		}
		return next(c)
	}
}

// CallerOf resolves who sent a request, which is about a namespace.
func CallerOf(c echo.Context, namespace string) control.Caller {
	who, _ := c.Get(arrivedKey).(control.Caller)
	who.Namespace = namespace
	who.Name, who.Address = c.Request().Header.Get(callerHeader), addressOf(c.Request())
	who.Request, who.Traceparent = requestIDOf(c), c.Request().Header.Get(tracing.Header)
	return who
}

// Arrive lets in a request for an operation that makes work, before anything of it is looked at (control.Arrive), and
// has CallerOf say so. The caller calls leave when the request has been answered. Error: CodeOverloaded.
func Arrive(c echo.Context, gate *control.Control, operation string) (leave func(), _ error) {
	who, leave, err := gate.Arrive(control.Caller{}, operation)
	if err == nil {
		c.Set(arrivedKey, who)
	}
	return leave, err
}
