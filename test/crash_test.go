package test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/testkit"
)

// Promise 1 and 3: nothing accepted is lost, an attempt starts once, while nodes come and go.
func TestTasks_SurviveACleanStopAndACrash(t *testing.T) {
	t.Parallel()
	count, spread := testkit.Amount(1000, 10_000), testkit.Amount(8*time.Second, 30*time.Second)
	redis, far := redistest.Start(t), newRecorder(t)
	a, b := startNode(t, redis.URL()), startNode(t, redis.URL())

	var tasks []client.Submission
	for i := range count {
		s := far.task(fmt.Sprintf("t%05d", i), "/ok")
		s.Delay = ptr((time.Duration(i) * spread / time.Duration(count)).Round(time.Millisecond).String())
		tasks = append(tasks, s)
	}
	start := time.Now()
	a.submit(tasks...)

	await(t, time.Minute, "a quarter has run", func() bool { return far.count() > count/4 })
	a.stop()
	c := startNode(t, redis.URL())
	await(t, time.Minute, "half has run", func() bool { return far.count() > count/2 })
	b.kill()
	d := startNode(t, redis.URL())
	await(t, 2*time.Minute, "all have succeeded", func() bool {
		return far.count() >= count && len(d.all("scheduled", "queued", "running")) == 0
	})
	t.Logf("%d tasks due over %s ended after %s, in %d calls", count, spread, time.Since(start).Round(time.Millisecond), far.count())

	done := c.all("succeeded")
	if len(done) != count {
		t.Errorf("%d tasks have succeeded, want %d; failed: %d", len(done), count, len(c.all("failed")))
	}
	record := far.byTask()
	lost := 0
	for _, task := range done {
		calls := record[task.ID]
		started := map[int]bool{}
		for _, call := range calls {
			if started[call.attempt] {
				t.Errorf("attempt %d of %s was started twice", call.attempt, task.ID)
			}
			started[call.attempt] = true
		}
		attempts := c.attempts(task.ID)
		succeeded := 0
		for _, attempt := range attempts {
			switch *attempt.Outcome {
			case "succeeded":
				succeeded++
			case "lost":
				lost++
			default:
				t.Errorf("%s, attempt %d: outcome %s", task.ID, attempt.Number, *attempt.Outcome)
			}
		}
		if succeeded != 1 {
			t.Errorf("%s has %d successful attempts: %+v", task.ID, succeeded, attempts)
		}
		if len(calls) == 0 {
			t.Errorf("%s has succeeded and was never called", task.ID)
		}
	}
	t.Logf("%d attempts were lost in the crash", lost)
}

// A worker that dies is noticed: what it ran is begun again elsewhere, and what may run only once is not.
func TestWorker_KilledHasItsTasksBegunElsewhereWithinTenSeconds(t *testing.T) {
	t.Parallel()
	redis, far := redistest.Start(t), newRecorder(t)
	a := startNode(t, redis.URL())
	var tasks []client.Submission
	for i := range 10 {
		tasks = append(tasks, far.task(fmt.Sprintf("again%d", i), "/block"))
	}
	once := far.task("once", "/block")
	once.Retry = &client.Retry{MaxAttempts: ptr(1)}
	a.submit(append(tasks, once)...)
	await(t, 30*time.Second, "all run on the first node", func() bool { return far.count() == len(tasks)+1 })

	b := startNode(t, redis.URL())
	a.kill()
	killed := time.Now()
	await(t, 30*time.Second, "all run on the second node", func() bool { return far.count() == 2*len(tasks)+1 })
	worst := time.Duration(0)
	for id, calls := range far.byTask() {
		if id == "once" {
			continue
		}
		if len(calls) != 2 || calls[1].attempt != 2 {
			t.Errorf("%s: %+v", id, calls)
			continue
		}
		worst = max(worst, calls[1].at.Sub(killed))
		if history := b.attempts(id); len(history) != 2 || *history[0].Outcome != "lost" || history[0].Node != a.id || history[1].Node != b.id {
			t.Errorf("%s: history %+v", id, history)
		}
	}
	if worst >= 10*time.Second {
		t.Errorf("the last one began %s after the kill", worst)
	}
	t.Logf("the last one began %s after the kill", worst.Round(time.Millisecond))
	if got, history := b.task("once"), b.attempts("once"); got.State != "failed" || len(history) != 1 || *history[0].Outcome != "lost" {
		t.Errorf("max_attempts 1: %s, %+v", got.State, history)
	}
	close(far.block)
	await(t, 30*time.Second, "all have succeeded", func() bool { return len(b.all("succeeded")) == len(tasks) })
}

