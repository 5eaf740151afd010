package queue

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
)

func TestEnqueue_CanBeRepeated(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	d := aDelivery("a")
	var enqueueing sync.WaitGroup
	for range 8 {
		enqueueing.Go(func() {
			if err := x.HandOver(t.Context(), []task.Delivery{d}, nil).Failure(); err != nil {
				t.Error(err)
			}
		})
	}
	enqueueing.Wait()
	if got := x.waiting(); !slices.Equal(got, []string{"default:a:1"}) {
		t.Errorf("the queue holds %v, want the delivery once", got)
	}
}

func TestEnqueue_WritesNothingButAReference(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	d := aDelivery("a")
	x.enqueue(d)
	info, err := x.inspector.GetTaskInfo("default", "default:a:1")
	testkit.Must(t, err)
	if got, want := string(info.Payload), `{"namespace":"default","task":"a","attempt":1,"claimed_ms":1767323045000}`; got != want {
		t.Errorf("the payload is %s, want %s", got, want)
	}
	if info.MaxRetry != 0 {
		t.Errorf("a server of asynq would handle one attempt up to %d times", info.MaxRetry+1)
	}
	if info.Timeout < d.Timeout+time.Minute || info.Timeout > time.Hour {
		t.Errorf("asynq stops the delivery after %s, want the attempt's minute and room for what comes after it", info.Timeout)
	}
	if info.Type != "echo" {
		t.Errorf("asynq shows type %q, want the task's", info.Type)
	}
}

// An id may be used again once the task's retention is over, while asynq still keeps the old delivery.
func TestEnqueue_ReplacesAnOldDeliveryOfTheSameID(t *testing.T) {
	t.Parallel()
	for _, state := range []string{"archived", "completed"} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			x := newTransport(t)
			d := aDelivery("a")
			leave(x, d, state)
			d.ClaimedAt = d.ClaimedAt.Add(time.Millisecond)
			x.enqueue(d)
			if got := x.state(d); got != "pending" {
				t.Errorf("the delivery is %q, want pending", got)
			}
			if got := x.waiting(); !slices.Equal(got, []string{d.String()}) {
				t.Errorf("the queue holds %v, want the new delivery once", got)
			}
			archived, err := x.db.ZCard(t.Context(), "asynq:{default}:"+state).Result()
			testkit.Must(t, err)
			if archived != 0 {
				t.Errorf("%d of the old ones are left in %s, want none", archived, state)
			}
		})
	}
}

// leave puts an old delivery there as asynq leaves it.
func leave(x *transport, d task.Delivery, state string) {
	x.t.Helper()
	x.enqueue(d)
	if state == "archived" {
		testkit.Must(x.t, x.inspector.ArchiveTask(d.Queue, d.String()))
		return
	}
	ctx, k := x.t.Context(), lua.AsynqQueue(d.Queue)
	testkit.Must(x.t, x.db.LRem(ctx, string(k.Pending()), 0, d.String()).Err())
	testkit.Must(x.t, x.db.HSet(ctx, string(k.Delivery(d.String())), "state", state).Err())
	testkit.Must(x.t, x.db.Do(ctx, "ZADD", "asynq:{default}:"+state, 4e9, d.String()).Err())
}

func TestEnqueue_RestoresAMissingDelivery(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	d := aDelivery("a")
	x.enqueue(d)
	testkit.Must(t, x.db.FlushAll(t.Context()).Err())
	testkit.Must(t, x.HandOver(t.Context(), []task.Delivery{d}, nil).Failure())
	if got := x.waiting(); !slices.Equal(got, []string{d.String()}) {
		t.Errorf("the queue holds %v, want the delivery", got)
	}
}

func TestEnqueue_LeavesADeliveryOnItsWayAlone(t *testing.T) {
	t.Parallel()
	cases := map[string]func(x *transport, d task.Delivery){
		"waiting":         func(*transport, task.Delivery) {},
		"taken just now":  func(x *transport, d task.Delivery) { x.take(d, asynqLease) },
		"one beat missed": func(x *transport, d task.Delivery) { x.take(d, asynqLease-2*asynqBeat) },
		"to be retried": func(x *transport, d task.Delivery) {
			x.take(d, asynqLease)
			ctx, k := x.t.Context(), lua.AsynqQueue(d.Queue)
			testkit.Must(x.t, x.db.LRem(ctx, string(k.Active()), 0, d.String()).Err())
			testkit.Must(x.t, x.db.ZRem(ctx, string(k.Deadline()), d.String()).Err())
			testkit.Must(x.t, x.db.HSet(ctx, string(k.Delivery(d.String())), "state", "retry").Err())
		},
	}
	for name, prepare := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newTransport(t)
			d := aDelivery("a")
			x.enqueue(d)
			prepare(x, d)
			before := dump(t, x.db)
			testkit.Must(t, x.HandOver(t.Context(), []task.Delivery{d}, nil).Failure())
			if after := dump(t, x.db); after != before {
				t.Errorf("Redis changed from\n%s\nto\n%s", before, after)
			}
		})
	}
}

