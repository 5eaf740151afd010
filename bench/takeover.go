package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/dts-sched/dts/internal/clock"
)

const (
	streamRate = 200             // tasks a second
	streamLead = 3 * time.Second // for storing them
	steady     = 2 * time.Second // between the first task and the fault
	redisDown  = 3 * time.Second
)

const takeoverMethod = "`dtsd serve` in three processes with default settings: two schedule, one works. Tasks are stored before they are due, 200 a second, " +
	"spread over all partitions. The longest lateness, `started_at - run_at` by the clock of Redis, of the tasks that are due from then on is how long the " +
	"partition stood still that stood still longest. "

func leaderKilledRow() row {
	return row{
		name: "leader-killed", title: "kill -9 of a leader: nothing of its partitions is dispatched",
		method: takeoverMethod + "One that schedules is killed. The lease time is 7 s.",
		goals:  []goal{atMost("longest", 8)},
		run: func(ctx context.Context, b *bench) (figures, error) {
			return takeover(ctx, b, "s", func(leader *child) (time.Time, error) {
				at := clock.Now()
				leader.kill()
				return at, nil
			})
		},
	}
}

func leaderStoppedRow() row {
	return row{
		name: "leader-stopped", title: "SIGTERM to a leader: nothing of its partitions is dispatched",
		method: takeoverMethod + "One that schedules is stopped.",
		goals:  []goal{atMost("longest", 100)},
		run: func(ctx context.Context, b *bench) (figures, error) {
			return takeover(ctx, b, "ms", func(leader *child) (time.Time, error) {
				at := clock.Now()
				return at, leader.stop(ctx)
			})
		},
	}
}

func redisRestartedRow() row {
	return row{
		name: "redis-restarted", title: "kill -9 of Redis, and a restart 3 s later: nothing is dispatched after it is back",
		method: takeoverMethod + "Redis is killed, with an append-only file. From its first answer after the restart; tasks that were due while it was away wait too.",
		goals:  []goal{atMost("longest", 2)},
		run: func(ctx context.Context, b *bench) (figures, error) {
			if err := b.redis.db.ConfigSet(ctx, "appendonly", "yes").Err(); err != nil {
				return nil, err
			}
			b.cleanup(func() error { return b.redis.db.ConfigSet(context.WithoutCancel(ctx), "appendonly", "no").Err() })
			return takeover(ctx, b, "s", func(*child) (time.Time, error) {
				err := b.redis.restart(ctx, redisDown)
				return clock.Now(), err
			})
		},
	}
}

// takeover runs a stream of tasks, and f with a leader in the midst of it. It returns how long after the time that f returns tasks started that
// were due by then, and how late the others did.
func takeover(ctx context.Context, b *bench, unit string, f func(leader *child) (time.Time, error)) (figures, error) {
	var nodes [3]*child
	for i, roles := range []string{"scheduler,api", "scheduler,api", "worker"} {
		node, err := b.startChild(ctx, "--roles", roles)
		if err != nil {
			return nil, err
		}
		nodes[i] = node
	}
	const n = int(streamRate * (steady + redisDown + 12*time.Second) / time.Second)
	owner := fmt.Sprintf("stream-%d-%d", b.round, rand.Int64())
	start := clock.Now().Add(streamLead)
	err := stow(ctx, nodes[1].url, n, func(i int) submission {
		at := start.Add(time.Duration(i) * time.Second / streamRate).Truncate(time.Millisecond)
		return submission{Type: "noop", Payload: json.RawMessage(`{}`), ID: fmt.Sprint(owner, "-", i), Owner: owner, RunAt: &at}
	})
	if err != nil {
		return nil, err
	}
	// The time since the leader's last renewal matters, so it is a different one in each round.
	if err := clock.Sleep(ctx, clock.Until(start)+steady+time.Duration(b.round)*700*time.Millisecond); err != nil {
		return nil, err
	}
	from, err := f(nodes[0])
	if err != nil {
		return nil, err
	}
	tasks, err := awaitEnds(ctx, nodes[1].client, owner, n)
	if err != nil {
		return nil, err
	}
	var late []float64
	for _, t := range tasks {
		if t.StartedAt.After(from) {
			late = append(late, min(t.StartedAt.Sub(t.RunAt.Time), t.StartedAt.Sub(from)).Seconds())
		}
	}
	scale := map[string]float64{"s": 1, "ms": 1000}[unit]
	var out figures
	out.add("longest", scale*percentile(late, 100), unit)
	out.add("median", scale*percentile(late, 50), unit)
	return out, nil
}
