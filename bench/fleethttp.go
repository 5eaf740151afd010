package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/hibiken/asynq"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/clock"
)

// fleetNodes is how many processes work in the row fleet-http, of DTS and of asynq.
const fleetNodes = 2

func fleetHTTPRow() row {
	return row{
		name: "fleet-http", title: "Two nodes, HTTP handlers in a third process",
		method: "`dtsd serve` in two processes with default settings but 64 slots each, and tasks of type `http`; " +
			"beside it two processes with an asynq server of 64 slots each, whose handlers make the same call with Go's " +
			"client. The server that is called is in this process and answers 204. All tasks are stored while their queue " +
			"is paused and the workers run; then it is resumed. From the first call to the last write about the last task.",
		goals: []goal{atLeast("DTS / asynq", 1)},
		run: func(ctx context.Context, b *bench) (figures, error) {
			w, err := httpWork(ctx, b)
			if err != nil {
				return nil, err
			}
			var dts, bare drained
			err = b.alternate(
				func() error {
					return b.apart(ctx, func() (err error) { bare, err = b.fleetOfAsynq(ctx, w); return err })
				},
				func() error { return b.apart(ctx, func() (err error) { dts, err = b.fleetOfDTS(ctx, w); return err }) },
			)
			var f figures
			f.add("DTS / asynq", dts.rate/bare.rate, "x")
			f.add("DTS", dts.rate, "tasks/s")
			f.add("asynq", bare.rate, "tasks/s")
			f.addCosts(dts.taskCosts, bare.taskCosts)
			f.add("resumption to first call, DTS", milliseconds(dts.warmUp), "ms")
			f.add("resumption to first call, asynq", milliseconds(bare.warmUp), "ms")
			return f, err
		},
	}
}

func (b *bench) fleetOfDTS(ctx context.Context, w work) (d drained, err error) {
	n := b.size.tasks
	var nodes []*child
	for range fleetNodes {
		c, err := b.startChild(ctx, "--concurrency", fmt.Sprint(concurrency))
		if err != nil {
			return d, err
		}
		nodes = append(nodes, c)
	}
	if err := clock.Sleep(ctx, calm); err != nil { // until each leads its share
		return d, err
	}
	if err := pauseQueue(ctx, nodes[0].client, drainQueue); err != nil {
		return d, err
	}
	err = stow(ctx, nodes[0].url, n, func(int) submission {
		return submission{Type: w.taskType, Queue: drainQueue, Payload: []byte(w.payload())}
	})
	if err != nil {
		return d, err
	}
	if err := nodes[0].awaitDue(ctx, drainQueue, n); err != nil {
		return d, err
	}
	d, err = b.timeDrain(ctx, w, n, func() error { return resumeQueue(ctx, nodes[0].client, drainQueue) })
	if err != nil {
		return d, err
	}
	return d, awaitFinishedBy(ctx, nodes, n)
}

func pauseQueue(ctx context.Context, c *client.ClientWithResponses, queue string) error {
	answer, err := c.PauseQueueWithResponse(ctx, queue, wire.QueuePause{})
	if err == nil && answer.StatusCode() != http.StatusNoContent {
		err = fmt.Errorf("pausing %s: %s", queue, answer.Status())
	}
	return err
}

func resumeQueue(ctx context.Context, c *client.ClientWithResponses, queue string) error {
	answer, err := c.ResumeQueueWithResponse(ctx, queue)
	if err == nil && answer.StatusCode() != http.StatusNoContent {
		err = fmt.Errorf("resuming %s: %s", queue, answer.Status())
	}
	return err
}

// awaitDue waits until exactly count due tasks of a queue wait in DTS, or in the queue for a worker.
func (c *child) awaitDue(ctx context.Context, queue string, count int) error {
	return awaitQueue(ctx, c.client, queue, count, func(q wire.Queue) int { return q.Waiting + q.Pending })
}

// awaitFinishedBy waits until the partitions of all nodes have exactly count finished tasks.
func awaitFinishedBy(ctx context.Context, nodes []*child, count int) error {
	what := fmt.Sprintf("%d finished tasks", count)
	return poll(ctx, 100*time.Millisecond, time.Minute, what, func(ctx context.Context) (bool, error) {
		sum := 0
		for _, c := range nodes {
			v, err := metric(ctx, c.url, "dts_tasks", `state="finished"`)
			if err != nil {
				return false, err
			}
			sum += int(v)
		}
		return sum == count, nil
	})
}

func (b *bench) fleetOfAsynq(ctx context.Context, w work) (d drained, err error) {
	if err := b.inspector.PauseQueue(drainQueue); err != nil {
		return d, err
	}
	for range fleetNodes {
		if err := b.startAsynqProcess(ctx); err != nil {
			return d, err
		}
	}
	what := fmt.Sprintf("%d asynq servers", fleetNodes)
	err = poll(ctx, 20*time.Millisecond, 20*time.Second, what, func(context.Context) (bool, error) {
		servers, err := b.inspector.Servers()
		return len(servers) == fleetNodes, err
	})
	if err != nil {
		return d, err
	}
	if err := b.fillAsynq(ctx, b.size.tasks, w.payload, asynq.Queue(drainQueue)); err != nil {
		return d, err
	}
	return b.timeDrain(ctx, w, b.size.tasks, func() error { return b.inspector.UnpauseQueue(drainQueue) })
}

// asynqFlag has this program be an asynq server and nothing else; its value is the address of Redis.
const asynqFlag = "asynq"

// startAsynqProcess runs an asynq server in a process of its own until the end of the round.
func (b *bench) startAsynqProcess(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), self, "-"+asynqFlag, b.redis.addr)
	cmd.Stderr, cmd.SysProcAttr = os.Stderr, dieWithParent()
	if err := cmd.Start(); err != nil {
		return err
	}
	b.cleanup(func() error {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		return cmd.Wait()
	})
	return nil
}

// serveAsynq runs an asynq server whose handlers make HTTP calls, until the process is told to end.
func serveAsynq(addr string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: concurrency}}
	s := newAsynq(addr, defaultQueues)
	err := s.Start(asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
		return callHTTP(ctx, client, t.Payload())
	}))
	if err != nil {
		return err
	}
	<-ctx.Done()
	s.Shutdown()
	return nil
}
