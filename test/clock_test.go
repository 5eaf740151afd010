package test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/test/process"
)

// startSkewed starts a node whose clock is wrong by so much.
func startSkewed(t *testing.T, skew, redis string, flags ...string) *node {
	t.Helper()
	program, err := process.BuildSkewed(binaries, "../cmd/dtsd", skew)
	testkit.Must(t, err)
	return startProgram(t, program, append([]string{"serve", "--redis", redis, "--concurrency", "20"}, flags...)...)
}

// Promise 5: two nodes whose clocks are ten minutes apart share the partitions and the work, and nobody notices.
func TestNodeClocks_DecideNothing(t *testing.T) {
	testkit.OnlyLong(t)
	t.Parallel()
	redis, far := redistest.Start(t), newRecorder(t)
	examineAtTheEnd(t, redis.URL())
	ahead, behind := startSkewed(t, "5m", redis.URL()), startSkewed(t, "-5m", redis.URL())
	now, err := redis.DB(t).Time(t.Context()).Result()
	testkit.Must(t, err)
	await(t, time.Minute, "each sees the other's heartbeats", func() bool {
		return ahead.beatAfter(now, ahead.id, behind.id) && behind.beatAfter(now, ahead.id, behind.id)
	})

	const count = 40
	var tasks []wire.Submission
	for i := range count {
		s := far.task(fmt.Sprint("t", i), "/ok")
		s.RunAt = ptr(wire.At(now.Add(4 * time.Second).UTC()))
		tasks = append(tasks, s)
	}
	ahead.submit(tasks[:count/2]...)
	behind.submit(tasks[count/2:]...)
	await(t, time.Minute, "all are done", behind.has(count, wire.StateSucceeded))
	for _, task := range behind.all(wire.StateSucceeded) {
		if late := task.StartedAt.Sub(task.RunAt.Time); late < 0 || late > 20*time.Second || task.Attempt != 1 {
			t.Errorf("%s began %s late, in attempt %d", task.ID, late, task.Attempt)
		}
	}
}

// What a worker with a fast clock took and did not begin is another's in the usual time, which Redis's clock measures. The fast worker
// may not write to the partitions, so it begins nothing.
func TestNodeClocks_AFastWorkerThatDiesKeepsNoDeliveries(t *testing.T) {
	testkit.OnlyLong(t)
	t.Parallel()
	redis, far := redistest.Start(t), newRecorder(t)
	leader := startNode(t, redis.URL(), "--roles", "scheduler,api")
	db := redis.DB(t)
	testkit.Must(t, db.Do(t.Context(), "ACL", "SETUSER", "fast", "on", ">secret", "+@all", "&*", "resetkeys",
		"~asynq:*", "~dts:meta", "~dts:nodes", "%R~dts:{*").Err())
	fast := startSkewed(t, "5m", "redis://fast:secret@"+redis.Addr()+"/0", "--roles", "worker")
	const count = 5
	var tasks []wire.Submission
	for i := range count {
		tasks = append(tasks, far.task(fmt.Sprint("t", i), "/ok"))
	}
	leader.submit(tasks...)
	await(t, time.Minute, "the fast worker has taken all", func() bool {
		return db.LLen(t.Context(), "asynq:{default}:active").Val() == count
	})
	fast.kill()
	startNode(t, redis.URL(), "--roles", "worker")
	await(t, time.Minute, "another one has done it", leader.has(count, wire.StateSucceeded))
	if n := far.count(); n != count {
		t.Errorf("the handler was called %d times, want %d", n, count)
	}
}

// The clock of Redis jumps by a minute under a running fleet: what runs goes on, no tick is missed or fires twice, and whoever dies right
// after is replaced as soon as ever.
func TestRedisClock_AJumpEndsNothingAndMissesNothing(t *testing.T) {
	t.Parallel()
	t.Run("of a server", func(t *testing.T) {
		t.Parallel()
		redis := redistest.Start(t, redistest.MovableClock(t))
		testClockJump(t, redis.URL(), redis.MoveClock)
	})
	t.Run("from one primary to another", func(t *testing.T) {
		t.Parallel()
		pair := redistest.StartPair(t)
		pair.AddReplica(redistest.MovableClock(t))
		testClockJump(t, pair.URL(), func(ahead time.Duration) {
			pair.Replica.MoveClock(ahead)
			if pair.Primary != pair.Replica {
				pair.FailOver()
			}
		})
	})
}

// testClockJump tests with a Redis whose clock jump has show that much more than the machine's.
func testClockJump(t *testing.T, redis string, jump func(ahead time.Duration)) {
	t.Helper()
	far := newRecorder(t)
	a, b := startNode(t, redis), startNode(t, redis)
	const running = 10
	var tasks []wire.Submission
	for i := range running {
		s := far.task(fmt.Sprint("t", i), "/block")
		s.Retry = &wire.Retry{MaxAttempts: ptr(1)}
		tasks = append(tasks, s)
	}
	a.submit(tasks...)
	put := must(a.PutScheduleWithResponse(t.Context(), "s", nil, wire.ScheduleDefinition{
		Every: ptr("1s"), Overlap: ptr(wire.OverlapAllow), Misfire: &wire.Misfire{Policy: ptr(wire.MisfirePolicySkip)},
		Task: wire.TaskTemplate{Type: "noop"},
	}))
	if put.JSON201 == nil {
		t.Fatalf("the schedule: %s", put.Body)
	}
	await(t, time.Minute, "all run", func() bool { return far.count() == running })
	ticked := func(at time.Time) func() bool {
		return func() bool {
			newest := a.newestTicks("s", 1)
			return len(newest) > 0 && newest[0].Tick.After(at)
		}
	}
	start := time.Now()
	await(t, time.Minute, "it ticks", ticked(start.Add(3*time.Second)))

	jump(time.Minute)
	await(t, time.Minute, "ticks go on after the jump", ticked(time.Now().Add(time.Minute+3*time.Second)))
	await(t, time.Minute, "both nodes say that the clock jumped", func() bool {
		return a.said("the clock of Redis jumped") && b.said("the clock of Redis jumped")
	})
	jumped := 0
	for _, entry := range a.ledger("s") {
		if entry.Outcome != wire.TickOutcomeFired {
			t.Errorf("%s: %s", entry.Tick, entry.Outcome)
		}
		if entry.Reason != nil && strings.Contains(*entry.Reason, "the clock of Redis jumped") {
			jumped++
		}
	}
	if jumped < 30 {
		t.Errorf("%d ticks are recorded as jumped over", jumped)
	}
	if n := len(a.all(wire.StateRunning)); n < running {
		t.Errorf("%d attempts run, want %d", n, running)
	}

	jump(0)
	onB := 0
	for _, task := range a.all(wire.StateRunning) {
		if task.Node != nil && *task.Node == b.id && strings.HasPrefix(task.ID, "t") {
			onB++
		}
	}
	b.kill()
	killed := time.Now()
	await(t, 2*time.Minute, "a leads everything, and what ran on b is lost", func() bool {
		return len(a.partitions(a.id)) == 16 && len(a.all(wire.StateFailed)) == onB
	})
	if took := time.Since(killed); took > 40*time.Second {
		t.Errorf("that took %s", took)
	}
	if n := far.count(); n != running {
		t.Errorf("the handlers were called %d times, want %d", n, running)
	}
}
