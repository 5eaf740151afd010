package test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/testkit"
)

// Promise 1 and 3: nothing accepted is lost, an attempt starts once, while nodes come and go.
func TestTasks_SurviveACleanStopAndACrash(t *testing.T) {
	t.Parallel()
	count, spread := testkit.Amount(150, 10_000), testkit.Amount(3*time.Second, 30*time.Second)
	redis, far := redistest.Start(t), newRecorder(t)
	a, b := startNode(t, redis.URL()), startNode(t, redis.URL())

	var tasks []wire.Submission
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
		return far.count() >= count && d.idle()
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
	const warming = 200
	var warmUp []wire.Submission
	for i := range warming {
		s := far.task(fmt.Sprintf("warm-up%03d", i), "/ok")
		s.Delay = ptr("1s")
		warmUp = append(warmUp, s)
	}
	b.submit(warmUp...)
	await(t, 30*time.Second, "the first node has dispatched", b.idle)
	if n := len(b.all("succeeded")); n != warming {
		t.Fatalf("%d tasks have succeeded, want %d", n, warming)
	}
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

// A node that was frozen for longer than all leases has lost its place, and nothing else: others lead its partitions and begin its work again,
// what it reports afterwards is refused, and it takes its share again.
func TestNode_FrozenForLongerThanAllLeasesIsAGoodMemberAfterwards(t *testing.T) {
	testkit.OnlyLong(t)
	t.Parallel()
	const running = 10
	frozen := 40 * time.Second
	redis, far, later := redistest.Start(t), newRecorder(t), newRecorder(t)
	db := redis.DB(t)
	a := startNode(t, redis.URL())
	tasks := []wire.Submission{far.task("once", "/block")}
	tasks[0].Retry = once
	for i := range running {
		tasks = append(tasks, far.task(fmt.Sprint("again-", i), "/block"))
	}
	a.submit(tasks...)
	await(t, 30*time.Second, "all run on the first node", a.has(running+1, wire.StateRunning))
	await(t, 30*time.Second, "it has made all calls", func() bool { return far.count() == running+1 })
	b := startNode(t, redis.URL())
	await(t, 30*time.Second, "both nodes lead", func() bool { return len(b.partitions(a.id)) == 8 && len(b.partitions(b.id)) == 8 })

	a.signal(syscall.SIGSTOP)
	since := time.Now()
	await(t, 30*time.Second, "all run on the second node, which leads alone", func() bool {
		return far.count() == 2*running+1 && len(b.partitions(b.id)) == 16
	})
	b.submit(later.task("meanwhile", "/ok"))
	await(t, 30*time.Second, "new work runs", b.is("meanwhile", wire.StateSucceeded))
	close(far.block) // both ends are told now, and one of them reports when it goes on
	await(t, 30*time.Second, "the second node has done it all", b.has(running+1, wire.StateSucceeded))
	testkit.Must(t, clock.Sleep(t.Context(), frozen-time.Since(since)))
	if len(b.partitions(a.id)) > 0 {
		t.Error("the frozen node counts as alive")
	}
	before := redistest.Dump(t, db)

	a.signal(syscall.SIGCONT)
	await(t, 30*time.Second, "its reports are refused", func() bool {
		return strings.Count(a.Log(), "no longer holds the attempt") == running+1
	})
	for key, after := range redistest.Dump(t, db) {
		if isTaskData(key) && !equal(before[key], after) {
			t.Errorf("%s changed:\nbefore %v\nafter  %v", key, before[key], after)
		}
	}
	await(t, 30*time.Second, "it leads its share", func() bool { return len(b.partitions(a.id)) == 8 && len(a.partitions(a.id)) == 8 })
	var more []wire.Submission
	for i := range 200 {
		more = append(more, later.task(fmt.Sprint("afterwards-", i), "/ok"))
	}
	a.submit(more...)
	await(t, 30*time.Second, "new work runs", a.has(running+1+len(more), wire.StateSucceeded))
	ofA := 0
	for _, task := range a.all(wire.StateSucceeded) {
		if *task.Node == a.id {
			ofA++
		}
	}
	if ofA == 0 {
		t.Error("the node that was frozen has run nothing afterwards")
	}
	for _, s := range tasks {
		history, calls := a.attempts(*s.ID), far.byTask()[*s.ID]
		want := []wire.Outcome{wire.OutcomeLost, wire.OutcomeSucceeded}
		if s.Retry != nil {
			want = want[:1]
		}
		if len(history) != len(want) || len(calls) != len(want) {
			t.Errorf("%s: history %+v, calls %+v", *s.ID, history, calls)
			continue
		}
		for i, node := range []*node{a, b}[:len(want)] {
			if h := history[i]; *h.Outcome != want[i] || h.Node != node.id || calls[i].attempt != i+1 {
				t.Errorf("%s: attempt %d: %+v, call %+v; want %s on %s", *s.ID, i+1, h, calls[i], want[i], node.id)
			}
		}
	}
}
