package main

import "context"

// countsRow compares draining with counts by minute and without them.
func countsRow() row {
	return row{
		name: "counts", title: "What the counts by minute cost: drain of immediate tasks, no-op handlers",
		method: "As the drain above, DTS only: nodes that count what they do and write it to Redis every 2 s, " +
			"and nodes that do not.",
		goals: []goal{
			atLeast("with / without counts", 0.95), atMost("CPU of Redis, more with counts", 1),
			atMost("commands of Redis, more with counts", 0.05),
		},
		run: func(ctx context.Context, b *bench) (figures, error) {
			w, err := noopWork(ctx, b)
			if err != nil {
				return nil, err
			}
			var with, without drained
			drain := func(to *drained, uncounted bool) func() error {
				return func() error {
					return b.apart(ctx, func() (err error) { *to, err = b.drainDTS(ctx, w, defaultQueues, uncounted); return err })
				}
			}
			if err := b.alternate(drain(&without, true), drain(&with, false)); err != nil {
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
			return f, nil
		},
	}
}
