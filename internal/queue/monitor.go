package queue

import (
	"errors"

	"github.com/hibiken/asynq"
	"github.com/hibiken/asynqmon"
	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redisx"
)

// Monitor is asynq's web UI. It has no users of its own: whoever reaches it sees everything, and changes it if it
// is writable.
type Monitor struct {
	*asynqmon.HTTPHandler
}

// NewMonitor makes the UI for the path root. db is for it alone: Close closes it.
func NewMonitor(db *redisx.DB, root string, writable bool) *Monitor {
	return &Monitor{HTTPHandler: asynqmon.New(asynqmon.Options{
		RootPath: root, ReadOnly: !writable, RedisConnOpt: existing{db},
	})}
}

// Close closes the connections that the UI was lent. asynqmon does so more than once, which is no error.
func (m *Monitor) Close() error {
	if err := m.HTTPHandler.Close(); err != nil && !errors.Is(err, redis.ErrClosed) {
		return err
	}
	return nil
}

// existing hands asynq a client that is open already.
type existing struct{ db *redisx.DB }

func (e existing) MakeRedisClient() any { return e.db.UniversalClient }

var _ asynq.RedisConnOpt = existing{}
