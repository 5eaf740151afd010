package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/hibiken/asynq"

	"github.com/dts-sched/dts/internal/clock"
)

// bench is what rows measure with.
type bench struct {
	redis     *redisServer
	inspector *asynq.Inspector
	size      sizes
	root      string    // of the repository
	progress  io.Writer // for whoever waits
	log       *slog.Logger

	round    int     // from 0
	others   float64 // the largest share of the machine that other processes used in a round of the row
	dtsd     string
	stock    string         // that of the row before, if what it has prepared is still there
	cleanups []func() error // last in, first out
}

// sizes says how much the rows measure.
type sizes struct {
	tasks       int           // drained
	waiting     int           // stored while lateness is measured
	listed      int           // stored while lists are read
	stored      int           // stored for the memory of one task
	single      int           // submitted one by one
	batched     int           // submitted in batches
	pings       int           // single tasks on an idle fleet
	window      time.Duration // of idle nodes
	punctual    time.Duration // of lateness
	fleet       int           // simulated nodes
	schedules   int
	due         int           // schedules that are due at one instant
	ledgerTicks time.Duration // how long the schedules of the ledger tick
	chain       int           // steps of one run of a workflow
	chains      int           // runs of workflows side by side
}

func fullSizes() sizes {
	return sizes{
		tasks: 20_000, waiting: 10_000_000, listed: 1_000_000, stored: 100_000, single: 20_000, batched: 50_000, pings: 300, window: 10 * time.Second,
		punctual: 10 * time.Second, fleet: 100, schedules: 10_000, due: 60_000, ledgerTicks: 20 * time.Second,
		chain: 400, chains: 500,
	}
}

func shortSizes() sizes {
	return sizes{
		tasks: 4_000, waiting: 200_000, listed: 200_000, stored: 20_000, single: 4_000, batched: 10_000, pings: 100, window: 3 * time.Second,
		punctual: 3 * time.Second, fleet: 20, schedules: 1_000, due: 6_000, ledgerTicks: 15 * time.Second,
		chain: 100, chains: 50,
	}
}

// cleanup has the end of the round, or of the row if prepare calls it, call f.
func (b *bench) cleanup(f func() error) { b.cleanups = append(b.cleanups, f) }

// unwind calls the cleanups down to the first keep ones.
func (b *bench) unwind(keep int) error {
	var failures []error
	for _, f := range slices.Backward(b.cleanups[keep:]) {
		failures = append(failures, f())
	}
	b.cleanups = b.cleanups[:keep]
	return errors.Join(failures...)
}

// measure runs all rounds of a row.
func (b *bench) measure(ctx context.Context, r row, rounds int, goals []goal) result {
	start := clock.Now()
	b.others = 0
	all, err := b.rounds(ctx, r, rounds)
	out := result{row: r, rounds: len(all), took: clock.Since(start), others: b.others, err: err}
	var failed error
	out.summaries, failed = summarize(all, goals)
	out.err = errors.Join(out.err, failed)
	return out
}

func (b *bench) rounds(ctx context.Context, r row, rounds int) (all []figures, err error) {
	if r.stock == "" || r.stock != b.stock {
		if err := b.clear(ctx); err != nil {
			return nil, err
		}
	}
	if b.stock = r.stock; b.stock == "" {
		defer func() { err = errors.Join(err, b.unwind(0)) }()
	}
	if r.prepare != nil {
		if err := r.prepare(ctx, b); err != nil {
			b.stock = "" // a part of it may be missing
			return nil, fmt.Errorf("preparing: %w", err)
		}
	}
	for b.round = range rounds {
		f, err := b.oneRound(ctx, r)
		if err != nil {
			return all, fmt.Errorf("round %d: %w", b.round+1, err)
		}
		all = append(all, f)
	}
	return all, nil
}

// clear ends what rows have prepared, and empties Redis.
func (b *bench) clear(ctx context.Context) error {
	b.stock = ""
	if err := b.unwind(0); err != nil {
		return err
	}
	return b.redis.flush(ctx)
}

func (b *bench) oneRound(ctx context.Context, r row) (f figures, err error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(r.limit, roundLimit))
	defer cancel()
	keep := len(b.cleanups)
	defer func() { err = errors.Join(err, b.unwind(keep)) }()
	if r.prepare == nil {
		if err := b.redis.flush(ctx); err != nil {
			return nil, err
		}
	}
	start, before := clock.Now(), readUsage()
	if f, err = r.run(ctx, b); err != nil {
		return nil, err
	}
	b.others = max(b.others, before.others(readUsage()))
	fmt.Fprintf(b.progress, "  round %d (%s):", b.round+1, clock.Since(start).Round(time.Second))
	for _, one := range f {
		fmt.Fprintf(b.progress, " %s %s %s;", one.name, format(one.value), one.unit)
	}
	fmt.Fprintln(b.progress)
	return f, nil
}

// alternate calls both, in the other order in every other round.
func (b *bench) alternate(one, other func() error) error {
	if b.round%2 == 1 {
		one, other = other, one
	}
	if err := one(); err != nil {
		return err
	}
	return other()
}

// poll asks done every interval until it says true. It fails after limit, naming what it waited for.
func poll(ctx context.Context, interval, limit time.Duration, what string, done func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("waited %s for %s", limit, what))
	defer cancel()
	for {
		ok, err := done(ctx)
		if ok {
			return nil
		}
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("waiting for %s: %w", what, err)
		}
		if clock.Sleep(ctx, interval) != nil {
			return context.Cause(ctx)
		}
	}
}

// costs measures the CPU time of Redis and of this process, and the commands of Redis, over a stretch of work.
type costs struct {
	b                     *bench
	redis, self, commands float64
}

func (b *bench) startCosts(ctx context.Context) (*costs, error) {
	redis, err := b.redis.cpu(ctx)
	if err != nil {
		return nil, err
	}
	commands, err := b.redis.number(ctx, "stats", "total_commands_processed")
	return &costs{b: b, redis: redis, commands: commands, self: selfCPU()}, err
}

// perTask returns what was used since startCosts, divided by n.
func (c *costs) perTask(ctx context.Context, n int) (taskCosts, error) {
	self := selfCPU()
	redis, err := c.b.redis.cpu(ctx)
	if err != nil {
		return taskCosts{}, err
	}
	commands, err := c.b.redis.number(ctx, "stats", "total_commands_processed")
	return taskCosts{
		redis: (redis - c.redis) / float64(n) * 1e6, self: (self - c.self) / float64(n) * 1e6, commands: (commands - c.commands) / float64(n),
	}, err
}

// taskCosts is what one task costs: CPU time of Redis and of this process in us, and commands of Redis.
type taskCosts struct{ redis, self, commands float64 }

// addCosts adds what a task costs in DTS and in asynq.
func (f *figures) addCosts(dts, bare taskCosts) {
	f.add("CPU of Redis, DTS", dts.redis, "µs/task")
	f.add("CPU of Redis, asynq", bare.redis, "µs/task")
	f.add("CPU of this process, DTS", dts.self, "µs/task")
	f.add("CPU of this process, asynq", bare.self, "µs/task")
	f.add("commands of Redis, DTS", dts.commands, "a task")
	f.add("commands of Redis, asynq", bare.commands, "a task")
}

// apart calls f on an empty Redis, and ends what f starts.
func (b *bench) apart(ctx context.Context, f func() error) (err error) {
	keep := len(b.cleanups)
	defer func() { err = errors.Join(err, b.unwind(keep)) }()
	if err := b.redis.flush(ctx); err != nil {
		return err
	}
	return f()
}
