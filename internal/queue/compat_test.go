package queue

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
)

// asynqServer runs a server of asynq on the default queue until the test ends.
func (x *transport) asynqServer(h asynq.HandlerFunc) {
	x.t.Helper()
	s := asynq.NewServerFromRedisClient(redistest.Open(x.t, x.srv.URL()).UniversalClient, asynq.Config{
		Concurrency: 4, Queues: map[string]int{"default": 1}, TaskCheckInterval: 10 * time.Millisecond, LogLevel: asynq.FatalLevel,
		DelayedTaskCheckInterval: time.Second,
	})
	testkit.Must(x.t, s.Start(h))
	x.t.Cleanup(s.Shutdown)
}

// info is what asynq's inspector says of a delivery.
func (x *transport) info(d task.Delivery) *asynq.TaskInfo {
	x.t.Helper()
	i, err := x.inspector.GetTaskInfo("default", d.String())
	testkit.Must(x.t, err)
	return i
}

func TestAsynqServer_HandlesDeliveriesOfDTS(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	const n = 100
	seen := make(chan string, 2*n)
	x.asynqServer(func(_ context.Context, t *asynq.Task) error {
		seen <- t.Type() + " " + string(t.Payload()) + " " + t.ResultWriter().TaskID()
		return nil
	})
	var all []task.Delivery
	want := map[string]bool{}
	for i := range n {
		d := aDelivery(fmt.Sprint(i))
		all = append(all, d)
		want[fmt.Sprintf(`echo {"namespace":"default","task":"%d","attempt":1,"claimed_ms":1767323045000} %s`, i, d)] = true
	}
	testkit.Must(t, x.HandOver(t.Context(), all, nil).Failure())
	for range n {
		got := testkit.Receive(t, seen, "a delivery")
		if !want[got] {
			t.Errorf("asynq's server got %s, once more or wrong", got)
		}
		delete(want, got)
	}
	testkit.Eventually(t, "all have been handled", func() bool { return x.size() == 0 })
	d := aDelivery("7")
	for range 2 { // a leader may be late with handing it over
		if h := x.HandOver(t.Context(), []task.Delivery{d}, nil); h.Failure() != nil || !h.Ended[0].Succeeded {
			t.Errorf("afterwards its end is %+v, %v", h.Ended, h.Failure())
		}
		testkit.Must(t, x.Settle(t.Context(), d))
	}
	if state, left := x.state(d), x.db.TTL(t.Context(), string(lua.AsynqQueue("default").Delivery(d.String()))).Val(); state != "completed" || left <= 0 || left > settledRetention {
		t.Errorf("the settled delivery is %q for %s", state, left)
	}
	d.ClaimedAt = d.ClaimedAt.Add(time.Minute) // the task was changed, or another one has its id
	if h := x.HandOver(t.Context(), []task.Delivery{d}, nil); h.Failure() != nil || len(h.Ended) != 0 {
		t.Errorf("a later task has ended: %+v, %v", h.Ended, h.Failure())
	}
	if got := testkit.Receive(t, seen, "the later task"); !strings.HasSuffix(got, d.String()) {
		t.Errorf("asynq's server got %s", got)
	}
}

// A leader cannot tell a server that died before it began from one that died while it worked.
func TestAsynqServer_HandlesAgainWhatADeadServerHeld(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	d := aDelivery("a")
	x.enqueue(d)
	x.take(d, abandoned)
	handled := make(chan string, 1)
	x.asynqServer(func(_ context.Context, t *asynq.Task) error { handled <- t.ResultWriter().TaskID(); return nil })
	x.enqueue(d) // the leader looks after it
	if got := testkit.Receive(t, handled, "the delivery"); got != d.String() {
		t.Errorf("the handler got %s", got)
	}
}

// No leader has looked for half a minute after the end of the lease, so asynq's servers decide: nobody tries again on this delivery.
func TestAsynqServer_FailsWhatNoLeaderHasFoundInTime(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	d := aDelivery("a")
	x.enqueue(d)
	x.take(d, -asynqLease-5*time.Second)
	x.asynqServer(func(context.Context, *asynq.Task) error { t.Error("the handler was called"); return nil })
	testkit.Eventually(t, "asynq's server has archived it", func() bool { return x.state(d) == "archived" })
	h := x.HandOver(t.Context(), []task.Delivery{d}, nil)
	if end := h.Ended[0]; h.Failure() != nil || end.Succeeded || end.Error != asynq.ErrLeaseExpired.Error() {
		t.Errorf("its end is %+v, %v", h.Ended, h.Failure())
	}
}

