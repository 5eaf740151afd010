package main

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"

	"github.com/hibiken/asynq"

	"github.com/dts-sched/dts"
	"github.com/dts-sched/dts/internal/clock"
)

// submitters is the number of goroutines of a program that submit, one task in each call.
const submitters = concurrency

// program is one process that links a library for its tasks: it submits them and runs them.
type program struct {
	submit func(ctx context.Context) error // one task
	start  func(ctx context.Context) error // the worker, which ends with the round
}

// ofProgram is what came of a program.
type ofProgram struct {
	stored submitted // while nobody works
	full   drained   // of these
	empty  drained   // of as many that are submitted while the worker has nothing else to do, from the first submission on
}

func libraryRow() row {
	return row{
		name: "library", title: "One program with the library: it submits, leads and works",
		method: "A program that uses the library alone, without dtsd: `dts.Open` submits, and `dts.NewWorker` with `Lead` " +
			"works and leads all partitions; beside it asynq's client and server. One queue, 64 slots, no-op handlers, " +
			"payloads of 200 B, 64 goroutines that submit one task in each call. Full backlog: all tasks are stored before " +
			"the worker starts, from the start of the first handler to the last write about the last task; what the leaders " +
			"do with the tasks is in it. Empty backlog: as many tasks again while the same worker is idle, from the first " +
			"submission to the last write.",
		goals: []goal{
			atLeast("full backlog: DTS / asynq", 1.5), atLeast("empty backlog: DTS / asynq", 1),
			atLeast("submission: DTS / asynq", 0.9),
		},
		smoke: []goal{atLeast("full backlog: DTS / asynq", 0.4), atLeast("empty backlog: DTS / asynq", 0.3)},
		run: func(ctx context.Context, b *bench) (figures, error) {
			var own, bare ofProgram
			seen := &atomic.Pointer[counter]{}
			err := b.alternate(
				func() error {
					return b.apart(ctx, func() (err error) {
						bare, err = b.runProgram(ctx, seen, b.asynqProgram(seen))
						return err
					})
				},
				func() error {
					return b.apart(ctx, func() error {
						p, err := b.dtsProgram(seen)
						if err == nil {
							own, err = b.runProgram(ctx, seen, p)
						}
						return err
					})
				},
			)
			return libraryFigures(own, bare), err
		},
	}
}

func libraryFigures(own, bare ofProgram) figures {
	var f figures
	for _, phase := range []struct {
		name      string
		own, bare drained
	}{{"full backlog", own.full, bare.full}, {"empty backlog", own.empty, bare.empty}} {
		f.add(phase.name+": DTS / asynq", phase.own.rate/phase.bare.rate, "x")
		f.add(phase.name+": DTS", phase.own.rate, "tasks/s")
		f.add(phase.name+": asynq", phase.bare.rate, "tasks/s")
		f.add(phase.name+": CPU of Redis, DTS", phase.own.redis, "µs/task")
		f.add(phase.name+": CPU of Redis, asynq", phase.bare.redis, "µs/task")
		f.add(phase.name+": CPU of this process, DTS", phase.own.self, "µs/task")
		f.add(phase.name+": CPU of this process, asynq", phase.bare.self, "µs/task")
	}
	f.add("submission: DTS / asynq", own.stored.rate/bare.stored.rate, "x")
	f.add("submission: DTS", own.stored.rate, "tasks/s")
	f.add("submission: asynq", bare.stored.rate, "tasks/s")
	f.add("submission: CPU of Redis, DTS", own.stored.redis, "µs/task")
	f.add("submission: CPU of Redis, asynq", bare.stored.redis, "µs/task")
	f.add("submission: CPU of this process, DTS", own.stored.self, "µs/task")
	f.add("submission: CPU of this process, asynq", bare.stored.self, "µs/task")
	f.add("start of the worker to first handler, DTS", milliseconds(own.full.warmUp), "ms")
	f.add("start of the worker to first handler, asynq", milliseconds(bare.full.warmUp), "ms")
	return f
}

// runProgram measures a program. Its handlers count in seen.
func (b *bench) runProgram(ctx context.Context, seen *atomic.Pointer[counter], p program) (o ofProgram, err error) {
	n := b.size.tasks
	submit := func() error {
		return share(ctx, n, submitters, func(ctx context.Context, _ int) error { return p.submit(ctx) })
	}
	spent, err := b.startCosts(ctx)
	if err != nil {
		return o, err
	}
	begin := clock.Now()
	if err := submit(); err != nil {
		return o, err
	}
	o.stored.rate = float64(n) / clock.Since(begin).Seconds()
	if o.stored.taskCosts, err = spent.perTask(ctx, n); err != nil {
		return o, err
	}
	w := work{count: func(c *counter) { seen.Store(c) }}
	if o.full, err = b.timeDrain(ctx, w, n, func() error { return p.start(ctx) }); err != nil {
		return o, err
	}
	o.empty, err = b.timeStream(ctx, w, n, submit)
	return o, err
}

// timeStream measures from the submission of the first of n tasks to the last write about the last one. As many have
// ended before.
func (b *bench) timeStream(ctx context.Context, w work, n int, submit func() error) (d drained, err error) {
	seen := newCounter(n)
	w.count(seen)
	spent, err := b.startCosts(ctx)
	if err != nil {
		return d, err
	}
	begin := clock.Now()
	if err := errors.Join(submit(), seen.wait(ctx)); err != nil {
		return d, err
	}
	if err := b.awaitProcessed(ctx, 2*n); err != nil {
		return d, err
	}
	d.rate = float64(n) / clock.Since(begin).Seconds()
	d.taskCosts, err = spent.perTask(ctx, n)
	return d, err
}

func (b *bench) asynqProgram(seen *atomic.Pointer[counter]) program {
	c := asynq.NewClient(asynq.RedisClientOpt{Addr: b.redis.addr})
	b.cleanup(c.Close)
	return program{
		submit: func(ctx context.Context) error {
			_, err := c.EnqueueContext(ctx, asynq.NewTask(benchType, []byte(payload())), asynq.Queue(drainQueue))
			return err
		},
		start: func(context.Context) error {
			return b.startAsynq(oneQueue, func(context.Context, *asynq.Task) error { seen.Load().hit(); return nil })
		},
	}
}

func (b *bench) dtsProgram(seen *atomic.Pointer[counter]) (program, error) {
	c, err := dts.Open(b.redis.url())
	if err != nil {
		return program{}, err
	}
	b.cleanup(c.Close)
	return program{
		submit: func(ctx context.Context) error {
			_, err := c.Submit(ctx, dts.Submission{Type: benchType, Queue: drainQueue, Payload: json.RawMessage(payload())})
			return err
		},
		start: func(ctx context.Context) error { return b.startWorker(ctx, seen) },
	}, nil
}

// startWorker runs a worker that leads, until the end of the round.
func (b *bench) startWorker(ctx context.Context, seen *atomic.Pointer[counter]) error {
	w := dts.NewWorker(dts.WorkerOptions{
		Redis: b.redis.url(), Concurrency: concurrency, Queues: oneQueue, Lead: true, Logger: b.log,
	})
	w.Handle(benchType, func(context.Context, *dts.Task) (any, error) { seen.Load().hit(); return nil, nil })
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- w.Run(running) }()
	b.cleanup(func() error { stop(); return <-ended })
	select {
	case <-w.Ready():
		return nil
	case err := <-ended:
		ended <- nil
		return errors.Join(errors.New("the worker stopped before it was ready"), err)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
