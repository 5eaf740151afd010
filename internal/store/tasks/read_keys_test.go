package tasks_test

import (
	"cmp"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
	"github.com/dts-sched/dts/lua/contract"
)

func TestCheapBriefs_AgreeWithBriefs(t *testing.T) {
	t.Parallel()
	for _, damaged := range []string{"", "states", "wheel", "defs", "results"} {
		w := storetest.New(t)
		var refs []task.Ref
		for _, state := range append(slices.Clone(task.States), task.None) {
			refs = append(refs, w.Bring("in-"+string(state), state))
		}
		sets := map[string]string{
			"ready": "default", "urgent": "default", "lane": "default noop", "apart": lua.Unnamed, "lost": "",
		}
		for id, ready := range sets {
			ref := w.Bring(id, task.Scheduled)
			refs = append(refs, ref)
			k := w.KeysOf(ref)
			testkit.Must(t, w.DB.ZRem(w.Ctx, string(k.Wheel()), ref.String()).Err())
			score := 5000.0
			if id == "urgent" {
				score = codec.Rank(time.UnixMilli(1_700_000_000_000), 3)
			}
			if ready != "" {
				testkit.Must(t, w.DB.ZAdd(w.Ctx, string(k.Ready(ready)), redis.Z{Score: score, Member: ref.String()}).Err())
			}
		}
		if kind, ok := contract.KindOf(damaged); ok {
			for _, ref := range refs[:4] {
				storetest.Spoil(t, w.DB, kind, storetest.KeyOf(t, kind, w.PartitionOf(ref), ""))
			}
		}
		ctx, _ := redisx.LeavingOut(w.Ctx)
		want, err := w.Tasks.Briefs(ctx, refs)
		testkit.Must(t, err)
		got, err := w.Tasks.CheapBriefs(ctx, refs)
		testkit.Must(t, err)
		for _, some := range [][]task.Task{want, got} {
			slices.SortFunc(some, func(a, b task.Task) int { return cmp.Compare(a.ID, b.ID) })
		}
		if diff := gocmp.Diff(want, got); diff != "" || damaged == "" && len(got) != len(refs)-1 {
			t.Errorf("%d tasks with a damaged %q (-Briefs +CheapBriefs):\n%s", len(got), damaged, diff)
		}
	}
}
