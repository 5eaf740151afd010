package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
)

func TestConsumer_RemovesAHandledDelivery(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	handled := make(chan task.Ref, 1)
	x.pool(x.srv.URL(), func(ref task.Ref, attempt int) error {
		if attempt != 1 {
			t.Errorf("the attempt is %d, want 1", attempt)
		}
		handled <- ref
		return nil
	})
	d := aDelivery("a")
	x.enqueue(d)
	if got := testkit.Receive(t, handled, "the delivery"); got != d.Ref {
		t.Errorf("the handler got %v, want %v", got, d.Ref)
	}
	testkit.Eventually(t, "asynq forgets the delivery", func() bool { return x.state(d) == "" })
}

func TestConsumer_ArchivesADeadLetter(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	x.pool(x.srv.URL(), func(task.Ref, int) error { return ErrDeadLetter })
	d := aDelivery("a")
	x.enqueue(d)
	testkit.Eventually(t, "the delivery is archived", func() bool { return x.state(d) == "archived" })
	info, err := x.inspector.GetTaskInfo("default", d.String())
	testkit.Must(t, err)
	if info.Retried != 0 || info.LastErr == "" {
		t.Errorf("asynq says %d retries and error %q, want none and the reason", info.Retried, info.LastErr)
	}
}

func TestConsumer_RepeatsADeliverySoonAfterAFailure(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	tries := make(chan struct{}, 2)
	x.pool(x.srv.URL(), func(task.Ref, int) error {
		tries <- struct{}{}
		if len(tries) == 1 {
			return errors.New("cannot reach Redis")
		}
		return nil
	})
	d := aDelivery("a")
	x.enqueue(d)
	testkit.Eventually(t, "it came twice", func() bool { return len(tries) == 2 })
	testkit.Eventually(t, "asynq forgets the delivery", func() bool { return x.state(d) == "" })
}

func TestConsumer_ArchivesForeignTasksAtOnce(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	x.pool(x.srv.URL(), func(task.Ref, int) error {
		t.Error("the handler was called")
		return nil
	})
	x.foreign([]byte("not JSON"), asynq.TaskID("foreign"))
	k := lua.AsynqQueue("default")
	testkit.Eventually(t, "it is archived", func() bool {
		return x.db.HGet(t.Context(), string(k.Delivery("foreign")), "state").Val() == "archived"
	})
}

func TestConsumer_ShutdownReturnsUnfinishedDeliveriesToTheQueue(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	begun, end := make(chan struct{}), make(chan struct{})
	p := x.pool(x.srv.URL(), func(task.Ref, int) error {
		close(begun)
		<-end
		return nil
	})
	defer close(end)
	d := aDelivery("a")
	x.enqueue(d)
	testkit.Receive(t, begun, "the delivery")
	p.shutDown(t)
	p.shutDown(t) // once more does no harm
	if got := x.waiting(); len(got) != 1 || x.state(d) != "pending" {
		t.Errorf("the queue holds %v, in state %q, want the delivery, pending", got, x.state(d))
	}
}

func TestConsumer_TakesNothingFromAPausedQueue(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	handled := make(chan struct{}, 1)
	d := aDelivery("a")
	x.enqueue(d)
	testkit.Must(t, x.Pause(t.Context(), "default", "", ""))
	x.pool(x.srv.URL(), func(task.Ref, int) error { handled <- struct{}{}; return nil })
	before := calls(t, x.db, "calls", "evalsha")
	testkit.Eventually(t, "the pool looked a few times", func() bool { return calls(t, x.db, "calls", "evalsha") > before+2 })
	if got := x.state(d); got != "pending" {
		t.Errorf("the delivery is %q, want pending", got)
	}
	testkit.Must(t, x.Resume(t.Context(), "default", ""))
	testkit.Receive(t, handled, "the delivery")
}

// Scripts that remove before they add may run while Redis refuses to grow.
func TestConsumer_DrainsAFullRedis(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	d := aDelivery("a")
	x.enqueue(d)
	testkit.Must(t, x.db.ConfigSet(t.Context(), "maxmemory", "1").Err())
	c, taken := x.takeNow(1, map[string]int{"default": 1})
	if len(taken) != 1 {
		t.Fatalf("%d deliveries were taken, want the one", len(taken))
	}
	_, err := c.settle(t.Context(), []ending{{taken[0], nil}})
	testkit.Must(t, err)
	if got := x.state(d); got != "" {
		t.Errorf("the delivery is %q, want gone", got)
	}
}

