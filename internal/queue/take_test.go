package queue

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
)

func TestTake_SharesByWeight(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	weights := map[string]int{"critical": 6, "default": 3, "low": 1}
	for queue := range weights {
		var all []task.Delivery
		for i := range 100 {
			d := aDelivery(fmt.Sprint(queue, i))
			d.Queue = queue
			all = append(all, d)
		}
		testkit.Must(t, x.HandOver(t.Context(), all, nil).Failure())
	}
	for _, size := range []int{1, 20} {
		got := map[string]int{}
		c, first := x.takeNow(size, weights)
		for taken, all := first, 0; all < 100; taken = c.Take(t.Context(), size) {
			for _, d := range taken {
				got[d.queue]++
			}
			all += len(taken)
		}
		if want := map[string]int{"critical": 60, "default": 30, "low": 10}; !maps.Equal(got, want) {
			t.Errorf("takes of %d: %v, want %v", size, got, want)
		}
		for d := range c.held {
			c.ends.add(ending{d, ErrGiveBack})
		}
		if _, err := c.settle(t.Context(), c.ends.take()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTake_KeepsTheOrderOfAQueue(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	var all []task.Delivery
	var want []string
	for i := range 150 {
		all = append(all, aDelivery(fmt.Sprint(i)))
		want = append(want, fmt.Sprint(i))
	}
	testkit.Must(t, x.HandOver(t.Context(), all, nil).Failure())
	c, first := x.takeNow(64, map[string]int{"default": 1})
	var back []ending
	for _, d := range first { // what is given back is the next to be taken, in the same order
		back = append(back, ending{d, ErrGiveBack})
	}
	_, err := c.settle(t.Context(), back)
	testkit.Must(t, err)
	var got []string
	for len(got) < len(want) {
		for _, d := range c.Take(t.Context(), 64) {
			got = append(got, d.Ref.ID)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("taken in the order %v", got)
	}
}

// Somebody has repeated its place in the list: what is given back after its end would be a hash that nobody ever deletes.
func TestConsumer_GivesNothingBackThatHasEnded(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	d := aDelivery("a")
	x.enqueue(d)
	testkit.Must(t, x.db.RPush(t.Context(), string(lua.AsynqQueue("default").Pending()), d.String()).Err())
	c, twice := x.takeNow(2, map[string]int{"default": 1})
	if len(twice) != 2 {
		t.Fatalf("took %d deliveries, want 2", len(twice))
	}
	for _, end := range []error{nil, ErrGiveBack} {
		_, err := c.settle(t.Context(), []ending{{twice[0], end}})
		testkit.Must(t, err)
	}
	if left, waits := x.state(d), x.waiting(); left != "" || len(waits) > 0 {
		t.Errorf("it is %q, and %v wait", left, waits)
	}
}

// A queue is as old as its oldest delivery, also if a worker has returned that.
func TestGiveBack_KeepsSinceWhenADeliveryWaits(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	d := aDelivery("a")
	x.enqueue(d)
	key := string(lua.AsynqQueue("default").Delivery(d.String()))
	testkit.Must(t, x.db.HSet(t.Context(), key, "pending_since", "1000").Err())
	c, taken := x.takeNow(1, map[string]int{"default": 1})
	_, err := c.settle(t.Context(), []ending{{taken[0], ErrGiveBack}})
	testkit.Must(t, err)
	if since := x.db.HGet(t.Context(), key, "pending_since").Val(); since != "1000" || x.state(d) != "pending" {
		t.Errorf("it is %s since %s, want pending since 1000", x.state(d), since)
	}
}

// What nobody has begun is found by a leader, who enqueues it again.
func TestTake_WhoseAnswerWasLostIsRepeatedByALeader(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	d := aDelivery("a")
	x.enqueue(d)
	_, lost := x.takeNow(1, map[string]int{"default": 1})
	if len(lost) != 1 || x.state(d) != "active" {
		t.Fatalf("%d were taken, and the delivery is %s", len(lost), x.state(d))
	}
	x.leaseEnds(d, abandoned)
	x.enqueue(d)
	if _, again := x.takeNow(1, map[string]int{"default": 1}); len(again) != 1 || again[0].Ref != d.Ref {
		t.Errorf("taken again: %v, want the delivery", again)
	}
}

// announced returns how often an action announces an arrival in the default queue to all its workers.
func (x *transport) announced(action func()) int {
	x.t.Helper()
	return x.heard(string(x.keys.Arrivals("default")), action)
}

// heard returns how many messages an action publishes on a channel.
func (x *transport) heard(channel string, action func()) int {
	x.t.Helper()
	const end = "end"
	ctx := x.t.Context()
	ps := x.db.Subscribe(ctx, channel)
	defer func() { testkit.Must(x.t, ps.Close()) }()
	_, err := ps.Receive(ctx) // the subscription
	testkit.Must(x.t, err)
	action()
	testkit.Must(x.t, x.db.Publish(ctx, channel, end).Err())
	for n := 0; ; n++ {
		m, err := ps.ReceiveMessage(ctx)
		testkit.Must(x.t, err)
		if m.Payload == end {
			return n
		}
	}
}

func TestHandOver_WakesTheChosenAndTheRestWhenTheyLeaveSome(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	deliveries := func(from, n int) []task.Delivery {
		var all []task.Delivery
		for i := range n {
			all = append(all, aDelivery(fmt.Sprint(from+i)))
		}
		return all
	}
	chosen := []string{"a", "b"}
	handOver := func(from, n int) func() {
		return func() {
			choose := func(queue string, byType map[string]int) []string {
				if queue != "default" || byType["echo"] != n {
					t.Errorf("chose workers for %d deliveries of %s, want %d", byType["echo"], queue, n)
				}
				return chosen
			}
			testkit.Must(t, x.HandOver(t.Context(), deliveries(from, n), choose).Failure())
		}
	}
	take := func(n int) func() { return func() { x.takeNow(n, map[string]int{"default": 1}) } }
	for _, channel := range []lua.WorkerChannel{x.keys.Worker("a"), x.keys.Worker("b")} {
		if n := x.heard(string(channel), handOver(0, 10)); n != 1 {
			t.Errorf("%d messages on %s, want 1", n, channel)
		}
		take(10)()
		x.db.FlushAll(t.Context())
	}
	living := x.db.Subscribe(t.Context(), string(x.keys.Worker("a")), string(x.keys.Worker("b")))
	defer func() { testkit.Must(t, living.Close()) }()
	for range 2 {
		_, err := living.Receive(t.Context())
		testkit.Must(t, err)
	}
	for _, step := range []struct {
		what   string
		action func()
		want   int
	}{
		{"deliveries in an empty queue, for two workers", handOver(0, 10), 0},
		{"the first of them takes some", take(3), 0},
		{"the second takes some", take(3), 1},
		{"another takes some", take(3), 0},
		{"the last is taken", take(3), 0},
		{"more in the empty queue", handOver(10, 10), 0},
		{"the first takes all", take(10), 0},
		{"more that wait already are handed over again", func() { handOver(20, 2)(); handOver(20, 2)() }, 1},
		{"all of these are taken", take(10), 0},
		{"more, for one that has died", func() { chosen = []string{"a", "dead"}; handOver(30, 2)() }, 1},
	} {
		if n := x.announced(step.action); n != step.want {
			t.Errorf("%s: all workers were woken %d times, want %d", step.what, n, step.want)
		}
	}
}

func TestArrivals_AreAnnounced(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	var all []task.Delivery
	for i := range 200 {
		all = append(all, aDelivery(fmt.Sprint(i)))
	}
	enqueue := func() {
		testkit.Must(t, x.HandOver(t.Context(), all, nil).Failure())
	}
	var c *Consumer
	var taken []*Taken
	for _, step := range []struct {
		what   string
		action func()
		want   int
	}{
		{"200 deliveries in an empty queue", enqueue, 1},
		{"the same again, in four scripts, as their workers may not have heard of them", enqueue, 4},
		{"one more in a queue that holds some", func() { x.enqueue(aDelivery("more")) }, 0},
		{"a take", func() { c, taken = x.takeNow(2, map[string]int{"default": 1}) }, 0},
		{"a handled delivery", func() { _, err := c.settle(t.Context(), []ending{{taken[0], nil}}); testkit.Must(t, err) }, 0},
		{"a delivery given back", func() { _, err := c.settle(t.Context(), []ending{{taken[1], ErrGiveBack}}); testkit.Must(t, err) }, 1},
		{"the same once more", func() { _, err := c.settle(t.Context(), []ending{{taken[1], ErrGiveBack}}); testkit.Must(t, err) }, 0},
		{"a resumed queue", func() { testkit.Must(t, x.Resume(t.Context(), "default", "")) }, 1},
		{"a queue that has nothing to forward", func() { _, err := x.Tend(t.Context(), 0); testkit.Must(t, err) }, 0},
		{"a delayed task", func() {
			x.foreign(nil, asynq.TaskID("later"), asynq.ProcessIn(time.Second))
			testkit.Must(t, x.db.Do(t.Context(), "ZADD", string(lua.AsynqQueue("default").Scheduled()), 1, "later").Err())
			_, err := x.Tend(t.Context(), 0)
			testkit.Must(t, err)
		}, 1},
	} {
		if got := x.announced(step.action); got != step.want {
			t.Errorf("%s: announced %d times, want %d", step.what, got, step.want)
		}
	}
}

// A script whose keys are in two slots fails in a cluster, also in one of a single server.
func TestTransport_WorksOnACluster(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	srv := redistest.Start(t, redistest.With("--cluster-enabled", "yes"))
	one := srv.DB(t)
	testkit.Must(t, one.ClusterAddSlotsRange(t.Context(), 0, 16383).Err())
	testkit.Eventually(t, "the cluster works", func() bool {
		return strings.Contains(one.ClusterInfo(t.Context()).Val(), "cluster_state:ok")
	})
	db, err := redisx.Open(t.Context(), redisx.Options{URL: "redis+cluster://" + srv.Addr()})
	testkit.Must(t, err)
	t.Cleanup(func() { _ = db.Close() }) // after the pool's end
	x := &transport{Queues: New(Options{DB: db}), t: t, db: db, srv: srv}
	handled := make(chan string, 100)
	p := x.poolOf(db, func(ref task.Ref, _ int) error {
		handled <- ref.ID
		if ref.ID == "dead" {
			return ErrDeadLetter
		}
		return nil
	}, func(o *ConsumerOptions) { o.Queues = map[string]int{"critical": 6, "default": 3} })
	testkit.Receive(t, p.Ready(), "the consumer")
	alive, dead := aDelivery("alive"), aDelivery("dead")
	alive.Queue = "critical"
	testkit.Must(t, x.HandOver(t.Context(), []task.Delivery{alive, dead}, nil).Failure())
	testkit.Eventually(t, "both are settled", func() bool { return x.state(alive) == "" && x.state(dead) == "archived" })
	testkit.Must(t, p.beat(t.Context()))
	_, err = x.Tend(t.Context(), 0)
	testkit.Must(t, err)
	if infos, err := x.List(t.Context()); err != nil || len(infos) != 2 || infos[1].Archived != 1 {
		t.Errorf("the queues are %+v, %v", infos, err)
	}
}
