package otlp

import (
	"log/slog"

	"github.com/go-logr/logr"
)

// troubles passes the errors of OpenTelemetry to the log of the node, without the values with them: one may be a login
// of the environment.
type troubles struct {
	secrets
	log *slog.Logger
}

// Init is for logr.
func (*troubles) Init(logr.RuntimeInfo) {}

// Enabled is for logr: only errors are of use.
func (*troubles) Enabled(int) bool { return false }

// Info is for logr.
func (*troubles) Info(int, string, ...any) {}

// Error logs what went wrong.
func (t *troubles) Error(err error, message string, _ ...any) {
	text := ""
	if err != nil {
		text = t.hide(err)
	}
	t.log.Warn("OpenTelemetry", "problem", message, "error", text)
}

// WithValues is for logr.
func (t *troubles) WithValues(...any) logr.LogSink { return t }

// WithName is for logr.
func (t *troubles) WithName(string) logr.LogSink { return t }
