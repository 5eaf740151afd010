package edge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/events"
	"github.com/dts-sched/dts/internal/task"
)

const (
	// StreamType is the media type of server-sent events.
	StreamType = "text/event-stream"

	// sendBuffer is how many bytes of a stream the kernel keeps for a client, twice at most. By itself it keeps several
	// MB, and a client that does not read goes unnoticed for as long.
	sendBuffer = 64 << 10

	// subscribeTimeout is how long a stream that begins waits for Redis.
	subscribeTimeout = 5 * time.Second

	// writeTimeout ends the stream of a client that does not read at all.
	writeTimeout = 10 * time.Second
)

// Follow answers with a stream that is fed by a subscription, and lets serve write it. What happens after serve was
// called is in the feed, so what happened before can be read from the store then. The context of serve ends with
// the client, and when the server stops. Errors: CodeTooManyStreams, CodeUnavailable.
func (s *Server) Follow(
	c echo.Context, subscribe func(context.Context) (*events.Subscription, error),
	serve func(context.Context, *events.Subscription, *Stream) error,
) error {
	var feed *events.Subscription
	prepare := func(ctx context.Context) (err error) {
		if feed, err = subscribe(ctx); err != nil {
			return err
		}
		return s.awaitReady(ctx, feed)
	}
	defer func() {
		if feed != nil {
			feed.Close()
		}
	}()
	return s.stream(c, prepare, func(ctx context.Context, out *Stream) error { return serve(ctx, feed, out) })
}

// Stream answers with a stream that serve writes. The context of serve ends with the client, and when the server stops.
// Error: CodeTooManyStreams.
func (s *Server) Stream(c echo.Context, serve func(context.Context, *Stream) error) error {
	return s.stream(c, func(context.Context) error { return nil }, serve)
}

func (s *Server) stream(
	c echo.Context, prepare func(context.Context) error, serve func(context.Context, *Stream) error,
) error {
	leave, err := s.enterStream(c)
	if err != nil {
		return err
	}
	defer leave()
	if c.Request().Method == http.MethodHead {
		c.Response().Header().Set(echo.HeaderContentType, StreamType)
		return c.NoContent(http.StatusOK)
	}
	ctx, cancel := context.WithCancel(c.Request().Context())
	defer cancel()
	defer context.AfterFunc(s.stopping, cancel)()
	if err := prepare(ctx); err != nil {
		return err
	}
	out, err := openStream(c)
	if err != nil {
		return err
	}
	beat := time.NewTicker(s.options.Heartbeat)
	defer beat.Stop()
	out.beat, out.all = beat.C, s.streams
	return serve(ctx, out)
}

// awaitReady waits until the feed is complete: CodeUnavailable.
func (s *Server) awaitReady(ctx context.Context, feed *events.Subscription) error {
	limit := min(subscribeTimeout, s.options.RequestTimeout)
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-feed.Ready():
		if feed.Err() != nil {
			return errStopping()
		}
		return nil
	case <-timer.C:
		return task.Errorf(task.CodeUnavailable, "cannot subscribe to events: Redis did not answer within %s", limit)
	case <-ctx.Done():
		if s.stopping.Err() != nil {
			return errStopping()
		}
		return ctx.Err()
	}
}

func errStopping() error { return task.Errorf(task.CodeUnavailable, "the server is shutting down") }

// Stream writes server-sent events. One goroutine uses it. Errors of its methods say that the client cannot be reached:
// the stream has ended.
type Stream struct {
	out  http.ResponseWriter
	ctrl *http.ResponseController
	beat <-chan time.Time
	all  *Places
}

// Beat tells when to call Alive.
func (s *Stream) Beat() <-chan time.Time { return s.beat }

// Alive keeps the connection from looking dead to whoever is between the server and the client.
func (s *Stream) Alive() error { return s.comment("alive") }

// Count is how many streams the server writes, with this one.
func (s *Stream) Count() int { return s.all.count() }

// openStream begins the answer. From then on an error ends the stream with the event "problem".
func openStream(c echo.Context) (*Stream, error) {
	if conn, ok := c.Request().Context().Value(connKey{}).(interface{ SetWriteBuffer(n int) error }); ok {
		if err := conn.SetWriteBuffer(sendBuffer); err != nil {
			return nil, fmt.Errorf("opening a stream: %w", err)
		}
	}
	s := &Stream{out: c.Response(), ctrl: http.NewResponseController(c.Response())}
	h := c.Response().Header()
	h.Set(echo.HeaderContentType, StreamType)
	h.Set(echo.HeaderCacheControl, "no-store")
	h.Set("X-Accel-Buffering", "no") // tells nginx not to buffer the stream
	c.Response().WriteHeader(http.StatusOK)
	return s, s.comment("open")
}

// problemEvent is the last event of a stream that ends because something went wrong; its data is the problem.
const problemEvent = "problem"

// endStream tells the reader of a stream that has begun why it ends. Other answers are whole when they begin.
func endStream(c echo.Context, p Problem) {
	if c.Response().Header().Get(echo.HeaderContentType) != StreamType {
		return
	}
	s := &Stream{out: c.Response(), ctrl: http.NewResponseController(c.Response())}
	if s.Send(problemEvent, "", p) == nil {
		_ = s.Flush() // whoever cannot be told has gone
	}
}

// Send writes one event, whose data is JSON. It goes out with the next Flush. The id may be empty.
func (s *Stream) Send(name, id string, data any) error {
	text, err := Frame(name, id, data)
	if err != nil {
		return err
	}
	return s.Write(text)
}

// Frame is the text of an event, whose data is JSON. The id may be empty.
func Frame(name, id string, data any) ([]byte, error) {
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(data); err != nil { // it ends with a line break
		return nil, fmt.Errorf("writing a %s event: %w", name, err)
	}
	if id != "" {
		id = "id: " + id + "\n"
	}
	return fmt.Appendf(nil, "event: %s\n%sdata: %s\n", name, id, body.Bytes()), nil
}

// comment writes a line that clients ignore, and flushes.
func (s *Stream) comment(text string) error {
	if err := s.Write([]byte(": " + text + "\n\n")); err != nil {
		return err
	}
	return s.Flush()
}

// Write writes the text of whole events, which goes out with the next Flush, or before.
func (s *Stream) Write(text []byte) error {
	deadline := clock.Now().Add(writeTimeout)
	if err := s.ctrl.SetWriteDeadline(deadline); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("writing to a stream: %w", err)
	}
	if _, err := s.out.Write(text); err != nil {
		return fmt.Errorf("writing to a stream: %w", err)
	}
	return nil
}

// Flush sends what was written.
func (s *Stream) Flush() error {
	if err := s.ctrl.Flush(); err != nil {
		return fmt.Errorf("writing to a stream: %w", err)
	}
	return nil
}
