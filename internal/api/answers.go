package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/labstack/echo/v4"
	"golang.org/x/sync/semaphore"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/task"
)

const (
	// smallAnswer is the size in bytes up to which an answer is not counted: connections are bounded.
	smallAnswer = 64 << 10

	// writeStep is how much of a large answer a client must read within writeTimeout.
	writeStep = 256 << 10
)

// paged are the operations whose answers take several MB to make.
var paged = []string{"listTasks", "listSchedules", "listRevisions", "auditSchedule"}

// answers writes answers, into memory that they share until their clients have read them.
type answers struct {
	room  *semaphore.Weighted // bytes of large answers
	limit int64               // of them
}

func newAnswers(limit int64) *answers {
	return &answers{room: semaphore.NewWeighted(limit), limit: limit}
}

// pageKey is where what ends the turn of a page is kept.
const pageKey = "page"

// page has a request wait until it may read a page. Its turn ends when the page is text, however slowly the client
// reads that.
func (s *Server) page(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		end, err := s.options.Control.TakePage(c.Request().Context())
		if err != nil {
			return err
		}
		defer end()
		c.Set(pageKey, end)
		return next(c)
	}
}

func (a *answers) ok(c echo.Context, v any) error { return a.reply(c, http.StatusOK, jsonType, v) }

// reply answers with a JSON document. Error: CodeOverloaded, if the answer is large, changes nothing, and too many are
// under way.
func (a *answers) reply(c echo.Context, status int, contentType string, v any) error {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("writing the answer: %w", err)
	}
	if end, ok := c.Get(pageKey).(func()); ok {
		end()
	}
	out := http.ResponseWriter(c.Response())
	if n := int64(text.Len()); n > smallAnswer {
		if a.room.TryAcquire(n) {
			defer a.room.Release(n)
		} else if c.Request().Method == http.MethodGet {
			return task.Errorf(task.CodeOverloaded, "this node is at its limit of %s of answers that wait for their readers "+
				"(transfer-memory): ask for a smaller page, or try again, here or at another node", config.Size(a.limit))
		}
		out = paced{c.Response(), http.NewResponseController(c.Response())}
	}
	c.Response().Header().Set(echo.HeaderContentType, contentType)
	c.Response().WriteHeader(status)
	if c.Request().Method == http.MethodHead {
		return nil
	}
	if _, err := out.Write(text.Bytes()); err != nil {
		return fmt.Errorf("writing the answer: %w", err)
	}
	return nil
}

// paced ends an answer that its client does not read.
type paced struct {
	http.ResponseWriter
	ctrl *http.ResponseController
}

// Write gives the client writeTimeout for each writeStep bytes.
func (p paced) Write(b []byte) (written int, _ error) {
	for len(b) > 0 {
		step := b[:min(writeStep, len(b))]
		err := p.ctrl.SetWriteDeadline(clock.Now().Add(writeTimeout))
		if err != nil && !errors.Is(err, http.ErrNotSupported) {
			return written, err
		}
		n, err := p.ResponseWriter.Write(step)
		written += n
		if err != nil {
			return written, err
		}
		b = b[n:]
	}
	return written, nil
}

// Unwrap is for http.ResponseController.
func (p paced) Unwrap() http.ResponseWriter { return p.ResponseWriter }
