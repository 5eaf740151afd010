package main

import (
	"context"
	"errors"
	"strings"
	"time"
)

// countsRow compares draining with counts by minute and without them.
func countsRow() row {
	return row{
		name: "counts", title: "What the counts by minute cost: drain of immediate tasks, no-op handlers",
		method: "As the drain above, DTS only: nodes that count what they do and write it to Redis every 2 s, " +
			"and nodes that do not. CPU and commands of Redis differ more between two equal drains than the counts cost, so a " +
			"third drain, whose nodes count, adds up what Redis's SLOWLOG says of the commands for the counts.",
		goals: []goal{
			atLeast("with / without counts", 0.95), atMost("commands for counts", 10),
			atMost("time of Redis in commands for counts", 1000),
		},
		run: func(ctx context.Context, b *bench) (figures, error) {
			w, err := noopWork(ctx, b)
			if err != nil {
				return nil, err
			}
			var with, without drained
			drain := func(to *drained, uncounted bool) func() error {
				o := drainOptions{queues: defaultQueues, task: w.task, uncounted: uncounted}
				return func() error {
					return b.apart(ctx, func() (err error) { *to, err = b.drainDTS(ctx, w, o); return err })
				}
			}
			if err := b.alternate(drain(&without, true), drain(&with, false)); err != nil {
				return nil, err
			}
			commands, inCounts, err := b.inCounts(ctx, w)
			if err != nil {
				return nil, err
			}
			var f figures
			f.add("with / without counts", with.rate/without.rate, "x")
			f.add("with counts", with.rate, "tasks/s")
			f.add("without counts", without.rate, "tasks/s")
			f.add("CPU of Redis, more with counts", with.redis-without.redis, "µs/task")
			f.add("CPU of Redis, with counts", with.redis, "µs/task")
			f.add("CPU of this process, more with counts", with.self-without.self, "µs/task")
			f.add("commands of Redis, more with counts", with.commands-without.commands, "a task")
			f.add("commands of Redis, with counts", with.commands, "a task")
			f.add("commands for counts", float64(commands)/float64(b.size.tasks)*1000, "per 1,000 tasks")
			f.add("time of Redis in commands for counts", float64(inCounts.Nanoseconds())/float64(b.size.tasks), "ns/task")
			return f, nil
		},
	}
}

// inCounts drains with counts. It returns how many commands wrote or closed counts, and the time that Redis spent in
// them. Error: there were none.
func (b *bench) inCounts(ctx context.Context, w work) (commands int, spent time.Duration, err error) {
	err = b.apart(ctx, func() error {
		return b.redis.watchCommands(ctx, func() error {
			_, err := b.drainDTS(ctx, w, drainOptions{queues: defaultQueues, task: w.task})
			return err
		}, func(args []string, took time.Duration) {
			if len(args) > 1 && (strings.Contains(args[1], ":minute") || strings.HasSuffix(args[1], ":hours")) {
				commands++
				spent += took
			}
		})
	})
	if err == nil && commands == 0 {
		err = errors.New("no command for the counts was seen")
	}
	return commands, spent, err
}
