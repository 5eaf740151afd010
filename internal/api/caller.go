package api

import (
	"cmp"

	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/edge"
	"github.com/dts-sched/dts/internal/task"
)

// callerOf resolves who sent a request and in which namespace: the one of the query, or the default one.
func callerOf(c echo.Context) control.Caller {
	return edge.CallerOf(c, cmp.Or(c.QueryParam("namespace"), task.DefaultNamespace))
}

// callerWith is callerOf of a request that may have a key.
func callerWith(c echo.Context, key string) control.Caller {
	who := callerOf(c)
	who.Key = unquoted(key)
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
