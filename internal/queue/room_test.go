package queue

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
)

// Leaders ask for them when a task comes that no node can take.
func TestForeignSlots_CostOneCommandWhileThereAreNone(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	list := func(server string, expires time.Duration) {
		t.Helper()
		at := float64(time.Now().Add(expires).Unix())
		testkit.Must(t, x.db.ZAdd(t.Context(), string(lua.AsynqServers), redis.Z{Score: at, Member: string(lua.AsynqServer(server))}).Err())
	}
	for i := range 20 {
		list(fmt.Sprint("host:1:", serverPrefix, i), time.Minute)
	}
	before := calls(t, x.db, "calls", "zrange", "get", "mget", "eval", "evalsha")
	if slots, err := x.ForeignSlots(t.Context()); err != nil || len(slots) != 0 {
		t.Errorf("there are %v, %v", slots, err)
	}
	if n := calls(t, x.db, "calls", "zrange", "get", "mget", "eval", "evalsha") - before; n != 1 {
		t.Errorf("that took %d commands", n)
	}
	list("host:1:dead", time.Minute)
	server := asynq.NewServerFromRedisClient(x.db.UniversalClient, asynq.Config{
		Concurrency: 3, Queues: map[string]int{"default": 1, "low": 1}, LogLevel: asynq.FatalLevel,
	})
	testkit.Must(t, server.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return nil })))
	t.Cleanup(server.Shutdown)
	testkit.Eventually(t, "asynq's server is there", func() bool {
		slots, err := x.ForeignSlots(t.Context())
		return err == nil && len(slots) == 2 && slots["default"] == 3 && slots["low"] == 3
	})
	for _, server := range x.db.ZRange(t.Context(), string(lua.AsynqServers), 0, -1).Val() { // as one whose clock is slow, or as seen from one whose clock is fast
		testkit.Must(t, x.db.ZAdd(t.Context(), string(lua.AsynqServers), redis.Z{Score: 1, Member: server}).Err())
	}
	if slots, err := x.ForeignSlots(t.Context()); err != nil || len(slots) != 2 {
		t.Errorf("by another clock there are %v, %v", slots, err)
	}
}
