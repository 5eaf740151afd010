package layout

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// release writes what a node of the previous release has settled.
func release(t *testing.T, db *redisx.DB) {
	t.Helper()
	testkit.Must(t, db.HSet(t.Context(), "dts:meta", "partitions", 16, "layout", "3", "secret", "x").Err())
}

func TestOpen_SettlesSinceWhenRetriesHold(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	if l := serving(t, db); l.RetriesSince().UnixMilli() != 0 {
		t.Errorf("in a new installation they hold since %s, want always", l.RetriesSince())
	}
	testkit.Must(t, db.FlushAll(t.Context()).Err())
	release(t, db)
	before, err := db.Time(t.Context()).Result()
	testkit.Must(t, err)
	first := serving(t, db)
	after, err := db.Time(t.Context()).Result()
	testkit.Must(t, err)
	since := first.RetriesSince()
	if since.Before(before.Truncate(time.Millisecond)) || since.After(after) {
		t.Errorf("since %s, want since the first node of this release, %s to %s", since, before, after)
	}
	if second := serving(t, db); !second.RetriesSince().Equal(since) {
		t.Errorf("for the second node since %s, want %s", second.RetriesSince(), since)
	}
	testkit.Must(t, db.Del(t.Context(), "dts:meta").Err())
	_, err = first.Check(t.Context(), known)
	testkit.Must(t, err)
	if third := serving(t, db); !third.RetriesSince().Equal(since) {
		t.Errorf("after Redis lost it, since %s, want %s", third.RetriesSince(), since)
	}
}

// unsettling breaks the connection when since when retries hold is to be written.
type unsettling struct{}

func (unsettling) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if cmds[0].Name() != "hsetnx" {
			return next(ctx, cmds)
		}
		for _, cmd := range cmds {
			cmd.SetErr(io.EOF)
		}
		return io.EOF
	}
}

func (unsettling) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (unsettling) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

// A node that took a time of its own because Redis was away would give old tasks other defaults than all others.
func TestOpen_NeedsAnAnswerToSettleRetries(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	release(t, server.DB(t))
	db := server.DB(t)
	db.AddHook(unsettling{})
	if l, err := Open(t.Context(), Options{DB: db}); task.CodeOf(err) != task.CodeUnavailable {
		t.Errorf("%v, %v; want %s", l, err, task.CodeUnavailable)
	}
}

func TestOpen_NeedsNoWriteToSettleRetries(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	release(t, db)
	testkit.Must(t, db.ConfigSet(t.Context(), "maxmemory", "1").Err())
	l := serving(t, db)
	if l.RetriesSince().UnixMilli() <= 0 || db.HExists(t.Context(), "dts:meta", "retries").Val() {
		t.Errorf("since %s, want a time of its own", l.RetriesSince())
	}
	testkit.Must(t, db.ConfigSet(t.Context(), "maxmemory", "0").Err())
	_, err := l.Check(t.Context(), known)
	testkit.Must(t, err)
	if other := serving(t, db); !other.RetriesSince().Equal(l.RetriesSince()) {
		t.Errorf("once there is room, since %s, want %s", other.RetriesSince(), l.RetriesSince())
	}
}