// size is how many deliveries the default queue has that have not been handled, as asynq counts.
func (x *transport) size() int {
	x.t.Helper()
	info, err := x.inspector.GetQueueInfo("default")
	testkit.Must(x.t, err)
	return info.Size - info.Completed
}

func TestAsynqServer_BesideAConsumerNeverTakesTheSame(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	const n = 300
	seen := make(chan string, 2*n)
	x.pool(x.srv.URL(), func(ref task.Ref, _ int) error { seen <- ref.ID; return nil })
	x.asynqServer(func(_ context.Context, t *asynq.Task) error {
		m := message{payload: t.Payload()}
		ref, _, err := m.reference()
		seen <- ref.ID
		return err
	})
	var all []task.Delivery
	for i := range n {
		all = append(all, aDelivery(fmt.Sprint(i)))
	}
	testkit.Must(t, x.HandOver(t.Context(), all, nil).Failure())
	ids := map[string]int{}
	for range n {
		ids[testkit.Receive(t, seen, "a delivery")]++
	}
	testkit.Eventually(t, "all have been handled", func() bool { return x.size() == 0 })
	if len(ids) != n || len(seen) != 0 {
		t.Errorf("%d different deliveries were handled and %d more, want %d and none", len(ids), len(seen), n)
	}
}

func TestAsynqClient_EnqueuesAReference(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	reference := []byte(`{"task": "a", "namespace": "default", "attempt": 3}`)
	for name, o := range map[string][]asynq.Option{
		"at once":  nil,
		"later":    {asynq.ProcessIn(time.Second)},
		"uniquely": {asynq.Unique(time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newTransport(t)
			handled := make(chan task.Delivery, 1)
			x.pool(x.srv.URL(), func(ref task.Ref, attempt int) error {
				handled <- task.Delivery{Ref: ref, Attempt: attempt}
				return nil
			})
			x.foreign(reference, o...)
			tended := x.tendUntil(func() bool { return len(handled) == 1 })
			if got := <-handled; got.String() != "default:a:3" {
				t.Errorf("the handler got %s", got)
			}
			if want := name == "later"; (tended.Forwarded == 1) != want {
				t.Errorf("%d were forwarded", tended.Forwarded)
			}
			testkit.Eventually(t, "asynq forgets it, and the lock", func() bool {
				return len(x.db.Keys(t.Context(), "asynq:{default}:t:*").Val()) == 0 && len(x.db.Keys(t.Context(), "asynq:{default}:unique:*").Val()) == 0
			})
		})
	}
}

func TestAsynqClient_GetsAForeignTaskArchivedWithTheReason(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	for name, o := range map[string][]asynq.Option{"at once": nil, "later": {asynq.ProcessIn(time.Second)}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newTransport(t)
			x.pool(x.srv.URL(), func(task.Ref, int) error { t.Error("the handler was called"); return nil })
			id := x.foreign([]byte("not JSON"), append(o, asynq.MaxRetry(3))...).ID
			x.tendUntil(func() bool {
				info, err := x.inspector.GetTaskInfo("default", id)
				return err == nil && info.State == asynq.TaskStateArchived
			})
			info, err := x.inspector.GetTaskInfo("default", id)
			testkit.Must(t, err)
			if !strings.Contains(info.LastErr, "not a reference") || time.Since(info.LastFailedAt) > time.Minute || info.MaxRetry != 3 || string(info.Payload) != "not JSON" {
				t.Errorf("asynq says %+v, want the reason, the time, and what the task was", info)
			}
		})
	}
}