func TestConsumer_DoesNotSpinWhileRedisRefuses(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	x := newTransport(t)
	x.breakQueue()
	x.pool(x.srv.URL(), func(task.Ref, int) error { return nil })
	testkit.Eventually(t, "Redis refuses", func() bool { return refused(t, x) > 0 })
	before := refused(t, x)
	window := time.NewTimer(2 * time.Second)
	<-window.C
	if n := refused(t, x) - before; n < 1 || n > 10 {
		t.Errorf("%d commands were refused in 2 s, want a few: one after %s, and then less often", n, firstPause)
	}
}

// breakQueue has Redis refuse to take from the default queue.
func (x *transport) breakQueue() {
	x.t.Helper()
	testkit.Must(x.t, x.db.Set(x.t.Context(), string(lua.AsynqQueue("default").Pending()), "no list", 0).Err())
}

func refused(t *testing.T, x *transport) int {
	t.Helper()
	return calls(t, x.db, "rejected_calls", "evalsha", "eval") + calls(t, x.db, "failed_calls", "evalsha", "eval")
}

func TestConsumer_GoesOnWhenRedisIsBack(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	proxy := redistest.NewProxy(t, x.srv.Addr())
	handled := make(chan struct{}, 1)
	x.pool(proxy.URL(), func(task.Ref, int) error { handled <- struct{}{}; return nil })
	proxy.Cut()
	x.enqueue(aDelivery("a"))
	proxy.Mend()
	testkit.Receive(t, handled, "the delivery")
}

// Nobody else would ever find what is left of the delivery.
func TestConsumer_SettlesADeliveryWhoseQueueSomebodyHasEmptied(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		end  error
		want string // its state
	}{"handled": {nil, ""}, "dead letter": {ErrDeadLetter, "archived"}, "given back": {ErrGiveBack, "pending"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newTransport(t)
			d, k := aDelivery("a"), lua.AsynqQueue("default")
			x.enqueue(d)
			c, taken := x.takeNow(1, map[string]int{"default": 1})
			if len(taken) != 1 {
				t.Fatalf("took %d deliveries, want 1", len(taken))
			}
			testkit.Must(t, x.db.Del(t.Context(), string(k.Active()), string(k.Deadline())).Err())
			c.ends.add(ending{taken[0], test.end})
			_, err := c.settle(t.Context(), c.ends.take())
			testkit.Must(t, err)
			if got := x.state(d); got != test.want {
				t.Errorf("it is %q, want %q", got, test.want)
			}
		})
	}
}

func TestConsumer_SettlesWhenRedisIsBack(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	proxy := redistest.NewProxy(t, x.srv.Addr())
	begun, end := make(chan struct{}), make(chan struct{})
	x.pool(proxy.URL(), func(task.Ref, int) error { close(begun); <-end; return nil })
	d := aDelivery("a")
	x.enqueue(d)
	testkit.Receive(t, begun, "the delivery")
	proxy.Cut()
	close(end)
	proxy.Mend()
	testkit.Eventually(t, "asynq forgets the delivery", func() bool { return x.state(d) == "" })
}

func TestConsumer_AQueueThatCannotBeSettledHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	active, aside := string(lua.AsynqQueue("low").Active()), "aside"
	broken := make(chan error, 1)
	x.pool(x.srv.URL(), func(ref task.Ref, _ int) error {
		if ref.ID == "stuck" { // it has been taken, and cannot be settled
			broken <- errors.Join(x.db.Rename(t.Context(), active, aside).Err(), x.db.Set(t.Context(), active, "no list", 0).Err())
		}
		return nil
	}, func(o *ConsumerOptions) { o.Queues = map[string]int{"default": 1, "low": 1} })
	stuck := aDelivery("stuck")
	stuck.Queue = "low"
	x.enqueue(stuck)
	testkit.Must(t, testkit.Receive(t, broken, "the delivery"))
	testkit.Eventually(t, "settling fails", func() bool { return refused(t, x) > 0 })
	for i := range 20 {
		d := aDelivery(fmt.Sprint(i))
		x.enqueue(d)
		testkit.Eventually(t, "asynq forgets a delivery of the other queue", func() bool { return x.state(d) == "" })
	}
	if n := refused(t, x); n > 10 {
		t.Errorf("20 deliveries were settled, and the other queue was tried %d times, want a few", n)
	}
	if got := x.state(stuck); got != "active" {
		t.Fatalf("the delivery of the broken queue is %q, want active", got)
	}
	testkit.Must(t, x.db.Rename(t.Context(), aside, active).Err())
	testkit.Eventually(t, "the queue is settled as well", func() bool { return x.state(stuck) == "" })
}

