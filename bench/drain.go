package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/hibiken/asynq"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/worker/executor"
)

const drainQueue = "default"

// defaultQueues are those of dtsd's default configuration.
var defaultQueues = map[string]int{"critical": 6, drainQueue: 3, "low": 1}

// oneQueue is what a worker serves that has nothing to choose from.
var oneQueue = map[string]int{drainQueue: 1}

// work is what drained tasks do.
type work struct {
	taskType string
	payload  func() string
	handle   func(executor.Attempt)                         // of DTS's bench type
	asynq    func(ctx context.Context, t *asynq.Task) error // the same for asynq
	count    func(*counter)                                 // has the starts of handlers counted from now on
}

// drained is what came of a drain.
type drained struct {
	taskCosts
	rate   float64       // tasks a second, from the start of the first handler to the last write
	warmUp time.Duration // from the start of the worker to that of the first handler
}

// drainGoal is the least that DTS is to reach in every drain.
const drainGoal = 1.5

// drainRow compares draining in DTS and in asynq. queues are those that the workers serve; the tasks are in drainQueue.
func drainRow(name, title, method string, queues map[string]int, newWork func(context.Context, *bench) (work, error), smoke []goal) row {
	return row{
		name: name, title: title, method: method, goals: []goal{atLeast("DTS / asynq", drainGoal)}, smoke: smoke,
		run: func(ctx context.Context, b *bench) (figures, error) {
			w, err := newWork(ctx, b)
			if err != nil {
				return nil, err
			}
			var dts, bare drained
			err = b.alternate(
				func() error {
					return b.apart(ctx, func() (err error) { bare, err = b.drainAsynq(ctx, w, queues); return err })
				},
				func() error {
					o := drainOptions{queues: queues, task: w.task}
					return b.apart(ctx, func() (err error) { dts, err = b.drainDTS(ctx, w, o); return err })
				},
			)
			return drainFigures(dts, bare), err
		},
	}
}

func drainFigures(dts, bare drained) figures {
	var f figures
	f.add("DTS / asynq", dts.rate/bare.rate, "x")
	f.add("DTS", dts.rate, "tasks/s")
	f.add("asynq", bare.rate, "tasks/s")
	f.addCosts(dts.taskCosts, bare.taskCosts)
	f.add("start of the worker to first handler, DTS", milliseconds(dts.warmUp), "ms")
	f.add("start of the worker to first handler, asynq", milliseconds(bare.warmUp), "ms")
	return f
}

// timeDrain measures from the start of a worker to the last of n tasks.
func (b *bench) timeDrain(ctx context.Context, w work, n int, start func() error) (drained, error) {
	seen := newCounter(n)
	w.count(seen)
	spent, err := b.startCosts(ctx)
	if err != nil {
		return drained{}, err
	}
	begin := clock.Now()
	if err := start(); err != nil {
		return drained{}, err
	}
	if err := seen.wait(ctx); err != nil {
		return drained{}, err
	}
	if err := b.awaitProcessed(ctx, n); err != nil {
		return drained{}, err
	}
	first := *seen.first.Load()
	d := drained{rate: float64(n) / clock.Since(first).Seconds(), warmUp: first.Sub(begin)}
	d.taskCosts, err = spent.perTask(ctx, n)
	return d, err
}

func (b *bench) drainAsynq(ctx context.Context, w work, queues map[string]int) (drained, error) {
	n := b.size.tasks
	if err := b.fillAsynq(ctx, n, w.payload, asynq.Queue(drainQueue)); err != nil {
		return drained{}, err
	}
	return b.timeDrain(ctx, w, n, func() error { return b.startAsynq(queues, w.asynq) })
}

// task is a task of the work in drainQueue.
func (w work) task(int) submission {
	return submission{Type: w.taskType, Queue: drainQueue, Payload: json.RawMessage(w.payload())}
}

// drainOptions are what drains in DTS differ in.
type drainOptions struct {
	queues    map[string]int                           // those that the worker serves
	task      func(i int) submission                   // task i, in drainQueue
	await     func(ctx context.Context, n *node) error // waits until the scheduler takes such tasks; nil: it does at once
	uncounted bool                                     // the nodes count nothing by minute
	workers   int                                      // 0: one
}

