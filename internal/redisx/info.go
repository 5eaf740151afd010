package redisx

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// Info reads the fields of a section of INFO of a server, by name. Error: one of Redis.
func Info(ctx context.Context, server redis.Cmdable, section string) (map[string]string, error) {
	text, err := server.Info(ctx, section).Result()
	return infoFields(text), err
}
