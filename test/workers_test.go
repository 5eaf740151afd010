package test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/testkit"
)

// workerKinds are the programs that run tasks of type http. All of them have to pass the same tests.
var workerKinds = map[string]func(t *testing.T, redis, api string, flags ...string) *node{
	"dtsd": func(t *testing.T, redis, _ string, flags ...string) *node {
		return startNode(t, redis, append([]string{"--roles", "worker"}, flags...)...)
	},
	"go": func(t *testing.T, redis, _ string, flags ...string) *node {
		return startProgram(t, "goworker", append([]string{"--redis", redis}, flags...)...)
	},
	"by HTTP": func(t *testing.T, _, api string, flags ...string) *node {
		return startProgram(t, "goworker", append([]string{"--server", api}, flags...)...)
	},
}

// crew is a Redis, a node that leads and has the API, and workers of one kind.
type crew struct {
	*node
	t     *testing.T
	redis *redistest.Server
	far   *recorder
	hire  func(flags ...string) *node // starts a worker
}

// overWorkers runs a test with each kind of worker, in the short form with dtsd only.
func overWorkers(t *testing.T, test func(c crew)) {
	for kind, start := range workerKinds {
		if kind != "dtsd" && !testkit.Long() {
			continue
		}
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			redis := redistest.Start(t)
			lead := startNode(t, redis.URL(), "--roles", "scheduler,api")
			test(crew{
				node: lead, t: t, redis: redis, far: newRecorder(t),
				hire: func(flags ...string) *node { t.Helper(); return start(t, redis.URL(), lead.url, flags...) },
			})
		})
	}
}

// runsOn reports whether a task runs on a node.
func (c crew) runsOn(id string, n *node) bool {
	task := c.task(id)
	return task.State == "running" && *task.Node == n.id
}

// Promises 1 and 3, while workers come and go.
func TestWorkers_LoseNothingInACleanStopAndACrash(t *testing.T) {
	t.Parallel()
	overWorkers(t, func(c crew) {
		count, spread := testkit.Amount(200, 4000), testkit.Amount(2*time.Second, 20*time.Second)
		a, b := c.hire(), c.hire()
		var tasks []wire.Submission
		for i := range count {
			s := c.far.task(fmt.Sprintf("t%05d", i), "/ok")
			s.Delay = ptr((time.Duration(i) * spread / time.Duration(count)).Round(time.Millisecond).String())
			tasks = append(tasks, s)
		}
		c.submit(tasks...)
		await(c.t, time.Minute, "a quarter has run", func() bool { return c.far.count() > count/4 })
		a.stop()
		c.hire()
		await(c.t, time.Minute, "half has run", func() bool { return c.far.count() > count/2 })
		b.kill()
		c.hire()
		await(c.t, 2*time.Minute, "all have succeeded", func() bool {
			return c.far.count() >= count && c.idle()
		})
		if done := c.all("succeeded"); len(done) != count {
			c.t.Errorf("%d tasks have succeeded, want %d", len(done), count)
		}
		for id, calls := range c.far.byTask() {
			for i, call := range calls[1:] {
				if before := calls[i].attempt; call.attempt <= before {
					c.t.Errorf("%s: attempt %d was called after attempt %d", id, call.attempt, before)
				}
			}
		}
	})
}

// A worker that dies is noticed: what it ran is begun again elsewhere, and what may run only once is not.
func TestWorkers_KilledHaveTheirTasksBegunElsewhereWithinTenSeconds(t *testing.T) {
	t.Parallel()
	overWorkers(t, func(c crew) {
		a := c.hire()
		var tasks []wire.Submission
		for i := range 10 {
			tasks = append(tasks, c.far.task(fmt.Sprintf("again%d", i), "/block"))
		}
		once := c.far.task("once", "/block")
		once.Retry = &wire.Retry{MaxAttempts: ptr(1)}
		c.submit(append(tasks, once)...)
		await(c.t, 30*time.Second, "all run on the first worker", func() bool { return c.far.count() == len(tasks)+1 })

		b := c.hire()
		a.kill()
		killed := time.Now()
		await(c.t, 30*time.Second, "all run on the second worker", func() bool { return c.far.count() == 2*len(tasks)+1 })
		worst := time.Duration(0)
		for id, calls := range c.far.byTask() {
			if id == "once" {
				continue
			}
			if len(calls) != 2 || calls[1].attempt != 2 {
				c.t.Errorf("%s: %+v", id, calls)
				continue
			}
			worst = max(worst, calls[1].at.Sub(killed))
			if history := c.attempts(id); len(history) != 2 || *history[0].Outcome != "lost" || history[0].Node != a.id || history[1].Node != b.id {
				c.t.Errorf("%s: history %+v", id, history)
			}
		}
		if worst >= 10*time.Second {
			c.t.Errorf("the last one began %s after the kill", worst)
		}
		c.t.Logf("the last one began %s after the kill", worst.Round(time.Millisecond))
		if got, history := c.task("once"), c.attempts("once"); got.State != "failed" || len(history) != 1 || *history[0].Outcome != "lost" {
			c.t.Errorf("max_attempts 1: %s, %+v", got.State, history)
		}
		close(c.far.block)
		await(c.t, 30*time.Second, "all have succeeded", func() bool { return len(c.all("succeeded")) == len(tasks) })
	})
}

