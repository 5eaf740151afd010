package store_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/store"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func TestOpen_FixesTheNumberOfPartitionsAtTheFirstStart(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	count := w.Partitions.Count()
	if s, err := store.Open(w.Ctx, store.Options{DB: w.DB}); err != nil || s.Partitions.Count() != count {
		t.Errorf("without an expected number: %v", err)
	}
	_, err := store.Open(w.Ctx, store.Options{DB: w.DB, Partitions: count + 1})
	if want := fmt.Sprint("cannot be changed to ", count+1); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("with another number: %v, want %q", err, want)
	}
}

// A person or a later version may leave something in Redis that cannot be read. It is skipped, and holds up nothing else
// in its partition.
func TestStore_ShowsUnreadableTasksApart(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	good, bad := task.Ref{Namespace: "default", ID: "good"}, task.Ref{Namespace: "default", ID: "bad"}
	for i := 0; w.PartitionOf(bad) != w.PartitionOf(good); i++ {
		bad.ID = fmt.Sprint("bad", i)
	}
	w.Create(task.Definition{Ref: bad})
	w.Create(task.Definition{Ref: good})
	k := w.KeysOf(bad)
	testkit.Must(t, w.DB.HSet(w.Ctx, string(k.Defs()), bad.String(), "1795000000000not JSON\n{}").Err())
	if got := w.Claim(good); len(got) != 1 || got[0].Ref != good {
		t.Errorf("claimed %v", got)
	}
	for _, set := range []string{string(k.Queued()), string(k.Held())} { // both are due to be looked after
		testkit.Must(t, w.DB.ZAdd(w.Ctx, set, redis.Z{Member: "nonsense"}, redis.Z{Member: bad.String()}, redis.Z{Member: good.String()}).Err())
	}
	watched, err := w.Leader(good).LookAfter(w.Ctx, partition.Look{Again: time.Minute, Limit: 10})
	if err != nil || len(watched.Waiting) != 1 || watched.Waiting[0].Ref != good || len(watched.Lapsed) != 0 ||
		len(watched.Damaged) != 1 || watched.Damaged[0].Ref != bad {
		t.Errorf("to look after: %+v, %v", watched, err)
	}
	left := append(w.DB.ZRange(w.Ctx, string(k.Held()), 0, -1).Val(), w.DB.ZRange(w.Ctx, string(k.Queued()), 0, -1).Val()...)
	if slices.Contains(left, "nonsense") || len(left) != 2 { // good and bad are queued
		t.Errorf("queued and held are %v", left)
	}
	page, err := w.Tasks.List(w.Ctx, tasks.Filter{Namespace: "default"}, 10, "")
	testkit.Must(t, err)
	damage := map[string]bool{}
	for _, listed := range page.Tasks {
		damage[listed.ID] = listed.Damage != ""
	}
	if len(damage) != 2 || damage[good.ID] || !damage[bad.ID] {
		t.Errorf("listed %v", page.Tasks)
	}
}
