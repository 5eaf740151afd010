package edge

import (
	"bytes"
	"net/http"

	"github.com/labstack/echo/v4"
)

// Mount serves a handler of net/http at a path and below it; nil is not served. What it answers is made in memory and
// counts as other answers do, so that clients which do not read it take no more than their share.
func (s *Server) Mount(path string, h http.Handler, before ...echo.MiddlewareFunc) {
	if h == nil {
		return
	}
	serve := func(c echo.Context) error {
		m := made{header: make(http.Header), status: http.StatusOK}
		h.ServeHTTP(&m, c.Request())
		return s.Send(c, m.status, m.header, m.text.Bytes())
	}
	s.echo.Any(path, serve, before...)
	s.echo.Any(path+"/*", serve, before...)
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
