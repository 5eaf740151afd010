package main

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/worker/executor"
)

// punctualLead is the time for storing tasks before the first of them is due.
const punctualLead = 2 * time.Second

const latenessMethod = "Tasks are stored before they are due, one every 1/rate s, on one full node. `started_at - run_at` as the API " +
	"answers them: Redis's clock stamps the start, in ms, and decides what is due; negative means early. Handler start: the " +
	"same with this machine's clock, read by the handler."

func latenessRow() row {
	return row{
		name: "lateness", title: "Lateness, due to started",
		method: latenessMethod,
		goals: []goal{
			atMost("p50 at 200/s", 3), atMost("p99 at 200/s", 10), atMost("p99 at 1,000/s", 25), atLeast("earliest at 200/s", 0), atLeast("earliest at 1,000/s", 0),
		},
		run: func(ctx context.Context, b *bench) (figures, error) {
			m := &punctuality{}
			if err := m.start(ctx, b); err != nil {
				return nil, err
			}
			return m.measure(ctx, b)
		},
	}
}

// waitingRow is latenessRow beside many tasks that wait for another day.
func waitingRow() row {
	m := &punctuality{}
	var empty figures
	var used, growth float64
	return row{
		name: "waiting", title: "The same beside many waiting tasks (10,000,000; in the short form fewer)",
		method: "As above, after tasks with a payload of 200 B, due in a day, were stored over HTTP in batches. Empty: the same " +
			"on the same node, once, before they were stored. Memory: used_memory of Redis after that; bytes a waiting " +
			"task: its growth while they were stored. Plain memory: how late a process is, without Redis, that reads 1,000 " +
			"pages 200 times a second, of as much memory: what the machine adds by itself.",
		goals: []goal{
			atMost("p50 at 200/s", 3), atMost("p99 at 200/s", 10), atMost("p99 at 1,000/s", 25),
			atLeast("earliest at 200/s", 0), atLeast("earliest at 1,000/s", 0), atMost("memory of Redis", 5),
		},
		prepare: func(ctx context.Context, b *bench) error {
			if err := m.start(ctx, b); err != nil {
				return err
			}
			var err error
			if empty, err = m.measure(ctx, b); err != nil {
				return err
			}
			before, err := b.redis.memory(ctx)
			if err != nil {
				return err
			}
			fmt.Fprintf(b.progress, "  storing %s tasks\n", thousands(int64(b.size.waiting)))
			err = stow(ctx, m.node.url(), b.size.waiting, func(int) submission {
				s := plain()
				s.Namespace, s.Delay = "waiting", "24h"
				return s
			})
			if err != nil {
				return err
			}
			used, err = b.redis.memory(ctx)
			growth = (used - before) / float64(b.size.waiting)
			return err
		},
		run: func(ctx context.Context, b *bench) (figures, error) {
			f, err := m.measure(ctx, b)
			for _, one := range empty {
				f.add(one.name+", empty", one.value, one.unit)
			}
			f.add("waiting", float64(b.size.waiting), "tasks")
			f.add("bytes a waiting task", growth, "B")
			f.add("memory of Redis", used/(1<<30), "GiB")
			if err != nil {
				return nil, err
			}
			plain, err := memoryFloor(ctx, int(used), b.size.punctual)
			f.add("plain memory, p99 at 200/s", percentile(plain, 99), "ms")
			f.add("plain memory, most at 200/s", percentile(plain, 100), "ms")
			return f, err
		},
	}
}

// punctuality measures the lateness of one node.
type punctuality struct {
	node       *node
	begun      chan begun
	partitions int // 0: the default
}

// begun is the start of a handler.
type begun struct {
	id string
	at time.Time
}

// begunBuffer holds the starts of all tasks of a measurement: the handler must not wait.
const begunBuffer = 100_000

func (m *punctuality) start(ctx context.Context, b *bench) (err error) {
	m.begun = make(chan begun, begunBuffer)
	m.node, err = b.startNode(ctx, nodeOptions{roles: fullNode, partitions: m.partitions, handle: func(a executor.Attempt) {
		if a.Tick() == "" { // else a schedule has made it, beside what is measured
			m.begun <- begun{a.Ref.ID, clock.Now()}
		}
	}})
	return err
}

