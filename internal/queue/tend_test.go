package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
)

// tendUntil tends the queues until the condition holds, and sums up what was done.
func (x *transport) tendUntil(condition func() bool) Tended {
	x.t.Helper()
	var sum Tended
	testkit.Eventually(x.t, "the queues are tended", func() bool {
		tended, err := x.Tend(x.t.Context(), 0)
		testkit.Must(x.t, err)
		sum.Forwarded += tended.Forwarded
		sum.Orphans += tended.Orphans
		sum.Deleted += tended.Deleted
		return condition()
	})
	return sum
}

func TestTend_ReturnsWhatADeadWorkerHeld(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	dead, lives := aDelivery("dead"), aDelivery("lives")
	for _, d := range []task.Delivery{dead, lives} {
		x.enqueue(d)
	}
	x.takeNow(2, map[string]int{"default": 1})
	x.leaseEnds(dead, -orphanGrace-time.Second)
	x.leaseEnds(lives, -orphanGrace+time.Minute)
	tended, err := x.Tend(t.Context(), 0)
	testkit.Must(t, err)
	if got := x.waiting(); tended.Orphans != 1 || !slices.Equal(got, []string{dead.String()}) {
		t.Errorf("%+v, and the queue holds %v, want only what the dead one held", tended, got)
	}
}

// The clock of Redis went back, or a server of asynq has a fast one.
func TestTend_CutsLeasesThatLastLongerThanTheyCan(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	fast, lives := aDelivery("fast"), aDelivery("lives")
	for _, d := range []task.Delivery{fast, lives} {
		x.enqueue(d)
	}
	x.takeNow(2, map[string]int{"default": 1})
	x.leaseEnds(fast, 5*time.Minute)
	x.leaseEnds(lives, asynqLease)
	before := x.leaseLeft(lives)
	_, err := x.Tend(t.Context(), 0)
	testkit.Must(t, err)
	if left := x.leaseLeft(fast); left > takeLease+time.Second {
		t.Errorf("the lease lasts for %s", left)
	}
	if left := x.leaseLeft(lives); left < before-testkit.Limit || left > before {
		t.Errorf("a lease of usual length lasted for %s, and lasts for %s now", before, left)
	}
}

func TestTend_DeletesWhatHasExpired(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	x.asynqServer(func(_ context.Context, t *asynq.Task) error {
		if string(t.Payload()) == "fail" {
			return errors.Join(errors.New("boom"), asynq.SkipRetry)
		}
		return nil
	})
	old, recent := x.foreign([]byte("fail")).ID, x.foreign([]byte("fail"), asynq.TaskID("recent")).ID
	kept, over := x.foreign(nil, asynq.Retention(time.Hour)).ID, x.foreign(nil, asynq.Retention(time.Hour)).ID
	k := lua.AsynqQueue("default")
	testkit.Eventually(t, "all have ended", func() bool {
		return x.db.ZCard(t.Context(), string(k.Archived())).Val() == 2 && x.db.ZCard(t.Context(), string(k.Completed())).Val() == 2
	})
	now := time.Now()
	testkit.Must(t, x.db.Do(t.Context(), "ZADD", string(k.Archived()), now.AddDate(0, 0, -91).Unix(), old).Err())
	testkit.Must(t, x.db.Do(t.Context(), "ZADD", string(k.Completed()), now.Add(-time.Second).Unix(), over).Err())
	tended, err := x.Tend(t.Context(), 0)
	testkit.Must(t, err)
	if tended.Deleted != 2 {
		t.Errorf("%d were deleted, want 2", tended.Deleted)
	}
	for id, want := range map[string]int64{old: 0, over: 0, recent: 1, kept: 1} {
		if got := x.db.Exists(t.Context(), string(k.Delivery(id))).Val(); got != want {
			t.Errorf("%s exists: %d, want %d", id, got, want)
		}
	}
}

func TestTend_LeavesOtherInstallationsAlone(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	x.foreign(nil, asynq.ProcessIn(time.Second), asynq.TaskID("later"))
	k := lua.AsynqQueue("default")
	testkit.Must(t, x.db.Do(t.Context(), "ZADD", string(k.Scheduled()), 1, "later").Err())
	other := New(Options{DB: x.db, Prefix: "staging"})
	if tended, err := other.Tend(t.Context(), 0); err != nil || tended != (Tended{}) {
		t.Errorf("another installation did %+v, %v", tended, err)
	}
	if tended, err := x.Tend(t.Context(), 0); err != nil || tended.Forwarded != 1 {
		t.Errorf("its own did %+v, %v, want one forwarded", tended, err)
	}
}

