package scheduler

import (
	"testing"

	"github.com/dts-sched/dts/internal/testkit"
)

func TestTend_ForwardsWhatOtherClientsOfAsynqScheduled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, command := range [][]any{
		{"SADD", "asynq:queues", "default"},
		{"HSET", "asynq:{default}:t:later", "msg", "x", "state", "scheduled"},
		{"ZADD", "asynq:{default}:scheduled", 1, "later"},
	} {
		testkit.Must(t, w.db.Do(t.Context(), command...).Err())
	}
	a := w.start("a", never)
	w.leads(map[*node]int{a: 16})
	testkit.Eventually(t, "the task waits for a worker", func() bool {
		return w.db.LLen(t.Context(), "asynq:{default}:pending").Val() == 1
	})
	if n := a.runs("tend_queue"); n != 1 {
		t.Errorf("the queue was tended %d times, want once: by the leader of one partition", n)
	}
}
