package test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/testkit"
)

// reasons are the codes of an answer, what must change first at the beginning, each with a blank behind it.
func reasons(w *client.Why) string {
	text := ""
	if w != nil && w.WaitingFor != nil {
		text = string(w.WaitingFor.Code) + " "
		for _, r := range w.Also {
			text += string(r.Code) + " "
		}
	}
	return text
}

// awaitTask waits until the reasons of a task are those, and returns the first one.
func (n *node) awaitTask(id, codes string) client.WaitingFor {
	n.t.Helper()
	var last *client.Why
	await(n.t, 30*time.Second, fmt.Sprintf("task %s waits for %s", id, codes), func() bool {
		answer, err := n.WhyTaskWithResponse(n.t.Context(), id, nil)
		testkit.Must(n.t, err)
		last = answer.JSON200
		return last != nil && strings.TrimSpace(reasons(last)) == codes
	})
	if last.WaitingFor == nil {
		return client.WaitingFor{}
	}
	return *last.WaitingFor
}

func (n *node) awaitSchedule(id, codes string) client.WaitingFor {
	n.t.Helper()
	var last *client.Why
	await(n.t, 30*time.Second, fmt.Sprintf("schedule %s waits for %s", id, codes), func() bool {
		answer, err := n.WhyScheduleWithResponse(n.t.Context(), id, nil)
		testkit.Must(n.t, err)
		last = answer.JSON200
		return last != nil && strings.TrimSpace(reasons(last)) == codes
	})
	return *last.WaitingFor
}

func (n *node) awaitQueue(name, codes string) {
	n.t.Helper()
	await(n.t, 30*time.Second, fmt.Sprintf("queue %s waits for %s", name, codes), func() bool {
		answer, err := n.WhyQueueWithResponse(n.t.Context(), name)
		testkit.Must(n.t, err)
		return answer.JSON200 != nil && strings.TrimSpace(reasons(answer.JSON200)) == codes
	})
}

// told demands that a reason has words in its sentences.
func told(t *testing.T, r client.WaitingFor, words ...string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(r.Detail+" "+r.ToDo, word) {
			t.Errorf("%s does not tell %q: %s %s", r.Code, word, r.Detail, r.ToDo)
		}
	}
}

func noop(id, payload string) client.Submission {
	return client.Submission{ID: &id, Type: "noop", Payload: []byte(payload)}
}

// A task goes its way, and each thing that holds it up is named.
func TestWhyTask_NamesEachCause(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	leader := startNode(t, redis.URL(), "--roles", "scheduler,api")

	later := noop("later", "{}")
	later.Delay = ptr("1h")
	leader.submit(later, noop("a", "{}"))
	if r := leader.awaitTask("later", "not_due queue_unserved"); r.NextAttemptAt == nil {
		t.Errorf("%+v has no time", r)
	}
	told(t, leader.awaitTask("a", "queue_unserved"), "dtsd serve --queues default=1")

	worker := startNode(t, redis.URL(), "--roles", "worker,api", "--concurrency", "1", "--queues", "default=1")
	leader.awaitTask("a", "") // it ends
	leader.submit(client.Submission{ID: ptr("shell"), Type: "shell", Payload: []byte(`{"command": ["true"]}`)})
	told(t, leader.awaitTask("shell", "type_unserved"), "--enable-shell")

	failing := noop("failing", `{"fail": "no such host"}`)
	failing.Retry = &client.Retry{MaxAttempts: ptr(2), Delays: []client.Duration{"1h"}}
	leader.submit(failing)
	if r := leader.awaitTask("failing", "retry"); r.LastError == nil || *r.LastError != "no such host" || r.Since == nil {
		t.Errorf("%+v does not tell the error, and when", r)
	}

	leader.submit(noop("long", `{"sleep": "1h"}`))
	await(t, 30*time.Second, "it runs", func() bool { return leader.task("long").State == client.StateRunning })
	leader.submit(noop("b", "{}"))
	told(t, leader.awaitTask("b", "slots_taken"), "default:long since", worker.id)
	testkit.Must(t, leader.pauseQueue("default"))
	told(t, leader.awaitTask("b", "queue_paused slots_taken"), "dtsctl queue resume default")
	leader.awaitQueue("default", "type_unserved queue_paused slots_taken")

	worker.signal(syscall.SIGSTOP)
	_, err := leader.CancelTaskWithResponse(t.Context(), "long", nil)
	testkit.Must(t, err)
	leader.awaitTask("long", "stopping")
	told(t, leader.awaitTask("long", "worker_silent stopping"), worker.id)
	worker.signal(syscall.SIGCONT)
	leader.awaitTask("long", "") // it ends
	leader.awaitTask("b", "queue_paused")

	worker.signal(syscall.SIGSTOP)
	_, err = leader.ResumeQueueWithResponse(t.Context(), "default")
	testkit.Must(t, err)
	leader.awaitTask("b", "delivery")
	worker.signal(syscall.SIGCONT)
	leader.awaitTask("b", "") // it ends
}

