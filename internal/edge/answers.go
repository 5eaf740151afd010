package edge

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/control"
)

const (
	// SmallAnswer is the size in bytes up to which an answer is not counted: connections are bounded.
	SmallAnswer = 64 << 10

	// writeStep is how much of a large answer a client must read within writeTimeout.
	writeStep = 256 << 10
)

// pageKey is where what ends the turn of a page is kept.
const pageKey = "page"

// TakeTurn waits until a request may read a page. Its turn ends when the page is text, however slowly the client reads
// that, or with end. Errors: those of control.TakePage.
func TakeTurn(ctx context.Context, c echo.Context, pages *control.Control) (end func(), _ error) {
	end, err := pages.TakePage(ctx)
	if err == nil {
		c.Set(pageKey, end)
	}
	return end, err
}

// JSON answers with a JSON document. Error: CodeOverloaded, if the answer is large, changes nothing, and too many are
// under way.
func (s *Server) JSON(c echo.Context, status int, v any) error {
	return s.reply(c, status, jsonType, v)
}

// reply is JSON with a media type of its own.
func (s *Server) reply(c echo.Context, status int, contentType string, v any) error {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("writing the answer: %w", err)
	}
	return s.Send(c, status, http.Header{echo.HeaderContentType: {contentType}}, text.Bytes())
}

// Send answers with a text. Error: CodeOverloaded, as JSON has it.
func (s *Server) Send(c echo.Context, status int, header http.Header, text []byte) error {
	for _, key := range []string{pageKey, reservedKey} {
		if end, ok := c.Get(key).(func()); ok {
			end()
		}
	}
	out := http.ResponseWriter(c.Response())
	if n := int64(len(text)); n > SmallAnswer && c.Request().Method != http.MethodHead {
		from := clientOf(c.Request())
		if err := s.count(from, n, c.Request().Method == http.MethodGet); err != nil {
			return err
		}
		defer s.answers.give(from, n)
		out = newPaced(c, s.options.TransferTimeout)
	}
	maps.Copy(c.Response().Header(), header)
	// A client notices by the length if an answer is cut.
	c.Response().Header().Set(echo.HeaderContentLength, strconv.Itoa(len(text)))
	c.Response().WriteHeader(status)
	if c.Request().Method == http.MethodHead {
		return nil
	}
	if _, err := out.Write(text); err != nil {
		return fmt.Errorf("writing the answer: %w", err)
	}
	return nil
}

// count counts an answer of n bytes. Error: CodeOverloaded, if nothing was changed and so the answer may fail.
func (s *Server) count(from netip.Prefix, n int64, mayFail bool) error {
	switch {
	case s.answers.take(from, n):
		return nil
	case mayFail:
		return s.full("ask for a smaller page, or try again")
	}
	s.answers.takeAnyway(from, n)
	return nil
}

func (s *Server) full(helps string) error {
	return s.answers.refusal("answers that wait for their readers", helps)
}

// CheckShare refuses changes with large answers to an address that has not read the answers to earlier changes: these
// are written, however much of the memory that needs. Error: CodeOverloaded.
func (s *Server) CheckShare(c echo.Context) error {
	if !s.answers.exceedsShare(clientOf(c.Request())) {
		return nil
	}
	return s.full("nothing was done, so read the answers to earlier requests, or try again")
}

// Reserve counts n bytes before what they will answer is done, and returns what gives them back. The answer to a
// request that waits is then counted with it. Error: CodeOverloaded.
func (s *Server) Reserve(c echo.Context, n int64) (release func(), _ error) {
	from := clientOf(c.Request())
	if n <= SmallAnswer {
		return func() {}, nil
	}
	if !s.answers.take(from, n) {
		return nil, s.full("nothing was done, so send smaller batches, or try again")
	}
	release = sync.OnceFunc(func() { s.answers.give(from, n) })
	c.Set(reservedKey, release)
	return release, nil
}

// reservedKey is where what releases a reservation is kept.
const reservedKey = "reserved"

// paced ends an answer that its client does not read.
type paced struct {
	http.ResponseWriter
	ctrl *http.ResponseController
	end  time.Time // of the whole answer
}

func newPaced(c echo.Context, whole time.Duration) paced {
	return paced{c.Response(), http.NewResponseController(c.Response()), clock.Now().Add(whole)}
}

// Write gives the client writeTimeout for each writeStep bytes, until end.
func (p paced) Write(b []byte) (written int, _ error) {
	for len(b) > 0 {
		step := b[:min(writeStep, len(b))]
		err := supported(p.ctrl.SetWriteDeadline(earlier(clock.Now().Add(writeTimeout), p.end)))
		if err != nil {
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
