package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/clock"
)

// limitKeys is how many customers with a limit of their own the largest drain has.
const limitKeys = 10_000

// limitsRow compares draining with limits and without.
func limitsRow() row {
	return row{
		name: "limits", title: "What limits cost: drain of immediate tasks, no-op handlers",
		method: "As the drain above, DTS only: without a limit, with one limit that all tasks share and that is never " +
			"reached, and with a limit of 2 slots for each of 10,000 keys.",
		goals: []goal{
			atLeast("one limit / none", 0.85), atMost("CPU of Redis, one limit / none", 1.25),
		},
		run: func(ctx context.Context, b *bench) (figures, error) {
			w, err := noopWork(ctx, b)
			if err != nil {
				return nil, err
			}
			var none, one, keys drained
			drain := func(to *drained, task func(i int) submission, await func(context.Context, *node) error) error {
				o := drainOptions{queues: defaultQueues, task: task, await: await}
				return b.apart(ctx, func() (err error) { *to, err = b.drainDTS(ctx, w, o); return err })
			}
			withKey := func(i int) submission {
				s := w.task(i)
				s.LimitKey = fmt.Sprint("customer-", i%limitKeys)
				return s
			}
			err = b.alternate(
				func() error { return drain(&none, w.task, nil) },
				func() error {
					if err := drain(&one, w.task, awaitLimit("all", `{"slots":100000}`)); err != nil {
						return err
					}
					return drain(&keys, withKey, awaitLimit("key:*", `{"slots":2}`))
				},
			)
			var f figures
			f.add("one limit / none", one.rate/none.rate, "x")
			f.add("CPU of Redis, one limit / none", one.redis/none.redis, "x")
			f.add("commands of Redis, one limit / none", one.commands/none.commands, "x")
			f.add("10,000 keys / none", keys.rate/none.rate, "x")
			f.add("none", none.rate, "tasks/s")
			f.add("one limit", one.rate, "tasks/s")
			f.add("10,000 keys", keys.rate, "tasks/s")
			f.add("CPU of Redis, none", none.redis, "µs/task")
			f.add("CPU of Redis, one limit", one.redis, "µs/task")
			f.add("CPU of Redis, 10,000 keys", keys.redis, "µs/task")
			f.add("commands of Redis, none", none.commands, "a task")
			f.add("commands of Redis, one limit", one.commands, "a task")
			f.add("commands of Redis, 10,000 keys", keys.commands, "a task")
			return f, err
		},
	}
}

// awaitLimit sets a limit as soon as a node takes limits. It refuses them as long as it may not be alone.
func awaitLimit(name, rule string) func(ctx context.Context, n *node) error {
	return func(ctx context.Context, n *node) error {
		return poll(ctx, 100*time.Millisecond, time.Minute, "limits", func(ctx context.Context) (bool, error) {
			path := n.url() + "/v1/limits/" + url.PathEscape(name)
			request, err := http.NewRequestWithContext(ctx, http.MethodPut, path, strings.NewReader(rule))
			if err != nil {
				return false, err
			}
			request.Header.Set("Content-Type", "application/json")
			reply, err := http.DefaultClient.Do(request)
			if err != nil {
				return false, err
			}
			_ = reply.Body.Close()
			if reply.StatusCode != http.StatusNoContent {
				return false, nil
			}
			return true, clock.Sleep(ctx, time.Second) // all leaders know it then
		})
	}
}
