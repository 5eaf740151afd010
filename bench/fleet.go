package main

import (
	"context"
	"fmt"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/worker/executor"
)

// fleetPings is how many single tasks a fleet gets.
const fleetPings = 100

// fleetPatience is how long these may take together: a fleet that needs longer is measured by those that started.
const fleetPatience = 30 * time.Second

// measureFleet runs nodes, all of which are workers, some also schedulers, and one of these serves the API. It measures what they
// cost when idle and how soon they start tasks.
func (b *bench) measureFleet(ctx context.Context, nodes, schedulers int, queues map[string]int, queue func() string) (figures, error) {
	begun := make(chan time.Time, fleetPings)
	handle := func(executor.Attempt) { begun <- clock.Now() }
	full, err := b.startNode(ctx, nodeOptions{roles: fullNode, queues: queues, handle: handle})
	if err != nil {
		return nil, err
	}
	for i := 1; i < nodes; i++ {
		roles := []string{config.RoleWorker, config.RoleScheduler}
		if i >= schedulers {
			roles = roles[:1]
		}
		if _, err := b.startNode(ctx, nodeOptions{roles: roles, queues: queues, handle: handle}); err != nil {
			return nil, fmt.Errorf("node %d: %w", i+1, err)
		}
	}
	if err := clock.Sleep(ctx, calm); err != nil {
		return nil, err
	}
	self, start := selfCPU(), clock.Now()
	idle, err := b.redis.window(ctx, b.size.window)
	if err != nil {
		return nil, err
	}
	self = (selfCPU() - self) / clock.Since(start).Seconds()
	var took []float64
	busy, err := b.redis.during(ctx, func() (err error) {
		took, err = pingFleet(ctx, begun, full.url(), queue)
		return err
	})
	if err != nil {
		return nil, err
	}
	commands, cpu := busy.beyond(idle, len(took))
	var f figures
	f.add("nodes", float64(nodes), "")
	f.add("of these, schedulers", float64(schedulers), "")
	f.add("idle", idle.commands, "commands/s")
	f.add("idle, a node", idle.commands/float64(nodes), "commands/s")
	f.add("CPU of Redis, idle", idle.cpu*100, "%")
	f.add("CPU of this process, idle", self*100, "%")
	f.add("tasks that started within 30 s", float64(len(took)), fmt.Sprintf("of %d", fleetPings))
	f.add("a task, beyond idle", commands, "commands")
	f.add("CPU of Redis for a task, beyond idle", cpu, "µs")
	f.add("submission to start p50", percentile(took, 50), "ms")
	f.add("submission to start p99", percentile(took, 99), "ms")
	return f, nil
}

// pingFleet submits single tasks, one after the other, and returns how long each took to begin, in ms, of those that began within
// fleetPatience.
func pingFleet(ctx context.Context, begun chan time.Time, url string, queue func() string) ([]float64, error) {
	short, cancel := context.WithTimeout(ctx, fleetPatience)
	defer cancel()
	var took []float64
	for range fleetPings {
		s := plain()
		s.Queue = queue()
		ms, err := ping(short, begun, func() error { return submit(short, url, s) })
		if short.Err() != nil {
			break
		}
		if err != nil {
			return nil, err
		}
		took = append(took, ms)
	}
	return took, nil
}
