// Package monitor is asynq's web UI, asynqmon, on the queues of DTS. It is a package of its own so that only dtsd links it: its templates
// keep the linker from leaving out what a program does not use.
package monitor

import (
	"net/http"

	"github.com/hibiken/asynq"
	"github.com/hibiken/asynqmon"

	"github.com/dts-sched/dts/internal/redisx"
)

// New returns the UI below the path root. It does not authenticate users: everyone who can reach it can see all queues and, if it is writable,
// change them.
func New(db *redisx.DB, root string, writable bool) http.Handler {
	return asynqmon.New(asynqmon.Options{RootPath: root, ReadOnly: !writable, RedisConnOpt: existing{db}})
}

// existing makes asynq use a client that is already open.
type existing struct{ db *redisx.DB }

func (e existing) MakeRedisClient() any { return e.db.UniversalClient }

var _ asynq.RedisConnOpt = existing{}
