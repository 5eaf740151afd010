package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hibiken/asynq"
)

const (
	asynqCheck   = 20 * time.Millisecond // how often an idle asynq server looks; its default is 1 s
	asynqForward = time.Second           // how often asynq looks for tasks that have come due; its default is 5 s
	asynqCallers = 16                    // goroutines that enqueue
)

// newAsynq returns a bare asynq server.
func newAsynq(addr string, queues map[string]int) *asynq.Server {
	return asynq.NewServer(asynq.RedisClientOpt{Addr: addr}, asynq.Config{
		Concurrency: concurrency, Queues: queues, TaskCheckInterval: asynqCheck, DelayedTaskCheckInterval: asynqForward,
		LogLevel: asynq.ErrorLevel,
	})
}

// startAsynq runs a bare asynq server until the end of the round.
func (b *bench) startAsynq(queues map[string]int, handle asynq.HandlerFunc) error {
	s := newAsynq(b.redis.addr, queues)
	if err := s.Start(handle); err != nil {
		return err
	}
	b.cleanup(func() error { s.Shutdown(); return nil })
	return nil
}

// fillAsynq enqueues n tasks in asynq, with the payload of each.
func (b *bench) fillAsynq(ctx context.Context, n int, payload func() string, o ...asynq.Option) error {
	c := asynq.NewClient(asynq.RedisClientOpt{Addr: b.redis.addr})
	err := share(ctx, n, asynqCallers, func(ctx context.Context, _ int) error {
		_, err := c.EnqueueContext(ctx, asynq.NewTask(benchType, []byte(payload())), o...)
		return err
	})
	return errors.Join(err, c.Close())
}

// processed is the number of deliveries that workers have finished with in drainQueue, of DTS and of asynq. Those that
// waited in the queue of a node count.
func (b *bench) processed() (int, error) {
	names, err := b.inspector.Queues()
	if err != nil {
		return 0, err
	}
	total := 0
	for _, name := range names {
		if of, _, _ := strings.Cut(name, "@"); of != drainQueue {
			continue
		}
		info, err := b.inspector.GetQueueInfo(name)
		if errors.Is(err, asynq.ErrQueueNotFound) {
			continue
		}
		if err != nil {
			return 0, err
		}
		total += info.ProcessedTotal
	}
	return total, nil
}

// awaitProcessed waits until n deliveries are finished with: the last write of a worker about a task.
func (b *bench) awaitProcessed(ctx context.Context, n int) error {
	return poll(ctx, time.Millisecond, time.Minute, fmt.Sprintf("%d processed deliveries", n), func(context.Context) (bool, error) {
		done, err := b.processed()
		return done >= n, err
	})
}
