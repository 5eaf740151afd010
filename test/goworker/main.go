// Command goworker is a worker made with package dts, for the tests that compare it with dtsd's. Its handler of type http does what these
// tests need of dtsd's executor: it calls the URL of the payload, and says which task and attempt calls.
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
)

func main() {
	redis := flag.String("redis", "", "URL of Redis")
	concurrency := flag.Int("concurrency", 20, "attempts at once")
	drain := flag.Duration("drain-timeout", 30*time.Second, "how long attempts may go on after SIGTERM")
	flag.Parse()
	worker := dts.NewWorker(dts.WorkerOptions{
		Redis: *redis, Concurrency: *concurrency, DrainTimeout: *drain, Log: slog.New(slog.NewJSONHandler(os.Stderr, nil)),
	})
	dts.HandleResult(worker, "http", call)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	err := worker.Run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func call(ctx context.Context, args struct{ URL string }) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, args.URL, nil)
	if err != nil {
		return "", dts.Permanent(err)
	}
	t := dts.Current(ctx)
	request.Header.Set("Dts-Task-Id", t.ID)
	request.Header.Set("Dts-Attempt", strconv.Itoa(t.Attempt))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(response.Body)
	return string(body), errors.Join(err, response.Body.Close())
}
