package scheduler

import (
	"fmt"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestTend_ForwardsWhatOtherClientsOfAsynqScheduled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	laterIn(t, w.db, "default")
	a := w.start("a", never)
	w.leads(map[*node]int{a: 16})
	testkit.Eventually(t, "the task waits for a worker", func() bool {
		return w.db.LLen(t.Context(), "asynq:{default}:pending").Val() == 1
	})
	a.quiet("tend_queue") // its answer comes after what it does
	if n := a.runs("tend_queue"); n != 1 {
		t.Errorf("the queue was tended %d times, want once: by the leader of one partition", n)
	}
}

// 40 queues are tended in two rounds.
func TestTend_ABrokenQueueHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 40 {
		laterIn(t, w.db, fmt.Sprintf("q%02d", i))
	}
	testkit.Must(t, w.db.Set(t.Context(), "asynq:{q03}:archived", "not a sorted set", 0).Err())
	a := w.start("a", never, func(n *node) { n.pace.tend = 10 * time.Millisecond })
	w.leads(map[*node]int{a: 16})
	for i := range 40 {
		name := fmt.Sprintf("q%02d", i)
		testkit.Eventually(t, "the task of queue "+name+" waits for a worker", func() bool { return w.pending(name) == 1 })
	}
}

// What comes after a round waits for the next one.
func TestTend_KeepsItsPaceWhenAQueueIsBroken(t *testing.T) {
	t.Parallel()
	travel(t, at("2026-03-10T09:30Z"), slow, func(v *voyage) {
		testkit.Must(v.t, v.db.Set(v.t.Context(), "asynq:{q03}:archived", "not a sorted set", 0).Err())
		laterIn(v.t, v.db, "q03")
		a := v.start()
		v.leads()
		for forwarded := range int64(4) {
			v.pass(a.pace.tend / 2)
			laterIn(v.t, v.db, "q03")
			v.pass(a.pace.tend / 4)
			if n := v.db.LLen(v.t.Context(), "asynq:{q03}:pending").Val(); n != forwarded+1 {
				v.t.Errorf("after %d rounds %d tasks wait for a worker", forwarded+1, n)
			}
			v.pass(a.pace.tend / 4)
		}
		testkit.Must(v.t, v.db.Del(v.t.Context(), "asynq:{q03}:archived").Err()) // which doctor would find in the end
	})
}

// laterIn has a queue with one task that is due, as another client of asynq schedules it.
func laterIn(t *testing.T, db *redisx.DB, queue string) {
	t.Helper()
	for _, command := range [][]any{
		{"SADD", "asynq:queues", queue},
		{"HSET", "asynq:{" + queue + "}:t:later", "msg", "x", "state", "scheduled"},
		{"ZADD", "asynq:{" + queue + "}:scheduled", 1, "later"},
	} {
		testkit.Must(t, db.Do(t.Context(), command...).Err())
	}
}
