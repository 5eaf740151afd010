package api

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/task"
)

// monitorPath is where the monitor is; its pages ask for the path and "/api/".
const monitorPath = "/monitor"

// monitorSize is how many tasks a request of the monitor lists at most: its pages ask for no more.
const monitorSize = 100

// mount serves a handler that is none of the document. What it answers is made in memory and counts as the answers of
// the document do, so that clients which do not read it take no more than their share.
func (s *Server) mount(path string, h http.Handler, before ...echo.MiddlewareFunc) {
	if h == nil {
		return
	}
	serve := func(c echo.Context) error {
		m := made{header: make(http.Header), status: http.StatusOK}
		h.ServeHTTP(&m, c.Request())
		return s.answers.send(c, m.status, m.header, m.text.Bytes())
	}
	s.echo.Any(path, serve, before...)
	s.echo.Any(path+"/*", serve, before...)
}

// monitorTurn lets a request of the monitor's pages read Redis when its turn comes, as those for pages of lists, and
// refuses one for too many tasks.
func (s *Server) monitorTurn(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if err := s.options.Control.Monitor(c.Request().Context(), callerOf(c)); err != nil {
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
		end, err := takeTurn(c.Request().Context(), c, s.options.Control)
		if err != nil {
			return err
		}
		defer end()
		return next(c)
	}
}

// made is an answer that a handler makes in memory.
type made struct {
	header http.Header
	status int
	begun  bool
	text   bytes.Buffer
}

func (m *made) Header() http.Header { return m.header }

func (m *made) WriteHeader(status int) {
	if !m.begun {
		m.begun, m.status = true, status
	}
}

func (m *made) Write(b []byte) (int, error) {
	m.begun = true
	return m.text.Write(b)
}
