package edge

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"runtime/debug"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/task"
)

// methodLimit and pathLimit are how many bytes of a method and a path the access log shows.
const methodLimit, pathLimit = 20, 500

var saneRequestID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// requestID names the request: as its client did, if that is a name that can stand in a log, else anew.
func requestID(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		id := c.Request().Header.Get(echo.HeaderXRequestID)
		if !saneRequestID.MatchString(id) {
			id = rand.Text()
		}
		c.Response().Header().Set(echo.HeaderXRequestID, id)
		return next(c)
	}
}

func requestIDOf(c echo.Context) string { return c.Response().Header().Get(echo.HeaderXRequestID) }

// accessLog writes one line for each request, with what went wrong if something did. At the default level it shows
// requests that failed.
func (s *Server) accessLog(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		start := clock.Now()
		if err := next(c); err != nil {
			c.Error(err) // answers, so that the status below is the one that was sent
		}
		r := c.Request()
		if s.options.Answered != nil {
			s.options.Answered(routeOf(c), methodOf(r), c.Response().Status, clock.Since(start))
		}
		level, message, why := accessLevel(c, s.policyOf(c).Routine)
		s.options.Log.LogAttrs(r.Context(), level, message, append([]slog.Attr{
			slog.String("request_id", requestIDOf(c)), slog.String("method", task.Cut(r.Method, methodLimit)),
			slog.String("path", task.Cut(r.URL.Path, pathLimit)),
			slog.Int("status", c.Response().Status), slog.Int64("bytes", c.Response().Size),
			slog.Duration("took", clock.Since(start)), slog.String("client", c.RealIP()),
		}, why...)...)
		return nil
	}
}

// accessLevel says at which level a request is logged, with which message, and why it failed if it did. Failures of a
// routine request are not told as such: /readyz is there to say no.
func accessLevel(c echo.Context, routine bool) (slog.Level, string, []slog.Attr) {
	f, failed := c.Get(failureKey).(failure)
	if !failed || c.Response().Status == statusClientGone {
		return slog.LevelDebug, "request", nil
	}
	why := []slog.Attr{slog.String("code", string(f.Code))}
	if f.Field != "" {
		why = append(why, slog.String("field", f.Field))
	}
	if f.Status >= http.StatusInternalServerError { // else its text quotes what the client sent
		why = append(why, slog.String("error", f.logged(c.Request())))
	}
	switch status := f.Status; {
	case routine:
		return slog.LevelDebug, "request failed", why
	case status < http.StatusInternalServerError:
		return slog.LevelInfo, "request refused", why
	case status == http.StatusServiceUnavailable:
		return slog.LevelWarn, "request failed", why
	}
	return slog.LevelError, "request failed", why
}

// recover makes an error of a panic, and logs where it came from.
func (s *Server) recover(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) (err error) {
		defer func() {
			switch p := recover(); p {
			case nil:
			case http.ErrAbortHandler: // how a handler asks net/http to drop the connection
				panic(p)
			default:
				err = fmt.Errorf("panic: %v", p)
				s.options.Log.Error("panic", "request_id", requestIDOf(c), "panic", p, "stack", string(debug.Stack()))
			}
		}()
		return next(c)
	}
}

// ErrNoAPI is the Refusal of a node without the role api.
var ErrNoAPI error = &task.Error{Code: CodeNotFound, Message: "this node does not have the role api: ask another one"}

// guardRefusal refuses what a Refusal is for.
func (s *Server) guardRefusal(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if s.options.Refusal != nil && !s.policyOf(c).Always {
			return s.options.Refusal
		}
		return next(c)
	}
}

// limitHead refuses a request whose head is larger than a client may send. Error: CodeHeadTooLarge.
func limitHead(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		size := len(r.RequestURI) + len(r.Host)
		for name, values := range r.Header {
			for _, value := range values {
				size += len(name) + len(": ") + len(value) + len("\r\n")
			}
		}
		if size > headLimit {
			return task.Errorf(CodeHeadTooLarge,
				"the address and the headers of the request have more than %d bytes", headLimit)
		}
		return next(c)
	}
}

// limitBody makes reading more of a body than is allowed an error.
func (s *Server) limitBody(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		r.Body = http.MaxBytesReader(c.Response().Writer, r.Body, s.bodyLimit(c))
		return next(c)
	}
}

func (s *Server) bodyLimit(c echo.Context) int64 {
	return cmp.Or(s.policyOf(c).BodyLimit, s.options.BodyLimit)
}

// LimitTime gives a deadline to the context of a request, and so to what its handler waits for. Streams need none.
func LimitTime(limit time.Duration) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			r := c.Request()
			ctx, cancel := context.WithTimeout(r.Context(), limit)
			defer cancel()
			c.SetRequest(r.WithContext(ctx))
			defer c.SetRequest(r)
			return next(c)
		}
	}
}
