package api

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
	streamType = "text/event-stream"

	// streamBuffer is how many events may wait for a client. One more, and its stream ends.
	streamBuffer = 1024

	// sendBuffer is how many bytes of a stream the kernel keeps for a client, twice at most. By itself it keeps several
	// MB, and a client that does not read goes unnoticed for as long.
	sendBuffer = 64 << 10

	// frameStep is how many bytes of events are written together at most.
	frameStep = 32 << 10

	// A stream pauses after each write for writeShare for each stream of the node, and writePause at most. So all streams
	// together write about as often as one alone, and events that come meanwhile go out with one write. At 20,000 events
	// a second, half of streamBuffer comes during the longest pause.
	writeShare = 50 * time.Microsecond
	writePause = 25 * time.Millisecond

	// subscribeTimeout is how long a stream that begins waits for Redis.
	subscribeTimeout = 5 * time.Second

	// writeTimeout ends the stream of a client that does not read at all.
	writeTimeout = 10 * time.Second
)

// follow answers with a stream that is fed by a subscription, and lets serve write it. What happens after serve was
// called is in the feed, so what happened before can be read from the store then. The context of serve ends with
// the client, and when the server stops. Errors: codeTooManyStreams, CodeUnavailable.
func (e *endpoints) follow(
	c echo.Context, subscribe func(context.Context) (*events.Subscription, error), serve func(context.Context, *events.Subscription, *stream) error,
) error {
	leave, err := e.enterStream(c)
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := context.WithCancel(c.Request().Context())
	defer cancel()
	defer context.AfterFunc(e.stopping, cancel)()
	feed, err := subscribe(ctx)
	if err != nil {
		return err
	}
	defer feed.Close()
	if err := e.awaitReady(ctx, feed); err != nil {
		return err
	}
	out, err := openStream(c)
	if err != nil {
		return err
	}
	return serve(ctx, feed, out)
}

// awaitReady waits until the feed is complete: CodeUnavailable.
func (e *endpoints) awaitReady(ctx context.Context, feed *events.Subscription) error {
	limit := min(subscribeTimeout, e.RequestTimeout)
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
		if e.stopping.Err() != nil {
			return errStopping()
		}
		return ctx.Err()
	}
}

func errStopping() error { return task.Errorf(task.CodeUnavailable, "the server is shutting down") }

// stream writes server-sent events.
type stream struct {
	out  http.ResponseWriter
	ctrl *http.ResponseController
}

// openStream begins the answer. From then on an error ends the stream with the event "problem".
func openStream(c echo.Context) (*stream, error) {
	if conn, ok := c.Request().Context().Value(connKey{}).(interface{ SetWriteBuffer(n int) error }); ok {
		if err := conn.SetWriteBuffer(sendBuffer); err != nil {
			return nil, fmt.Errorf("opening a stream: %w", err)
		}
	}
	s := &stream{out: c.Response(), ctrl: http.NewResponseController(c.Response())}
	h := c.Response().Header()
	h.Set(echo.HeaderContentType, streamType)
	h.Set(echo.HeaderCacheControl, "no-store")
	h.Set("X-Accel-Buffering", "no") // tells nginx not to buffer the stream
	c.Response().WriteHeader(http.StatusOK)
	return s, s.comment("open")
}

// problemEvent is the last event of a stream that ends because something went wrong; its data is the problem.
const problemEvent = "problem"

// endStream tells the reader of a stream that has begun why it ends. Other answers are whole when they begin.
func endStream(c echo.Context, p Problem) {
	if c.Response().Header().Get(echo.HeaderContentType) != streamType {
		return
	}
	s := &stream{out: c.Response(), ctrl: http.NewResponseController(c.Response())}
	if s.send(problemEvent, "", p) == nil {
		_ = s.flush() // whoever cannot be told has gone
	}
}

// send writes one event; it goes out with the next flush.
func (s *stream) send(name, id string, data any) error {
	text, err := frame(name, id, data)
	if err != nil {
		return err
	}
	return s.write(text)
}

// frame is the text of an event.
func frame(name, id string, data any) ([]byte, error) {
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
func (s *stream) comment(text string) error {
	if err := s.write([]byte(": " + text + "\n\n")); err != nil {
		return err
	}
	return s.flush()
}

func (s *stream) write(text []byte) error {
	deadline := clock.Now().Add(writeTimeout)
	if err := s.ctrl.SetWriteDeadline(deadline); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("writing to a stream: %w", err)
	}
	if _, err := s.out.Write(text); err != nil {
		return fmt.Errorf("writing to a stream: %w", err)
	}
	return nil
}

func (s *stream) flush() error {
	if err := s.ctrl.Flush(); err != nil {
		return fmt.Errorf("writing to a stream: %w", err)
	}
	return nil
}
