package dts_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/dts-sched/dts"
)

type Email struct {
	To string `json:"to"`
}

// A program that submits a task and runs it. WorkerOptions.Lead makes it independent of dtsd.
func Example() {
	ctx, stop := context.WithCancel(context.Background())

	worker := dts.NewWorker(dts.WorkerOptions{Redis: redisURL, Lead: true, Logger: quiet})
	dts.Handle(worker, "email.send", func(ctx context.Context, e Email) error {
		fmt.Println("sending an email to", e.To)
		return nil
	})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		if err := worker.Run(ctx); err != nil {
			log.Fatal(err)
		}
	}()

	client, err := dts.Open(redisURL)
	if err != nil {
		log.Fatal(err)
	}
	task, err := client.Submit(ctx, dts.Submission{Type: "email.send", Payload: Email{To: "ada@example.com"}})
	if err != nil {
		log.Fatal(err)
	}
	task, err = client.Wait(ctx, task.ID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(task.State, "at attempt", task.Attempt)

	stop() // lets running attempts end
	<-stopped
	if err := client.Close(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// sending an email to ada@example.com
	// succeeded at attempt 1
}

// Submitting the same id with the same content twice is harmless.
func ExampleClient_Submit() {
	client, err := dts.Open(redisURL)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	for range 2 {
		task, err := client.Submit(context.Background(), dts.Submission{
			ID:      "invoice-4711",
			Type:    "invoice.send",
			Payload: map[string]int{"invoice": 4711},
			Delay:   time.Hour,
			Retry:   dts.Retry{Delays: []time.Duration{time.Minute, 5 * time.Minute, time.Hour}},
		})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(task.ID, task.State, task.MaxAttempts)
	}
	_, err = client.Submit(context.Background(), dts.Submission{ID: "invoice-4711", Type: "other"})
	fmt.Println(dts.CodeOf(err))
	// Output:
	// invoice-4711 scheduled 4
	// invoice-4711 scheduled 4
	// task_conflict
}

// Putting the same definition again changes nothing, so that a program can do so whenever it starts.
func ExampleClient_PutSchedule() {
	client, err := dts.Open(redisURL)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	for range 2 {
		schedule, err := client.PutSchedule(context.Background(), "nightly-report", dts.ScheduleDefinition{
			Cron:     "30 2 * * MON-FRI",
			Timezone: "Europe/Berlin",
			Overlap:  dts.OverlapSkip,
			Task:     dts.TaskTemplate{Type: "report.make", Payload: map[string]string{"kind": "sales"}},
		})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(schedule.ID, "revision", schedule.Revision)
	}
	// Output:
	// nightly-report revision 1
	// nightly-report revision 1
}

// A long task saves how far it is, so that the next attempt goes on from there.
func ExampleSaveCheckpoint() {
	worker := dts.NewWorker(dts.WorkerOptions{Redis: redisURL})
	dts.Handle(worker, "rows.copy", func(ctx context.Context, _ struct{}) error {
		var at struct{ Row int }
		if _, err := dts.LoadCheckpoint(ctx, &at); err != nil {
			return err
		}
		for ; at.Row < 1000; at.Row += 100 {
			if err := copyRows(ctx, at.Row, at.Row+100); err != nil {
				return err
			}
			dts.Progress(ctx, at.Row/10, fmt.Sprint(at.Row, " rows"))
			if err := dts.SaveCheckpoint(ctx, at); err != nil {
				return err
			}
		}
		return nil
	})
}

// What an error means for the task.
func ExamplePermanent() {
	worker := dts.NewWorker(dts.WorkerOptions{Redis: redisURL})
	dts.Handle(worker, "order.ship", func(ctx context.Context, order struct{ ID string }) error {
		switch err := ship(ctx, order.ID); {
		case errors.Is(err, errUnknown):
			return dts.Permanent(err) // no attempt can succeed
		case errors.Is(err, errBusy):
			return dts.RetryAfter(err, time.Minute) // not before a minute has passed
		case errors.Is(err, errSold):
			return dts.Cancelled(err) // nobody needs it any more
		default:
			return err // another attempt, as the task's Retry says
		}
	})
}

// Middleware wraps every handler of a worker.
func ExampleWorker_Use() {
	worker := dts.NewWorker(dts.WorkerOptions{Redis: redisURL})
	worker.Use(func(next dts.Handler) dts.Handler {
		return func(ctx context.Context, t *dts.Task) (any, error) {
			start := time.Now()
			result, err := next(ctx, t)
			dts.Logger(ctx).Info("done", "took", time.Since(start), "error", err)
			return result, err
		}
	})
}

var errUnknown, errBusy, errSold = errors.New("unknown"), errors.New("busy"), errors.New("sold")

func ship(context.Context, string) error       { return nil }
func copyRows(context.Context, int, int) error { return nil }

// ledger is something that two holders must not write to at once, such as a row in a database.
type ledger struct{ newest int64 }

// Append refuses a holder that does not know yet that it has lost the lock.
func (l *ledger) Append(fence int64, entry string) error {
	if fence < l.newest {
		return fmt.Errorf("fence %d is older than %d", fence, l.newest)
	}
	l.newest = fence
	fmt.Println("appended", entry)
	return nil
}

func ExampleClient_Lock() {
	client, err := dts.Open(redisURL)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	ctx := context.Background()
	lock, err := client.Lock(ctx, "ledger", 15*time.Second, dts.LockWait(time.Minute))
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Unlock(ctx)

	// Whatever is done under the lock ends when the lock is lost, and hands on the fence.
	ctx = lock.Context()
	var l ledger
	if err := l.Append(lock.Fence(), "closing entry"); err != nil || ctx.Err() != nil {
		log.Fatal(err, context.Cause(ctx))
	}
	// Output: appended closing entry
}

// At most five tasks of each customer run at once. One of them has its own limit, which is paused for an hour.
func ExampleClient_SetLimit() {
	client, err := dts.Open(redisURL)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	ctx := context.Background()
	err = errors.Join(
		client.SetLimit(ctx, "key:*", dts.LimitRule{Slots: 5}),
		client.SetLimit(ctx, "key:tenant-7", dts.LimitRule{Slots: 20, Rate: 600, Per: time.Minute}),
		client.PauseLimit(ctx, "key:tenant-7", dts.LimitPause{For: time.Hour, Note: "their server is down"}),
	)
	if err != nil {
		log.Fatal(err)
	}
	limits, err := client.Limits(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, l := range limits {
		fmt.Println(l.Name, l.Rule.Slots, l.Paused, l.Note)
	}
	_, err = client.Submit(ctx, dts.Submission{Type: "import", LimitKey: "tenant-7", Payload: "orders"})
	if err != nil {
		log.Fatal(err)
	}
}
