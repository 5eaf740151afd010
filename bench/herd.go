package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hibiken/asynq"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/worker/executor"
)

// herdLead is the time for storing the tasks of a herd before they are due: a second for each storeRate tasks, and some.
const (
	storeRate = 5000
	herdLead  = 2 * time.Second
)

func (b *bench) herdTime(n int) time.Time {
	return clock.Now().Add(time.Duration(n) * time.Second / storeRate).Add(herdLead).Truncate(time.Second).Add(time.Second)
}

func herdRow() row {
	return row{
		name: "herd", title: "Herd: tasks due at one instant",
		method: "All tasks are stored before they are due, at a whole second. From that instant to the last write about the last task. " +
			"DTS: one full node. Both serve the three default queues; the tasks are in `default`. asynq: `ProcessAt`, forwarder every 1 s, poll every 20 ms. No-op handlers, 64 at once.",
		goals: []goal{atLeast("DTS / asynq", 1.2)}, smoke: []goal{atLeast("DTS / asynq", 0.4)},
		run: func(ctx context.Context, b *bench) (figures, error) {
			w, err := noopWork(ctx, b)
			if err != nil {
				return nil, err
			}
			var dts, bare drained
			err = b.alternate(
				func() error {
					return b.apart(ctx, func() (err error) { bare, err = b.herdAsynq(ctx, w); return err })
				},
				func() error { return b.apart(ctx, func() (err error) { dts, err = b.herdDTS(ctx, w); return err }) },
			)
			var f figures
			f.add("DTS / asynq", dts.rate/bare.rate, "x")
			f.add("DTS", dts.rate, "tasks/s")
			f.add("asynq", bare.rate, "tasks/s")
			f.addCosts(dts.taskCosts, bare.taskCosts)
			f.add("due to first handler, DTS", milliseconds(dts.warmUp), "ms")
			f.add("due to first handler, asynq", milliseconds(bare.warmUp), "ms")
			return f, err
		},
	}
}

func (b *bench) herdDTS(ctx context.Context, w work) (drained, error) {
	n := b.size.tasks
	full, err := b.startNode(ctx, nodeOptions{roles: fullNode, handle: w.handle})
	if err != nil {
		return drained{}, err
	}
	due := b.herdTime(n)
	err = stow(ctx, full.url(), n, func(int) submission {
		s := plain()
		s.Queue, s.RunAt = drainQueue, &due
		return s
	})
	if err != nil {
		return drained{}, err
	}
	d, err := b.timeHerd(ctx, w, n, due)
	if err != nil {
		return drained{}, err
	}
	return d, full.awaitFinished(ctx, n)
}

func (b *bench) herdAsynq(ctx context.Context, w work) (drained, error) {
	n := b.size.tasks
	if err := b.startAsynq(defaultQueues, w.asynq); err != nil {
		return drained{}, err
	}
	due := b.herdTime(n)
	if err := b.fillAsynq(ctx, n, w.payload, asynq.ProcessAt(due), asynq.Queue(drainQueue)); err != nil {
		return drained{}, err
	}
	return b.timeHerd(ctx, w, n, due)
}

// timeHerd measures from the due time to the last write about n tasks.
func (b *bench) timeHerd(ctx context.Context, w work, n int, due time.Time) (drained, error) {
	if !clock.Now().Before(due) {
		return drained{}, fmt.Errorf("storing %d tasks took too long for a herd", n)
	}
	seen := newCounter(n)
	w.count(seen)
	if err := clock.Sleep(ctx, clock.Until(due)-50*time.Millisecond); err != nil {
		return drained{}, err
	}
	spent, err := b.startCosts(ctx)
	if err != nil {
		return drained{}, err
	}
	if err := seen.wait(ctx); err != nil {
		return drained{}, err
	}
	if err := b.awaitProcessed(ctx, n); err != nil {
		return drained{}, err
	}
	d := drained{rate: float64(n) / clock.Since(due).Seconds(), warmUp: seen.first.Load().Sub(due)}
	d.taskCosts, err = spent.perTask(ctx, n)
	return d, err
}

// orderSpan is the time over which the tasks of orderRow are due: short, so that a backlog forms.
const orderSpan = 500 * time.Millisecond

func orderRow() row {
	return row{
		name: "order", title: "Order of begins in a backlog of one queue",
		method: "Half as many tasks as in the herd, all in one queue, due over 500 ms: faster than they can run. For each begin, by how " +
			"much the latest due time that had begun before exceeds its own; 0 for all means strict order of due times.",
		goals: []goal{atMost("overtaken by, p99", 200)},
		run: func(ctx context.Context, b *bench) (figures, error) {
			n := b.size.tasks / 2
			seen := newCounter(n)
			var mu sync.Mutex
			sequence := make([]float64, 0, n)
			full, err := b.startNode(ctx, nodeOptions{roles: fullNode, handle: func(a executor.Attempt) {
				offset, _, _ := strings.Cut(a.Ref.ID, ".")
				ms, err := strconv.ParseFloat(offset, 64)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					sequence = append(sequence, ms)
				}
				seen.hit()
			}})
			if err != nil {
				return nil, err
			}
			start := b.herdTime(n)
			err = stow(ctx, full.url(), n, func(i int) submission {
				offset := time.Duration(i) * orderSpan / time.Duration(n)
				due := start.Add(offset)
				s := plain()
				s.ID, s.Queue, s.RunAt = fmt.Sprintf("%d.%d", offset.Milliseconds(), i), drainQueue, &due
				return s
			})
			if err != nil {
				return nil, err
			}
			if err := seen.wait(ctx); err != nil {
				return nil, err
			}
			took := clock.Since(start)
			late := overtakes(sequence)
			var f figures
			f.add("overtaken by, p50", percentile(late, 50), "ms")
			f.add("overtaken by, p99", percentile(late, 99), "ms")
			f.add("overtaken by, most", percentile(late, 100), "ms")
			f.add("first due to last begun", milliseconds(took), "ms")
			return f, full.awaitFinished(ctx, n)
		},
	}
}