func TestInspector_ShowsEveryStateAsAsynqsServerWritesIt(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	waits, works, dead := aDelivery("waits"), aDelivery("works"), aDelivery("dead")
	x.enqueue(dead)
	x.enqueue(works)
	c, taken := x.takeNow(2, map[string]int{"default": 1})
	x.enqueue(waits)
	_, err := c.settle(t.Context(), []ending{{taken[0], fmt.Errorf("%w: boom", ErrDeadLetter)}})
	testkit.Must(t, err)
	got := map[string]string{}
	for state, list := range map[string]func(string, ...asynq.ListOption) ([]*asynq.TaskInfo, error){
		"pending": x.inspector.ListPendingTasks, "active": x.inspector.ListActiveTasks, "archived": x.inspector.ListArchivedTasks,
	} {
		all, err := list("default")
		testkit.Must(t, err)
		for _, i := range all {
			got[state] += i.ID + " " + i.State.String() + " " + i.LastErr
			if i.IsOrphaned {
				t.Errorf("%s is an orphan", i.ID)
			}
		}
	}
	want := map[string]string{
		"pending": waits.String() + " pending ", "active": works.String() + " active ",
		"archived": dead.String() + " archived " + ErrDeadLetter.Error() + ": boom",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	_, err = c.settle(t.Context(), []ending{{taken[1], nil}})
	testkit.Must(t, err)
	_, err = c.settle(t.Context(), []ending{{taken[0], fmt.Errorf("%w: boom", ErrDeadLetter)}, {taken[1], nil}}) // once more counts nothing
	testkit.Must(t, err)
	q, err := x.inspector.GetQueueInfo("default")
	testkit.Must(t, err)
	if q.Processed != 2 || q.Failed != 1 || q.ProcessedTotal != 2 || q.FailedTotal != 1 || q.Size != 2 {
		t.Errorf("asynq counts %+v, want 2 processed, 1 of them failed, and 2 left", q)
	}
	for _, day := range []string{string(lua.AsynqQueue("default").ProcessedToday(today())), string(lua.AsynqQueue("default").FailedToday(today()))} {
		if ttl := x.db.TTL(t.Context(), day).Val(); ttl < 89*24*time.Hour || ttl > 91*24*time.Hour {
			t.Errorf("%s expires in %s, want 90 days", day, ttl)
		}
	}
}

// One and the same life of a delivery leaves the same Redis, whoever leads it.
func TestConsumer_LeavesWhatAsynqsServerLeaves(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]bool{"success": false, "dead letter": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ours, asynqs := newTransport(t), newTransport(t)
			boom := fmt.Errorf("%w: boom", ErrDeadLetter)
			d := aDelivery("a@20260102T150405Z")
			ours.enqueue(d)
			asynqs.enqueue(d)
			c, taken := ours.takeNow(1, map[string]int{"default": 1})
			end := ending{taken[0], nil}
			if fail {
				end.err = boom
			}
			_, err := c.settle(t.Context(), []ending{end})
			testkit.Must(t, err)
			asynqs.asynqServer(func(context.Context, *asynq.Task) error {
				if fail {
					return fmt.Errorf("%w%w", boom, silent{asynq.SkipRetry})
				}
				return nil
			})
			processed := string(lua.AsynqQueue("default").Processed())
			testkit.Eventually(t, "asynq's server has ended it", func() bool { return asynqs.db.Get(t.Context(), processed).Val() == "1" })
			_, err = asynqs.inspector.DeleteAllCompletedTasks("default") // as the leader does that has seen the end
			testkit.Must(t, err)
			if diff := cmp.Diff(withoutTimes(t, asynqs), withoutTimes(t, ours)); diff != "" {
				t.Errorf("Redis (-asynq's server +ours):\n%s", diff)
			}
		})
	}
}

// silent is an error without a text.
type silent struct{ error }

func (silent) Error() string   { return "" }
func (s silent) Unwrap() error { return s.error }

// withoutTimes is what Redis has of the default queue; the time of a failure is 0.
func withoutTimes(t *testing.T, x *transport) map[string]any {
	t.Helper()
	all := map[string]any{}
	for key, value := range redistest.Dump(t, x.db) {
		if strings.HasPrefix(key, "asynq:{default}:") {
			all[key] = value
		}
	}
	k := lua.AsynqQueue("default")
	archived, err := x.db.ZRange(t.Context(), string(k.Archived()), 0, -1).Result()
	testkit.Must(t, err)
	delete(all, string(k.Archived()))
	for _, id := range archived {
		letter, err := x.db.HGet(t.Context(), string(k.Delivery(id)), "msg").Result()
		testkit.Must(t, err)
		text := x.info(aDelivery("a@20260102T150405Z")).LastErr
		same, err := withError(letter, text, time.Unix(1, 0))
		testkit.Must(t, err)
		all[string(k.Delivery(id))] = string(same)
	}
	return all
}

