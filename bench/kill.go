package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/clock"
)

func killRow() row {
	const tasks = 10
	return row{
		name: "kill", title: "kill -9 of a worker: begun again",
		method: "`dtsd serve` in three processes with default settings: one schedules, one works on 10 tasks that sleep, one comes and has room. " +
			"The second is killed. From the signal, by this machine's clock, to the `started_at` of each task's second attempt, by Redis's on the same machine.",
		goals: []goal{atMost("last", 4)},
		run: func(ctx context.Context, b *bench) (figures, error) {
			leader, err := b.startChild(ctx, "--roles", "scheduler,api")
			if err != nil {
				return nil, err
			}
			worker := []string{"--roles", "worker", "--concurrency", strconv.Itoa(tasks)}
			victim, err := b.startChild(ctx, worker...)
			if err != nil {
				return nil, err
			}
			sleeping := submission{Type: "noop", Payload: json.RawMessage(`{"sleep":"5m"}`)}
			if err := stow(ctx, leader.url, tasks, func(int) submission { return sleeping }); err != nil {
				return nil, err
			}
			if _, err := awaitAttempts(ctx, leader, 1, tasks); err != nil {
				return nil, err
			}
			if _, err := b.startChild(ctx, worker...); err != nil {
				return nil, err
			}
			// The time since the victim's last heartbeat matters, so it is a different one in each round.
			if err := clock.Sleep(ctx, time.Duration(b.round)*700*time.Millisecond); err != nil {
				return nil, err
			}
			died := clock.Now()
			victim.kill()
			again, err := awaitAttempts(ctx, leader, 2, tasks)
			if err != nil {
				return nil, err
			}
			took := make([]float64, len(again))
			for i, at := range again {
				took[i] = at.Sub(died).Seconds()
			}
			var f figures
			f.add("first", percentile(took, 0), "s")
			f.add("last", percentile(took, 100), "s")
			return f, nil
		},
	}
}

// awaitAttempts waits until n tasks run an attempt with that number, and returns when these started.
func awaitAttempts(ctx context.Context, c *child, attempt, n int) (started []time.Time, err error) {
	what := fmt.Sprintf("attempt %d of %d tasks", attempt, n)
	err = poll(ctx, 50*time.Millisecond, time.Minute, what, func(ctx context.Context) (bool, error) {
		started = started[:0]
		err := eachTask(ctx, c.client, client.ListTasksParams{State: wire.States{wire.StateRunning}}, func(t wire.Task) {
			if t.Attempt == attempt && t.StartedAt != nil {
				started = append(started, t.StartedAt.Time)
			}
		})
		return len(started) == n, err
	})
	return started, err
}
