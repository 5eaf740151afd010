package why_test

import (
	"slices"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/why"
)

// obstacles are what can be in the way of a task, as bits of a world.
type obstacles uint16

const (
	early obstacles = 1 << iota
	failedBefore
	silentRedis
	leaderless
	unserved // no node serves the queue
	untyped  // those that do run another type
	pausedQueue
	fullSlots
	allObstacles
)

// world is a task that waits, somewhere on its way, and what is in that way.
type world struct {
	state task.State
	place why.Place
	in    obstacles
}

func (w world) has(o obstacles) bool { return w.in&o != 0 }

// begins is the oracle: whether the attempt begins by itself. It has the rules of the engine: a leader hands over what
// is due, if it reaches Redis and somebody can run it; a worker takes it from a queue that is not paused, with a free
// slot.
func (w world) begins() bool {
	runnable := !w.has(unserved) && !w.has(untyped)
	takes := runnable && !w.has(pausedQueue) && !w.has(fullSlots)
	reaches := !w.has(silentRedis)
	handsOver := reaches && !w.has(leaderless) && runnable
	switch {
	case w.state == task.Scheduled:
		return !w.has(early) && handsOver && takes
	case w.place == why.Taken:
		return reaches
	case w.place == why.Pending:
		return reaches && takes
	}
	return handsOver && takes
}

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// facts is the world as it is read from Redis.
func (w world) facts() why.TaskFacts {
	f := why.TaskFacts{
		Path: why.Path{Now: now, Queue: "mails", Type: "http", Leader: "node-1", Workers: []why.Worker{w.worker()}},
		Task: task.Task{State: w.state, DueAt: now.Add(-time.Second), MaxAttempts: 4}, Place: w.place,
	}
	if w.state == task.Queued {
		f.Task.Attempt = 1
	}
	if w.has(failedBefore) {
		f.Task.Attempt++
	}
	if w.has(early) && w.state == task.Scheduled {
		f.Task.DueAt = now.Add(time.Hour)
	}
	if w.has(silentRedis) {
		f.Blocked = &why.Reason{Code: why.RedisSilent}
	}
	if w.has(leaderless) {
		f.Leader = ""
	}
	f.Paused = w.has(pausedQueue)
	return f
}

func (w world) worker() why.Worker {
	n := why.Worker{ID: "node-2", Alive: !w.has(unserved), Queues: []string{"mails"}, Types: []string{"http"},
		Capacity: 2, LastBeat: now}
	if w.has(untyped) {
		n.Types = []string{"shell"}
	}
	if w.has(fullSlots) {
		n.Running = 2
	}
	return n
}

// causes are the obstacles of which the codes tell.
var causes = map[why.Code]obstacles{
	why.NotDue: early, why.Retry: early, why.RedisSilent: silentRedis, why.NoLeader: leaderless,
	why.QueueUnserved: unserved,
	why.TypeUnserved:  untyped, why.QueuePaused: pausedQueue, why.SlotsTaken: fullSlots,
}

// Every world is repaired by what the first reason says, until there is none. Only then does the attempt begin.
func TestOfTask_NamesWhatMustChangeFirst(t *testing.T) {
	t.Parallel()
	for _, start := range worlds() {
		w := start
		for steps := 0; ; steps++ {
			reasons := why.OfTask(w.facts())
			checkSound(t, w, reasons)
			onItsWay := len(reasons) == 1 && reasons[0].Code == why.Delivery
			if onItsWay != w.begins() {
				t.Fatalf("%+v: it begins: %v, and the reasons are %v", w, w.begins(), codesOf(reasons))
			}
			if onItsWay {
				break
			}
			if steps > len(causes) {
				t.Fatalf("%+v: after %d repairs, it waits for %v", start, steps, codesOf(reasons))
			}
			w.in &^= causes[reasons[0].Code]
		}
	}
}

func worlds() (all []world) {
	for in := range allObstacles {
		all = append(all, world{state: task.Scheduled, in: in})
		for _, place := range []why.Place{why.Nowhere, why.Pending, why.Taken} {
			all = append(all, world{state: task.Queued, place: place, in: in &^ early})
		}
	}
	return all
}

// checkSound demands that each reason tells of an obstacle that is there, and that they come in the order of the list.
func checkSound(t *testing.T, w world, reasons []why.Reason) {
	t.Helper()
	if len(reasons) == 0 {
		t.Fatalf("%+v: a task that waits has a reason", w)
	}
	last := -1
	for _, r := range reasons {
		if r.Code != why.Delivery && !w.has(causes[r.Code]) {
			t.Fatalf("%+v: %s is not so", w, r.Code)
		}
		place := slices.IndexFunc(why.Codes, func(m why.Meaning) bool { return m.Code == r.Code })
		if place <= last {
			t.Fatalf("%+v: %v are not in the order of the list", w, codesOf(reasons))
		}
		last = place
	}
	if w.has(failedBefore) && w.has(early) && reasons[0].Code != why.Retry {
		t.Fatalf("%+v: waits for %s, want its retry first", w, reasons[0].Code)
	}
}

func codesOf(reasons []why.Reason) []why.Code {
	var codes []why.Code
	for _, r := range reasons {
		codes = append(codes, r.Code)
	}
	return codes
}
