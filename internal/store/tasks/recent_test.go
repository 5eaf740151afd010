package tasks_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/redisx/embedded"
	"github.com/dts-sched/dts/internal/store"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// outage is a hook that has all commands fail while Redis is away, or refuses writes.
type outage struct{ away, refuses atomic.Bool }

func (o *outage) DialHook(next redis.DialHook) redis.DialHook { return next }

func (o *outage) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if err := o.failure(); err != nil {
			cmd.SetErr(err)
			return err
		}
		return next(ctx, cmd)
	}
}

func (o *outage) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if err := o.failure(); err != nil {
			for _, cmd := range cmds {
				cmd.SetErr(err)
			}
			return err
		}
		return next(ctx, cmds)
	}
}

func (o *outage) failure() error {
	switch {
	case o.away.Load():
		return net.ErrClosed
	case o.refuses.Load():
		return errors.New("NOREPLICAS Not enough good replicas to write")
	}
	return nil
}

// travelling runs a test with a World in a bubble of testing/synctest, whose clock jumps, and whose node forgets what it has reported.
func travelling(t *testing.T, test func(t *testing.T, w *storetest.World, o *outage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		today := time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC) // a bubble begins in a year whose times in ms have too few digits
		testkit.Must(t, clock.Sleep(t.Context(), clock.Until(today)))
		e, err := embedded.StartHidden()
		testkit.Must(t, err)
		t.Cleanup(func() {
			e.Close()
			_ = clock.Sleep(context.Background(), time.Minute) // for what the client still does
		})
		db, err := redisx.Open(t.Context(), redisx.Options{URL: e.URL(), Dial: e.Dial, PingAfter: time.Hour, PoolSize: 100})
		testkit.Must(t, err)
		t.Cleanup(func() { testkit.Must(t, db.Close()) })
		o := &outage{}
		db.AddHook(o)
		w := storetest.On(t, db)
		s, err := store.Open(t.Context(), store.Options{DB: db, MayHaveLost: func() bool { return true }})
		testkit.Must(t, err)
		w.Store = s
		go func() { testkit.Must(t, s.Tasks.ForgetEnds(t.Context())) }()
		test(t, w, o)
	})
}

// The embedded Redis keeps the lines of all attempts, too.
func TestLog_HasAllAttemptsOnTheEmbeddedRedis(t *testing.T) {
	travelling(t, func(t *testing.T, w *storetest.World, _ *outage) {
		ref := written(t, w)
		page, err := w.Tasks.Logs(w.Ctx, ref, tasks.LogQuery{Limit: 2000})
		testkit.Must(t, err)
		if n := len(page.Lines); n != 1000 || page.Lines[n-1].Attempt != 3 {
			t.Errorf("the log has %d lines", n)
		}
	})
}

// What the next primary may lack was written right before the outage, however long that lasted.
func TestReportAgain_RestoresWhatEndedBeforeALongOutage(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(*outage, bool){
		"Redis is away":        func(o *outage, on bool) { o.away.Store(on) },
		"Redis refuses writes": func(o *outage, on bool) { o.refuses.Store(on) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			travelling(t, func(t *testing.T, w *storetest.World, o *outage) {
				ended := w.Bring("ended", task.Succeeded)
				begin(o, true)
				testkit.Must(t, clock.Sleep(t.Context(), 10*time.Minute+time.Second)) // between two tries to forget it
				begin(o, false)
				lose(t, w, ended)
				if n, err := w.Tasks.ReportAgain(w.Ctx, time.Now()); n != 1 || err.Err() != nil || w.Get(ended).State != task.Succeeded {
					t.Errorf("%d ends were lost, %v, and the task is %q; want 1, restored", n, err, w.Get(ended).State)
				}
			})
		})
	}
}

// Every replica has it by then, and what is deleted after that must not come back.
func TestReportAgain_TellsNothingThatEndedLongBeforeTheNewestWrite(t *testing.T) {
	t.Parallel()
	travelling(t, func(t *testing.T, w *storetest.World, _ *outage) {
		ended := w.Bring("ended", task.Succeeded)
		testkit.Must(t, clock.Sleep(t.Context(), 51*time.Second))
		later := w.Bring("later", task.Succeeded)
		testkit.Must(t, clock.Sleep(t.Context(), 25*time.Second))
		lose(t, w, ended, later)
		if n, err := w.Tasks.ReportAgain(w.Ctx, time.Now()); n != 1 || err.Err() != nil || w.Get(ended).State != task.None {
			t.Errorf("%d ends were lost, %v, and the first task is %q; want that of the second one only", n, err, w.Get(ended).State)
		}
	})
}

// Redis has an end that it had lost only since it was told again.
func TestReportAgain_RestoresAgainWhatTheNextPrimaryLosesToo(t *testing.T) {
	t.Parallel()
	travelling(t, func(t *testing.T, w *storetest.World, _ *outage) {
		ended := w.Bring("ended", task.Succeeded)
		for range 3 {
			testkit.Must(t, clock.Sleep(t.Context(), 51*time.Second))
			lose(t, w, ended)
			if n, err := w.Tasks.ReportAgain(w.Ctx, time.Now()); n != 1 || err.Err() != nil {
				t.Errorf("%d ends were lost, %v, want 1", n, err)
			}
		}
	})
}
