// Command asynq is a program that uses asynq: its client submits, and its server works and forwards delayed tasks.
package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hibiken/asynq"

	"github.com/dts-sched/dts/bench/peers/peer"
)

const taskType = "work"

func main() { peer.Main(open) }

func open(_ context.Context, url string) (peer.Program, error) {
	redis, err := asynq.ParseRedisURI(url)
	if err != nil {
		return peer.Program{}, err
	}
	client, inspector := asynq.NewClient(redis), asynq.NewInspector(redis)
	info := func() (*asynq.QueueInfo, error) {
		info, err := inspector.GetQueueInfo(peer.Queue)
		if errors.Is(err, asynq.ErrQueueNotFound) {
			return &asynq.QueueInfo{}, nil
		}
		return info, err
	}
	return peer.Program{
		Payload: peer.JSONString, TextSize: peer.StringText, Poll: time.Millisecond,
		Submit: func(ctx context.Context, payload string, due time.Time) error {
			options := []asynq.Option{asynq.Queue(peer.Queue)}
			if !due.IsZero() {
				options = append(options, asynq.ProcessAt(due))
			}
			_, err := client.EnqueueContext(ctx, asynq.NewTask(taskType, []byte(payload)), options...)
			return err
		},
		Work: func(_ context.Context, handled func()) (func() error, error) {
			server := asynq.NewServer(redis, asynq.Config{
				Concurrency: peer.Concurrency, Queues: map[string]int{peer.Queue: 1}, LogLevel: asynq.ErrorLevel,
				TaskCheckInterval: 20 * time.Millisecond, DelayedTaskCheckInterval: time.Second,
			})
			stop := func() error { server.Shutdown(); return nil }
			return stop, server.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { handled(); return nil }))
		},
		Ended: func(context.Context) (int, error) {
			i, err := info()
			if err != nil {
				return 0, err
			}
			return i.ProcessedTotal, nil
		},
		Succeeded: func(context.Context) (int, error) {
			i, err := info()
			if err != nil {
				return 0, err
			}
			if left := i.Size; left != 0 || i.FailedTotal != 0 {
				return 0, fmt.Errorf("%d tasks are left, %d have failed", left, i.FailedTotal)
			}
			return i.ProcessedTotal, nil
		},
	}, nil
}
