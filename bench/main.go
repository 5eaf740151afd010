// Command bench measures DTS beside bare asynq on a redis-server that it starts, and writes RESULTS.md. With -peers it
// measures whole programs of several libraries, which are in peers, and writes PEERS.md.
//
// It is a module of its own, so that what it needs stays out of the go.mod of DTS. It works on DTS from outside: through
// nodes in this process (package app), dtsd in child processes, the HTTP API and INFO of Redis.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/pprof"
	"slices"
	"strings"
	"syscall"

	"github.com/hibiken/asynq"

	"github.com/dts-sched/dts/internal/app"
	"github.com/dts-sched/dts/internal/redisx"
)

func main() {
	app.TuneGC() // as in dtsd; asynq gets the same setting
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// options is the command line.
type options struct {
	rows    string
	rounds  int
	short   bool
	profile string
	smoke   bool
	peers   bool
	list    bool
	waiting int
	results string
	root    string
	asynq   string
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.rows, "rows", "", "`NAMES` of the rows to measure, separated by commas (default: all)")
	flags.IntVar(&o.rounds, "rounds", 3, "rounds of each row")
	flags.BoolVar(&o.short, "short", false, "measure less: for trying, not for the record")
	flags.BoolVar(&o.smoke, "smoke", false, "measure some rows in the short form, and fail if a ratio is far below what it was, or a task costs Redis more")
	flags.BoolVar(&o.peers, "peers", false, "measure DTS beside other libraries, as whole programs, instead of the other rows")
	flags.BoolVar(&o.list, "list", false, "list the rows and exit")
	flags.IntVar(&o.waiting, "waiting", 0, "tasks that wait in the row waiting, 500 bytes of Redis each (default: 10,000,000)")
	flags.StringVar(&o.results, "results", "", "`FILE` to write the results to, as Markdown")
	flags.StringVar(&o.root, "root", "..", "`DIR` of the repository, for building dtsd")
	flags.StringVar(&o.asynq, asynqFlag, "", "be an asynq server on the Redis at `ADDRESS`, as a part of the row fleet-http")
	flags.StringVar(&o.profile, "profile", "", "write a CPU profile of the bench's process, in which nodes and callers are, to `FILE`")
	return o, flags.Parse(args)
}

// chosen are the rows that the options ask for, with the goals that count.
func (o options) chosen(peers []peer) ([]row, error) {
	all := rows()
	if o.peers {
		all = peerRows(peers)
	}
	if o.smoke {
		all = slices.DeleteFunc(all, func(r row) bool { return len(r.smoke) == 0 })
	}
	if o.rows == "" {
		return all, nil
	}
	var some []row
	for name := range strings.SplitSeq(o.rows, ",") {
		at := slices.IndexFunc(all, func(r row) bool { return r.name == name })
		if at < 0 {
			return nil, fmt.Errorf("-rows: there is no row %q; -list shows all", name)
		}
		some = append(some, all[at])
	}
	return some, nil
}

func run(args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	if o.asynq != "" {
		return serveAsynq(o.asynq)
	}
	chosen, err := o.chosen(nil)
	if err != nil {
		return err
	}
	if o.list {
		for _, r := range chosen {
			fmt.Fprintf(stdout, "%-16s %s\n", r.name, r.title)
		}
		return nil
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return o.measure(ctx, stdout, stderr)
}

// measure starts Redis, measures the rows, and prints and records the results.
func (o options) measure(ctx context.Context, stdout, stderr io.Writer) (err error) {
	server, err := startRedis(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	b := newBench(server, o, stderr)
	c, err := b.conditions(ctx)
	if err != nil {
		return err
	}
	set, err := o.preparePeers(ctx, b)
	if err != nil {
		return err
	}
	chosen, err := o.chosen(set.peers)
	if err != nil {
		return err
	}
	end, err := o.startProfile()
	if err != nil {
		return err
	}
	results := b.measureAll(ctx, chosen, o)
	if err := end(); err != nil {
		return err
	}
	if err := printTable(stdout, results); err != nil {
		return err
	}
	if o.results != "" {
		if err := o.record(b, c, set, results); err != nil {
			return err
		}
	}
	return failures(results, !o.short)
}

// preparePeers prepares the peers if they are asked for, and tells which are left out.
func (o options) preparePeers(ctx context.Context, b *bench) (set peerSet, err error) {
	if !o.peers {
		return set, nil
	}
	set, err = b.preparePeers(ctx)
	for _, sentence := range set.missing {
		fmt.Fprintln(b.progress, sentence)
	}
	return set, err
}

// startProfile begins the profile that the options ask for, if they do.
func (o options) startProfile() (end func() error, err error) {
	if o.profile == "" {
		return func() error { return nil }, nil
	}
	file, err := os.Create(o.profile)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return func() error { pprof.StopCPUProfile(); return file.Close() }, nil
}

func newBench(server *redisServer, o options, stderr io.Writer) *bench {
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	redisx.LogTo(log)
	size := fullSizes()
	if o.short || o.smoke {
		size = shortSizes()
	}
	size.waiting = cmp.Or(o.waiting, size.waiting)
	return &bench{
		redis: server, inspector: asynq.NewInspectorFromRedisClient(server.db), size: size, root: o.root, progress: stderr, log: log,
	}
}

func (b *bench) measureAll(ctx context.Context, chosen []row, o options) []result {
	var results []result
	for i, r := range chosen {
		if ctx.Err() != nil {
			break
		}
		fmt.Fprintf(b.progress, "%d/%d %s\n", i+1, len(chosen), r.title)
		goals := r.goals
		if o.smoke {
			goals = r.smoke
		}
		one := b.measure(ctx, r, o.rounds, goals)
		if one.err != nil {
			fmt.Fprintf(b.progress, "  failed: %v\n", one.err)
		}
		results = append(results, one)
	}
	if err := b.unwind(0); err != nil {
		fmt.Fprintf(b.progress, "  ending what rows have shared: %v\n", err)
	}
	return results
}

// record writes the results to a file.
func (o options) record(b *bench, c conditions, set peerSet, results []result) error {
	file, err := os.Create(o.results)
	if err != nil {
		return err
	}
	if o.peers {
		err = peerTables{set: set, tasks: b.size.tasks, results: results}.write(file, c)
	} else {
		err = writeResults(file, c, results)
	}
	return errors.Join(err, file.Close())
}

// failures is the error of all rows that could not be measured and, if goals must hold, of each missed one.
func failures(results []result, goalsHold bool) error {
	var all []error
	for _, r := range results {
		if r.err != nil {
			all = append(all, fmt.Errorf("%s: %w", r.row.name, r.err))
		}
		for _, s := range r.summaries {
			if goalsHold && !s.met() {
				all = append(all, missed(r.row, s))
			}
		}
	}
	return errors.Join(all...)
}

// missed is the error of a figure that misses its goal: what was measured, what must be, and what to do.
func missed(r row, s summary) error {
	text := fmt.Sprintf("%s: %s is %s, must be %s", r.name, s.name, quantity(s), s.goal)
	if s.goal.missed != "" {
		text += ". " + s.goal.missed
	}
	return errors.New(text)
}
