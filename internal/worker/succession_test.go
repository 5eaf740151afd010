package worker

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/store"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/worker/executor"
)

// A failover loses the end of an attempt and the begin of the next one. The next one goes on until Redis hears of that end.
func TestWorker_GoesOnWithAnAttemptWhileRedisShowsTheOneBefore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	yes := func() bool { return true }
	suspicious, err := store.Open(t.Context(), store.Options{DB: redistest.Open(t, w.reports.URL()), Partitions: 2, MayHaveLost: yes, AwaitsReports: yes})
	testkit.Must(t, err)
	fail, begun, ended := make(chan struct{}), make(chan int, 5), make(chan error, 5)
	r := w.start(func(ctx context.Context, a executor.Attempt) (string, error) {
		begun <- a.Number
		if a.Number == 1 {
			<-fail
			return "", errors.New("boom")
		}
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return "", context.Cause(ctx)
	}, func(o *Options) { o.Store, o.OutageTolerance = suspicious, time.Minute })
	ref := w.submit(task.Definition{Retry: task.Retry{MaxAttempts: 3, Delays: []time.Duration{time.Millisecond}}})
	testkit.Receive(t, begun, "the first attempt")
	k := w.store.KeysOf(ref)
	before := w.db.HGet(t.Context(), string(k.States()), ref.String()).Val()
	close(fail)
	testkit.Eventually(t, "it is due again", func() bool { w.dispatch(); return w.get(ref).Attempt == 2 })
	testkit.Receive(t, begun, "the second attempt")

	pipe := w.db.TxPipeline()
	pipe.HSet(t.Context(), string(k.States()), ref.String(), before)
	pipe.ZAdd(t.Context(), string(k.Held()), redis.Z{Score: float64(time.Now().Add(time.Minute).UnixMilli()), Member: ref.String()})
	pipe.Del(t.Context(), string(k.Attempts(ref)))
	_, err = pipe.Exec(t.Context())
	testkit.Must(t, err)
	if err := r.ExtendNow(t.Context()).Err(); !errors.Is(err, tasks.ErrBehind) {
		t.Errorf("the lease is extended: %v, want ErrBehind", err)
	}
	if n, failed := suspicious.Tasks.ReportAgain(t.Context(), time.Now()); n != 1 || len(failed) > 0 {
		t.Errorf("%d ends were lost, want that of the first attempt", n)
	}
	testkit.Must(t, r.ExtendNow(t.Context()).Err())
	if got := w.get(ref); got.State != task.Running || got.Attempt != 2 {
		t.Errorf("it is %+v", got)
	}
	if len(ended) > 0 || len(begun) > 0 {
		t.Errorf("the second attempt was stopped, or the work was begun again")
	}
}
