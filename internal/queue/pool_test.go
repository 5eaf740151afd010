package queue

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

func TestADeliveryThatWasDealtWithIsGone(t *testing.T) {
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
	if got := await(t, handled, "the delivery"); got != d.Ref {
		t.Errorf("the handler got %v, want %v", got, d.Ref)
	}
	eventually(t, "asynq forgets the delivery", func() bool { return x.state(d) == "" })
}

func TestADeadLetterEndsArchived(t *testing.T) {
	x := newTransport(t)
	x.pool(x.srv.URL(), func(context.Context, task.Ref, int) error { return ErrDeadLetter })
	d := aDelivery("a")
	x.enqueue(d)
	eventually(t, "the delivery is archived", func() bool { return x.state(d) == "archived" })
	info, err := x.inspector.GetTaskInfo("default", d.String())
	must(t, err)
	if info.Retried != 0 || info.LastErr == "" {
		t.Errorf("asynq says %d retries and error %q, want none and the reason", info.Retried, info.LastErr)
	}
}

func TestADeliveryWhoseHandlerFailedComesAgainSoon(t *testing.T) {
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
	eventually(t, "it came twice", func() bool { return len(tries) == 2 })
	eventually(t, "asynq forgets the delivery", func() bool { return x.state(d) == "" })
}

func TestWhatIsNotADeliveryOfDTSIsArchivedAndNotTriedAgain(t *testing.T) {
	x := newTransport(t)
	x.pool(x.srv.URL(), func(context.Context, task.Ref, int) error {
		t.Error("the handler was called")
		return nil
	})
	_, err := x.client().EnqueueContext(t.Context(), asynq.NewTask("foreign", []byte("not JSON")), asynq.TaskID("foreign"))
	must(t, err)
	k := lua.AsynqQueue("default")
	eventually(t, "it is archived", func() bool {
		return x.db.HGet(t.Context(), string(k.Delivery("foreign")), "state").Val() == "archived"
	})
}

func TestADeliveryWhoseHandlerDoesNotEndGoesBackToItsQueueAtShutdown(t *testing.T) {
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
	await(t, begun, "the delivery")
	p.Quiesce()
	p.Quiesce() // once more does no harm
	p.Shutdown()
	p.Shutdown()
	if got := x.waiting(); len(got) != 1 || x.state(d) != "pending" {
		t.Errorf("the queue holds %v, in state %q, want the delivery, pending", got, x.state(d))
	}
}

func TestAPoolThatQuiescedTakesNothing(t *testing.T) {
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

func TestAPausedQueueIsNotWorkedOn(t *testing.T) {
	x := newTransport(t)
	handled := make(chan struct{}, 1)
	d := aDelivery("a")
	x.enqueue(d)
	must(t, x.Pause(t.Context(), "default"))
	x.pool(x.srv.URL(), func(context.Context, task.Ref, int) error { handled <- struct{}{}; return nil })
	before := calls(t, x.db, "calls", "evalsha")
	eventually(t, "the pool looked a few times", func() bool { return calls(t, x.db, "calls", "evalsha") > before+5 })
	if got := x.state(d); got != "pending" {
		t.Errorf("the delivery is %q, want pending", got)
	}
	must(t, x.Resume(t.Context(), "default"))
	await(t, handled, "the delivery")
}

// asynq repeats a take that failed without a pause, which would cost half a core while Redis is full.
func TestAPoolDoesNotSpinWhileRedisRefusesToWrite(t *testing.T) {
	x := newTransport(t)
	x.pool(x.srv.URL(), func(context.Context, task.Ref, int) error { return nil })
	must(t, x.db.ConfigSet(t.Context(), "maxmemory", "1").Err())
	eventually(t, "Redis refuses", func() bool { return refused(t, x) > 0 })
	before := refused(t, x)
	window := time.NewTimer(2 * time.Second)
	<-window.C
	if n := refused(t, x) - before; n < 2 || n > 50 {
		t.Errorf("%d commands were refused in 2 s, want a few: one in %s", n, failurePause)
	}
	must(t, x.db.ConfigSet(t.Context(), "maxmemory", "0").Err())
}

func refused(t *testing.T, x *transport) int {
	t.Helper()
	return calls(t, x.db, "rejected_calls", "evalsha", "eval") + calls(t, x.db, "failed_calls", "evalsha", "eval")
}

func TestAPoolGoesOnWhenRedisIsBack(t *testing.T) {
	x := newTransport(t)
	proxy := redistest.NewProxy(t, x.srv.Addr())
	handled := make(chan struct{}, 1)
	x.pool(proxy.URL(), func(context.Context, task.Ref, int) error { handled <- struct{}{}; return nil })
	proxy.Cut()
	x.enqueue(aDelivery("a"))
	proxy.Mend()
	await(t, handled, "the delivery")
}

// asynq's parts end one after the other, each once the command it waits for has failed. The client of this test
// gives up sooner than usual, so that the test does not take half a minute.
func TestShutdownEndsThoughRedisIsAway(t *testing.T) {
	cases := map[string]func(x *transport, proxy *redistest.Proxy) (undo func()){
		"refusing connections": func(_ *transport, proxy *redistest.Proxy) func() { proxy.Cut(); return func() {} },
		"silent":               func(x *transport, _ *redistest.Proxy) func() { x.srv.Pause(); return x.srv.Continue },
	}
	for name, cut := range cases {
		t.Run(name, func(t *testing.T) {
			x := newTransport(t)
			proxy := redistest.NewProxy(t, x.srv.Addr())
			begun, end := make(chan struct{}), make(chan struct{})
			p := x.pool(proxy.URL()+"?read_timeout=100ms&max_retries=-1", func(context.Context, task.Ref, int) error {
				close(begun)
				<-end
				return nil
			})
			defer close(end)
			x.enqueue(aDelivery("a"))
			await(t, begun, "the delivery")
			undo := cut(x, proxy)
			defer undo()
			ended := make(chan struct{})
			go func() { defer close(ended); p.Shutdown() }()
			await(t, ended, "the end of the pool")
		})
	}
}
