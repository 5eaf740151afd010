package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/dts-sched/dts/internal/config"
)

// fairKeys is how many customers a drain with turns has.
const fairKeys = 10

// fairRow compares draining with turns of fair keys and without.
func fairRow() row {
	return row{
		name: "fair", title: "What turns cost: drain of immediate tasks of ten fair keys, no-op handlers",
		method: "As the drain above, DTS only: tasks without a key, tasks of ten keys in turn, and the same with a priority.",
		goals:  []goal{atLeast("ten keys / none", 0.9)},
		run: func(ctx context.Context, b *bench) (figures, error) {
			w, err := noopWork(ctx, b)
			if err != nil {
				return nil, err
			}
			var none, keys, both drained
			drain := func(to *drained, change func(s *submission, i int)) func() error {
				return func() error {
					return b.apart(ctx, func() (err error) { *to, err = b.drainInTurn(ctx, w, change); return err })
				}
			}
			withKey := func(s *submission, i int) { s.FairKey = fmt.Sprint("customer-", i%fairKeys) }
			err = b.alternate(
				drain(&none, func(*submission, int) {}),
				func() error {
					if err := drain(&keys, withKey)(); err != nil {
						return err
					}
					return drain(&both, func(s *submission, i int) { withKey(s, i); s.Priority = i / fairKeys % 10 })()
				},
			)
			var f figures
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

// drainInTurn is drainDTS for tasks that are changed. It waits until the node takes fair keys.
func (b *bench) drainInTurn(ctx context.Context, w work, change func(*submission, int)) (drained, error) {
	n := b.size.tasks
	leader, err := b.startNode(ctx, nodeOptions{roles: []string{config.RoleScheduler, config.RoleAPI}})
	if err != nil {
		return drained{}, err
	}
	probe, err := json.Marshal(submission{Type: w.taskType, Queue: "probe", FairKey: "probe", Delay: "1h"})
	if err != nil {
		return drained{}, err
	}
	err = poll(ctx, 100*time.Millisecond, time.Minute, "fair keys", func(ctx context.Context) (bool, error) {
		_, err := post(ctx, leader.url()+"/v1/tasks", probe, 201)
		return err == nil, nil // it is refused as long as the node may not be alone
	})
	if err != nil {
		return drained{}, err
	}
	err = stow(ctx, leader.url(), n, func(i int) submission {
		s := submission{Type: w.taskType, Queue: drainQueue, Payload: json.RawMessage(w.payload())}
		change(&s, i)
		return s
	})
	if err != nil {
		return drained{}, err
	}
	if err := leader.awaitWaiting(ctx, drainQueue, n); err != nil {
		return drained{}, err
	}
	d, err := b.timeDrain(ctx, w, n, func() error {
		_, err := b.startNode(ctx, nodeOptions{roles: []string{config.RoleWorker}, queues: defaultQueues, handle: w.handle})
		return err
	})
	if err != nil {
		return drained{}, err
	}
	return d, leader.awaitFinished(ctx, n)
}
