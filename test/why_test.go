package test

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/testkit"
)

// reasons are the codes of an answer, what must change first at the beginning, each with a blank behind it.
func reasons(w *wire.Why) string {
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
func (n *node) awaitTask(id, codes string) wire.WaitingFor {
	n.t.Helper()
	var last *wire.Why
	await(n.t, 30*time.Second, fmt.Sprintf("task %s waits for %s", id, codes), func() bool {
		answer, err := n.WhyTaskWithResponse(n.t.Context(), id, nil)
		testkit.Must(n.t, err)
		last = answer.JSON200
		return last != nil && strings.TrimSpace(reasons(last)) == codes
	})
	if last.WaitingFor == nil {
		return wire.WaitingFor{}
	}
	return *last.WaitingFor
}

func (n *node) awaitSchedule(id, codes string) wire.WaitingFor {
	n.t.Helper()
	var last *wire.Why
	await(n.t, 30*time.Second, fmt.Sprintf("schedule %s waits for %s", id, codes), func() bool {
		answer, err := n.WhyScheduleWithResponse(n.t.Context(), id, nil)
		testkit.Must(n.t, err)
		last = answer.JSON200
		return last != nil && strings.TrimSpace(reasons(last)) == codes
	})
	return *last.WaitingFor
}

// awaitQueue waits until the reasons of a queue are those, and returns how many tasks wait for each, -1 for none.
func (n *node) awaitQueue(name, codes string) (tasks []int) {
	n.t.Helper()
	var last *wire.Why
	await(n.t, 30*time.Second, fmt.Sprintf("queue %s waits for %s", name, codes), func() bool {
		answer, err := n.WhyQueueWithResponse(n.t.Context(), name)
		testkit.Must(n.t, err)
		last = answer.JSON200
		return last != nil && strings.TrimSpace(reasons(last)) == codes
	})
	for _, r := range append([]wire.WaitingFor{*last.WaitingFor}, last.Also...) {
		if r.Tasks == nil {
			tasks = append(tasks, -1)
			continue
		}
		tasks = append(tasks, *r.Tasks)
	}
	return tasks
}

// told demands that a reason has words in its sentences.
func told(t *testing.T, r wire.WaitingFor, words ...string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(r.Detail+" "+r.ToDo, word) {
			t.Errorf("%s does not tell %q: %s %s", r.Code, word, r.Detail, r.ToDo)
		}
	}
}

func noop(id, payload string) wire.Submission {
	return wire.Submission{ID: &id, Type: "noop", Payload: []byte(payload)}
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
	told(t, leader.awaitTask("a", "queue_unserved"), "dtsd serve --roles worker --queues default=1")

	worker := startNode(t, redis.URL(), "--roles", "worker,api", "--concurrency", "1", "--queues", "default=1")
	leader.awaitTask("a", "") // it ends
	leader.submit(wire.Submission{ID: ptr("shell"), Type: "shell", Payload: []byte(`{"command": ["true"]}`)})
	told(t, leader.awaitTask("shell", "type_unserved"), "--enable-shell")

	failing := noop("failing", `{"fail": "no such host"}`)
	failing.Retry = &wire.Retry{MaxAttempts: ptr(2), Delays: []wire.Duration{"1h"}}
	leader.submit(failing)
	if r := leader.awaitTask("failing", "retry"); r.LastError == nil || *r.LastError != "no such host" || r.Since == nil {
		t.Errorf("%+v does not tell the error, and when", r)
	}

	leader.submit(noop("long", `{"sleep": "1h"}`))
	await(t, 30*time.Second, "it runs", func() bool { return leader.task("long").State == wire.StateRunning })
	leader.submit(noop("b", "{}"))
	told(t, leader.awaitTask("b", "slots_taken"), "default:long since", worker.id)
	testkit.Must(t, leader.pauseQueue("default"))
	told(t, leader.awaitTask("b", "queue_paused slots_taken"), "dtsctl queue resume default")
	tasks := leader.awaitQueue("default", "type_unserved queue_paused slots_taken")
	if want := []int{1, 2, 1}; !slices.Equal(tasks, want) {
		t.Errorf("%v tasks wait for that, want %v: shell for a node, b for a slot", tasks, want)
	}

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
	_, err := n.PauseQueueWithResponse(n.t.Context(), name, wire.QueuePause{})
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

// definitions is the key that has the definition of a task.
func definitions(id string) string {
	return fmt.Sprintf("dts:{%d}:defs", layout.HashName("default", id)%layout.DefaultPartitions)
}

func TestWhyTask_TellsWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	ctx, redis := t.Context(), redistest.Start(t)
	n, db := startNode(t, redis.URL()), redis.Admin()
	later := noop("later", "{}")
	later.Delay = ptr("1h")
	n.submit(later)
	n.awaitTask("later", "not_due")

	testkit.Must(t, db.Set(ctx, "asynq:{default}:pending", "no list", 0).Err())
	n.awaitTask("later", "not_due unreadable")
	n.awaitQueue("default", "unreadable")
	testkit.Must(t, db.Del(ctx, "asynq:{default}:pending").Err())

	defs := definitions("later")
	good := db.HGet(ctx, defs, "default:later").Val()
	testkit.Must(t, db.HSet(ctx, defs, "default:later", good[:14]+"no definition").Err())
	told(t, n.awaitTask("later", "unreadable"), "its definition", "dtsctl doctor")
	testkit.Must(t, db.HSet(ctx, defs, "default:later", good).Err())
	n.awaitTask("later", "not_due")
}

