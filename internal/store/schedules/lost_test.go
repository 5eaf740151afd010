package schedules_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/schedules"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// beforeHashes is a hook of a client of Redis that calls do before the next pipeline that reads hashes.
type beforeHashes struct{ do func() }

func (b *beforeHashes) DialHook(next redis.DialHook) redis.DialHook { return next }

func (b *beforeHashes) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (b *beforeHashes) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if do := b.do; do != nil && cmds[0].Name() == "hmget" {
			b.do = nil
			do()
		}
		return next(ctx, cmds)
	}
}

// listed are the names on a page of all schedules, and what it leaves out.
func listed(t *testing.T, w *storetest.World) (names, leftOut []string) {
	t.Helper()
	ctx, left := redisx.LeavingOut(w.Ctx)
	page, err := w.Schedules.List(ctx, schedules.Filter{Namespace: "default"}, 10, "")
	testkit.Must(t, err)
	for _, s := range page.Schedules {
		names = append(names, s.ID)
	}
	return names, left.Texts()
}

func TestList_SaysNothingOfAScheduleDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	w.Put(storetest.Daily(nil))
	w.Pause(nightly)
	w.Put(storetest.Daily(func(d *schedule.Definition) { d.ID = "stays" }))
	w.DB.AddHook(&beforeHashes{do: func() { testkit.Must(t, w.Schedules.Delete(w.Ctx, nightly, "")) }})
	names, leftOut := listed(t, w)
	if !slices.Equal(names, []string{"stays"}) || len(leftOut) > 0 {
		t.Errorf("listed %q, left out %q", names, leftOut)
	}
}

// Redis finds members by name only if they all have the same score.
func TestList_SaysThatANameWithAScoreHidesOthers(t *testing.T) {
	t.Parallel()
	for _, score := range []float64{-1, 1e12} {
		w := storetest.New(t)
		w.Put(storetest.Daily(nil))
		w.DB.ZAdd(w.Ctx, string(w.KeysOf(nightly).Schedules()), redis.Z{Score: score, Member: "17"})
		if _, leftOut := listed(t, w); len(leftOut) != 1 || !strings.Contains(leftOut[0], "a member with the score") {
			t.Errorf("score %g: left out %q", score, leftOut)
		}
		ctx, left := redisx.LeavingOut(w.Ctx)
		testkit.Must(t, w.Schedules.Each(ctx, "*", func(schedule.Schedule) {}))
		if texts := left.Texts(); len(texts) != 1 || !strings.Contains(texts[0], "a member with the score") {
			t.Errorf("score %g: each left out %q", score, texts)
		}
	}
}

// In a cluster, schedules of several partitions are on several servers.
func TestList_NamesLostSchedulesOfSeveralPartitions(t *testing.T) {
	t.Parallel()
	w := storetest.InCluster(t)
	w.Put(storetest.Daily(func(d *schedule.Definition) { d.ID = "stays" }))
	lost := map[int]string{}
	for i := 0; len(lost) < w.Partitions.Count(); i++ {
		ref := task.Ref{Namespace: "default", ID: fmt.Sprint("s", i)}
		if p := w.PartitionOf(ref); lost[p] == "" {
			w.Put(storetest.Daily(func(d *schedule.Definition) { d.Ref = ref }))
			testkit.Must(t, w.DB.Del(w.Ctx, string(w.KeysOf(ref).Schedule(ref))).Err())
			lost[p] = fmt.Sprintf("schedule %s has lost its definition: dtsctl doctor tells more", ref)
		}
	}
	names, leftOut := listed(t, w.World)
	if !slices.Equal(names, []string{"stays"}) || len(leftOut) != len(lost) {
		t.Errorf("listed %q, left out %q", names, leftOut)
	}
	for _, text := range lost {
		if !slices.Contains(leftOut, text) {
			t.Errorf("left out are %q, want %q, too", leftOut, text)
		}
	}
}