func TestEnqueue_PutsBackOnceWhatItsWorkerAbandoned(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	d, next := aDelivery("a"), aDelivery("b")
	x.enqueue(d)
	x.take(d, asynqLease-3*asynqBeat)
	x.enqueue(next)
	for range 3 {
		testkit.Must(t, x.HandOver(t.Context(), []task.Delivery{d}, nil).Failure())
	}
	if got := x.waiting(); !slices.Equal(got, []string{next.String(), d.String()}) {
		t.Errorf("the queue holds %v, want the delivery once, and first to be taken", got)
	}
	ctx, k := t.Context(), lua.AsynqQueue("default")
	active, lease := x.db.LLen(ctx, string(k.Active())).Val(), x.db.ZCard(ctx, string(k.Deadline())).Val()
	if active != 0 || lease != 0 {
		t.Errorf("asynq counts %d as taken and %d leases, want 0 and 0", active, lease)
	}
}

// Somebody who deletes the keys of a queue one by one can delete the list, and leave a delivery that came meanwhile.
func TestEnqueue_PutsBackOnceWhatIsMissingInTheList(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	d, next := aDelivery("a"), aDelivery("b")
	x.enqueue(d)
	testkit.Must(t, x.db.Del(t.Context(), string(lua.AsynqQueue("default").Pending())).Err())
	x.enqueue(next)
	for range 3 {
		testkit.Must(t, x.HandOver(t.Context(), []task.Delivery{d}, nil).Failure())
	}
	if got := x.waiting(); !slices.Equal(got, []string{next.String(), d.String()}) {
		t.Errorf("the queue holds %v, want the delivery once, and first to be taken", got)
	}
}

func TestEnqueue_WritesWhatAsynqUnderstands(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	d := aDelivery("a")
	x.enqueue(d)
	x.take(d, 0)
	testkit.Must(t, x.HandOver(t.Context(), []task.Delivery{d}, nil).Failure())
	info, err := x.inspector.GetTaskInfo("default", d.String())
	testkit.Must(t, err)
	if info.State != asynq.TaskStatePending {
		t.Errorf("asynq calls it %s, want pending", info.State)
	}
	q, err := x.inspector.GetQueueInfo("default")
	testkit.Must(t, err)
	if q.Latency > testkit.Limit {
		t.Errorf("it seems to have waited for %s", q.Latency)
	}
}

func TestEnqueue_PublishesADeletedQueueAgain(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	x.publishInterval = 0
	x.enqueue(aDelivery("a"))
	testkit.Must(t, x.db.FlushAll(t.Context()).Err())
	x.enqueue(aDelivery("b"))
	infos, err := x.List(t.Context())
	testkit.Must(t, err)
	if len(infos) != 1 || infos[0].Name != "default" || infos[0].Pending != 1 {
		t.Errorf("the queues are %+v, want default with one delivery", infos)
	}
}

func TestForget_DeletesWhatNobodyWorksOn(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	d := aDelivery("a")
	x.enqueue(d)
	testkit.Must(t, x.Forget(d))
	if got := x.state(d); got != "" {
		t.Errorf("the delivery is %s, want gone", got)
	}
	testkit.Must(t, x.Forget(d)) // once more is no error
	testkit.Must(t, x.Forget(task.Delivery{Ref: d.Ref, Attempt: 1, Queue: "nowhere"}))
}

func TestEnqueue_ReportsAnUnreachableRedis(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	x := newTransport(t)
	proxy := redistest.NewProxy(t, x.srv.Addr())
	q := New(Options{DB: redistest.Open(t, proxy.URL())})
	proxy.Cut()
	err := q.HandOver(t.Context(), []task.Delivery{aDelivery("a")}, nil).Failure()
	if err == nil || !strings.Contains(err.Error(), "default:a:1") {
		t.Errorf("the error is %v, want one that names the delivery", err)
	}
	proxy.Mend()
	testkit.Must(t, q.HandOver(t.Context(), []task.Delivery{aDelivery("a")}, nil).Failure())
}

func TestQueues_RememberABoundedNumber(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	batches := make([]*batch, publishedLimit+10)
	for i := range batches {
		batches[i] = &batch{queue: strconv.Itoa(i)}
	}
	testkit.Must(t, x.publish(t.Context(), batches))
	if n := len(x.published); n > publishedLimit {
		t.Errorf("%d queues are remembered", n)
	}
	if n := x.db.SCard(t.Context(), string(lua.AsynqQueues)).Val(); n != int64(len(batches)) {
		t.Errorf("%d of %d queues are listed", n, len(batches))
	}
}
