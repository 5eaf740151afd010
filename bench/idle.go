package main

import (
	"context"
	"fmt"
	"time"

	"github.com/dts-sched/dts/internal/clock"
)

// calm is how long nodes get before their load is measured: for sharing out the partitions, and for the first look of their leaders, which comes
// when Redis has answered for as long as the lease of a run.
const calm = 10 * time.Second

func idleRow() row {
	const further = 2
	return row{
		name: "idle", title: "Idle nodes",
		method: "`dtsd serve` with default settings in processes of their own, nothing to do. total_commands_processed of Redis over a window of 10 s " +
			"(whether that counts commands inside scripts is in the head of this page), one full node first, then three; a further node is half of the difference.",
		goals: []goal{atMost("one full node", 20), atMost("each further node", 10)},
		run: func(ctx context.Context, b *bench) (figures, error) {
			var loads [2]load
			for i, nodes := range []int{1, further} {
				for range nodes {
					if _, err := b.startChild(ctx); err != nil {
						return nil, err
					}
				}
				if err := clock.Sleep(ctx, calm); err != nil {
					return nil, err
				}
				var err error
				if loads[i], err = b.redis.window(ctx, b.size.window); err != nil {
					return nil, err
				}
			}
			var f figures
			f.add("one full node", loads[0].commands, "commands/s")
			f.add("each further node", (loads[1].commands-loads[0].commands)/further, "commands/s")
			f.add("CPU of Redis, one full node", loads[0].cpu*1000, "ms/s")
			f.add("CPU of Redis, each further node", (loads[1].cpu-loads[0].cpu)/further*1000, "ms/s")
			return f, nil
		},
	}
}

// fleetSchedulers is one for each partition.
const fleetSchedulers = 16

func fleetRow() row {
	return row{
		name: "fleet", title: "100 nodes (in the short form 20)",
		method: "100 workers, of which 16 are schedulers and lead a partition each, and one of these serves the API; all in this process, which has the machine's two cores for all of " +
			"them; default queues. " +
			"Commands and CPU over a window when idle, then single tasks as in `ping`. What one node costs here is what it costs Redis; their own CPU " +
			"is shared and no measure of a real fleet.",
		run: func(ctx context.Context, b *bench) (figures, error) {
			return b.measureFleet(ctx, b.size.fleet, fleetSchedulers, nil, func() string { return drainQueue })
		},
	}
}

func queuesRow() row {
	const queues, nodes, schedulers = 1000, 10, 3
	all := make(map[string]int, queues)
	for i := range queues {
		all[fmt.Sprintf("queue-%d", i)] = 1
	}
	return row{
		name: "queues", title: "1,000 queues on 10 nodes",
		method: "Ten workers, of which three are schedulers and one of these serves the API, all in this process, each serving all of 1,000 queues. " +
			"Commands and CPU over a window when idle, then single tasks as in `ping`, each to the next queue.",
		run: func(ctx context.Context, b *bench) (figures, error) {
			next := 0
			return b.measureFleet(ctx, nodes, schedulers, all, func() string { next++; return fmt.Sprintf("queue-%d", next*7%queues) })
		},
	}
}
