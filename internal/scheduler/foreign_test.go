package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/handover"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
)

// The server would try again at once if asynq decided about that: its handler says nothing of asynq.SkipRetry.
func TestForeignServer_HandlesAnAttemptThatFailsOnce(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	for name, fail := range map[string]func() error{
		"error": func() error { return errors.New("boom") },
		"panic": func() error { panic("boom") },
	} {
		for _, attempts := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s, %d attempts", name, attempts), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				handled := make(chan int, 100)
				w.asynqServer(1, func(_ context.Context, received *asynq.Task) error {
					handled <- attemptOf(t, received)
					return fail()
				})
				ref := w.create(task.Definition{Queue: "foreign", Retry: task.Retry{MaxAttempts: attempts, Delays: []time.Duration{time.Millisecond}}})
				// The first look comes as late as it does by default, after the leader has taken back what it claimed before it knew of the
				// server.
				a := w.start("a", never, func(n *node) { n.pace.lookAgain = 50 * time.Millisecond })
				w.leads(map[*node]int{a: 16})
				w.reaches(ref, task.Failed)
				last := task.Delivery{Ref: ref, Attempt: attempts}
				if state := w.db.HGet(t.Context(), string(lua.AsynqQueue("foreign").Delivery(last.String())), "state").Val(); state != "archived" {
					t.Errorf("the last delivery is %s, which asynq may handle again", state)
				}
				var numbers []int
				for len(handled) > 0 {
					numbers = append(numbers, <-handled)
				}
				if want := []int{1, 2}[:attempts]; !slices.Equal(numbers, want) {
					t.Errorf("the attempts %v were handled, want %v", numbers, want)
				}
				if losses, err := w.store.Losses(t.Context(), w.store.PartitionOf(ref)); err != nil || len(losses) > 0 {
					t.Errorf("Redis is said to have lost writes: %v, %v", losses, err)
				}
			})
		}
	}
}

// attemptOf returns the number of the attempt to which a delivery refers.
func attemptOf(t *testing.T, received *asynq.Task) int {
	t.Helper()
	var reference struct{ Attempt int }
	testkit.Must(t, json.Unmarshal(received.Payload(), &reference))
	return reference.Attempt
}

// asynq lists a server for 10 s after its death, and its lease of a delivery counts as abandoned when it has missed two extensions. The
// test has both over at once.
func TestForeignServer_WhatWaitsForItWhenItDiesReturnsToDTS(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t)
	handled, release := make(chan int, 10), make(chan struct{})
	defer close(release)
	proxy := redistest.NewProxy(t, w.srv.Addr())
	w.asynqServerOn(redistest.Open(t, proxy.URL()), "foreign", 1, func(_ context.Context, received *asynq.Task) error {
		handled <- attemptOf(t, received)
		<-release
		return nil
	})
	a := w.start("a", never, func(n *node) {
		n.pace.lookFirst, n.pace.lookAgain, n.pace.ask = 50*time.Millisecond, 50*time.Millisecond, 50*time.Millisecond
	})
	w.leads(map[*node]int{a: 16})
	active := w.create(task.Definition{Queue: "foreign"})
	testkit.Receive(t, handled, "the attempt at the server")
	waiting := w.create(task.Definition{Queue: "foreign"})
	testkit.Eventually(t, "the second one waits in asynq", func() bool { return w.pending("foreign") == 1 })

	proxy.Cut()
	id := task.Delivery{Ref: active, Attempt: 1}.String()
	testkit.Must(t, errors.Join(
		w.db.Del(t.Context(), string(lua.AsynqServers)).Err(),
		w.db.ZAdd(t.Context(), string(lua.AsynqQueue("foreign").Deadline()), redis.Z{Score: 1, Member: id}).Err(),
	))
	later := w.create(task.Definition{Queue: "foreign"})
	testkit.Eventually(t, "all wait in DTS", func() bool { return w.pending("foreign") == 0 && w.backlog()["foreign"] == 3 })
	if got := w.get(active); got.State != task.Scheduled || got.Attempt != 0 {
		t.Errorf("what the server had is %s, attempt %d", got.State, got.Attempt)
	}
	w.asynqServer(4, func(_ context.Context, received *asynq.Task) error { handled <- attemptOf(t, received); return nil })
	for _, ref := range []task.Ref{active, waiting, later} {
		w.reaches(ref, task.Succeeded)
		if got := w.get(ref).Attempt; got != 1 {
			t.Errorf("%s used %d attempts, want 1", ref, got)
		}
	}
}

// Tasks that come one by one leave no backlog. Those that come when the server has gone are not handed over by what was known before.
func TestForeignServer_IsNotReliedOnWhenItHasGone(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := newWorld(t)
	stop := w.asynqServer(1, func(context.Context, *asynq.Task) error { return nil })
	a := w.start("a", never, func(n *node) { n.pace.lookFirst, n.pace.lookAgain = 50*time.Millisecond, 500*time.Millisecond })
	w.leads(map[*node]int{a: 16})
	w.reaches(w.create(task.Definition{Queue: "foreign"}), task.Succeeded)
	stop()
	before := a.runs("enqueue")
	ref := w.create(task.Definition{Queue: "foreign", Delay: handover.ForeignFirst})
	testkit.Eventually(t, "it waits in DTS", func() bool { return w.backlog()["foreign"] == 1 })
	if got := w.get(ref); got.State != task.Scheduled || got.Attempt != 0 || a.runs("enqueue") != before {
		t.Errorf("it is %s, attempt %d; enqueue ran %d times, before %d", got.State, got.Attempt, a.runs("enqueue"), before)
	}
}

// A leader that claims a task and then waits for asynq's list of servers must not have its task handed over meanwhile by who looks after it.
func TestForeignServer_WhatWasClaimedAndNobodyServesIsNotHandedOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ref := w.create(task.Definition{Queue: "foreign"})
	w.claimAsDeadLeader(ref)
	if got := w.get(ref); got.State != task.Queued {
		t.Fatalf("the task is %s, want queued", got.State)
	}
	a := w.start("a", never)
	testkit.Eventually(t, "it waits in DTS", func() bool { return w.backlog()["foreign"] == 1 })
	if got := w.get(ref); got.State != task.Scheduled || got.Attempt != 0 || a.runs("enqueue") != 0 {
		t.Errorf("it is %s, attempt %d; enqueue ran %d times", got.State, got.Attempt, a.runs("enqueue"))
	}
}
