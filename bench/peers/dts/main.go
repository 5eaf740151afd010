// Command dts is a program that uses DTS as a library, without dtsd: it submits, leads and works.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/hibiken/asynq"

	"github.com/dts-sched/dts"
	"github.com/dts-sched/dts/bench/peers/peer"
)

const taskType = "work"

func main() { peer.Main(open) }

func open(_ context.Context, url string) (peer.Program, error) {
	client, err := dts.Open(url)
	if err != nil {
		return peer.Program{}, err
	}
	redis, err := asynq.ParseRedisURI(url)
	if err != nil {
		return peer.Program{}, err
	}
	inspector := asynq.NewInspector(redis)
	return peer.Program{
		Payload: peer.JSONString, TextSize: peer.StringText, Poll: time.Millisecond,
		Submit: func(ctx context.Context, payload string, due time.Time) error {
			_, err := client.Submit(ctx, submission(payload, due))
			return err
		},
		SubmitMany: func(ctx context.Context, payloads []string, due time.Time) error {
			many := make([]dts.Submission, len(payloads))
			for i, p := range payloads {
				many[i] = submission(p, due)
			}
			results, err := client.SubmitMany(ctx, many)
			for _, r := range results {
				err = errors.Join(err, r.Err)
			}
			return err
		},
		Work: func(ctx context.Context, handled func()) (func() error, error) { return work(ctx, url, handled) },
		// A worker of DTS keeps asynq's counter of processed deliveries. It is the last write about a task.
		Ended: func(context.Context) (int, error) {
			info, err := inspector.GetQueueInfo(peer.Queue)
			if err != nil {
				return 0, err
			}
			return info.ProcessedTotal, nil
		},
		Succeeded: func(ctx context.Context) (int, error) { return succeeded(ctx, client) },
	}, nil
}

func submission(payload string, due time.Time) dts.Submission {
	return dts.Submission{Type: taskType, Queue: peer.Queue, Payload: json.RawMessage(payload), RunAt: due}
}

// work starts a worker that leads, and waits until it takes tasks.
func work(ctx context.Context, url string, handled func()) (stop func() error, err error) {
	w := dts.NewWorker(dts.WorkerOptions{
		Redis: url, Concurrency: peer.Concurrency, Queues: map[string]int{peer.Queue: 1}, Lead: true,
		Logger: slog.New(slog.DiscardHandler),
	})
	w.Handle(taskType, func(context.Context, *dts.Task) (any, error) { handled(); return nil, nil })
	running, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(running) }()
	stop = func() error { cancel(); return <-ended }
	select {
	case <-w.Ready():
		return stop, nil
	case err := <-ended:
		cancel()
		return nil, errors.Join(errors.New("the worker stopped before it was ready"), err)
	}
}

func succeeded(ctx context.Context, client *dts.Client) (n int, err error) {
	for task, err := range client.List(ctx, dts.TaskFilter{}) {
		if err != nil {
			return n, err
		}
		if task.State != dts.StateSucceeded {
			return n, fmt.Errorf("task %s is %s", task.ID, task.State)
		}
		n++
	}
	return n, nil
}
