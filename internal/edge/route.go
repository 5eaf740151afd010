package edge

import (
	"net/http"
	"regexp"
	"slices"

	"github.com/labstack/echo/v4"
)

// UnknownRoute is the route of all requests to paths that nobody has registered.
const UnknownRoute = "unknown"

// methods are those that requests are counted by. The others are "other", as a client can make up any.
var methods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
	http.MethodConnect, http.MethodOptions, http.MethodTrace,
}

// parameter is that of a path of Echo, such as :id.
var parameter = regexp.MustCompile(`:([A-Za-z0-9_]+)`)

// addHead has the server answer HEAD wherever it answers GET: with the same headers and no body, which net/http and
// Send leave out.
func (s *Server) addHead(_ string, r echo.Route, handler echo.HandlerFunc, before []echo.MiddlewareFunc) {
	if r.Method == http.MethodGet {
		s.echo.HEAD(r.Path, handler, before...)
	}
}

// routeOf is the path that a request was routed to, as the document writes it.
func routeOf(c echo.Context) string {
	if c.Path() == "" {
		return UnknownRoute
	}
	return parameter.ReplaceAllString(c.Path(), "{$1}")
}

// methodOf is the method that a request is counted by.
func methodOf(r *http.Request) string {
	if slices.Contains(methods, r.Method) {
		return r.Method
	}
	return "other"
}
