package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// fairKeys is how many customers a drain with turns has.
const fairKeys = 10

// fairRow compares draining with turns of fair keys and without.
func fairRow() row {
	return row{
		name: "fair", title: "What turns cost: drain of immediate tasks of ten fair keys, no-op handlers",
		method: "As the drain above, DTS only: tasks without a key, tasks of ten keys in turn, and the same with a priority.",
		goals: []goal{
			atMost("CPU of Redis, ten keys / none", 1.1), atMost("commands of Redis, ten keys / none", 1.1),
		},
		run: func(ctx context.Context, b *bench) (figures, error) {
			w, err := noopWork(ctx, b)
			if err != nil {
				return nil, err
			}
			var none, keys, both drained
			drain := func(to *drained, task func(i int) submission) error {
				o := drainOptions{queues: defaultQueues, task: task, await: awaitFairKeys}
				return b.apart(ctx, func() (err error) { *to, err = b.drainDTS(ctx, w, o); return err })
			}
			withKey := func(i int) submission {
				s := w.task(i)
				s.FairKey = fmt.Sprint("customer-", i%fairKeys)
				return s
			}
			withBoth := func(i int) submission {
				s := withKey(i)
				s.Priority = i / fairKeys % 10
				return s
			}
			err = b.alternate(
				func() error { return drain(&none, w.task) },
				func() error {
					if err := drain(&keys, withKey); err != nil {
						return err
					}
					return drain(&both, withBoth)
				},
			)
			var f figures
			f.add("CPU of Redis, ten keys / none", keys.redis/none.redis, "x")
			f.add("commands of Redis, ten keys / none", keys.commands/none.commands, "x")
			f.add("ten keys / none", keys.rate/none.rate, "x")
			f.add("ten keys and priorities / none", both.rate/none.rate, "x")
			f.add("none", none.rate, "tasks/s")
			f.add("ten keys", keys.rate, "tasks/s")
			f.add("CPU of Redis, none", none.redis, "µs/task")
			f.add("CPU of Redis, ten keys", keys.redis, "µs/task")
			f.add("commands of Redis, none", none.commands, "a task")
			f.add("commands of Redis, ten keys", keys.commands, "a task")
			f.add("commands of Redis, ten keys and priorities", both.commands, "a task")
			return f, err
		},
	}
}

// awaitFairKeys waits until a node takes fair keys. It refuses them as long as it may not be alone.
func awaitFairKeys(ctx context.Context, n *node) error {
	probe, err := json.Marshal(submission{Type: benchType, Queue: "probe", FairKey: "probe", Delay: "1h"})
	if err != nil {
		return err
	}
	return poll(ctx, 100*time.Millisecond, time.Minute, "fair keys", func(ctx context.Context) (bool, error) {
		_, err := post(ctx, n.url()+"/v1/tasks", probe, 201)
		return err == nil, nil
	})
}