// The client of this test gives up sooner than usual, so that the test does not take long.
func TestConsumer_EndsWhileRedisIsUnreachable(t *testing.T) {
	t.Parallel()
	cases := map[string]func(x *transport, proxy *redistest.Proxy) (undo func()){
		"refusing connections": func(_ *transport, proxy *redistest.Proxy) func() { proxy.Cut(); return func() {} },
		"silent":               func(x *transport, _ *redistest.Proxy) func() { x.srv.Pause(); return x.srv.Continue },
	}
	for name, cut := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newTransport(t)
			proxy := redistest.NewProxy(t, x.srv.Addr())
			begun, end := make(chan struct{}), make(chan struct{})
			p := x.pool(proxy.URL()+"?read_timeout=200ms&max_retries=-1", func(task.Ref, int) error {
				close(begun)
				<-end
				return nil
			})
			defer close(end)
			x.enqueue(aDelivery("a"))
			testkit.Receive(t, begun, "the delivery")
			undo := cut(x, proxy)
			defer undo()
			p.shutDown(t)
		})
	}
}

func TestConsumer_EndsThoughItHasNeverReachedRedis(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	x := newTransport(t)
	proxy := redistest.NewProxy(t, x.srv.Addr())
	db := redistest.Open(t, proxy.URL())
	proxy.Cut()
	p := x.poolOf(db, func(task.Ref, int) error { return nil })
	testkit.Eventually(t, "it has tried", func() bool { return p.failures("default") > 0 })
	p.shutDown(t)
}

// The longest wait of a consumer is lookInterval twice, so a delivery that comes sooner was announced.
func TestConsumer_IsWokenByADelivery(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	handled := make(chan task.Ref, 1)
	x.pool(x.srv.URL(), func(ref task.Ref, _ int) error { handled <- ref; return nil })
	var total time.Duration
	const rounds = 50
	for i := range rounds {
		d := aDelivery(fmt.Sprint(i))
		start := time.Now()
		x.enqueue(d)
		testkit.Receive(t, handled, "the delivery")
		total += time.Since(start)
		testkit.Eventually(t, "the queue is empty", func() bool { return x.state(d) == "" })
	}
	if mean := total / rounds; mean > lookInterval/4 {
		t.Errorf("a delivery took %s on average: it was found by looking", mean)
	}
}

// With a Redis in the process, timers that nobody needs are what costs most when a clock jumps.
func TestConsumer_ThatIsUnhurriedSleepsUntilItHoldsADelivery(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	d, release := aDelivery("a"), make(chan struct{})
	p := x.pool(x.srv.URL(), func(task.Ref, int) error { <-release; return nil }, func(o *ConsumerOptions) { o.Unhurried = true })
	defer close(release)
	idle, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.awaitHeld(idle); !errors.Is(err, context.Canceled) {
		t.Errorf("it does not sleep: %v", err)
	}
	x.enqueue(d)
	testkit.Eventually(t, "it extends the lease for long", func() bool {
		until := x.db.ZScore(t.Context(), string(lua.AsynqQueue(d.Queue).Deadline()), d.String()).Val()
		return until > float64(time.Now().Add(5*time.Hour).Unix())
	})
	testkit.Must(t, p.awaitHeld(idle))
}

func TestConsumer_IsReadyWhenAllChannelsAreConfirmedOnOneConnection(t *testing.T) {
	t.Parallel()
	c := NewConsumer(ConsumerOptions{
		DB: redistest.Start(t).DB(t), Name: "test", Concurrency: 1, Queues: map[string]int{"a": 1, "b": 1}, Log: slog.New(slog.DiscardHandler),
	})
	listener, channels := c.arrivals(t.Context())
	ready := func() bool {
		select {
		case <-c.Ready():
			return true
		default:
			return false
		}
	}
	listener.Connected(channels[0])
	listener.Disconnected()
	for range channels {
		listener.Connected(channels[0])
	}
	if ready() {
		t.Errorf("it is ready without subscriptions to %v", channels[1:])
	}
	listener.Disconnected()
	for range 2 { // it stays ready when the connection is lost and made again
		for _, channel := range slices.Backward(channels) {
			listener.Connected(channel)
		}
		if !ready() {
			t.Error("it is not ready, though all channels are confirmed")
		}
		listener.Disconnected()
	}
}

