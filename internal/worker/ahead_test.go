package worker

import (
	"context"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/worker/executor"
)

func TestAhead_AllowsAsManyAsHaveEndedLately(t *testing.T) {
	t.Parallel()
	a := newAhead(false)
	after := time.Unix(1000, 0).Add
	for i := range 3 {
		a.ended(after(time.Duration(i) * time.Millisecond))
	}
	for _, c := range []struct {
		after time.Duration
		want  int
	}{
		{2 * time.Millisecond, 3}, {aheadTime, 3}, {aheadTime + time.Millisecond, 2}, {aheadTime + 2*time.Millisecond, 1},
		{time.Second, 0},
	} {
		if got := a.allowed(after(c.after)); got != c.want {
			t.Errorf("after %s: %d are allowed, want %d", c.after, got, c.want)
		}
	}
	for range 2 * takeLimit {
		a.ended(after(time.Second))
	}
	if got := a.allowed(after(time.Second)); got != takeLimit {
		t.Errorf("after many ends: %d are allowed, want %d", got, takeLimit)
	}
}

// The slot of an attempt that has ended is filled at once: nothing is to wait for it.
func TestAhead_ExpectsNoEndBesideThatWhoseSlotIsFilledNow(t *testing.T) {
	t.Parallel()
	a := newAhead(false)
	for range 3 {
		a.ended(clock.Now().Add(time.Hour))
	}
	for slots, want := range []int{3, 2, 1, 0, 0} {
		if got := a.room(slots); got != want {
			t.Errorf("with %d free slots, %d are taken ahead, want %d", slots, got, want)
		}
	}
	if got := newAhead(true).room(0); got != 0 {
		t.Errorf("a pool among others takes %d ahead", got)
	}
}

// Ten attempts have ended, as far as the pool knows for an hour, and all of its slots are taken.
func TestReserve_TakesAheadAgainWhenHalfHaveGone(t *testing.T) {
	t.Parallel()
	r := newWorld(t).start(func(context.Context, executor.Attempt) (string, error) { return "", nil })
	p := r.pools()[0]
	for range cap(p.slots) {
		p.slots <- struct{}{}
	}
	for range 10 {
		p.ahead.ended(clock.Now().Add(time.Hour))
	}
	if slots, more, ok := r.reserve(t.Context(), p); slots != 0 || more != 10 || !ok {
		t.Fatalf("reserved %d and %d ahead, %t, want 10 ahead", slots, more, ok)
	}
	p.ahead.add(10)
	ahead := make(chan int, 1)
	go func() { _, more, _ := r.reserve(t.Context(), p); ahead <- more }()
	for range 5 {
		p.ahead.left()
	}
	if got := testkit.Receive(t, ahead, "the second reservation"); got != 5 {
		t.Errorf("%d more are taken ahead, want 5", got)
	}
}

// Attempts that are over at once let the worker take ahead. When one takes long, another worker gets what waits.
func TestAhead_WhatWaitsTooLongReturnsToItsQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	goOn := make(chan struct{})
	long := make(chan executor.Attempt, 1)
	do := func(ctx context.Context, a executor.Attempt) (string, error) {
		if string(a.Payload) == `"long"` {
			long <- a
			<-goOn
		}
		return "", nil
	}
	const quick, rest = 40, 20
	payloads := make([]string, quick+1+rest)
	payloads[quick] = `"long"`
	var refs []task.Ref
	for _, p := range payloads {
		refs = append(refs, w.create(task.Definition{Payload: []byte(p)}))
	}
	w.dispatch() // so that all of them wait when the worker comes
	r := w.start(do, func(o *Options) { o.Capacity = 1 })
	testkit.Receive(t, long, "the long attempt")
	t.Cleanup(func() { close(goOn) })
	other := func(context.Context, executor.Attempt) (string, error) { return "", nil }
	w.start(other, func(o *Options) { o.Node = "node-b" })
	for i, ref := range refs {
		if i != quick {
			w.reaches(ref, task.Succeeded)
		}
	}
	if got := r.Running(); got != 1 {
		t.Errorf("%d attempts run, want the long one", got)
	}
}
