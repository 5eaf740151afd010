// Command go-worker runs tasks of type greet with a Go function, and keeps a schedule that creates one every 10 seconds. README.md
// shows how to try it.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/dts-sched/dts"
)

// Greeting is the payload of a task.
type Greeting struct {
	Name string `json:"name"`
}

func greet(ctx context.Context, g Greeting) (string, error) {
	if g.Name == "" {
		return "", dts.Permanent(errors.New("name: is missing"))
	}
	dts.Logger(ctx).Info("greeting", "name", g.Name, "attempt", dts.Current(ctx).Attempt)
	return "Hello, " + g.Name + "!", nil
}

func run(ctx context.Context, redis string) error {
	client, err := dts.Open(redis)
	if err != nil {
		return err
	}
	defer client.Close()
	_, err = client.PutSchedule(ctx, "greet-ada", dts.ScheduleDefinition{
		Every: 10 * time.Second,
		Task:  dts.TaskTemplate{Type: "greet", Payload: Greeting{Name: "Ada"}},
	})
	if err != nil {
		return err
	}
	worker := dts.NewWorker(dts.WorkerOptions{Redis: redis, Concurrency: 20})
	dts.HandleResult(worker, "greet", greet)
	return worker.Run(ctx)
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	redis := os.Getenv("DTS_REDIS")
	if redis == "" {
		redis = "redis://127.0.0.1:6379/0"
	}
	fmt.Println("working for", redis)
	if err := run(ctx, redis); err != nil {
		log.Fatal(err)
	}
}