func TestConsumer_TwoNeverTakeTheSame(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	const n = 500
	handled := make(chan string, 2*n)
	for range 2 {
		x.pool(x.srv.URL(), func(ref task.Ref, _ int) error { handled <- ref.ID; return nil })
	}
	var all []task.Delivery
	for i := range n {
		all = append(all, aDelivery(fmt.Sprint(i)))
	}
	testkit.Must(t, x.HandOver(t.Context(), all, nil).Failure())
	seen := map[string]bool{}
	for range n {
		id := testkit.Receive(t, handled, "a delivery")
		if seen[id] {
			t.Errorf("%s was handled twice", id)
		}
		seen[id] = true
	}
	testkit.Eventually(t, "asynq forgets them all", func() bool {
		return len(x.waiting()) == 0 && x.db.LLen(t.Context(), string(lua.AsynqQueue("default").Active())).Val() == 0
	})
	if len(handled) > 0 {
		t.Errorf("%d were handled once more", len(handled))
	}
	processed, err := x.db.Get(t.Context(), string(lua.AsynqQueue("default").Processed())).Int()
	testkit.Must(t, err)
	if processed != n {
		t.Errorf("asynq counts %d, want %d", processed, n)
	}
}

func TestConsumer_HoldsItsDeliveries(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	d := aDelivery("a")
	x.enqueue(d)
	c, _ := x.takeNow(1, map[string]int{"default": 1})
	x.leaseEnds(d, time.Second)
	testkit.Must(t, c.beat(t.Context()))
	before := dump(t, x.db)
	x.enqueue(d)
	if after := dump(t, x.db); after != before {
		t.Errorf("Redis changed from\n%s\nto\n%s", before, after)
	}
}

// The beat is in a goroutine of its own, and sees a delivery as soon as it is held. The race detector watches.
func TestConsumer_HoldsDeliveriesThatTheBeatCanShow(t *testing.T) {
	t.Parallel()
	c, _ := newTransport(t).takeNow(1, map[string]int{"default": 1})
	const n = 1000
	shown := make(chan struct{})
	go func() {
		defer close(shown)
		for held := 0; held < n; {
			all := c.holding()
			for _, taken := range all {
				c.record.encodeWorker(taken)
			}
			held = len(all)
		}
	}()
	for i := range n {
		d := aDelivery(fmt.Sprint(i))
		c.hold([]*Taken{{id: d.String(), encoded: string(messageOf(d, "default").encode()), queue: "default"}})
	}
	testkit.Receive(t, shown, "the last delivery to be shown")
}

// Without arrivals, a consumer asks for the lengths of its queues every two to four seconds, and beats.
func TestConsumer_CostsLittleWhileIdle(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	x := newTransport(t)
	x.pool(x.srv.URL(), func(task.Ref, int) error { return nil },
		func(o *ConsumerOptions) { o.Queues = map[string]int{"critical": 6, "default": 3, "low": 1} })
	looks, takes := calls(t, x.db, "calls", "llen"), calls(t, x.db, "calls", "evalsha")
	testkit.Eventually(t, "it has looked at all queues without taking from any", func() bool {
		before, scripts := looks, takes
		looks, takes = calls(t, x.db, "calls", "llen"), calls(t, x.db, "calls", "evalsha")
		quiet := takes == scripts && looks >= before+3
		if takes == scripts && !quiet {
			looks = before // wait for the rest of the look
		}
		return quiet
	})
	window := time.NewTimer(6 * time.Second)
	<-window.C
	looks, takes = calls(t, x.db, "calls", "llen")-looks, calls(t, x.db, "calls", "evalsha")-takes
	if looks < 3 || looks > 4*3 || takes > 0 {
		t.Errorf("in 6 s, it asked for %d lengths and ran %d scripts, want 3 to 12 and none", looks, takes)
	}
}

// A consumer that is cordoned takes nothing, also if it is woken, and others are woken instead. It goes on at once later.
func TestConsumer_TakesNothingWhileItIsCordoned(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	handled := [2]chan string{make(chan string, 100), make(chan string, 100)}
	var pools [2]*pool
	for i := range pools {
		pools[i] = x.pool(x.srv.URL(), func(ref task.Ref, _ int) error { handled[i] <- ref.ID; return nil })
	}
	for round := range 4 {
		free := round % 2
		pools[free].SetCordoned(false)
		pools[1-free].SetCordoned(true)
		pools[1-free].SetCordoned(true) // once more does no harm
		for i := range 20 {
			x.enqueue(aDelivery(fmt.Sprintf("%d-%d", round, i)))
			testkit.Receive(t, handled[free], "a delivery")
		}
		if n := len(handled[1-free]); n > 0 {
			t.Errorf("round %d: the consumer that is cordoned took %d", round, n)
		}
	}
	pools[0].SetCordoned(true)
	if taken := pools[0].Take(t.Context(), 10); len(taken) > 0 {
		t.Errorf("it took %v", taken)
	}
}
