package redisx

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Info reads the fields of a section of INFO of a server, by name. Error: one of Redis.
func Info(ctx context.Context, server redis.Cmdable, section string) (map[string]string, error) {
	text, err := server.Info(ctx, section).Result()
	fields := make(map[string]string)
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		fields[name] = value
	}
	return fields, err
}
