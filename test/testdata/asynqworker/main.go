// Asynqworker is a worker as a fleet that uses asynq has it: it knows nothing of DTS. It writes a line for each task that it handles.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/hibiken/asynq"
)

func main() {
	redis := flag.String("redis", "127.0.0.1:6379", "host:port")
	queue := flag.String("queue", "mails", "where tasks come from")
	flag.Parse()

	server := asynq.NewServer(asynq.RedisClientOpt{Addr: *redis}, asynq.Config{
		Concurrency: 20, Queues: map[string]int{*queue: 1}, LogLevel: asynq.ErrorLevel, TaskCheckInterval: 50 * time.Millisecond,
	})
	mux := asynq.NewServeMux()
	mux.HandleFunc("email:send", func(_ context.Context, t *asynq.Task) error {
		if _, err := fmt.Fprintf(os.Stdout, "handled %s\n", t.Payload()); err != nil {
			return err
		}
		_, err := fmt.Fprintf(t.ResultWriter(), "sent %s", t.Payload())
		return err
	})
	if err := server.Run(mux); err != nil {
		log.Fatal(err)
	}
}
