// Command goworker is a worker made with package dts or, with --server, a worker by HTTP, for the tests that compare them with dtsd's. Its
// handler of type http does what these tests need of dtsd's executor: it calls the URL of the payload, and says which task and attempt
// calls. It also runs the type go, which is the same. If the URL says "moves=1", it gives its work up when it is asked
// to move.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/dts-sched/dts"
	"github.com/dts-sched/dts/internal/config"
)

func main() {
	redis := flag.String("redis", "", "URL of Redis")
	server := flag.String("server", "", "URL of the API, for a worker by HTTP")
	durability := flag.String("durability", "", "what begins wait for, as dtsd's flag")
	concurrency := flag.Int("concurrency", 20, "attempts at once")
	drain := flag.Duration("drain-timeout", 30*time.Second, "how long attempts may go on after SIGTERM")
	name := flag.String("node-name", "", "name of the worker, as dtsd's flag")
	labels := config.Labels{}
	flag.Func("labels", "labels of the worker, as dtsd's flag", labels.Set)
	flag.Parse()
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	var err error
	if *server != "" {
		err = runHTTP(ctx, *server, *concurrency, *drain, labels, log)
	} else {
		worker := dts.NewWorker(dts.WorkerOptions{Redis: *redis, Durability: *durability, Concurrency: *concurrency, DrainTimeout: *drain,
			Name: *name, Labels: labels, Logger: log})
		dts.HandleResult(worker, "http", call)
		dts.HandleResult(worker, "go", call)
		err = worker.Run(ctx)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type payload struct{ URL string }

// moves reports whether the handler gives its work up when it is asked to move.
func (p payload) moves() bool {
	u, err := url.Parse(p.URL)
	return err == nil && u.Query().Get("moves") == "1"
}

func call(ctx context.Context, args payload) (string, error) {
	t := dts.Current(ctx)
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	if args.moves() {
		go func(ended <-chan struct{}) {
			select {
			case <-dts.Moving(ctx):
				giveUp(dts.ErrMoved)
			case <-ended:
			}
		}(ctx.Done())
	}
	result, err := post(ctx, args.URL, t.ID, t.Attempt)
	if err != nil && errors.Is(context.Cause(ctx), dts.ErrMoved) {
		return "", dts.ErrMoved
	}
	return result, err
}

// post calls a URL for an attempt.
func post(ctx context.Context, to, task string, attempt int) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, to, nil)
	if err != nil {
		return "", dts.Permanent(err)
	}
	request.Header.Set("Dts-Task-Id", task)
	request.Header.Set("Dts-Attempt", strconv.Itoa(attempt))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(response.Body)
	err = errors.Join(err, response.Body.Close())
	switch {
	case response.StatusCode >= http.StatusInternalServerError:
		err = errors.Join(err, errors.New(response.Status))
	case response.StatusCode >= http.StatusBadRequest:
		err = dts.Permanent(errors.Join(err, errors.New(response.Status)))
	}
	return string(body), err
}
