package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/worker/executor"
)

func pingRow() row {
	return row{
		name: "ping", title: "Submission to start of an immediate task, idle fleet",
		method: "One full node with nothing else to do. From before `POST /v1/tasks` to the start of the handler, both on this " +
			"machine's clock, so the time of the HTTP call is in it. One task at a time, 5 to 25 ms apart. In turns with the same hops without work: a `POST` to " +
			"a handler that publishes a message, whose reader sends a PING and publishes another message, whose reader sends two PINGs.",
		goals: []goal{atMost("p50", 2), atMost("p99", 6)},
		run: func(ctx context.Context, b *bench) (figures, error) {
			begun := make(chan time.Time, 1)
			full, err := b.startNode(ctx, nodeOptions{roles: fullNode, handle: func(executor.Attempt) { begun <- clock.Now() }})
			if err != nil {
				return nil, err
			}
			url, arrived, err := b.startHops(ctx)
			if err != nil {
				return nil, err
			}
			var took, hops []float64
			for range b.size.pings {
				ms, err := ping(ctx, begun, func() error { return submit(ctx, full.url(), plain()) })
				if err != nil {
					return nil, err
				}
				took = append(took, ms)
				ms, err = ping(ctx, arrived, func() error { _, err := post(ctx, url, nil, http.StatusOK); return err })
				if err != nil {
					return nil, err
				}
				hops = append(hops, ms)
			}
			spent, err := b.startCosts(ctx)
			if err != nil {
				return nil, err
			}
			for range b.size.pings {
				if _, err := ping(ctx, begun, func() error { return submit(ctx, full.url(), plain()) }); err != nil {
					return nil, err
				}
			}
			each, err := spent.perTask(ctx, b.size.pings)
			if err != nil {
				return nil, err
			}
			var f figures
			f.add("p50", percentile(took, 50), "ms")
			f.add("p99", percentile(took, 99), "ms")
			f.add("most", percentile(took, 100), "ms")
			f.add("p50 of the same hops without work", percentile(hops, 50), "ms")
			f.add("p99 of the same hops without work", percentile(hops, 99), "ms")
			f.add("commands of Redis", each.commands, "a task")
			f.add("CPU of Redis", each.redis, "µs/task")
			f.add("CPU of this process", each.self, "µs/task")
			f.add("p50: DTS / the same hops without work", percentile(took, 50)/percentile(hops, 50), "x")
			return f, nil
		},
	}
}

// ping calls send after a pause of 5 to 25 ms, and returns how many ms passed until the time that arrives then.
func ping(ctx context.Context, arrived <-chan time.Time, send func() error) (float64, error) {
	if err := clock.Sleep(ctx, time.Duration(5+rand.IntN(20))*time.Millisecond); err != nil {
		return 0, err
	}
	start := clock.Now()
	if err := send(); err != nil {
		return 0, err
	}
	select {
	case at := <-arrived:
		return milliseconds(at.Sub(start)), nil
	case <-ctx.Done():
		return 0, fmt.Errorf("nothing started: %w", context.Cause(ctx))
	}
}

// startHops serves what a task goes through from its submission to its start (create, claim and enqueue, take and begin), without
// the work. It sends the time at which the last hop is made.
func (b *bench) startHops(ctx context.Context) (url string, arrived <-chan time.Time, _ error) {
	const toLeader, toWorker = "bench:leader", "bench:worker"
	db := redis.NewClient(&redis.Options{Addr: b.redis.addr})
	b.cleanup(db.Close)
	last := make(chan time.Time, 1)
	hear := func(channel string, then func()) error {
		sub := db.Subscribe(ctx, channel)
		b.cleanup(sub.Close)
		if _, err := sub.Receive(ctx); err != nil {
			return err
		}
		messages := sub.Channel()
		go func() {
			for range messages {
				then()
			}
		}()
		return nil
	}
	if err := hear(toLeader, func() {
		db.Ping(ctx)
		db.Publish(ctx, toWorker, "")
	}); err != nil {
		return "", nil, err
	}
	if err := hear(toWorker, func() {
		db.Ping(ctx)
		db.Ping(ctx)
		last <- clock.Now()
	}); err != nil {
		return "", nil, err
	}
	url, err := b.serveHTTP(ctx, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { db.Publish(r.Context(), toLeader, "") }))
	return url, last, err
}
