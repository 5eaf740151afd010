package test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/testkit"
)

// deployment is a Redis of some shape, and what can happen to it.
type deployment struct {
	url     string
	servers []*redistest.Server // that hold data
	faults  []fault
}

type fault struct {
	name   string
	strike func()
}

// Of a cluster, the server is hit that holds this partition, and what begins in this partition is watched.
const (
	hit    = 7
	hitKey = "dts:{7}:lease"
)

// deployments are the shapes of Redis that DTS works on, set up so that none of them loses what it has acknowledged.
var deployments = map[string]func(*testing.T, ...redistest.Option) deployment{
	"standalone": func(t *testing.T, opts ...redistest.Option) deployment {
		redis := redistest.Start(t, append(opts, redistest.AOF())...)
		return deployment{redis.URL(), []*redistest.Server{redis}, []fault{
			{"clean restart", redis.Restart},
			{"crash and restart", func() { redis.Kill(); redis.Restart() }},
		}}
	},
	"Sentinel": func(t *testing.T, opts ...redistest.Option) deployment {
		redis := redistest.StartSentinel(t, opts...)
		return deployment{redis.URL(), redis.Servers, []fault{
			{"SENTINEL FAILOVER", redis.Failover},
			{"death of the primary", func() { redis.Primary().Kill() }},
		}}
	},
	"Cluster": func(t *testing.T, opts ...redistest.Option) deployment {
		redis := redistest.StartCluster(t, opts...)
		return deployment{redis.URL(), redis.Servers, []fault{
			{"CLUSTER FAILOVER", func() { redis.Failover(hitKey) }},
			{"death of a primary", func() { redis.Primary(hitKey).Kill() }},
		}}
	},
}

// Promises 1 to 3 while Redis fails over. Everything has only one attempt, so that nothing is made good by another one.
func TestDeployments_LoseNothingAndDoubleNothingInAFailover(t *testing.T) {
	testkit.OnlyLong(t)
	t.Parallel()
	for name, start := range deployments {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redis := start(t)
			w := newWork(t, startNode(t, redis.url), startNode(t, redis.url))
			for _, f := range redis.faults {
				struck := time.Now()
				f.strike()
				w.awaitBegun(struck)
				t.Logf("%s: nothing began for %s", f.name, w.pause(struck).Round(10*time.Millisecond))
			}
			w.finish()
		})
	}
}

// The rights that docs/operations.md gives the user of dtsd are enough, in every deployment, and TLS with certificates on both sides works.
func TestDeployments_NeedNoMoreRightsThanDocumented(t *testing.T) {
	testkit.OnlyLong(t)
	t.Parallel()
	operations, err := os.ReadFile("../docs/operations.md")
	testkit.Must(t, err)
	line := regexp.MustCompile(`(?m)^ACL SETUSER dtsd on >\S+ (.*)$`).FindSubmatch(operations)
	if line == nil {
		t.Fatal("docs/operations.md has no line ACL SETUSER dtsd")
	}
	user := redistest.User("dtsd", strings.Fields(string(line[1]))...)
	for name, start := range deployments {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redis := start(t, redistest.TLS(redistest.NewCertificates(t)), user)
			var durability []string
			if len(redis.servers) > 1 { // there are replicas
				durability = []string{"--durability", "wait=1"}
			}
			w := newWork(t, startNode(t, redis.url, durability...), startNode(t, redis.url, durability...))
			w.administer()
			w.awaitBegun(time.Now())
			w.finish()
			for _, server := range redis.servers {
				if refused := server.Admin().Do(t.Context(), "acl", "log").Val(); len(refused.([]any)) > 0 {
					t.Errorf("%s has refused: %v", server.Addr(), refused)
				}
			}
		})
	}
}

// administer does what people do.
func (w *work) administer() {
	w.t.Helper()
	for _, path := range []string{
		"/readyz", "/metrics", "/v1/nodes", "/v1/namespaces", "/v1/queues", "/v1/tasks?state=running", "/v1/schedules", "/v1/schedules/secondly/ledger", "/v1/doctor",
		"/v1/memory", "/v1/status", "/v1/stats", "/v1/failures", "/v1/tasks/waiting-99/why", "/v1/schedules/secondly/why", "/v1/queues/default/why",
		"/monitor/api/queues", "/monitor/api/servers", "/monitor/api/redis_info", "/monitor/api/queues/default/pending_tasks",
	} {
		if status, body := w.get(path); status != http.StatusOK {
			w.t.Errorf("%s: %d %s", path, status, body)
		}
	}
	ctx, n := w.t.Context(), w.a
	n.submit(wire.Submission{ID: ptr("unwanted"), Type: "noop", Delay: ptr("1h")})
	for what, status := range map[string]int{
		"cancel":  must(n.CancelTaskWithResponse(ctx, "unwanted", nil)).StatusCode(),
		"pause":   must(n.PauseQueueWithResponse(ctx, "low", wire.QueuePause{})).StatusCode(),
		"resume":  must(n.ResumeQueueWithResponse(ctx, "low")).StatusCode(),
		"trigger": must(n.TriggerScheduleWithResponse(ctx, "secondly", nil)).StatusCode(),
		"repair":  must(n.RepairWithResponse(ctx, nil)).StatusCode(),
		"lock":    must(n.AcquireLockWithResponse(ctx, "mine", nil, wire.LockRequest{Holder: "me", TTL: "10s"})).StatusCode(),
	} {
		if status/100 != 2 {
			w.t.Errorf("%s: %d", what, status)
		}
	}
}

