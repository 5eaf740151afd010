package main

import (
	"context"
	"fmt"
)

const (
	routeWorkers = 3     // workers among which routes choose
	routeKeys    = 1_000 // keys of the route by hash
)

// routesRow compares draining with selectors and routes and without.
func routesRow() row {
	return row{
		name:  "routes",
		title: "What selectors and routes cost: drain of immediate no-op tasks by three workers",
		method: "As the drain above, DTS only, with three workers of 64 slots: for tasks that any worker takes, for " +
			"tasks with a selector that all workers satisfy, with the route round, and with the route hash over 1,000 " +
			"keys. A task with a selector or a route gets a worker only when that worker has a free slot, so that none " +
			"waits behind another.",
		goals: []goal{atLeast("select / none", 0.5), atLeast("round / none", 0.5)},
		run: func(ctx context.Context, b *bench) (figures, error) {
			w, err := noopWork(ctx, b)
			if err != nil {
				return nil, err
			}
			var none, selected, round, hash drained
			drain := func(to *drained, change func(s *submission, i int)) error {
				o := drainOptions{queues: defaultQueues, workers: routeWorkers, task: func(i int) submission {
					s := w.task(i)
					change(&s, i)
					return s
				}}
				return b.apart(ctx, func() (err error) { *to, err = b.drainDTS(ctx, w, o); return err })
			}
			err = b.alternate(
				func() error { return drain(&none, func(*submission, int) {}) },
				func() error {
					if err := drain(&selected, func(s *submission, _ int) { s.Select = "role=worker" }); err != nil {
						return err
					}
					if err := drain(&round, func(s *submission, _ int) { s.Route = &route{By: "round"} }); err != nil {
						return err
					}
					return drain(&hash, func(s *submission, i int) {
						s.Route = &route{By: "hash", Key: fmt.Sprint("customer-", i%routeKeys)}
					})
				},
			)
			var f figures
			f.add("select / none", selected.rate/none.rate, "x")
			f.add("round / none", round.rate/none.rate, "x")
			f.add("hash / none", hash.rate/none.rate, "x")
			f.add("CPU of Redis, select / none", selected.redis/none.redis, "x")
			f.add("commands of Redis, select / none", selected.commands/none.commands, "x")
			for _, d := range []struct {
				name string
				drained
			}{{"none", none}, {"select", selected}, {"round", round}, {"hash", hash}} {
				f.add(d.name, d.rate, "tasks/s")
				f.add("CPU of Redis, "+d.name, d.redis, "µs/task")
				f.add("commands of Redis, "+d.name, d.commands, "a task")
			}
			return f, err
		},
	}
}