// A node that is told to stop lets its tasks finish, hands over the rest, and loses nothing.
func TestWorker_StoppedDrainsAndHandsOverTheRest(t *testing.T) {
	t.Parallel()
	redis, far := redistest.Start(t), newRecorder(t)
	a := startNode(t, redis.URL(), "--drain-timeout", "2s", "--enable-shell")
	short := client.Submission{ID: ptr("short"), Type: "shell", Payload: []byte(`{"command":["sleep","1"]}`)}
	a.submit(far.task("long", "/block"), short)
	await(t, 30*time.Second, "both run", func() bool { return len(a.all("running")) == 2 })
	b := startNode(t, redis.URL())
	a.stop()
	if got := b.task("short"); got.State != "succeeded" || *got.Node != a.id {
		t.Errorf("what ends within the drain timeout: %s", got.State)
	}
	await(t, 10*time.Second, "the rest runs elsewhere", func() bool { return b.task("long").State == "running" && *b.task("long").Node == b.id })
	if history := b.attempts("long"); len(history) != 2 || *history[0].Outcome != "lost" {
		t.Errorf("history %+v", history)
	}
	close(far.block)
	await(t, 10*time.Second, "it succeeds", func() bool { return b.task("long").State == "succeeded" })
}

// Promise 4: a leader that was stopped for longer than its lease, and whose write arrives afterwards, changes
// nothing. The write is really made: it is held back on its way to Redis until another node leads, and then Redis
// itself counts the refusal.
func TestLeader_StoppedForLongerThanItsLeaseChangesNothing(t *testing.T) {
	t.Parallel()
	redis, far := redistest.Start(t), newRecorder(t)
	db := redis.DB(t)
	way := redistest.NewProxy(t, redis.Addr())
	a := startNode(t, way.URL(), "--roles", "scheduler")
	await(t, 30*time.Second, "the first node leads", func() bool { return len(db.Keys(t.Context(), "dts:{*}:lease:*").Val()) == 16 })

	b := startNode(t, redis.URL(), "--roles", "api,worker")
	// Work for all partitions at one instant opens enough connections for the claim to find one that stands: on a
	// new one, the greeting would be held back, and the claim never sent.
	for i := range 200 {
		s := far.task(fmt.Sprintf("warm-up%03d", i), "/ok")
		s.Delay = ptr("1s")
		b.submit(s)
	}
	await(t, 30*time.Second, "the first node dispatches", func() bool { return len(b.all("succeeded")) == 200 })
	way.Hold()
	b.submit(far.task("contended", "/ok"))
	claim := scriptHash(t, "claim")
	await(t, 30*time.Second, "the first node has sent a claim", func() bool { return contains(way.Held(), claim) })
	a.signal(syscall.SIGSTOP)

	c := startNode(t, redis.URL(), "--roles", "scheduler,api")
	await(t, 30*time.Second, "the second node leads and has dispatched the task", func() bool {
		return len(c.partitions(c.id)) == 16 && c.task("contended").State == "succeeded"
	})
	refused := func() int { return errorCount(t, db, "FENCED") }
	if n := refused(); n != 0 {
		t.Fatalf("%d refusals before the late write", n)
	}
	before := redistest.Dump(t, db)
	way.Release()
	await(t, 10*time.Second, "the late write was refused", func() bool { return refused() > 0 })
	t.Logf("Redis refused %d late writes", refused())
	after := redistest.Dump(t, db)
	for key := range after {
		if isTaskData(key) && !equal(before[key], after[key]) {
			t.Errorf("%s changed:\nbefore %v\nafter  %v", key, before[key], after[key])
		}
	}
	a.signal(syscall.SIGCONT)
	await(t, 30*time.Second, "the first node is back", func() bool { return len(c.partitions(a.id)) == 8 })
	if got := far.byTask()["contended"]; len(got) != 1 {
		t.Errorf("the task was called %d times", len(got))
	}
	if history := c.attempts("contended"); len(history) != 1 {
		t.Errorf("history %+v", history)
	}
}
