package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/redisx"
)

const (
	// smallAnswer is the size in bytes up to which an answer is not counted: connections are bounded.
	smallAnswer = 64 << 10

	// writeStep is how much of a large answer a client must read within writeTimeout.
	writeStep = 256 << 10
)

// paged are the operations whose answers take several MB to make. readLogs takes its turn itself, as it may be a
// stream.
var paged = []string{"listTasks", "listSchedules", "listRevisions", "auditSchedule", "listQueues", "listLocks"}

// cancelOperation has an answer as large as its task, and guards it itself.
const cancelOperation = "cancelTask"

// smallAnswers are the changes that go on while an address exceeds its share: running attempts, held locks and the
// queues depend on them. Their answers are smaller than smallAnswer. That of extendAttempts repeats its body, which
// counts until it is answered.
var smallAnswers = []string{
	"reportProgress", "reportAttempt", "finishAttempt", "extendAttempts", "leaveWorker",
	"acquireLock", "renewLock", "releaseLock", "pauseQueue", "resumeQueue", "limitQueue",
	"deleteSchedule", "triggerSchedule",
}

// answers writes answers, into memory that they share until their clients have read them.
type answers struct {
	room  *budget       // bytes of large answers
	whole time.Duration // for a client to read one
}

// pageKey is where what ends the turn of a page is kept.
const pageKey = "page"

// page has a request wait until it may read a page.
func (s *Server) page(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		end, err := takeTurn(c.Request().Context(), c, s.options.Control)
		if err != nil {
			return err
		}
		defer end()
		return next(c)
	}
}

// takeTurn waits until a request may read a page. Its turn ends when the page is text, however slowly the client reads
// that, or with end.
func takeTurn(ctx context.Context, c echo.Context, pages *control.Control) (end func(), _ error) {
	end, err := pages.TakePage(ctx)
	if err == nil {
		c.Set(pageKey, end)
	}
	return end, err
}

// leavingOut has the request leave out what cannot be read in Redis, and returns what collects that for the answer.
func leavingOut(c echo.Context) (context.Context, *redisx.LeftOut) {
	return redisx.LeavingOut(c.Request().Context())
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
	return a.send(c, status, http.Header{echo.HeaderContentType: {contentType}}, text.Bytes())
}

// send answers with a text. Error: as that of reply.
func (a *answers) send(c echo.Context, status int, header http.Header, text []byte) error {
	for _, key := range []string{pageKey, reservedKey} {
		if end, ok := c.Get(key).(func()); ok {
			end()
		}
	}
	out := http.ResponseWriter(c.Response())
	if n := int64(len(text)); n > smallAnswer {
		from := clientOf(c.Request())
		if err := a.count(from, n, c.Request().Method == http.MethodGet); err != nil {
			return err
		}
		defer a.room.give(from, n)
		out = newPaced(c, a.whole)
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
func (a *answers) count(from netip.Prefix, n int64, mayFail bool) error {
	switch {
	case a.room.take(from, n):
		return nil
	case mayFail:
		return a.full("ask for a smaller page, or try again")
	}
	a.room.takeAnyway(from, n)
	return nil
}

func (a *answers) full(helps string) error {
	return a.room.refusal("answers that wait for their readers", helps)
}

// hasLargeAnswer reports whether guardShare guards an operation.
func hasLargeAnswer(method, operation string) bool {
	return method != http.MethodGet && operation != cancelOperation && !slices.Contains(smallAnswers, operation)
}

// guardShare refuses changes with large answers to an address that has not read the answers to earlier changes: these
// are written, however much of the memory that needs. Error: CodeOverloaded.
func (a *answers) guardShare(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if a.exceedsShare(c) {
			return a.refuseLarge()
		}
		return next(c)
	}
}

func (a *answers) exceedsShare(c echo.Context) bool {
	return a.room.exceedsShare(clientOf(c.Request()))
}

func (a *answers) refuseLarge() error {
	return a.full("nothing was done, so read the answers to earlier requests, or try again")
}

// reserve counts n bytes before what they will answer is done, and returns what gives them back. The answer to a
// request that waits is then counted with it. Error: CodeOverloaded.
func (a *answers) reserve(c echo.Context, n int64) (release func(), _ error) {
	from := clientOf(c.Request())
	if n <= smallAnswer {
		return func() {}, nil
	}
	if !a.room.take(from, n) {
		return nil, a.full("nothing was done, so send smaller batches, or try again")
	}
	release = sync.OnceFunc(func() { a.room.give(from, n) })
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
