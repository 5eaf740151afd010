package api

import (
	"cmp"
	"strings"
	"unicode"

	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/task"
)

// callerHeader is how a client says who it is. Nobody checks it.
const callerHeader = "Dts-Caller"

// arrivedKey is where the Caller of a request is kept that was let in before it was read.
const arrivedKey = "arrived"

// identify refuses a request whose client says in a wrong way who it is. Error: CodeInvalid.
func identify(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if name := c.Request().Header.Get(callerHeader); name != "" {
			if err := task.ValidateText(callerHeader, name, control.CallerLimit); err != nil {
				return err
			}
			if strings.ContainsFunc(name, unicode.IsControl) {
				return task.Invalid(callerHeader, "has a control character: give a name, as in ann@vm-a")
			}
		}
		return next(c)
	}
}

// callerOf resolves who sent a request and in which namespace: the one of the query, or the default one.
func callerOf(c echo.Context) control.Caller {
	who, _ := c.Get(arrivedKey).(control.Caller)
	who.Namespace = cmp.Or(c.QueryParam("namespace"), task.DefaultNamespace)
	who.Name, who.Address = c.Request().Header.Get(callerHeader), addressOf(c.Request())
	who.Request = requestIDOf(c)
	return who
}

// callerIn resolves who sent a request whose body can name a namespace, too; "" is none. Error: CodeInvalid if body and
// query name different ones.
func callerIn(c echo.Context, body string) (control.Caller, error) {
	query := c.QueryParam("namespace")
	if body != "" && query != "" && body != query {
		return control.Caller{}, task.Invalid("namespace", "is %q in the body and %q in the query: name one", body, query)
	}
	who := callerOf(c)
	who.Namespace = cmp.Or(body, who.Namespace)
	return who, nil
}
