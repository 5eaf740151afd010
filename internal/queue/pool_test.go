package queue

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
)

func TestPool_RemovesAHandledDelivery(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	handled := make(chan task.Ref, 1)
	x.pool(x.srv.URL(), func(_ context.Context, ref task.Ref, attempt int) error {
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

func TestPool_ArchivesADeadLetter(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	x.pool(x.srv.URL(), func(context.Context, task.Ref, int) error { return ErrDeadLetter })
	d := aDelivery("a")
	x.enqueue(d)
	testkit.Eventually(t, "the delivery is archived", func() bool { return x.state(d) == "archived" })
	info, err := x.inspector.GetTaskInfo("default", d.String())
	testkit.Must(t, err)
	if info.Retried != 0 || info.LastErr == "" {
		t.Errorf("asynq says %d retries and error %q, want none and the reason", info.Retried, info.LastErr)
	}
}

func TestPool_RepeatsADeliverySoonAfterAFailure(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	tries := make(chan struct{}, 2)
	x.pool(x.srv.URL(), func(context.Context, task.Ref, int) error {
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

func TestPool_ArchivesForeignTasksAtOnce(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	x.pool(x.srv.URL(), func(context.Context, task.Ref, int) error {
		t.Error("the handler was called")
		return nil
	})
	_, err := x.client().EnqueueContext(t.Context(), asynq.NewTask("foreign", []byte("not JSON")), asynq.TaskID("foreign"))
	testkit.Must(t, err)
	k := lua.AsynqQueue("default")
	testkit.Eventually(t, "it is archived", func() bool {
		return x.db.HGet(t.Context(), string(k.Delivery("foreign")), "state").Val() == "archived"
	})
}

func TestPool_ShutdownReturnsUnfinishedDeliveriesToTheQueue(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	begun, end := make(chan struct{}), make(chan struct{})
	p := x.pool(x.srv.URL(), func(context.Context, task.Ref, int) error {
		close(begun)
		<-end
		return nil
	})
	defer close(end)
	d := aDelivery("a")
	x.enqueue(d)
	testkit.Receive(t, begun, "the delivery")
	p.Quiesce()
	p.Quiesce() // once more does no harm
	p.Shutdown()
	p.Shutdown()
	if got := x.waiting(); len(got) != 1 || x.state(d) != "pending" {
		t.Errorf("the queue holds %v, in state %q, want the delivery, pending", got, x.state(d))
	}
}

func TestPool_TakesNothingAfterQuiesce(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	p := x.pool(x.srv.URL(), func(context.Context, task.Ref, int) error {
		t.Error("a delivery was taken")
		return nil
	})
	p.Quiesce()
	d := aDelivery("a")
	x.enqueue(d)
	p.Shutdown()
	if got := x.state(d); got != "pending" {
		t.Errorf("the delivery is %q, want pending", got)
	}
}

func TestPool_TakesNothingFromAPausedQueue(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	handled := make(chan struct{}, 1)
	d := aDelivery("a")
	x.enqueue(d)
	testkit.Must(t, x.Pause(t.Context(), "default"))
	x.pool(x.srv.URL(), func(context.Context, task.Ref, int) error { handled <- struct{}{}; return nil })
	before := calls(t, x.db, "calls", "evalsha")
	testkit.Eventually(t, "the pool looked a few times", func() bool { return calls(t, x.db, "calls", "evalsha") > before+5 })
	if got := x.state(d); got != "pending" {
		t.Errorf("the delivery is %q, want pending", got)
	}
	testkit.Must(t, x.Resume(t.Context(), "default"))
	testkit.Receive(t, handled, "the delivery")
}

// asynq repeats a take that failed without a pause, which would cost half a core while Redis is full.
func TestPool_DoesNotSpinWhileRedisRefusesToWrite(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	x.pool(x.srv.URL(), func(context.Context, task.Ref, int) error { return nil })
	testkit.Must(t, x.db.ConfigSet(t.Context(), "maxmemory", "1").Err())
	testkit.Eventually(t, "Redis refuses", func() bool { return refused(t, x) > 0 })
	before := refused(t, x)
	window := time.NewTimer(2 * time.Second)
	<-window.C
	if n := refused(t, x) - before; n < 2 || n > 50 {
		t.Errorf("%d commands were refused in 2 s, want a few: one in %s", n, failurePause)
	}
	testkit.Must(t, x.db.ConfigSet(t.Context(), "maxmemory", "0").Err())
}

func refused(t *testing.T, x *transport) int {
	t.Helper()
	return calls(t, x.db, "rejected_calls", "evalsha", "eval") + calls(t, x.db, "failed_calls", "evalsha", "eval")
}

func TestPool_GoesOnWhenRedisIsBack(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	proxy := redistest.NewProxy(t, x.srv.Addr())
	handled := make(chan struct{}, 1)
	x.pool(proxy.URL(), func(context.Context, task.Ref, int) error { handled <- struct{}{}; return nil })
	proxy.Cut()
	x.enqueue(aDelivery("a"))
	proxy.Mend()
	testkit.Receive(t, handled, "the delivery")
}

// asynq's parts end one after the other, each once the command it waits for has failed. The client of this test
// gives up sooner than usual, so that the test does not take half a minute.
func TestPool_ShutdownEndsWhileRedisIsUnreachable(t *testing.T) {
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
			p := x.pool(proxy.URL()+"?read_timeout=200ms&max_retries=-1", func(context.Context, task.Ref, int) error {
				close(begun)
				<-end
				return nil
			})
			defer close(end)
			x.enqueue(aDelivery("a"))
			testkit.Receive(t, begun, "the delivery")
			// asynq waits without end for its subscription to be confirmed.
			testkit.Eventually(t, "asynq listens for cancellations", func() bool {
				return x.db.PubSubNumSub(t.Context(), "asynq:cancel").Val()["asynq:cancel"] == 1
			})
			undo := cut(x, proxy)
			defer undo()
			ended := make(chan struct{})
			go func() { defer close(ended); p.Shutdown() }()
			testkit.Receive(t, ended, "the end of the pool")
		})
	}
}