// A worker that is told to stop lets its tasks finish, hands over the rest, and loses nothing. One by HTTP cannot hand over: there the rest
// is lost when its lease is over.
func TestWorkers_StoppedDrainAndHandOverTheRest(t *testing.T) {
	t.Parallel()
	overWorkers(t, func(c crew) {
		a := c.hire("--drain-timeout", "3s")
		c.submit(c.far.task("long", "/block"), c.far.task("short", "/slow"))
		await(c.t, 30*time.Second, "both run", func() bool { return c.runsOn("long", a) && c.runsOn("short", a) })
		b := c.hire()
		a.stop()
		if got := c.task("short"); got.State != "succeeded" || *got.Node != a.id {
			c.t.Errorf("what ends within the drain timeout: %s", got.State)
		}
		await(c.t, 10*time.Second, "the rest runs elsewhere", func() bool { return c.runsOn("long", b) })
		if history := c.attempts("long"); len(history) != 2 || *history[0].Outcome != wire.OutcomeInterrupted {
			c.t.Errorf("history %+v", history)
		}
		close(c.far.block)
		await(c.t, 10*time.Second, "it succeeds", func() bool { return c.task("long").State == "succeeded" })
	})
}

// A running task that is cancelled is stopped, and its slot is free again.
func TestWorkers_StopWhatIsCancelled(t *testing.T) {
	t.Parallel()
	overWorkers(t, func(c crew) {
		a := c.hire("--concurrency", "1")
		c.submit(c.far.task("long", "/block"))
		await(c.t, 30*time.Second, "it runs", func() bool { return c.far.count() == 1 && c.runsOn("long", a) })
		c.submit(c.far.task("next", "/ok"))
		_, err := c.CancelTaskWithResponse(c.t.Context(), "long", nil)
		testkit.Must(c.t, err)
		await(c.t, 10*time.Second, "it is cancelled, and the next one runs", func() bool {
			return c.task("long").State == "cancelled" && c.task("next").State == "succeeded"
		})
		if history := c.attempts("long"); len(history) != 1 || *history[0].Outcome != "cancelled" {
			c.t.Errorf("history %+v", history)
		}
		if n := c.far.count(); n != 2 {
			c.t.Errorf("%d calls, want 2", n)
		}
	})
}

// Promise 3: a worker that was stopped for longer than the lease of its run may not report on it afterwards. It has one slot, so that it does
// not wait for more: of one by HTTP, the node that it asked would not notice that it is stopped, and would take the next attempt for it.
func TestWorkers_StoppedForLongerThanTheirLeaseAreRefused(t *testing.T) {
	t.Parallel()
	overWorkers(t, func(c crew) {
		db := c.redis.DB(c.t)
		a := c.hire("--concurrency", "1")
		c.submit(c.far.task("contended", "/block"))
		await(c.t, 30*time.Second, "the first worker does it", func() bool { return c.far.count() == 1 && c.runsOn("contended", a) })
		a.signal(syscall.SIGSTOP)
		b := c.hire()
		await(c.t, 30*time.Second, "the second worker runs it", func() bool { return c.runsOn("contended", b) })
		close(c.far.block)
		await(c.t, 10*time.Second, "the second worker has done it", func() bool { return c.task("contended").State == "succeeded" })
		before := redistest.Dump(c.t, db)
		a.signal(syscall.SIGCONT)
		await(c.t, 10*time.Second, "the first worker is back", func() bool { return a.said("no longer holds the attempt") })
		for key, after := range redistest.Dump(c.t, db) {
			if isTaskData(key) && !equal(before[key], after) {
				c.t.Errorf("%s changed:\nbefore %v\nafter  %v", key, before[key], after)
			}
		}
		if history := c.attempts("contended"); len(history) != 2 || *history[0].Outcome != "lost" || history[1].Node != b.id {
			c.t.Errorf("history %+v", history)
		}
	})
}
