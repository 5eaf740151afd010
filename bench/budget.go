package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/handover"
	"github.com/dts-sched/dts/internal/lease"
	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store"
	"github.com/dts-sched/dts/internal/store/listing"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// budgetCalls are how many tasks a call has in the row budget.
var budgetCalls = []int{1, 10, 50}

// budgetScripts are the scripts that a task goes through after it was created.
var budgetScripts = []string{"claim", "enqueue", "take", "begin", "finish", "done"}

// budgetTasks is how many tasks go through each script with each size of a call.
const budgetTasks = 3000

func budgetRow() row {
	return row{
		name: "budget", title: "What each script costs Redis for a task",
		method: "Tasks of one partition and one queue go through the scripts one after the other: all of them through the " +
			"first, then all through the next. Calls follow each other, so what a call costs by itself is in the figures. " +
			"They are CPU of Redis, but for what the commands inside a script took, by INFO commandstats. The last figures " +
			"are of a drain with no-op handlers and one queue, by SLOWLOG.",
		run: func(ctx context.Context, b *bench) (figures, error) {
			var f figures
			for _, n := range budgetCalls {
				if err := b.apart(ctx, func() error { return b.budget(ctx, &f, n) }); err != nil {
					return nil, fmt.Errorf("%d tasks a call: %w", n, err)
				}
			}
			return f, b.budgetOfDrain(ctx, &f)
		},
	}
}

// budgetOfDrain adds what the scripts take in a drain, and how many tasks a call of them has there.
func (b *bench) budgetOfDrain(ctx context.Context, f *figures) error {
	names := make(map[string]string)
	for _, name := range budgetScripts {
		names[redis.NewScript(lua.ByName(name).Source).Hash()] = name
	}
	calls, took := make(map[string]int), make(map[string]time.Duration)
	w, err := noopWork(ctx, b)
	if err != nil {
		return err
	}
	err = b.apart(ctx, func() error {
		return b.redis.watchCommands(ctx, func() error {
			_, err := b.drainDTS(ctx, w, drainOptions{queues: oneQueue, task: w.task})
			return err
		}, func(args []string, spent time.Duration) {
			if len(args) > 1 && strings.EqualFold(args[0], "evalsha") {
				calls[names[args[1]]]++
				took[names[args[1]]] += spent
			}
		})
	})
	if err != nil {
		return err
	}
	for _, name := range budgetScripts {
		f.add("drain: "+name, took[name].Seconds()*1e6/float64(b.size.tasks), "µs/task")
		f.add("drain: "+name+", tasks a call", float64(b.size.tasks)/float64(max(calls[name], 1)), "")
	}
	return nil
}

// path is what the tasks of the row budget go through, with n of them in a call.
type path struct {
	b       *bench
	n       int
	f       *figures
	db      *redisx.DB
	data    *store.Store
	leader  *partition.Leader
	queues  *queue.Queues
	worker  *queue.Consumer
	packer  *listing.Packer
	claimed []task.Delivery
	taken   []*queue.Taken
	begun   []*tasks.Run
	total   float64 // CPU of Redis for a task from claim to done, in µs
}

// newPath opens the store for tasks that go through all scripts, n in a call. Redis is empty.
func (b *bench) newPath(ctx context.Context, n int) (*path, error) {
	db, err := redisx.Open(ctx, redisx.Options{URL: b.redis.url()})
	if err != nil {
		return nil, err
	}
	b.cleanup(db.Close)
	data, err := store.Open(ctx, store.Options{DB: db, Types: executors(nil).Types(), Partitions: 1, Log: b.log})
	if err != nil {
		return nil, err
	}
	held, err := lease.New(lease.Options{DB: db, Key: data.Partitions.LeaseKey(0), Owner: "bench"}).Acquire(ctx)
	if err != nil {
		return nil, err
	}
	b.cleanup(func() error { return held.Release(context.WithoutCancel(ctx)) })
	p := &path{b: b, n: n, db: db, data: data, queues: queue.New(queue.Options{DB: db})}
	p.leader = data.Partitions.At(0).Lead(held.Fence())
	p.startWorker()
	p.packer = data.Listing.Packer(0, held.Fence())
	return p, p.pack(ctx, 0, 0) // the tasks get rows from now on
}

// startWorker has a worker take deliveries that does not know yet whether the queue has some.
func (p *path) startWorker() {
	p.worker = queue.NewConsumer(queue.ConsumerOptions{
		DB: p.db, Node: "bench", Name: "bench", Concurrency: concurrency, Queues: oneQueue, Types: []string{benchType},
		Log: slog.New(slog.DiscardHandler),
	})
}

// stage is one script on the path of a task, with a call for the tasks from one number up to another.
type stage struct {
	name string
	call func(ctx context.Context, from, to int) error
}

func (p *path) stages() []stage {
	return []stage{
		{"create", p.create}, {"claim", p.claim}, {"enqueue", p.enqueue}, {"take", p.take}, {"begin", p.begin},
		{"finish", p.finish}, {"done", p.done}, {"pack", p.pack},
	}
}

