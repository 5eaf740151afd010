package main

import (
	"context"
	"fmt"
	"time"

	"github.com/hibiken/asynq"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/worker/executor"
)

func memoryRow() row {
	return row{
		name: "memory", title: "Memory of a task with a payload of 200 B",
		method: "Growth of Redis's used_memory, divided by the number of tasks; payloads are random letters and digits. Finished: tasks that " +
			"ran once, with an empty result, at the default retention. asynq: tasks enqueued with `ProcessIn`, and finished ones with a retention " +
			"of a day.",
		goals: []goal{atMost("waiting", 600), atMost("waiting, hash-max-listpack-value 1024", 520), atMost("finished", 1000)},
		run: func(ctx context.Context, b *bench) (figures, error) {
			var f figures
			for _, one := range []struct {
				name    string
				measure func(ctx context.Context) (float64, error)
			}{
				{"waiting", func(ctx context.Context) (float64, error) { return b.waitingBytes(ctx, "64") }},
				{"waiting, hash-max-listpack-value 1024", func(ctx context.Context) (float64, error) { return b.waitingBytes(ctx, "1024") }},
				{"finished", b.finishedBytes},
				{"waiting, asynq", b.asynqBytes},
				{"finished, asynq", b.asynqFinishedBytes},
			} {
				var bytes float64
				err := b.apart(ctx, func() (err error) { bytes, err = one.measure(ctx); return err })
				if err != nil {
					return nil, fmt.Errorf("%s: %w", one.name, err)
				}
				f.add(one.name, bytes, "B")
			}
			return f, nil
		},
	}
}

// growth is by how many bytes f lets Redis's memory grow, divided by n.
func (b *bench) growth(ctx context.Context, n int, f func() error) (float64, error) {
	before, err := b.redis.memory(ctx)
	if err != nil {
		return 0, err
	}
	if err := f(); err != nil {
		return 0, err
	}
	after, err := b.settledMemory(ctx)
	return (after - before) / float64(n), err
}

// settledMemory is Redis's memory once it hardly changes: buffers of connections shrink, and tables are rehashed.
func (b *bench) settledMemory(ctx context.Context) (float64, error) {
	const enough = 100_000 // bytes between two looks
	last := 0.0
	err := poll(ctx, 500*time.Millisecond, 20*time.Second, "Redis's memory to settle", func(ctx context.Context) (bool, error) {
		used, err := b.redis.memory(ctx)
		settled := max(last-used, used-last) < enough
		last = used
		return settled, err
	})
	return last, err
}

func (b *bench) waitingBytes(ctx context.Context, listpack string) (float64, error) {
	if err := b.redis.db.ConfigSet(ctx, "hash-max-listpack-value", listpack).Err(); err != nil {
		return 0, err
	}
	n, err := b.startNode(ctx, nodeOptions{roles: []string{config.RoleScheduler, config.RoleAPI}})
	if err != nil {
		return 0, err
	}
	return b.growth(ctx, b.size.stored, func() error {
		return stow(ctx, n.url(), b.size.stored, func(int) submission {
			s := plain()
			s.Delay = "24h"
			return s
		})
	})
}

func (b *bench) finishedBytes(ctx context.Context) (float64, error) {
	n, err := b.startNode(ctx, nodeOptions{roles: fullNode, handle: func(executor.Attempt) {}})
	if err != nil {
		return 0, err
	}
	return b.growth(ctx, b.size.tasks, func() error {
		if err := stow(ctx, n.url(), b.size.tasks, func(int) submission { return plain() }); err != nil {
			return err
		}
		if err := b.awaitProcessed(ctx, b.size.tasks); err != nil {
			return err
		}
		return n.awaitFinished(ctx, b.size.tasks)
	})
}

func (b *bench) asynqBytes(ctx context.Context) (float64, error) {
	return b.growth(ctx, b.size.stored, func() error {
		return b.fillAsynq(ctx, b.size.stored, payload, asynq.ProcessAt(clock.Now().Add(24*time.Hour)), asynq.Queue(drainQueue))
	})
}

func (b *bench) asynqFinishedBytes(ctx context.Context) (float64, error) {
	if err := b.startAsynq(oneQueue, func(context.Context, *asynq.Task) error { return nil }); err != nil {
		return 0, err
	}
	return b.growth(ctx, b.size.tasks, func() error {
		if err := b.fillAsynq(ctx, b.size.tasks, payload, asynq.Retention(24*time.Hour), asynq.Queue(drainQueue)); err != nil {
			return err
		}
		return b.awaitProcessed(ctx, b.size.tasks)
	})
}
