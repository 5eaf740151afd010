// Command river is a program that uses River: one client submits, leads and works.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/dts-sched/dts/bench/peers/peer"
)

const (
	// fetchCooldown is the time between two fetches, and between two notifications of inserts; its default is 100 ms.
	// A short one costs inserts, and a long one leaves slots empty.
	fetchCooldown = 5 * time.Millisecond
	fetchPoll     = 20 * time.Millisecond // the default is 1 s
	connections   = 16                    // of the pool; the default is the number of processors, at least 4
)

func main() { peer.Main(open) }

// args are the arguments of a job.
type args struct {
	Body string `json:"body"`
}

// Kind is the type of the job.
func (args) Kind() string { return "work" }

func open(ctx context.Context, url string) (peer.Program, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return peer.Program{}, err
	}
	config.MaxConns = connections
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return peer.Program{}, err
	}
	driver := riverpgxv5.New(pool)
	migrator, err := rivermigrate.New(driver, nil)
	if err != nil {
		return peer.Program{}, err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return peer.Program{}, err
	}
	handled := func() {}
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(context.Context, *river.Job[args]) error { handled(); return nil }))
	client, err := river.NewClient(driver, &river.Config{
		Queues:        map[string]river.QueueConfig{peer.Queue: {MaxWorkers: peer.Concurrency}},
		FetchCooldown: fetchCooldown, FetchPollInterval: fetchPoll,
		Workers: workers, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return peer.Program{}, err
	}
	return program(pool, client, func(f func()) { handled = f }), nil
}

func program(pool *pgxpool.Pool, client *river.Client[pgx.Tx], handle func(func())) peer.Program {
	return peer.Program{
		Payload: func(text string) string { return text }, TextSize: 200 - len(`{"body":""}`), Poll: 10 * time.Millisecond,
		Submit: func(ctx context.Context, payload string, due time.Time) error {
			_, err := client.Insert(ctx, args{payload}, &river.InsertOpts{ScheduledAt: due})
			return err
		},
		SubmitMany: func(ctx context.Context, payloads []string, due time.Time) error {
			many := make([]river.InsertManyParams, len(payloads))
			for i, p := range payloads {
				many[i] = river.InsertManyParams{Args: args{p}, InsertOpts: &river.InsertOpts{ScheduledAt: due}}
			}
			_, err := client.InsertManyFast(ctx, many)
			return err
		},
		Work: func(ctx context.Context, handled func()) (func() error, error) {
			handle(handled)
			return func() error { return client.Stop(ctx) }, client.Start(ctx)
		},
		Ended: func(ctx context.Context) (n int, err error) {
			err = pool.QueryRow(ctx, `SELECT count(*) FROM river_job WHERE state = 'completed'`).Scan(&n)
			return n, err
		},
		Succeeded: func(ctx context.Context) (int, error) {
			var n, others int
			err := pool.QueryRow(ctx, `SELECT count(*) FILTER (WHERE state = 'completed'),
				count(*) FILTER (WHERE state <> 'completed') FROM river_job`).Scan(&n, &others)
			if err == nil && others > 0 {
				err = fmt.Errorf("%d jobs are not completed", others)
			}
			return n, err
		},
	}
}
