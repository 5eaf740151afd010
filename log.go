package dts

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// logHandler is a slog.Handler that writes each record as one line, level=INFO msg="..." and so on: the log has the time.
type logHandler struct {
	slog.Handler // formats into the buffer
	shared       *logBuffer
}

// logBuffer is what the handlers of a logger and of those derived from it share.
type logBuffer struct {
	mu    sync.Mutex
	text  bytes.Buffer
	write func(stream, line string)
}

func newLogHandler(write func(stream, line string)) logHandler {
	shared := &logBuffer{write: write}
	return logHandler{slog.NewTextHandler(&shared.text, &slog.HandlerOptions{Level: slog.LevelDebug}), shared}
}

// Handle formats the record and writes it.
func (h logHandler) Handle(ctx context.Context, r slog.Record) error {
	stream := "stdout"
	if r.Level >= slog.LevelWarn {
		stream = "stderr"
	}
	h.shared.mu.Lock()
	defer h.shared.mu.Unlock()
	h.shared.text.Reset()
	r.Time = time.Time{}
	if err := h.Handler.Handle(ctx, r); err != nil {
		return err
	}
	h.shared.write(stream, strings.TrimRight(h.shared.text.String(), "\n"))
	return nil
}

func (h logHandler) WithAttrs(attributes []slog.Attr) slog.Handler {
	return logHandler{h.Handler.WithAttrs(attributes), h.shared}
}

func (h logHandler) WithGroup(name string) slog.Handler {
	return logHandler{h.Handler.WithGroup(name), h.shared}
}
