package redisx

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/lua"
)

// RunReplicated runs calls of a script that writes, and waits on the same connections until replicas have what it wrote, and thus all that it
// has found: replicas get writes in their order. So a result without an error holds whatever primary answered before. Each call is atomic. The
// errors are those of Run, and one if too few replicas have confirmed in time.
func RunReplicated[R any, C lua.Call[R]](ctx context.Context, db *DB, d config.Durability, calls []C) []Result[R] {
	results := make([]Result[R], len(calls))
	err := db.EachServer(ctx, firstKeys[R](calls), func(server redis.Cmdable, places []int) {
		for k, result := range runAndWait[R](ctx, db, server, d, at(calls, places)) {
			results[places[k]] = result
		}
	})
	for i := range results {
		results[i].Err = cmp.Or(results[i].Err, err)
	}
	return results
}

// runAndWait is RunReplicated for calls on one server.
func runAndWait[R any, C lua.Call[R]](ctx context.Context, db *DB, server redis.Cmdable, d config.Durability, calls []C) []Result[R] {
	start := clock.Now()
	pipe := server.Pipeline()
	cmds := make([]*redis.Cmd, len(calls))
	for i, c := range calls {
		send := prepared(c.Script()).EvalSha
		if i == 0 { // with the source, which Redis may not have yet
			send = prepared(c.Script()).Eval
		}
		cmds[i] = send(ctx, pipe, db.keysOf(c.Keys()), c.Args()...)
	}
	wait := pipe.Do(ctx, "WAIT", d.Replicas, d.Timeout.Milliseconds())
	_, _ = pipe.Exec(ctx) // each command holds its own error
	each := clock.Since(start) / time.Duration(len(calls))
	results := make([]Result[R], len(calls))
	for i, cmd := range cmds {
		reply, err := cmd.Result()
		results[i].Reply, results[i].Err = decode[R](calls[i], reply, db.observeRun(calls[i].Script(), each, err))
		if results[i].Err == nil {
			results[i].Err = enough(wait, d)
		}
	}
	return results
}

// enough returns an error unless WAIT has counted as many replicas as are asked for.
func enough(wait *redis.Cmd, d config.Durability) error {
	replicas, err := wait.Int()
	if err == nil && replicas < d.Replicas {
		err = fmt.Errorf("%d of %d replicas have confirmed within %s", replicas, d.Replicas, d.Timeout)
	}
	return err
}
