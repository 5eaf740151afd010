package redisx

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/redis/go-redis/v9"
)

// LogTo writes the messages of go-redis to log, at level debug: they repeat the errors of commands for each
// connection. go-redis has one logger for the whole process, so only main may call LogTo.
func LogTo(log *slog.Logger) { redis.SetLogger(clientLog{log}) }

// clientLog implements the logger interface of go-redis.
type clientLog struct{ log *slog.Logger }

func (l clientLog) Printf(ctx context.Context, format string, v ...any) {
	if l.log.Enabled(ctx, slog.LevelDebug) {
		l.log.DebugContext(ctx, fmt.Sprintf(format, v...))
	}
}