func TestInspector_RunsADeadLetterAgain(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	x := newTransport(t)
	handled := make(chan task.Ref, 2)
	x.pool(x.srv.URL(), func(ref task.Ref, _ int) error {
		handled <- ref
		if len(handled) == 1 {
			return fmt.Errorf("%w: boom", ErrDeadLetter)
		}
		return nil
	})
	d := aDelivery("a")
	x.enqueue(d)
	testkit.Eventually(t, "the delivery is archived", func() bool { return x.state(d) == "archived" })
	testkit.Must(t, x.inspector.RunTask("default", d.String()))
	testkit.Eventually(t, "it came again, and asynq forgets it", func() bool { return len(handled) == 2 && x.state(d) == "" })
}

func TestInspector_DeletesADeliveryThatWaits(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	a, b := aDelivery("a"), aDelivery("b")
	x.enqueue(a)
	x.enqueue(b)
	testkit.Must(t, x.inspector.DeleteTask("default", a.String()))
	if _, taken := x.takeNow(2, map[string]int{"default": 1}); len(taken) != 1 || taken[0].Ref != b.Ref {
		t.Errorf("taken: %v, want only b", taken)
	}
}

func TestInspector_PausesAndResumesAQueue(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	x := newTransport(t)
	handled := make(chan task.Ref, 1)
	x.pool(x.srv.URL(), func(ref task.Ref, _ int) error { handled <- ref; return nil })
	d := aDelivery("a")
	x.enqueue(aDelivery("before"))
	testkit.Receive(t, handled, "what came before the pause")
	testkit.Must(t, x.inspector.PauseQueue("default"))
	takes := calls(t, x.db, "calls", "evalsha")
	x.enqueue(d)
	testkit.Eventually(t, "the consumer was woken and has looked again", func() bool { return calls(t, x.db, "calls", "evalsha") > takes+3 })
	if got := x.info(d).State; got != asynq.TaskStatePending {
		t.Errorf("the delivery is %s, want pending", got)
	}
	testkit.Must(t, x.inspector.UnpauseQueue("default"))
	testkit.Receive(t, handled, "the delivery")
}

func TestInspector_ShowsServersAndWhatTheyWorkOn(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	d := aDelivery("a")
	x.enqueue(d)
	started := time.Now()
	c := NewConsumer(ConsumerOptions{
		DB: x.db, Concurrency: 7, Queues: map[string]int{"default": 3, "low": 1}, Log: x.log(),
	})
	if got := len(c.Take(t.Context(), 1)); got != 1 {
		t.Fatalf("%d deliveries were taken", got)
	}
	testkit.Must(t, c.beat(t.Context()))
	servers, err := x.inspector.Servers()
	testkit.Must(t, err)
	if len(servers) != 1 {
		t.Fatalf("asynq shows %d servers, want one", len(servers))
	}
	s := servers[0]
	if s.Host != c.record.host || s.PID != c.record.process || s.ID != c.record.id || s.Concurrency != 7 || s.Status != "active" || s.StrictPriority ||
		!cmp.Equal(s.Queues, map[string]int{"default": 3, "low": 1}) || !s.Started.Equal(c.record.started) || len(s.ActiveWorkers) != 1 {
		t.Fatalf("asynq shows %+v", s)
	}
	w := s.ActiveWorkers[0]
	if w.TaskID != d.String() || w.TaskType != "echo" || w.Queue != "default" || string(w.TaskPayload) != string(payloadOf(d)) ||
		w.Started.Before(started) || w.Deadline.Sub(w.Started) != d.Timeout+deliverySlack {
		t.Errorf("asynq shows the worker %+v", w)
	}
	server, workers := c.record.keys()
	for _, key := range []string{string(server), string(workers)} {
		if ttl := x.db.TTL(t.Context(), key).Val(); ttl <= asynqBeat || ttl > 2*asynqBeat {
			t.Errorf("%s expires in %s, want after two beats", key, ttl)
		}
	}
	c.Quiesce()
	testkit.Must(t, c.beat(t.Context()))
	if servers, err = x.inspector.Servers(); err != nil || servers[0].Status != "stopped" {
		t.Errorf("asynq shows %+v, %v, want a server that has stopped", servers, err)
	}
	c.close(t.Context())
	if servers, err = x.inspector.Servers(); err != nil || len(servers) != 0 {
		t.Errorf("asynq shows %+v, %v, want no server", servers, err)
	}
	if left := x.db.Keys(t.Context(), "asynq:*ers*").Val(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	if got := x.state(d); got != "pending" {
		t.Errorf("the delivery is %q, want back in its queue", got)
	}
}
