package worker

import (
	"context"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/worker/executor"
	"github.com/dts-sched/dts/lua"
)

// holding holds up the pipelines in which a script is called, until goOn is closed.
type holding struct {
	sha  string
	goOn chan struct{}
}

func hold(script string) holding {
	return holding{redis.NewScript(lua.ByName(script).Source).Hash(), make(chan struct{})}
}

func (h holding) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h holding) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (h holding) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		calls := func(c redis.Cmder) bool { return len(c.Args()) > 1 && c.Args()[1] == h.sha }
		if slices.ContainsFunc(cmds, calls) {
			<-h.goOn
		}
		return next(ctx, cmds)
	}
}

// As many attempts as there are slots may have ended without a report; the next ones keep their slots.
func TestSlots_AreFreeWhenExecutorsHaveReturned(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	begun := make(chan executor.Attempt, 10)
	do := func(_ context.Context, a executor.Attempt) (string, error) { begun <- a; return "", nil }
	finish := hold("finish")
	r := w.start(do, func(o *Options) {
		db := redistest.Open(t, w.reports.URL())
		db.AddHook(finish)
		o.Store, o.Capacity = w.open(db), 2
	})
	var refs []task.Ref
	for range 6 {
		refs = append(refs, w.submit(task.Definition{}))
	}
	for range 4 {
		testkit.Receive(t, begun, "an attempt")
	}
	testkit.Eventually(t, "the last two keep their slots", func() bool { return r.Running() == 2 && len(r.reports) == 2 })
	queued := 0
	for _, ref := range refs {
		if w.get(ref).State == task.Queued {
			queued++
		}
	}
	if queued != 2 {
		t.Errorf("%d tasks are queued, want 2", queued)
	}
	close(finish.goOn)
	for _, ref := range refs {
		w.reaches(ref, task.Succeeded)
	}
	testkit.Eventually(t, "all have gone", func() bool {
		return r.Running() == 0 && len(r.reports) == 0 && len(r.slots) == 0
	})
}

// Pools that share slots take nothing ahead: deliveries of one would wait for slots that the other has.
func TestSlots_PoolsShareTheOnlySlot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var refs []task.Ref
	for range 5 {
		refs = append(refs, w.submit(task.Definition{}), w.submit(task.Definition{Queue: "other"}))
	}
	do := func(ctx context.Context, _ executor.Attempt) (string, error) {
		return "", clock.Sleep(ctx, 3*aheadTime)
	}
	w.start(do, func(o *Options) {
		other := o.Pools[0]
		other.Name, other.Queues, other.DB = "other", map[string]int{"other": 1}, redistest.Open(t, w.asynq.URL())
		o.Capacity, o.Pools = 1, append(o.Pools, other)
	})
	for _, ref := range refs {
		w.reaches(ref, task.Succeeded)
	}
}

// A worker that is cordoned takes nothing, from its first moment on, and what runs goes on.
func TestWorker_TakesNothingWhileItIsCordoned(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	begun, goOn := make(chan task.Ref, 10), make(chan struct{})
	do := func(_ context.Context, a executor.Attempt) (string, error) {
		begun <- a.Task.Ref
		<-goOn
		return "", nil
	}
	r := w.start(do)
	a := w.submit(task.Definition{})
	testkit.Receive(t, begun, "an attempt before the cordon")
	if _, is := r.Cordoned(); is {
		t.Error("it is cordoned before anybody has done that")
	}
	r.SetCordoned(true)
	isCordoned := func(want int) func() bool {
		return func() bool { held, is := r.Cordoned(); return is && held == want }
	}
	testkit.Eventually(t, "it has one delivery left", isCordoned(1))
	b := w.submit(task.Definition{})
	other := w.start(func(_ context.Context, attempt executor.Attempt) (string, error) {
		begun <- attempt.Task.Ref
		return "", nil
	})
	if got := testkit.Receive(t, begun, "the attempt of another worker"); got != b {
		t.Errorf("began %s, want %s", got, b)
	}
	w.reaches(b, task.Succeeded)
	other.SetCordoned(true)
	c := w.submit(task.Definition{})
	close(goOn)
	w.reaches(a, task.Succeeded)
	testkit.Eventually(t, "it has nothing left", isCordoned(0))
	r.SetCordoned(false)
	if got := testkit.Receive(t, begun, "the attempt after the cordon"); got != c {
		t.Errorf("began %s, want %s", got, c)
	}
}
