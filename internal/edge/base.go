package edge

import (
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/task"
)

// outsideKey is set for a request whose path is not below Options.BasePath.
const outsideKey = "outside-base"

// takeBase takes Options.BasePath from the paths of requests, before they are routed: who registers routes and answers
// them knows nothing of it. Redirects get it back. Pages put it in front of their links, and cookies are for it.
func (s *Server) takeBase(next echo.HandlerFunc) echo.HandlerFunc {
	base := s.options.BasePath
	return func(c echo.Context) error {
		if !leaveBase(c.Request(), base) {
			c.Set(outsideKey, true)
		}
		c.Response().Before(func() {
			h := c.Response().Header()
			if to := h.Get(echo.HeaderLocation); strings.HasPrefix(to, "/") && !strings.HasPrefix(to, "//") {
				h.Set(echo.HeaderLocation, base+to)
			}
		})
		return next(c)
	}
}

// leaveBase takes the base path from a request, and reports whether its path is below that. Echo routes the request
// that it was given, so that one changes.
func leaveBase(r *http.Request, base string) (below bool) {
	rest, below := strings.CutPrefix(r.URL.Path, base)
	if !below || rest != "" && rest[0] != '/' {
		return false
	}
	r.URL.Path, r.URL.RawPath = "/"+strings.TrimPrefix(rest, "/"), strings.TrimPrefix(r.URL.RawPath, base)
	return true
}

// Below gives a handler the base path back that requests had: it makes its own links. Redirects lose it again, as they
// get it from the server. It is for Mount, which sends nothing before the handler has ended.
func Below(base string, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		to, copied := *r.URL, *r
		to.Path, to.RawPath = base+r.URL.Path, ""
		copied.URL = &to
		h.ServeHTTP(w, &copied)
		moved := w.Header().Get(echo.HeaderLocation)
		if rest, below := strings.CutPrefix(moved, base); moved != "" && below && (rest == "" || rest[0] == '/') {
			w.Header().Set(echo.HeaderLocation, "/"+strings.TrimPrefix(rest, "/"))
		}
	})
}

// guardBase refuses what is not below the base path, but for paths whose Policy says Always. The root leads to the
// base.
func (s *Server) guardBase(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		switch {
		case c.Get(outsideKey) == nil || s.policyOf(c).Always:
			return next(c)
		case c.Request().URL.Path == "/" && onlyReads(c.Request()):
			return c.Redirect(http.StatusFound, "/")
		}
		return task.Errorf(CodeNotFound, "everything is served below %s", s.options.BasePath)
	}
}
