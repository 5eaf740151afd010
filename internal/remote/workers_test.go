package remote

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

type members struct{}

func (members) View() cluster.View                        { return cluster.View{} }
func (members) BeatNow()                                  {}
func (members) RemoveGuest(context.Context, string) error { return nil }

// world is a store with a queue, and the sessions of a node.
type world struct {
	*storetest.World
	*Workers
	t      *testing.T
	queues *queue.Queues
	stop   func() error // has the node stop, as often as one likes
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{World: storetest.New(t), t: t}
	w.queues = queue.New(queue.Options{DB: w.DB})
	w.Workers = New(Options{DB: w.DB, Store: w.Store, Members: members{}, Silence: 300 * time.Millisecond, Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	w.stop = sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() {
		if err := w.stop(); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return w
}

// hand hands a new task over to the queue.
func (w *world) hand(id string) task.Ref {
	w.t.Helper()
	ref := task.Ref{Namespace: "default", ID: id}
	w.World.Create(task.Definition{Ref: ref, Type: "count"})
	testkit.Must(w.t, w.queues.HandOver(w.Ctx, w.Claim(ref), nil).Failure())
	return ref
}

func offer() Offer {
	return Offer{Types: []string{"count"}, Queues: []string{"default"}, Capacity: 4, Lease: time.Second}
}

func (w *world) take(o Offer) []*tasks.Run {
	w.t.Helper()
	runs, err := w.Take(w.Ctx, "w1", o, 10, 10*time.Second)
	testkit.Must(w.t, err)
	return runs
}

func (w *world) delivery(ref task.Ref) string {
	return w.DB.HGet(w.Ctx, "asynq:{default}:t:"+ref.String()+":1", "state").Val()
}

func TestTake_WaitsForADelivery(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	taken := make(chan []*tasks.Run, 1)
	go func() { taken <- w.take(offer()) }()
	testkit.Eventually(t, "it waits", func() bool { return len(w.Guests()) == 1 })
	ref := w.hand("a")
	runs := testkit.Receive(t, taken, "the attempt")
	if len(runs) != 1 || runs[0].Task.Ref != ref || runs[0].Node() != "w1" {
		t.Fatalf("took %+v", runs)
	}
	if held := w.DB.ZScore(w.Ctx, string(w.KeysOf(ref).Held()), ref.String()).Val(); held != float64(runs[0].Task.StartedAt.Add(time.Second).UnixMilli()) {
		t.Errorf("leased until %f, want for a second from %s", held, runs[0].Task.StartedAt)
	}
	if runs, err := w.Take(w.Ctx, "w1", offer(), 10, 0); err != nil || len(runs) != 0 {
		t.Errorf("without waiting: %v, %v", runs, err)
	}
}

// Whoever is silent is off the list, and what it ran does not stay in asynq's queue.
func TestWorkers_ASilentWorkerIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ref := w.hand("a")
	if len(w.take(offer())) != 1 || w.delivery(ref) != "active" {
		t.Fatal("it took nothing")
	}
	testkit.Eventually(t, "the delivery is settled", func() bool { return w.delivery(ref) == "" })
	testkit.Eventually(t, "the worker is gone", func() bool { return len(w.Guests()) == 0 })
}

func TestWorkers_ExtendingIsASignOfLife(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ref := w.hand("a")
	runs := w.take(offer())
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
		w.Extended("w1", runs, nil, time.Second)
		testkit.Eventually(t, "it is on the list", func() bool { return len(w.Guests()) == 1 && w.Guests()[0].Running == 1 })
	}
	if got := w.delivery(ref); got != "active" {
		t.Errorf("the delivery is %q", got)
	}
	w.Extended("w1", nil, runs, time.Second)
	testkit.Eventually(t, "a lost one is settled", func() bool { return w.delivery(ref) == "" })
}

func TestWorkers_AnotherOfferTakesThePlaceOfTheFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.hand("a")
	w.take(offer())
	other := offer()
	other.Queues, other.Capacity = []string{"low", "default"}, 7
	w.hand("b")
	if len(w.take(other)) != 1 {
		t.Error("it took nothing")
	}
	guests := w.Guests()
	if len(guests) != 1 || guests[0].Capacity != 7 || guests[0].Running != 2 || fmt.Sprint(guests[0].Queues) != "map[default:1 low:1]" {
		t.Errorf("on the list is %+v", guests)
	}
}

func TestWorkers_HaveALimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mu.Lock()
	for i := range SessionsLimit {
		s := newSession(w.o, fmt.Sprint("other-", i), offer())
		s.calls = 1 // it is not silent
		w.sessions[s.id] = s
	}
	w.mu.Unlock()
	if _, err := w.Take(w.Ctx, "w1", offer(), 1, 0); task.CodeOf(err) != task.CodeUnavailable {
		t.Errorf("one more: %v, want %s", err, task.CodeUnavailable)
	}
}

func TestWorkers_StopTakingWithTheNode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	taken := make(chan []*tasks.Run, 1)
	go func() { taken <- w.take(offer()) }()
	testkit.Eventually(t, "it waits", func() bool { return len(w.Guests()) == 1 })
	testkit.Must(t, w.stop())
	if got := testkit.Receive(t, taken, "the answer"); len(got) != 0 {
		t.Errorf("took %+v", got)
	}
	if _, err := w.Take(w.Ctx, "w2", offer(), 1, 0); task.CodeOf(err) != task.CodeUnavailable {
		t.Errorf("after the end: %v, want %s", err, task.CodeUnavailable)
	}
}