func (n *node) pauseQueue(name string) error {
	_, err := n.PauseQueueWithResponse(n.t.Context(), name)
	return err
}

// What holds up everything is told by whoever lives.
func TestWhyTask_TellsWhatHoldsUpAll(t *testing.T) {
	testkit.OnlyLong(t) // leases and outages last for seconds
	t.Parallel()
	redis := redistest.Start(t)
	serve := []string{"serve", "--redis", redis.URL(), "--lease-ttl", "1s", "--roles"}
	leader := startProcess(t, append(serve, "scheduler,api")...)
	worker := startProcess(t, append(serve, "worker,api")...)
	leader.kill()
	worker.submit(noop("a", "{}"))
	told(t, worker.awaitTask("a", "no_leader"), "dtsd serve --roles scheduler")
	redis.Kill()
	told(t, worker.awaitTask("a", "redis_silent"), "Redis")
}

// putSecondly creates a schedule that ticks each second.
func (n *node) putSecondly(id string, change func(*client.ScheduleDefinition)) {
	n.t.Helper()
	d := client.ScheduleDefinition{Every: ptr("1s"), Task: client.TaskTemplate{Type: "noop"}}
	change(&d)
	answer, err := n.PutScheduleWithResponse(n.t.Context(), id, nil, d)
	testkit.Must(n.t, err)
	if answer.JSON201 == nil {
		n.t.Fatalf("schedule %s: %s: %s", id, answer.Status(), answer.Body)
	}
}

func TestWhySchedule_NamesEachCause(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	n := startNode(t, redis.URL(), "--queues", "default=1")
	n.putSecondly("rare", func(d *client.ScheduleDefinition) { d.Every = ptr("24h") })
	n.putSecondly("steady", func(*client.ScheduleDefinition) {})
	n.putSecondly("short", func(d *client.ScheduleDefinition) { d.MaxRuns = ptr(1) })
	n.putSecondly("failing", func(d *client.ScheduleDefinition) {
		d.PauseOnFailure, d.Task.Payload = ptr(1), []byte(`{"fail": "no such host"}`)
		d.Task.Retry = &client.Retry{MaxAttempts: ptr(1)}
	})
	n.putSecondly("slow", func(d *client.ScheduleDefinition) {
		d.Overlap, d.Task.Payload = ptr(client.OverlapQueue), []byte(`{"sleep": "1h"}`)
	})
	limited, err := n.LimitQueueWithResponse(t.Context(), "small", client.QueueLimit{Limit: 1})
	if err != nil || limited.StatusCode() != 204 {
		t.Fatalf("%v, %s", err, limited.Body)
	}
	n.putSecondly("held", func(d *client.ScheduleDefinition) { d.Task.Queue = ptr("small") })

	told(t, n.awaitSchedule("rare", "not_due"), "schedule trigger rare")
	told(t, n.awaitSchedule("short", "ended"), "1 runs")
	told(t, n.awaitSchedule("failing", "paused_by_failures"), "--state failed")
	told(t, n.awaitSchedule("slow", "overlap"), "task why slow@")
	told(t, n.awaitSchedule("held", "queue_full queue_unserved"), "limit of 1")
	n.awaitQueue("small", "queue_unserved queue_full")
	_, err = n.PauseScheduleWithResponse(t.Context(), "rare", nil, client.SchedulePause{Note: ptr("the disk is full")})
	testkit.Must(t, err)
	told(t, n.awaitSchedule("rare", "paused"), "the disk is full", "schedule resume rare")

	testkit.Must(t, redis.Admin().ConfigSet(t.Context(), "maxmemory", "1").Err())
	n.awaitSchedule("steady", "redis_full")
	testkit.Must(t, redis.Admin().ConfigSet(t.Context(), "maxmemory", "0").Err())
}
