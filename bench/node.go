package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/app"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/edge"
	"github.com/dts-sched/dts/internal/web"
	"github.com/dts-sched/dts/internal/worker/executor"
	"github.com/dts-sched/dts/internal/worker/executor/builtin"
)

// benchType is the task type of the bench: its executor calls a function of the row and takes any payload.
const benchType = "bench"

// concurrency is the number of attempts that a worker under test runs at once, of DTS and of asynq.
const concurrency = 64

// node is one node of DTS in this process.
type node struct {
	*app.App
	client *client.ClientWithResponses
	end    func() error
}

// nodeOptions says how a node differs from the default configuration.
type nodeOptions struct {
	roles  []string
	queues map[string]int // nil: those of the default configuration
	handle func(executor.Attempt)
	redis  string // its URL; "": the server that all rows share

	uncounted  bool // it counts nothing by minute
	partitions int  // 0: the default
}

var fullNode = []string{config.RoleScheduler, config.RoleWorker, config.RoleAPI}

// startNode runs a node until the end of the round, or until its end is called.
func (b *bench) startNode(ctx context.Context, o nodeOptions) (*node, error) {
	c := config.Default()
	c.Redis, c.Listen = config.URL(cmp.Or(o.redis, b.redis.url())), "127.0.0.1:0"
	c.Roles, c.Concurrency = o.roles, concurrency
	c.MaxStreamsPerAddress = c.MaxStreams // all callers have the same address
	if o.queues != nil {
		c.Queues = o.queues
	}
	c.Partitions = cmp.Or(o.partitions, c.Partitions)
	a, err := app.New(ctx, app.Options{
		Config: c, Executors: executors(o.handle), Version: "bench", Log: b.log, Uncounted: o.uncounted,
		Pages: func(s *edge.Server, c *control.Control, monitor bool) error {
			return web.Register(s, web.Options{Control: c, Version: "bench", Monitor: monitor})
		},
	})
	if err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- a.Run(running) }()
	n := &node{App: a, end: func() error {
		stop()
		err := <-ended
		ended <- nil
		return err
	}}
	b.cleanup(n.end)
	select {
	case <-a.Ready():
	case err := <-ended:
		ended <- nil
		return nil, fmt.Errorf("the node stopped before it was ready: %w", err)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	n.client, err = client.NewClientWithResponses(n.url(), client.WithHTTPClient(callers))
	return n, err
}

func (n *node) url() string { return "http://" + n.Addr() }

// executors is the table of built-in executors and that of the bench.
func executors(handle func(executor.Attempt)) executor.Table {
	return append(builtin.Table(), &executor.Descriptor{
		Type: benchType, Timeout: time.Minute,
		CheckPayload: func(context.Context, json.RawMessage) error { return nil },
		New:          func(executor.Options) (executor.Executor, error) { return handler(handle), nil },
	})
}

// handler is an executor that calls itself.
type handler func(executor.Attempt)

// Execute calls the function, if there is one, and succeeds.
func (h handler) Execute(_ context.Context, a executor.Attempt) (string, error) {
	if h != nil {
		h(a)
	}
	return "", nil
}

// metric reads a metric of a node that listens at base, summed over its labels; part must be contained in the labels.
func metric(ctx context.Context, base, name, part string) (float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	answer, err := callers.Do(request)
	if err != nil {
		return 0, err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for line := range strings.SplitSeq(string(text), "\n") {
		labels, value, ok := strings.Cut(line, "} ")
		if ok && strings.HasPrefix(labels, name+"{") && strings.Contains(labels, part) {
			v, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return 0, fmt.Errorf("metric %s: %w", name, err)
			}
			sum += v
		}
	}
	return sum, nil
}

// finished is the number of finished tasks in the partitions that the node leads.
func (n *node) finished(ctx context.Context) (int, error) {
	v, err := metric(ctx, n.url(), "dts_tasks", `state="finished"`)
	return int(v), err
}

// awaitFinished waits until the node's partitions have exactly count finished tasks.
func (n *node) awaitFinished(ctx context.Context, count int) error {
	return poll(ctx, 100*time.Millisecond, time.Minute, fmt.Sprintf("%d finished tasks", count), func(ctx context.Context) (bool, error) {
		got, err := n.finished(ctx)
		return got == count, err
	})
}

// awaitWaiting waits until exactly count due tasks of a queue wait in DTS, as nobody serves it.
func (n *node) awaitWaiting(ctx context.Context, queue string, count int) error {
	return awaitQueue(ctx, n.client, queue, count, func(q wire.Queue) int { return q.Waiting })
}

// awaitQueue waits until a queue has exactly count tasks of those that waiting counts.
func awaitQueue(
	ctx context.Context, c *client.ClientWithResponses, queue string, count int, waiting func(wire.Queue) int,
) error {
	what := fmt.Sprintf("%d waiting tasks", count)
	return poll(ctx, 100*time.Millisecond, time.Minute, what, func(ctx context.Context) (bool, error) {
		list, err := c.ListQueuesWithResponse(ctx)
		if err != nil {
			return false, err
		}
		if list.JSON200 == nil {
			return false, fmt.Errorf("listing queues: %s", list.Status())
		}
		for _, q := range list.JSON200.Queues {
			if q.Name == queue {
				return waiting(q) == count, nil
			}
		}
		return false, nil
	})
}

// counter counts the starts of handlers.
type counter struct {
	want  int64
	seen  atomic.Int64
	first atomic.Pointer[time.Time]
	all   chan struct{} // closed when want is reached
}

func newCounter(want int) *counter { return &counter{want: int64(want), all: make(chan struct{})} }

// hit counts one start.
func (c *counter) hit() {
	switch c.seen.Add(1) {
	case 1:
		now := now()
		c.first.Store(&now)
		if c.want == 1 {
			close(c.all)
		}
	case c.want:
		close(c.all)
	}
}

// wait waits until all have started.
func (c *counter) wait(ctx context.Context) error {
	select {
	case <-c.all:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%d of %d handlers started: %w", c.seen.Load(), c.want, context.Cause(ctx))
	}
}
