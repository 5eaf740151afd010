// Command goworker is a worker made with package dts or, with --server, a worker by HTTP, for the tests that compare them with dtsd's. Its
// handler of type http does what these tests need of dtsd's executor: it calls the URL of the payload, and says which task and attempt
// calls. A worker made with package dts also runs the type go, which is the same.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
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
			Labels: labels, Logger: log})
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

func call(ctx context.Context, args payload) (string, error) {
	t := dts.Current(ctx)
	return post(ctx, args.URL, t.ID, t.Attempt)
}

// post calls a URL for an attempt.
func post(ctx context.Context, url, task string, attempt int) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, nil)
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
