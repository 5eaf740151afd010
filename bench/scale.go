package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hibiken/asynq"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/worker/executor"
)

// shape is an installation of the row scale.
type shape struct {
	shards  int // of a Redis Cluster
	workers int // nodes that serve the queue of the tasks
	nodes   int // all nodes; those that are no such workers serve another queue, and have nothing to do
}

func (s shape) String() string {
	return fmt.Sprintf("%s, %s, %s", plural(s.shards, "shard"), plural(s.workers, "worker"), plural(s.nodes, "node"))
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func scaleRow() row {
	return row{
		name: "scale", title: "A task on 1 to 4 shards, with 1 to 8 workers",
		method: "A Redis Cluster of primaries, with stock settings otherwise. All nodes are in this process. They are " +
			"schedulers and workers with 64 slots; one of them serves the API. Tasks of one queue are stored while it is " +
			"paused; then it is resumed. From that to the last write about the last task: commands of all shards, with " +
			"those inside scripts, and their CPU time, without what they use in that time when idle, divided by the " +
			"number of tasks. Idle: over a window before that, by node. Handlers do nothing.",
		goals: []goal{atMost("commands, the most / the least of these", scaleGoal)},
		run: func(ctx context.Context, b *bench) (figures, error) {
			shapes := []shape{{1, 1, 1}, {1, 8, 8}, {2, 1, 1}, {2, 8, 8}, {4, 1, 1}, {4, 8, 8}}
			return b.scale(ctx, shapes)
		},
	}
}

func nodesRow() row {
	return row{
		name: "nodes", title: "A task beside 1 to 100 nodes",
		method: "As above, with one shard. Up to 8 nodes serve the queue of the tasks. The others serve another one, in " +
			"which nothing is. 16 nodes are schedulers.",
		goals: []goal{atMost("commands, the most / the least of these", scaleGoal)},
		run: func(ctx context.Context, b *bench) (figures, error) {
			return b.scale(ctx, []shape{{1, 1, 1}, {1, 8, 10}, {1, 8, 100}})
		},
	}
}

// scaleGoal is how much more commands a task may need in one installation than in another one.
const scaleGoal = 1.5

func (b *bench) scale(ctx context.Context, shapes []shape) (figures, error) {
	var f figures
	var each []float64
	for _, s := range shapes {
		err := b.apart(ctx, func() error {
			commands, err := b.scaleTo(ctx, s, &f)
			each = append(each, commands)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s, err)
		}
	}
	f.add("commands, the most / the least of these", slices.Max(each)/slices.Min(each), "x")
	return f, nil
}

// scaleTo adds what a task costs in an installation, and returns the commands of it.
func (b *bench) scaleTo(ctx context.Context, s shape, f *figures) (commands float64, err error) {
	c, err := b.startShards(ctx, s.shards)
	if err != nil {
		return 0, err
	}
	seen := newCounter(b.size.tasks)
	first, err := b.startShape(ctx, s, c, seen)
	if err != nil {
		return 0, err
	}
	if err := clock.Sleep(ctx, calm); err != nil {
		return 0, err
	}
	idle, self, err := b.idleOf(ctx, c)
	if err != nil {
		return 0, err
	}
	used, took, err := b.drainShards(ctx, c, first, seen)
	if err != nil {
		return 0, err
	}
	add := func(name string, value float64, unit string) { f.add(s.String()+": "+name, value, unit) }
	tasks, nodes := float64(b.size.tasks), float64(s.nodes)
	commands = (used.commands - idle.commands*took) / tasks
	add("commands", commands, "a task")
	add("CPU of Redis", (used.cpu-idle.cpu*took)/tasks*1e6, "µs/task")
	add("CPU of the busiest shard, with what it uses when idle", slices.Max(used.each)/tasks*1e6, "µs/task")
	add("tasks", tasks/took, "tasks/s")
	add("idle, commands", idle.commands/nodes, "/s a node")
	add("idle, CPU of Redis", idle.cpu/nodes*1e3, "ms/s a node")
	add("idle, output of Redis", idle.output/nodes/1e3, "kB/s a node")
	add("idle, CPU of this process", self/nodes*1e3, "ms/s a node")
	return commands, nil
}

// drainShards stores tasks while their queue is paused. It returns what it costs to run them when the queue is resumed,
// and how many seconds that takes.
func (b *bench) drainShards(
	ctx context.Context, c *shards, first *node, seen *counter,
) (used consumption, took float64, err error) {
	n := b.size.tasks
	if err := pauseQueue(ctx, first.client, drainQueue); err != nil {
		return used, 0, err
	}
	if err := stow(ctx, first.url(), n, func(int) submission { return plain() }); err != nil {
		return used, 0, err
	}
	waiting := func(q wire.Queue) int { return q.Waiting + q.Pending }
	if err := awaitQueue(ctx, first.client, drainQueue, n, waiting); err != nil {
		return used, 0, err
	}
	inspector := asynq.NewInspectorFromRedisClient(b.client(c))
	before, err := c.spent(ctx)
	if err != nil {
		return used, 0, err
	}
	if err := resumeQueue(ctx, first.client, drainQueue); err != nil {
		return used, 0, err
	}
	if err := seen.wait(ctx); err != nil {
		return used, 0, err
	}
	err = poll(ctx, 20*time.Millisecond, time.Minute, "the last write", func(context.Context) (bool, error) {
		info, err := inspector.GetQueueInfo(drainQueue)
		return err == nil && info.ProcessedTotal >= n, err
	})
	if err != nil {
		return used, 0, err
	}
	after, err := c.spent(ctx)
	return after.since(before), after.at.Sub(before.at).Seconds(), err
}

// startShape starts the nodes, and returns the one that serves the API. Handlers count in seen.
func (b *bench) startShape(ctx context.Context, s shape, c *shards, seen *counter) (first *node, err error) {
	for i := range s.nodes {
		o := nodeOptions{
			roles: []string{config.RoleWorker, config.RoleScheduler}, queues: oneQueue, redis: c.url,
			handle: func(executor.Attempt) { seen.hit() },
		}
		if i >= s.workers {
			o.queues = map[string]int{"elsewhere": 1}
		}
		if i >= fleetSchedulers {
			o.roles = []string{config.RoleWorker}
		}
		if i > 0 {
			if _, err := b.startNode(ctx, o); err != nil {
				return nil, fmt.Errorf("node %d: %w", i+1, err)
			}
			continue
		}
		o.roles = fullNode
		if first, err = b.startNode(ctx, o); err != nil {
			return nil, err
		}
	}
	return first, nil
}

// idleOf is what the shards use in a second while nothing is to do, and the CPU time of this process.
func (b *bench) idleOf(ctx context.Context, c *shards) (idle consumption, self float64, err error) {
	before, err := c.spent(ctx)
	if err != nil {
		return idle, 0, err
	}
	self = selfCPU()
	if err := clock.Sleep(ctx, b.size.window/2); err != nil {
		return idle, 0, err
	}
	after, err := c.spent(ctx)
	if err != nil {
		return idle, 0, err
	}
	idle = after.since(before)
	took := after.at.Sub(before.at).Seconds()
	idle.commands, idle.cpu, idle.output = idle.commands/took, idle.cpu/took, idle.output/took
	return idle, (selfCPU() - self) / took, nil
}