func TestWhyTask_TellsThatItsSlotMoves(t *testing.T) {
	t.Parallel()
	redis := redistest.StartCluster(t) // this takes three seconds
	n := startNode(t, redis.URL())
	later := noop("later", "{}")
	later.Delay = ptr("1h")
	n.submit(later)
	key := definitions("later")
	move := redis.BeginMove(key, redis.Other(key))
	told(t, n.awaitTask("later", "slot_moving"), "redis-cli cluster nodes")
	for move.MoveKeys(100) > 0 {
		continue
	}
	move.End()
	n.awaitTask("later", "not_due")
}

// putSecondly creates a schedule that ticks each second.
func (n *node) putSecondly(id string, change func(*wire.ScheduleDefinition)) {
	n.t.Helper()
	d := wire.ScheduleDefinition{Every: ptr("1s"), Task: wire.TaskTemplate{Type: "noop"}}
	change(&d)
	answer, err := n.PutScheduleWithResponse(n.t.Context(), id, nil, d)
	testkit.Must(n.t, err)
	if answer.JSON201 == nil {
		n.t.Fatalf("schedule %s: %s: %s", id, answer.Status(), answer.Body)
	}
}

func (n *node) bound(queue string, capacity int) {
	n.t.Helper()
	answer, err := n.SetQueueCapacityWithResponse(n.t.Context(), queue, wire.QueueCapacity{Capacity: &capacity})
	if err != nil || answer.StatusCode() != 204 {
		n.t.Fatalf("capacity of queue %s: %v, %s", queue, err, answer.Body)
	}
}

func TestWhySchedule_NamesEachCause(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	n := startNode(t, redis.URL(), "--queues", "default=1")
	n.putSecondly("rare", func(d *wire.ScheduleDefinition) { d.Every = ptr("24h") })
	n.putSecondly("steady", func(*wire.ScheduleDefinition) {})
	n.putSecondly("short", func(d *wire.ScheduleDefinition) { d.MaxRuns = ptr(1) })
	n.putSecondly("failing", func(d *wire.ScheduleDefinition) {
		d.PauseOnFailure, d.Task.Payload = ptr(1), []byte(`{"fail": "no such host"}`)
		d.Task.Retry = &wire.Retry{MaxAttempts: ptr(1)}
	})
	n.putSecondly("slow", func(d *wire.ScheduleDefinition) {
		d.Overlap, d.Task.Payload = ptr(wire.OverlapQueue), []byte(`{"sleep": "1h"}`)
	})
	n.bound("small", 1)
	n.putSecondly("held", func(d *wire.ScheduleDefinition) { d.Task.Queue = ptr("small") })

	told(t, n.awaitSchedule("rare", "not_due"), "schedule trigger rare")
	told(t, n.awaitSchedule("short", "ended"), "max_runs is 1")
	told(t, n.awaitSchedule("failing", "paused_by_failures"), "--state failed")
	told(t, n.awaitSchedule("slow", "overlap"), "task why slow@")
	told(t, n.awaitSchedule("held", "queue_full queue_unserved"), "capacity of waiting tasks (1)")
	n.awaitQueue("small", "queue_unserved queue_full")
	n.bound("small", 0)
	n.awaitQueue("small", "queue_unserved")
	n.awaitSchedule("held", "not_due queue_unserved")
	_, err := n.PauseScheduleWithResponse(t.Context(), "rare", nil, wire.SchedulePause{Note: ptr("the disk is full")})
	testkit.Must(t, err)
	told(t, n.awaitSchedule("rare", "paused"), "the disk is full", "schedule resume rare")

	testkit.Must(t, redis.Admin().ConfigSet(t.Context(), "maxmemory", "1").Err())
	n.awaitSchedule("steady", "redis_full")
	testkit.Must(t, redis.Admin().ConfigSet(t.Context(), "maxmemory", "0").Err())
}