func (b *bench) budget(ctx context.Context, f *figures, n int) error {
	p, err := b.newPath(ctx, n)
	if err != nil {
		return err
	}
	p.f = f
	for _, s := range p.stages() {
		if err := p.measure(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	p.add("all but create", p.total)
	return nil
}

func (p *path) add(name string, us float64) {
	p.f.add(fmt.Sprintf("%d a call: %s", p.n, name), us, "µs/task")
}

// measure adds what a script costs for each task.
func (p *path) measure(ctx context.Context, s stage) error {
	if err := p.b.redis.db.ConfigResetStat(ctx).Err(); err != nil {
		return err
	}
	before, err := p.b.redis.cpu(ctx)
	if err != nil {
		return err
	}
	if err := p.through(ctx, s, 0, budgetTasks); err != nil {
		return err
	}
	after, err := p.b.redis.cpu(ctx)
	if err != nil {
		return err
	}
	inside, err := p.b.redis.insideScripts(ctx)
	if err != nil {
		return err
	}
	us := (after - before) * 1e6 / budgetTasks
	if s.name != "create" {
		p.total += us
	}
	p.add(s.name, us)
	p.add(s.name+", in commands", inside/budgetTasks)
	return nil
}

// insideScripts is the time of all commands since CONFIG RESETSTAT, in µs, but for calls of scripts and what the bench
// asks.
func (s *redisServer) insideScripts(ctx context.Context) (float64, error) {
	stats, err := s.info(ctx, "commandstats")
	if err != nil {
		return 0, err
	}
	total := 0.0
	for name, stat := range stats {
		switch strings.TrimPrefix(name, "cmdstat_") {
		case "evalsha", "eval", "script|load", "info", "config|resetstat":
			continue
		}
		_, rest, _ := strings.Cut(stat, "usec=")
		text, _, _ := strings.Cut(rest, ",")
		us, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", name, err)
		}
		total += us
	}
	return total, nil
}

func (p *path) create(ctx context.Context, from, to int) error {
	definitions := make([]task.Definition, 0, p.n)
	for i := from; i < to; i++ {
		definitions = append(definitions, task.Definition{
			Ref:  task.Ref{Namespace: task.DefaultNamespace, ID: fmt.Sprintf("task-%08d", i)},
			Type: benchType, Payload: plain().Payload,
		}.Normalize())
	}
	for _, created := range p.data.Tasks.Create(ctx, definitions) {
		if created.Err != nil {
			return created.Err
		}
	}
	return nil
}

// errBehind says that tasks were claimed so long after they were due that the claim took others first. What it costs
// then is something else.
var errBehind = errors.New("the machine is too slow: tasks were claimed more than a second after they were due")

func (p *path) claim(ctx context.Context, _, to int) error {
	claimed, err := p.leader.Claim(ctx, p.n, handover.Grant{Default: p.n}, time.Minute)
	p.claimed = append(p.claimed, claimed.Deliveries...)
	if err == nil && len(p.claimed) < to {
		return errBehind
	}
	return err
}

func (p *path) enqueue(ctx context.Context, from, to int) error {
	if to > len(p.claimed) {
		return fmt.Errorf("%d tasks are claimed", len(p.claimed))
	}
	handed := p.queues.HandOver(ctx, p.claimed[from:to], nil)
	return errors.Join(handed.Failures...)
}

func (p *path) take(ctx context.Context, _, to int) error {
	p.taken = append(p.taken, p.worker.Take(ctx, p.n)...)
	if len(p.taken) != to {
		return fmt.Errorf("%d deliveries are taken, want %d", len(p.taken), to)
	}
	return nil
}

func (p *path) begin(ctx context.Context, from, to int) error {
	starts := make([]tasks.Start, 0, p.n)
	for i := from; i < to; i++ {
		t := p.taken[i]
		starts = append(starts, tasks.Start{Ref: t.Ref, Attempt: t.Attempt, Run: fmt.Sprintf("bench#%d", i), Queue: t.Queue})
	}
	who := tasks.Runner{Node: "bench", Types: []string{benchType}, Decodes: true}
	for _, begun := range p.data.Tasks.BeginEach(ctx, who, starts) {
		if begun.Err != nil {
			return begun.Err
		}
		p.begun = append(p.begun, begun.Run)
	}
	return nil
}

func (p *path) finish(ctx context.Context, from, to int) error {
	ends := make([]tasks.End, 0, p.n)
	for _, run := range p.begun[from:to] {
		ends = append(ends, tasks.End{Run: run, State: task.Succeeded, Outcome: task.OutcomeSucceeded})
	}
	return errors.Join(p.data.Tasks.FinishEach(ctx, ends)...)
}

// pack packs what is noted into the index of lists, however many tasks that are.
func (p *path) pack(ctx context.Context, _, _ int) error {
	for {
		if more, err := p.packer.Pack(ctx); err != nil || !more {
			return err
		}
	}
}

func (p *path) done(ctx context.Context, from, to int) error {
	k, day := lua.AsynqQueue("default"), "2026-01-01"
	call := lua.Done{
		Active: k.Active(), Deadline: k.Deadline(), ProcessedToday: k.ProcessedToday(day), Processed: k.Processed(),
		Ends: nil,
	}
	for _, d := range p.claimed[from:to] {
		call.Ends = append(call.Ends, lua.DoneEnd{ID: d.String(), Lock: ""})
	}
	reply, err := redisx.Run(ctx, p.db, call)
	if err == nil && reply.Done != to-from {
		err = fmt.Errorf("%d of %d deliveries are done", reply.Done, to-from)
	}
	return err
}
