package main

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/dts-sched/dts/internal/clock"
)

// routesRow compares draining of tasks that say where they run with that of others.
func routesRow() row {
	return row{
		name: "routes", title: "What routes cost: drain of immediate tasks, no-op handlers",
		method: "As the drain above, DTS only: tasks that say nothing, tasks with a selector that all nodes match, and " +
			"tasks that go to the nodes in turn.",
		goals: []goal{atLeast("a selector / none", 0.25)},
		run: func(ctx context.Context, b *bench) (figures, error) {
			w, err := noopWork(ctx, b)
			if err != nil {
				return nil, err
			}
			var none, selected, turns drained
			drain := func(to *drained, change func(*submission)) func() error {
				o := drainOptions{queues: defaultQueues, await: awaitRoutes, task: func(i int) submission {
					s := w.task(i)
					change(&s)
					return s
				}}
				return func() error {
					return b.apart(ctx, func() (err error) { *to, err = b.drainDTS(ctx, w, o); return err })
				}
			}
			err = b.alternate(
				drain(&none, func(*submission) {}),
				func() error {
					if err := drain(&selected, func(s *submission) { s.Select = "name" })(); err != nil {
						return err
					}
					return drain(&turns, func(s *submission) { s.Route = &routeBy{By: "round"} })()
				},
			)
			var f figures
			f.add("a selector / none", selected.rate/none.rate, "x")
			f.add("in turn / none", turns.rate/none.rate, "x")
			f.add("CPU of Redis, a selector / none", selected.redis/none.redis, "x")
			f.add("none", none.rate, "tasks/s")
			f.add("a selector", selected.rate, "tasks/s")
			f.add("in turn", turns.rate, "tasks/s")
			f.add("CPU of Redis, none", none.redis, "µs/task")
			f.add("CPU of Redis, a selector", selected.redis, "µs/task")
			f.add("commands of Redis, none", none.commands, "a task")
			f.add("commands of Redis, a selector", selected.commands, "a task")
			return f, err
		},
	}
}

// routeBy is the route of a submission.
type routeBy struct {
	By string `json:"by"`
}

// awaitRoutes waits until a node takes tasks that say where they run: it refuses them as long as it may not be alone.
// It leaves one that is due next year.
func awaitRoutes(ctx context.Context, n *node) error {
	s := plain()
	s.ID, s.Select = "known", "name"
	at := clock.Now().AddDate(1, 0, 0)
	s.RunAt = &at
	body, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return poll(ctx, 100*time.Millisecond, time.Minute, "routes", func(ctx context.Context) (bool, error) {
		_, err := post(ctx, n.url()+"/v1/tasks", body, http.StatusCreated)
		return err == nil, nil
	})
}
