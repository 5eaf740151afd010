package control

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
)

// gate holds the calls that create tasks back before they reach Redis, until it is opened.
type gate struct {
	held   atomic.Int64
	opened chan struct{}
}

var createTasks = redis.NewScript(lua.ByName("create").Source).Hash()

func (g *gate) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (g *gate) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (g *gate) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if args := cmds[0].Args(); cmds[0].Name() == "evalsha" && args[1] == createTasks {
			g.held.Add(1)
			<-g.opened
		}
		return next(ctx, cmds)
	}
}

// gated makes use cases whose creations wait at a gate, and lets up to limit submissions in.
func (w *world) gated(limit int) (*Control, *gate) {
	w.t.Helper()
	g := &gate{opened: make(chan struct{})}
	db := w.server.DB(w.t)
	c := w.open(db)
	c.admission.limit = limit
	db.AddHook(g)
	return c, g
}

// letThrough opens the gate and waits for those who were held. They may have been held for longer than an answer may take.
func (g *gate) letThrough(t *testing.T, callers *sync.WaitGroup, failures <-chan error) {
	t.Helper()
	close(g.opened)
	callers.Wait()
	for len(failures) > 0 {
		if err := <-failures; err != nil && task.CodeOf(err) != task.CodeUnavailable {
			t.Errorf("one that was let in: %v", err)
		}
	}
}

func TestSubmit_IsRefusedAtOnceWhileAsManyWaitAsMay(t *testing.T) {
	t.Parallel()
	const limit = 3
	w := newWorld(t)
	w.put(daily(nil))
	there := w.submit([]task.Definition{{Type: "http", Delay: time.Hour}})[0].Task
	c, g := w.gated(limit)
	var callers sync.WaitGroup
	failures := make(chan error, limit)
	for range limit {
		callers.Go(func() {
			_, err := c.Submit(w.ctx, me, task.Definition{Type: "http"})
			failures <- err
		})
	}
	testkit.Eventually(t, "they wait", func() bool { return c.admission.busy.Load() == limit && g.held.Load() == 1 })
	for name, do := range map[string]func(ctx context.Context) error{
		"submit": func(ctx context.Context) error {
			_, err := c.Submit(ctx, me, task.Definition{Type: "http"})
			return err
		},
		"batch": func(ctx context.Context) error {
			_, err := c.SubmitEach(ctx, me, make([]task.Definition, 2))
			return err
		},
		"put": func(ctx context.Context) error {
			_, err := c.PutSchedule(ctx, me, daily(nil), PutOptions{})
			return err
		},
		"rollback": func(ctx context.Context) error {
			_, err := c.RollbackSchedule(ctx, me, nightly.ID, 1, 0)
			return err
		},
		"retry":   func(ctx context.Context) error { _, err := c.RetryTask(ctx, me, there.ID, time.Time{}); return err },
		"trigger": func(ctx context.Context) error { _, err := c.TriggerSchedule(ctx, me, nightly.ID); return err },
		"backfill": func(ctx context.Context) error {
			_, err := c.BackfillSchedule(ctx, me, nightly.ID, BackfillRange{})
			return err
		},
	} {
		ctx, cancel := context.WithTimeout(w.ctx, 10*time.Second) // whoever is let in waits for the gate
		err := do(ctx)
		cancel()
		if task.CodeOf(err) != task.CodeOverloaded {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := c.CancelTask(w.ctx, me, there.ID, ""); err != nil {
		t.Errorf("cancel: %v", err)
	}
	if _, err := c.PauseSchedule(w.ctx, me, nightly.ID, ""); err != nil {
		t.Errorf("pause: %v", err)
	}
	g.letThrough(t, &callers, failures)
	if _, err := c.Submit(w.ctx, me, task.Definition{Type: "http"}); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	if answers, err := c.SubmitEach(w.ctx, me, []task.Definition{{Type: "http"}, {Type: "http"}, {Type: "http"}, {Type: "http"}}); err != nil || answers[3].Err != nil {
		t.Errorf("a batch that is larger than the limit, and alone: %v", err)
	}
	if n := c.admission.busy.Load(); n != 0 {
		t.Errorf("%d count as waiting in the end", n)
	}
}

// Batches share no call, so each would take a connection of its own.
func TestSubmitEach_LeavesConnectionsToOthers(t *testing.T) {
	t.Parallel()
	const batches = 5 * turnsLimit
	w := newWorld(t)
	there := w.submit([]task.Definition{{Type: "http", Delay: time.Hour}})[0].Task
	c, g := w.gated(0)
	var callers sync.WaitGroup
	failures := make(chan error, batches)
	for i := range batches {
		callers.Go(func() {
			ref := func(n int) task.Ref { return task.Ref{ID: fmt.Sprint(i, "-", n)} }
			_, err := c.SubmitEach(w.ctx, me, []task.Definition{{Ref: ref(1), Type: "http"}, {Ref: ref(2), Type: "http"}})
			failures <- err
		})
	}
	testkit.Eventually(t, "all wait", func() bool { return c.admission.busy.Load() == 2*batches && g.held.Load() == turnsLimit })
	if _, err := c.CancelTask(w.ctx, me, there.ID, ""); err != nil {
		t.Errorf("cancel: %v", err)
	}
	if n := g.held.Load(); n != turnsLimit {
		t.Errorf("%d batches are with Redis, want %d", n, turnsLimit)
	}
	g.letThrough(t, &callers, failures)
}

func TestSubmitEach_GivesItsTurnUpWhenItsContextEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, g := w.gated(0)
	var callers sync.WaitGroup
	failures := make(chan error, turnsLimit)
	defs := []task.Definition{{Type: "http"}, {Type: "http"}}
	for range turnsLimit {
		callers.Go(func() {
			_, err := c.SubmitEach(w.ctx, me, defs)
			failures <- err
		})
	}
	testkit.Eventually(t, "all turns are taken", func() bool { return g.held.Load() == turnsLimit })
	ctx, cancel := context.WithCancel(w.ctx)
	cancel()
	if _, err := c.SubmitEach(ctx, me, defs); err == nil || c.admission.busy.Load() != 2*turnsLimit {
		t.Errorf("%v, and %d wait", err, c.admission.busy.Load())
	}
	g.letThrough(t, &callers, failures)
}

// A look whether Redis answers costs nobody the place.
func TestTurns_AreTakenInTheOrderOfWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		one, answers := make(turns, 1), func() bool { return true }
		end, err := one.take(t.Context(), answers)
		testkit.Must(t, err)
		order := make(chan int, 2)
		for n := range 2 {
			go func() {
				if end, err := one.take(t.Context(), answers); err == nil {
					defer end()
				}
				order <- n
			}()
			// The first one looks before the turn is free, the other one does not.
			testkit.Must(t, clock.Sleep(t.Context(), 3*turnLook/4))
		}
		end()
		if first := <-order; first != 0 {
			t.Errorf("number %d was first", first)
		}
		<-order
	})
}
