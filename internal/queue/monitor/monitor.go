// Package monitor is asynq's web UI, asynqmon, on the queues of DTS. It is a package of its own so that only dtsd links it: its templates
// keep the linker from leaving out what a program does not use.
package monitor

import (
	"errors"

	"github.com/hibiken/asynq"
	"github.com/hibiken/asynqmon"
	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redisx"
)

// UI is the HTTP handler of asynq's web UI. It does not authenticate users: everyone who can reach it can see
// all queues and, if it is writable, change them.
type UI struct {
	*asynqmon.HTTPHandler
}

// New returns the UI below the path root. It owns db, which Close closes.
func New(db *redisx.DB, root string, writable bool) *UI {
	return &UI{HTTPHandler: asynqmon.New(asynqmon.Options{
		RootPath: root, ReadOnly: !writable, RedisConnOpt: existing{db},
	})}
}

// Close closes the UI's connections. asynqmon closes them more than once; Close ignores the resulting error.
func (u *UI) Close() error {
	if err := u.HTTPHandler.Close(); err != nil && !errors.Is(err, redis.ErrClosed) {
		return err
	}
	return nil
}

// existing makes asynq use a client that is already open.
type existing struct{ db *redisx.DB }

func (e existing) MakeRedisClient() any { return e.db.UniversalClient }

var _ asynq.RedisConnOpt = existing{}