// get reads a page of a node.
func (w *work) get(path string) (int, []byte) {
	w.t.Helper()
	request, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, w.a.url+path, nil)
	testkit.Must(w.t, err)
	answer, err := http.DefaultClient.Do(request)
	testkit.Must(w.t, err)
	defer answer.Body.Close() //nolint:errcheck // it was read
	body, err := io.ReadAll(answer.Body)
	testkit.Must(w.t, err)
	return answer.StatusCode, body
}

// work is what two nodes do: tasks that run all the time, tasks that wait, a schedule, and submissions.
type work struct {
	t         *testing.T
	a, b      *node
	far, slow *recorder
	running   int      // tasks of slow
	accepted  []string // tasks that the nodes have taken, besides those
	stop      context.CancelFunc
	submitted chan struct{} // closed when the submissions have ended
}

// newWork begins, and returns when everything is under way.
func newWork(t *testing.T, a, b *node) *work {
	t.Helper()
	w := &work{t: t, a: a, b: b, far: newRecorder(t), slow: newRecorder(t), running: 20, submitted: make(chan struct{})}
	put, err := a.PutScheduleWithResponse(t.Context(), "secondly", nil, wire.ScheduleDefinition{
		Every: ptr("1s"), Overlap: ptr(wire.OverlapAllow),
		Task: wire.TaskTemplate{Type: "http", Payload: w.far.task("", "/ok").Payload, Retry: once},
	})
	testkit.Must(t, err)
	if put.JSON201 == nil {
		t.Fatalf("putting the schedule: %s", put.Body)
	}
	var first []wire.Submission
	for i := range w.running {
		s := w.slow.task(fmt.Sprint("running-", i), "/block")
		s.Retry, s.Timeout = once, ptr("15m") // longer than any test
		first = append(first, s)
	}
	for i := range 100 { // they come due all along
		s := w.far.task(fmt.Sprint("waiting-", i), "/ok")
		s.Retry, s.Delay = once, ptr((time.Duration(i) * 100 * time.Millisecond).String())
		first, w.accepted = append(first, s), append(w.accepted, *s.ID)
	}
	a.submit(first...)
	ctx, stop := context.WithCancel(t.Context())
	w.stop = stop
	go w.submitAllTheTime(ctx)
	await(t, 30*time.Second, "everything is under way", func() bool { return w.slow.count() == w.running && w.far.count() > 20 })
	return w
}

// once is the policy of a task that has only one attempt.
var once = &wire.Retry{MaxAttempts: ptr(1)}

// submitAllTheTime submits tasks to both nodes in turn and notes which of them are accepted, until ctx ends.
func (w *work) submitAllTheTime(ctx context.Context) {
	defer close(w.submitted)
	for i := 0; clock.Sleep(ctx, 20*time.Millisecond) == nil; i++ {
		s := w.far.task(submission(i), "/ok")
		s.Retry = once
		answer, err := []*node{w.a, w.b}[i%2].SubmitTaskWithResponse(ctx, nil, s)
		if err == nil && answer.JSON201 != nil {
			w.accepted = append(w.accepted, *s.ID)
		}
	}
}

// submission is the name of a task; every other one is in the partition that is hit.
func submission(i int) string {
	for more := 0; ; more++ {
		id := fmt.Sprintf("submitted-%d-%d", i, more)
		if i%2 == 0 || isHit(id) {
			return id
		}
	}
}

// isHit reports whether a task is in the partition that is hit.
func isHit(id string) bool {
	return layout.HashName("default", id)%layout.DefaultPartitions == hit
}

// begunAfter are the begins after a time, of ticks and in the partition that is hit.
func (w *work) begunAfter(at time.Time) (ticks, hits []time.Time) {
	for _, c := range w.far.since(at) {
		if strings.HasPrefix(c.task, "secondly@") {
			ticks = append(ticks, c.at)
		} else if isHit(c.task) {
			hits = append(hits, c.at)
		}
	}
	return ticks, hits
}

