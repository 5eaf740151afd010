package telemetry

import (
	"fmt"
	"io"
	"log/slog"
)

// NewLogger makes a logger that writes to w in format "text" or "json", from a level upwards.
// Error: another format.
func NewLogger(w io.Writer, format string, from slog.Level) (*slog.Logger, error) {
	o := &slog.HandlerOptions{Level: from}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, o)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, o)), nil
	}
	return nil, fmt.Errorf("log-format: %q must be text or json", format)
}