func TestArchive_KeepsAsynqsLimit(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	k := lua.AsynqQueue("default")
	const limit = 10_000
	pipe := x.db.Pipeline()
	now := time.Now().Unix()
	for i := range limit {
		pipe.Do(t.Context(), "ZADD", string(k.Archived()), now-limit+int64(i), fmt.Sprint(i))
		pipe.HSet(t.Context(), string(k.Delivery(fmt.Sprint(i))), "msg", "", "state", "archived")
	}
	_, err := pipe.Exec(t.Context())
	testkit.Must(t, err)
	x.enqueue(aDelivery("a"))
	c, taken := x.takeNow(1, map[string]int{"default": 1})
	_, err = c.settle(t.Context(), []ending{{taken[0], ErrDeadLetter}})
	testkit.Must(t, err)
	if n := x.db.ZCard(t.Context(), string(k.Archived())).Val(); n != limit {
		t.Errorf("%d dead letters are kept, want %d", n, limit)
	}
	if x.db.Exists(t.Context(), string(k.Delivery("0"))).Val() != 0 || x.db.Exists(t.Context(), string(k.Delivery("1"))).Val() != 1 {
		t.Error("the oldest one is not the one that was deleted")
	}
}

func TestTend_LooksAtSomeQueuesInEachCall(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	const queues = tendLimit + 3
	for i := range queues {
		x.scheduled(fmt.Sprintf("q%02d", i))
	}
	first, err := x.Tend(t.Context(), 0)
	if err != nil || first.Forwarded != tendLimit || first.Next == 0 {
		t.Fatalf("the first call: %+v, %v", first, err)
	}
	second, err := x.Tend(t.Context(), first.Next)
	if err != nil || second.Forwarded != queues-tendLimit || second.Next != 0 {
		t.Errorf("the second call: %+v, %v", second, err)
	}
	if again, err := x.Tend(t.Context(), queues+100); err != nil || again != (Tended{}) {
		t.Errorf("from behind the last queue, which has gone: %+v, %v", again, err)
	}
}

// One that is behind the broken one in the same call is tended, and so are those of the next call.
func TestTend_GoesOnBehindABrokenQueue(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	const queues = tendLimit + 3
	for i := range queues {
		x.scheduled(fmt.Sprintf("q%02d", i))
	}
	testkit.Must(t, x.db.Set(t.Context(), string(lua.AsynqQueue("q03").Archived()), "not a sorted set", 0).Err())
	first, err := x.Tend(t.Context(), 0)
	if err == nil || !strings.Contains(err.Error(), "q03") || strings.Contains(err.Error(), "q04") {
		t.Errorf("the error is %v, want one that names the broken queue alone", err)
	}
	if first.Forwarded < tendLimit-1 || first.Next != tendLimit {
		t.Errorf("the first call: %+v, want the others forwarded, and a step forward", first)
	}
	if second, err := x.Tend(t.Context(), first.Next); err != nil || second.Forwarded != queues-tendLimit || second.Next != 0 {
		t.Errorf("the second call: %+v, %v", second, err)
	}
}

func TestTend_StaysWhereItIsIfThereIsNoListOfQueues(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	x := newTransport(t)
	x.srv.Kill()
	if tended, err := x.Tend(t.Context(), 7); err == nil || tended != (Tended{Next: 7}) {
		t.Errorf("it did %+v, %v", tended, err)
	}
}

// scheduled has a queue with one task that is due, of another asynq client.
func (x *transport) scheduled(queue string) {
	x.t.Helper()
	ctx, k := x.t.Context(), lua.AsynqQueue(queue)
	testkit.Must(x.t, x.db.SAdd(ctx, string(lua.AsynqQueues), queue).Err())
	testkit.Must(x.t, x.db.HSet(ctx, string(k.Delivery("a")), "msg", "m", "state", "scheduled").Err())
	testkit.Must(x.t, x.db.ZAdd(ctx, string(k.Scheduled()), redis.Z{Score: 1, Member: "a"}).Err())
}