func (m *punctuality) measure(ctx context.Context, b *bench) (figures, error) {
	var f figures
	for _, rate := range []int{200, 1000} {
		if err := m.at(ctx, b, rate, &f, nil); err != nil {
			return nil, fmt.Errorf("at %d/s: %w", rate, err)
		}
	}
	return f, nil
}

// at measures at a rate of tasks a second. beside, if it is not nil, runs until all tasks have begun.
func (m *punctuality) at(
	ctx context.Context, b *bench, rate int, f *figures, beside func(ctx context.Context) error,
) error {
	n := rate * int(b.size.punctual/time.Second)
	owner := fmt.Sprintf("%d-%d-%d", b.round, rate, rand.Int64())
	start := clock.Now().Add(punctualLead)
	due := make(map[string]time.Time, n)
	tasks := make([]submission, n)
	for i := range tasks {
		at := start.Add(time.Duration(i) * time.Second / time.Duration(rate)).Truncate(time.Millisecond)
		s := plain()
		s.ID, s.Owner, s.RunAt = fmt.Sprintf("late-%s-%d", owner, i), owner, &at
		tasks[i], due[s.ID] = s, at
	}
	if err := stow(ctx, m.node.url(), n, func(i int) submission { return tasks[i] }); err != nil {
		return err
	}
	if !clock.Now().Before(start) {
		return fmt.Errorf("storing %d tasks took longer than %s", n, punctualLead)
	}
	var handled []float64
	err := alongside(ctx, beside, func(ctx context.Context) error {
		for range n {
			select {
			case s := <-m.begun:
				handled = append(handled, milliseconds(s.at.Sub(due[s.id])))
			case <-ctx.Done():
				return fmt.Errorf("%d of %d tasks started: %w", len(handled), n, context.Cause(ctx))
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	ended, err := awaitEnds(ctx, m.node.client, owner, n)
	if err != nil {
		return err
	}
	started := make([]float64, n)
	for i, t := range ended {
		started[i] = milliseconds(t.StartedAt.Sub(t.RunAt.Time))
	}
	label := fmt.Sprintf("at %s/s", thousands(int64(rate)))
	f.add("p50 "+label, percentile(started, 50), "ms")
	f.add("p99 "+label, percentile(started, 99), "ms")
	f.add("most "+label, percentile(started, 100), "ms")
	f.add("earliest "+label, percentile(started, 0), "ms")
	f.add("handler start p50 "+label, percentile(handled, 50), "ms")
	f.add("handler start p99 "+label, percentile(handled, 99), "ms")
	return nil
}

// alongside runs beside, if it is not nil, until f has returned.
func alongside(ctx context.Context, beside, f func(context.Context) error) error {
	if beside == nil {
		return f(ctx)
	}
	during, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- beside(during) }()
	err := f(ctx)
	stop()
	return cmp.Or(err, <-done)
}

// awaitEnds waits until the n tasks of an owner have succeeded, and returns them.
func awaitEnds(ctx context.Context, c *client.ClientWithResponses, owner string, n int) (tasks []wire.Task, err error) {
	params := client.ListTasksParams{Owner: &owner, State: wire.States{wire.StateSucceeded}}
	err = poll(ctx, 200*time.Millisecond, time.Minute, "the ends of all tasks", func(ctx context.Context) (bool, error) {
		tasks = tasks[:0]
		err := eachTask(ctx, c, params, func(t wire.Task) { tasks = append(tasks, t) })
		return len(tasks) == n, err
	})
	return tasks, err
}

// eachTask calls f for every task that a list has.
func eachTask(ctx context.Context, c *client.ClientWithResponses, params client.ListTasksParams, f func(wire.Task)) error {
	limit := 500
	params.Limit = &limit
	for {
		answer, err := c.ListTasksWithResponse(ctx, &params)
		if err != nil {
			return err
		}
		if answer.StatusCode() != http.StatusOK {
			return fmt.Errorf("listing tasks: %s: %.300s", answer.Status(), answer.Body)
		}
		for _, t := range answer.JSON200.Tasks {
			f(t)
		}
		if answer.JSON200.NextCursor == nil {
			return nil
		}
		params.Cursor = answer.JSON200.NextCursor
	}
}