// awaitBegun waits until work goes on after a time.
func (w *work) awaitBegun(after time.Time) {
	w.t.Helper()
	await(w.t, 30*time.Second, "work goes on", func() bool {
		ticks, hits := w.begunAfter(after)
		return len(ticks) >= 3 && len(hits) >= 50
	})
}

// pause is the longest time between two begins after a time, in the partition that is hit.
func (w *work) pause(after time.Time) time.Duration {
	var longest time.Duration
	_, hits := w.begunAfter(after)
	for _, at := range hits {
		longest, after = max(longest, at.Sub(after)), at
	}
	return longest
}

// finish ends the work, and checks that everything accepted has run once, and every tick.
func (w *work) finish() {
	w.t.Helper()
	w.stop()
	<-w.submitted
	close(w.slow.block)
	await(w.t, time.Minute, "everything has ended", func() bool {
		return len(w.a.all(wire.StateScheduled, wire.StateQueued)) == 0 && len(w.a.all(wire.StateRunning)) == 0
	})
	done := map[string]bool{}
	for _, task := range w.a.all(wire.StateSucceeded) {
		done[task.ID] = true
	}
	for i := range w.running {
		w.accepted = append(w.accepted, fmt.Sprint("running-", i))
	}
	for _, id := range w.accepted {
		if !done[id] {
			w.t.Errorf("%s has not succeeded", id)
		}
	}
	for _, far := range []*recorder{w.far, w.slow} {
		for id, calls := range far.byTask() {
			if len(calls) != 1 {
				w.t.Errorf("%s ran %d times", id, len(calls))
			}
		}
	}
	report := must(w.b.AuditScheduleWithResponse(w.t.Context(), "secondly", nil))
	if report.JSON200 == nil || !report.JSON200.Proved {
		w.t.Errorf("the audit says %s", report.Body)
	} else {
		w.t.Logf("of %d ticks: %v; %d tasks were accepted", report.JSON200.Expected, report.JSON200.Outcomes, len(w.accepted))
	}
}

// Slots move to another server and back while work goes on in them: that of a partition with tasks of all kinds, that of the schedule, that
// of the queue, and that of the nodes. Keys move one after the other, so that what looks at them finds a part of them at each server. A backlog
// moves with them: in the first half of the time it waits, and then it runs.
func TestCluster_MovesSlotsUnderLoad(t *testing.T) {
	testkit.OnlyLong(t)
	t.Parallel()
	redis := redistest.StartCluster(t)
	w := newWork(t, startNode(t, redis.URL()), startNode(t, redis.URL()))
	backlog, waiting := newRecorder(t), 32_000
	pause := must(w.a.PauseQueueWithResponse(t.Context(), "low", wire.QueuePause{}))
	if pause.StatusCode()/100 != 2 {
		t.Fatalf("pausing the queue of the backlog: %s", pause.Body)
	}
	tasks := make([]wire.Submission, waiting)
	for i := range tasks {
		tasks[i] = backlog.task(fmt.Sprint("backlog-", i), "/ok")
		tasks[i].Queue, tasks[i].Retry = ptr("low"), once
	}
	w.a.submit(tasks...)
	schedule := fmt.Sprintf("dts:{%d}:lease", layout.HashName("default", "secondly")%layout.DefaultPartitions)
	begin := time.Now()
	for i, key := range []string{hitKey, schedule, "asynq:{low}:pending", "asynq:{default}:pending", "dts:nodes"} {
		if i == 2 {
			if n := backlog.count(); n > 0 {
				t.Errorf("%d tasks of a queue that is paused have run", n)
			}
			resume := must(w.b.ResumeQueueWithResponse(t.Context(), "low"))
			if resume.StatusCode()/100 != 2 {
				t.Fatalf("resuming the queue of the backlog: %s", resume.Body)
			}
		}
		home := redis.Primary(key)
		for _, to := range []*redistest.Server{redis.Other(key), home} {
			move := redis.BeginMove(key, to)
			for move.MoveKeys(1) > 0 {
				testkit.Must(t, clock.Sleep(t.Context(), 10*time.Millisecond))
			}
			move.End()
		}
		moved := time.Now()
		w.awaitBegun(moved)
	}
	t.Logf("nothing began for %s; %d of the %d tasks of the backlog had run when the last slot had moved",
		w.pause(begin).Round(10*time.Millisecond), backlog.count(), waiting)
	await(t, 10*time.Minute, "the backlog has run", func() bool { return backlog.count() >= waiting })
	w.finish()
	done := map[string]bool{}
	for _, task := range w.a.all(wire.StateSucceeded) {
		done[task.ID] = true
	}
	calls := backlog.byTask()
	for _, s := range tasks {
		if n := len(calls[*s.ID]); n != 1 || !done[*s.ID] {
			t.Errorf("%s ran %d times, and has succeeded: %v", *s.ID, n, done[*s.ID])
		}
	}
}
