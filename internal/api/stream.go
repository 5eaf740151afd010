package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/task"
)

const (
	streamType = "text/event-stream"

	// streamBuffer is how many events may wait for a client before any are thrown away.
	streamBuffer = 1024

	// writeTimeout ends the stream of a client that takes nothing any more.
	writeTimeout = 10 * time.Second
)

// subscribe opens the feed of a stream. The context ends with the client, and when the server stops.
// What happens after it returns is in the feed, so read what has happened before after it.
func (e *endpoints) subscribe(c echo.Context) (context.Context, EventSource, func(), error) {
	ctx, cancel := context.WithCancel(c.Request().Context())
	unlink := context.AfterFunc(e.stopping, cancel)
	source := e.Events(ctx, streamBuffer)
	end := func() {
		source.Close()
		unlink()
		cancel()
	}
	if err := e.await(ctx, source); err != nil {
		end()
		return nil, nil, nil, err
	}
	return ctx, source, end, nil
}

func (e *endpoints) await(ctx context.Context, source EventSource) error {
	timer := time.NewTimer(e.RequestTimeout)
	defer timer.Stop()
	select {
	case <-source.Ready():
		return nil
	case <-timer.C:
		return task.Errorf(task.CodeUnavailable, "the feed of events could not be opened in time")
	case <-ctx.Done():
		if e.stopping.Err() != nil {
			return task.Errorf(task.CodeUnavailable, "the server is shutting down")
		}
		return ctx.Err()
	}
}

// stream writes server-sent events.
type stream struct {
	out  http.ResponseWriter
	ctrl *http.ResponseController
}

// openStream begins the answer. From here on an error can only end it.
func openStream(c echo.Context) (*stream, error) {
	s := &stream{out: c.Response(), ctrl: http.NewResponseController(c.Response())}
	h := c.Response().Header()
	h.Set(echo.HeaderContentType, streamType)
	h.Set(echo.HeaderCacheControl, "no-store")
	h.Set("X-Accel-Buffering", "no") // asks nginx to pass it on at once
	c.Response().WriteHeader(http.StatusOK)
	return s, s.comment("open")
}

// send writes one event; it goes out with the next flush.
func (s *stream) send(name, id string, data any) error {
	body, err := json.Marshal(data)
	if err != nil {
		return fmt.Errorf("writing a %s event: %w", name, err)
	}
	if id != "" {
		id = "id: " + id + "\n"
	}
	return s.write("event: %s\n%sdata: %s\n\n", name, id, body)
}

// comment writes a line that clients pass over, and flushes.
func (s *stream) comment(text string) error {
	if err := s.write(": %s\n\n", text); err != nil {
		return err
	}
	return s.flush()
}

func (s *stream) write(format string, args ...any) error {
	deadline := clock.Now().Add(writeTimeout)
	if err := s.ctrl.SetWriteDeadline(deadline); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("writing to a stream: %w", err)
	}
	if _, err := fmt.Fprintf(s.out, format, args...); err != nil {
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