// drainDTS stores all tasks with a scheduler and no worker, and starts the worker then.
func (b *bench) drainDTS(ctx context.Context, w work, o drainOptions) (drained, error) {
	n := b.size.tasks
	leader, err := b.startNode(ctx, nodeOptions{
		roles: []string{config.RoleScheduler, config.RoleAPI}, uncounted: o.uncounted,
	})
	if err != nil {
		return drained{}, err
	}
	if o.await != nil {
		if err := o.await(ctx, leader); err != nil {
			return drained{}, err
		}
	}
	if err := stow(ctx, leader.url(), n, o.task); err != nil {
		return drained{}, err
	}
	if err := leader.awaitWaiting(ctx, drainQueue, n); err != nil {
		return drained{}, err
	}
	if err := b.redis.awaitIndexed(ctx); err != nil { // else some drains would pay for it, and others not
		return drained{}, err
	}
	d, err := b.timeDrain(ctx, w, n, func() error {
		for range max(1, o.workers) {
			if _, err := b.startNode(ctx, nodeOptions{
				roles: []string{config.RoleWorker}, queues: o.queues, handle: w.handle, uncounted: o.uncounted,
			}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return drained{}, err
	}
	return d, leader.awaitFinished(ctx, n)
}

// noopWork does nothing: the handlers count their starts, in DTS and in asynq.
func noopWork(context.Context, *bench) (work, error) {
	var seen *counter
	return work{
		taskType: benchType, payload: payload,
		handle: func(executor.Attempt) { seen.hit() },
		asynq:  func(context.Context, *asynq.Task) error { seen.hit(); return nil },
		count:  func(c *counter) { seen = c },
	}, nil
}

// goWork does in Go what a handler of a program does: it reads its arguments from JSON, and computes something from them.
func goWork(context.Context, *bench) (work, error) {
	var seen *counter
	handle := func(payload []byte) error {
		seen.hit()
		var args struct {
			To   string `json:"to"`
			Body string `json:"body"`
		}
		if err := json.Unmarshal(payload, &args); err != nil {
			return fmt.Errorf("reading arguments: %w", err)
		}
		if sum := sha256.Sum256([]byte(args.To + args.Body)); sum == [sha256.Size]byte{} {
			return errors.New("the sum is zero")
		}
		return nil
	}
	return work{
		taskType: benchType,
		payload:  func() string { return fmt.Sprintf(`{"to":"someone@example.com","body":%q}`, text(payloadSize-44)) },
		handle:   func(a executor.Attempt) { _ = handle(a.Payload) },
		asynq:    func(_ context.Context, t *asynq.Task) error { return handle(t.Payload()) },
		count:    func(c *counter) { seen = c },
	}, nil
}

// httpWork calls an HTTP server in this process, which counts the calls.
func httpWork(ctx context.Context, b *bench) (work, error) {
	var seen *counter
	url, err := b.serveHTTP(ctx, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		seen.hit()
		w.WriteHeader(http.StatusNoContent)
	}))
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: concurrency}}
	b.cleanup(func() error { client.CloseIdleConnections(); return nil })
	return work{
		taskType: "http",
		payload:  func() string { return fmt.Sprintf(`{"method":"POST","url":%q,"body":%q}`, url, text(128)) },
		asynq:    func(ctx context.Context, t *asynq.Task) error { return callHTTP(ctx, client, t.Payload()) },
		count:    func(c *counter) { seen = c },
	}, err
}

// serveHTTP serves until the end of the round and returns the server's address.
func (b *bench) serveHTTP(ctx context.Context, h http.Handler) (string, error) {
	var listen net.ListenConfig
	l, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	s := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	b.cleanup(func() error {
		failed := s.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			failed = errors.Join(failed, err)
		}
		return failed
	})
	return "http://" + l.Addr().String(), nil
}

// callHTTP is what an asynq handler does for a payload of DTS's type http.
func callHTTP(ctx context.Context, client *http.Client, payload []byte) error {
	var call struct {
		Method, URL string
		Body        json.RawMessage
	}
	if err := json.Unmarshal(payload, &call); err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, call.Method, call.URL, bytes.NewReader(call.Body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		return err
	}
	if answer.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("answered %s", answer.Status)
	}
	return nil
}
