package queue

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/handover"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
)

// consumer returns one of the default queue that runs these types, and that nobody runs.
func (x *transport) consumer(types ...string) *Consumer {
	return NewConsumer(ConsumerOptions{DB: x.db, Name: "test", Concurrency: 100, Queues: map[string]int{"default": 1}, Types: types, Log: x.log()})
}

// handOver enqueues one delivery of each of the types, which are named by their places.
func (x *transport) handOver(types ...string) {
	x.t.Helper()
	all := make([]task.Delivery, len(types))
	for i, taskType := range types {
		all[i] = aDelivery(fmt.Sprint(i))
		all[i].Type = taskType
	}
	testkit.Must(x.t, x.HandOver(x.t.Context(), all, nil).Failure())
}

// takeAll takes n at a time, as long as the consumer expects more.
func (c *Consumer) takeAll(t *testing.T, n int) (ids []string, takes int) {
	for c.sources.ready() {
		takes++
		for _, d := range c.Take(t.Context(), n) {
			ids = append(ids, d.Ref.ID)
		}
	}
	return ids, takes
}

func TestTake_LeavesDeliveriesOfOtherTypesInTheirOrder(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 3, 64} {
		x := newTransport(t)
		x.handOver("shell", "echo", "echo", "shell", "http", "shell", "echo", "http")
		waiting := x.db.HGetAll(t.Context(), string(lua.AsynqQueue("default").Delivery("default:0:1"))).Val()
		c := x.consumer("echo", "http")
		if got, _ := c.takeAll(t, n); !slices.Equal(got, []string{"1", "2", "4", "6", "7"}) {
			t.Errorf("%d at a time: it took %v", n, got)
		}
		if got := x.waiting(); !slices.Equal(got, []string{"default:5:1", "default:3:1", "default:0:1"}) {
			t.Errorf("%d at a time: left are %v", n, got)
		}
		if got := x.db.HGetAll(t.Context(), string(lua.AsynqQueue("default").Delivery("default:0:1"))).Val(); fmt.Sprint(got) != fmt.Sprint(waiting) {
			t.Errorf("what was passed over has changed from %v to %v", waiting, got)
		}
		if got, _ := x.consumer("shell").takeAll(t, n); !slices.Equal(got, []string{"0", "3", "5"}) {
			t.Errorf("%d at a time: the other one took %v", n, got)
		}
	}
}

// A scan is bounded. What it has passed over goes behind the others, so that the next one gets further, and both end.
func TestTake_FindsItsTypesBehindManyOthers(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	types := slices.Repeat([]string{"shell"}, 1500)
	types[1100] = "echo"
	x.handOver(types...)
	c := x.consumer("echo")
	if got, takes := c.takeAll(t, 10); !slices.Equal(got, []string{"1100"}) || takes > 13 {
		t.Errorf("it took %v in %d takes, want the one that it runs, and an end when all were passed over", got, takes)
	}
	if n := len(x.waiting()); n != 1499 {
		t.Errorf("%d wait, want all of the others", n)
	}
}

func TestTake_CostsNothingMoreIfAllTypesAreItsOwn(t *testing.T) {
	t.Parallel()
	commands := []string{"exists", "llen", "rpop", "hget", "hset", "hdel", "lpush", "rpush", "zadd", "get", "set", "publish", "del", "time"}
	count := func(types ...string) int {
		x := newTransport(t)
		x.handOver(slices.Repeat([]string{"echo"}, 30)...)
		before := calls(t, x.db, "calls", commands...)
		if got, _ := x.consumer(types...).takeAll(t, 10); len(got) != 30 {
			t.Fatalf("it took %d, want 30", len(got))
		}
		return calls(t, x.db, "calls", commands...) - before
	}
	if all, own := count(), count("echo", "http"); all != own {
		t.Errorf("%d commands with types, %d without", own, all)
	}
}

// Whoever has passed over all that waits sleeps though the queue is not empty.
func TestArrivals_WakeWorkersThatPassedOverWhatWaits(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	ran := make(chan string, 10)
	x.pool(x.srv.URL(), func(ref task.Ref, _ int) error { ran <- ref.ID; return nil }, func(o *ConsumerOptions) { o.Types = []string{"echo"} })
	d := aDelivery("others")
	d.Type = "shell"
	x.enqueue(d)
	testkit.Eventually(t, "it was passed over", func() bool {
		return x.db.Exists(t.Context(), string(lua.AsynqQueue("default").Skipped())).Val() == 1
	})
	start := time.Now()
	const n = 20
	for i := range n {
		x.enqueue(aDelivery(fmt.Sprint(i)))
		testkit.Receive(t, ran, "a delivery behind it")
	}
	if mean := time.Since(start) / n; mean > lookInterval/4 {
		t.Errorf("a delivery took %s on average: it was found by looking", mean)
	}
	if x.state(d) != "pending" {
		t.Errorf("the other one is %s", x.state(d))
	}
}

// A worker that was chosen for a delivery that it does not run, as by a leader of an older version, has the others look.
func TestTake_ThatPassesOverWhatItWasWokenForWakesAll(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	d := aDelivery("others")
	d.Type = "shell"
	alone := x.db.Subscribe(t.Context(), string(x.keys.Worker("a")))
	defer func() { testkit.Must(t, alone.Close()) }()
	_, err := alone.Receive(t.Context())
	testkit.Must(t, err)
	choose := func(string, map[string]int) []string { return []string{"a"} }
	if n := x.announced(func() { testkit.Must(t, x.HandOver(t.Context(), []task.Delivery{d}, choose).Failure()) }); n != 0 {
		t.Fatalf("all were woken %d times for a delivery that one was chosen for", n)
	}
	c := x.consumer("echo")
	for i, want := range []int{1, 0} { // the second time it was woken with all, and there is nobody else to wake
		if n := x.announced(func() { c.Take(t.Context(), 1); c.sources.mark("default") }); n != want {
			t.Errorf("take %d: all were woken %d times, want %d", i+1, n, want)
		}
	}
}

func TestRecall_RemovesOnlyWhatNobodyHasTaken(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	x.handOver("echo", "shell", "shell")
	taken := x.consumer("echo").Take(t.Context(), 1)
	if len(taken) != 1 {
		t.Fatalf("took %d, want 1", len(taken))
	}
	all := []task.Delivery{aDelivery("0"), aDelivery("1"), aDelivery("gone")}
	for range 2 {
		got, err := x.Recall(t.Context(), all)
		if err != nil || len(got) != 2 || got[0].Ref.ID != "1" || got[1].Ref.ID != "gone" {
			t.Errorf("recalled %v, %v, want the one that waited and the one that is not there", got, err)
		}
	}
	if x.state(all[0]) != "active" || x.state(all[1]) != "" || !slices.Equal(x.waiting(), []string{"default:2:1"}) {
		t.Errorf("the taken one is %q, the recalled one %q, waiting are %v", x.state(all[0]), x.state(all[1]), x.waiting())
	}
}

func TestAwaitRoom_CountsTypesOnceSomeArePassedOver(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	x.handOver("echo", "shell", "shell")
	look := func() handover.Look {
		looks, err := x.AwaitRoom(t.Context(), map[string]int{"default": handover.NoLevel})
		testkit.Must(t, err)
		return looks["default"]
	}
	if got := look(); got.Waiting != 3 || got.Types != nil {
		t.Errorf("at first: %+v, want no types", got)
	}
	x.consumer("echo").Take(t.Context(), 10)
	if got := look(); got.Waiting != 2 || len(got.Types) != 1 || got.Types["shell"] != 2 {
		t.Errorf("after a worker passed over some: %+v", got)
	}
}
