package events_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/events"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// channel is the name of the channel of events in database 0.
const channel = "dts:events"

func openStore(t *testing.T, db *redisx.DB) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), store.Options{DB: db, Partitions: 2})
	testkit.Must(t, err)
	return s
}

// submit creates a task, which publishes its first event.
func submit(t *testing.T, s *store.Store, id string) {
	t.Helper()
	d := task.Definition{Ref: task.Ref{Namespace: "default", ID: id}, Type: "http", Delay: time.Hour}
	if c := s.Tasks.Create(t.Context(), []task.Definition{d})[0]; c.Err != nil {
		t.Fatal(c.Err)
	}
}

func subscriptions(t *testing.T, db *redisx.DB) int64 {
	t.Helper()
	count, err := db.PubSubNumSub(t.Context(), channel).Result()
	testkit.Must(t, err)
	return count[channel]
}

// awaitSubscriptions waits until Redis has that many subscriptions to the channel of events.
func awaitSubscriptions(t *testing.T, db *redisx.DB, want int64) {
	t.Helper()
	testkit.Eventually(t, fmt.Sprintf("%d subscriptions", want), func() bool { return subscriptions(t, db) == want })
}

func TestHub_NeedsOneSubscriptionToRedis(t *testing.T) {
	db := redistest.Start(t).DB(t)
	s := openStore(t, db)
	hub, _ := start(t, s.Tasks)
	if got := subscriptions(t, db); got != 0 {
		t.Errorf("%d subscriptions before anybody reads", got)
	}
	var readers []*events.Subscription
	for range 50 {
		r := hub.Subscribe(events.SubscribeOptions{Buffer: 10})
		defer r.Close()
		readers = append(readers, r)
	}
	for _, r := range readers {
		testkit.Receive(t, r.Ready(), "readiness")
	}
	if got := subscriptions(t, db); got != 1 {
		t.Errorf("%d subscriptions for 50 readers, want 1", got)
	}
	submit(t, s, "a")
	for _, r := range readers {
		if got := read(t, r, 1); got != "a" {
			t.Errorf("got %q", got)
		}
		r.Close()
	}
	awaitSubscriptions(t, db, 0)
}

func TestHub_LosesNothingAfterReady(t *testing.T) {
	s := openStore(t, redistest.Start(t).DB(t))
	hub, _ := start(t, s.Tasks)
	for i := range 50 { // each time a new subscription to Redis, often while the one before ends
		r := hub.Subscribe(events.SubscribeOptions{Buffer: 10})
		testkit.Receive(t, r.Ready(), "readiness")
		id := fmt.Sprint("task", i)
		submit(t, s, id)
		if got := read(t, r, 1); got != id {
			t.Errorf("got %q, want %q", got, id)
		}
		r.Close()
	}
}

func TestHub_TellsThatTheConnectionWasLost(t *testing.T) {
	redis := redistest.Start(t)
	proxy := redistest.NewProxy(t, redis.Addr())
	s := openStore(t, redis.DB(t))
	hub, _ := start(t, openStore(t, redistest.Open(t, proxy.URL())).Tasks)
	r := hub.Subscribe(events.SubscribeOptions{Buffer: 10})
	defer r.Close()
	testkit.Receive(t, r.Ready(), "readiness")
	proxy.Cut()
	testkit.Eventually(t, "a new reader is not ready at once", func() bool {
		late := hub.Subscribe(events.SubscribeOptions{})
		defer late.Close()
		return !isReady(late)
	})
	submit(t, s, "missed")
	proxy.Mend()
	if got, want := read(t, r, 1), "connection_lost:0"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	submit(t, s, "heard")
	if got := read(t, r, 1); got != "heard" {
		t.Errorf("got %q", got)
	}
}

// Hubs stop while readers come, read and go at random: nothing hangs, and TestMain finds no goroutine left.
func TestHub_SurvivesStartsAndStops(t *testing.T) {
	db := redistest.Start(t).DB(t)
	s := openStore(t, db)
	for round := range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		hub := events.New(events.Options{Source: s.Tasks, Log: slog.New(slog.DiscardHandler)})
		ended := make(chan error, 1)
		go func() { ended <- hub.Run(ctx) }()
		var readers sync.WaitGroup
		for range 10 {
			readers.Go(func() {
				for ctx.Err() == nil {
					r := hub.Subscribe(events.SubscribeOptions{Buffer: rand.IntN(3), Signal: rand.IntN(2) == 0})
					select {
					case <-r.Ready():
					case <-time.After(rand.N(2 * time.Millisecond)):
					}
					select {
					case <-r.C():
					case <-time.After(rand.N(2 * time.Millisecond)):
					}
					r.Close()
				}
			})
		}
		for i := range 5 {
			submit(t, s, fmt.Sprintf("task-%d-%d", round, i))
		}
		cancel()
		if err := testkit.Receive(t, ended, "the end of Run"); err != nil {
			t.Errorf("Run: %v", err)
		}
		readers.Wait()
	}
	awaitSubscriptions(t, db, 0)
}
