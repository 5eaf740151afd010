package migration_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store"
	"github.com/dts-sched/dts/internal/store/migration"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
)

func TestOpen_RefusesOtherLayoutsAndPartitions(t *testing.T) {
	t.Parallel()
	db := older(t)
	before := redistest.Dump(t, db)
	if _, err := store.Open(t.Context(), store.Options{DB: db, Partitions: 7}); err == nil || !strings.Contains(err.Error(), "partitions") {
		t.Errorf("with another number of partitions: %v", err)
	}
	if diff := cmp.Diff(before, redistest.Dump(t, db)); diff != "" {
		t.Errorf("a refusal has changed (-before +after):\n%s", diff)
	}
	testkit.Must(t, db.HSet(t.Context(), "dts:meta", "layout", "8").Err())
	if err := open(t.Context(), db); err == nil || !strings.Contains(err.Error(), `layout "8"`) {
		t.Errorf("with layout 8: %v", err)
	}
}

func TestOpen_RefusesToConvertBesideLivingNodes(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	db := older(t)
	now := db.Time(t.Context()).Val().UnixMilli()
	beats := func(ago int64) { // of a node that beats every 2 s
		testkit.Must(t, db.HSet(t.Context(), "dts:nodes", "old-living", fmt.Sprint(now-ago, ` {"id":"old-living","beat_ms":2000}`)).Err())
	}
	beats(100)
	before := redistest.Dump(t, db)
	if err := open(t.Context(), db); err == nil || !strings.Contains(err.Error(), "old-living") || !strings.Contains(err.Error(), "stop all of them first") {
		t.Errorf("Open: %v", err)
	}
	if diff := cmp.Diff(before, redistest.Dump(t, db)); diff != "" {
		t.Errorf("a refusal has changed (-before +after):\n%s", diff)
	}
	beats(3600_000)
	testkit.Must(t, open(t.Context(), db))
}

// A node that sends its first heartbeat after the first look is found by a later one.
func TestOpen_RefusesToConvertBesideANodeThatJustStarted(t *testing.T) {
	t.Parallel()
	db := older(t)
	joins := func() {
		now := db.Time(t.Context()).Val().UnixMilli()
		testkit.Must(t, db.HSet(t.Context(), "dts:nodes", "old-new", fmt.Sprint(now, ` {"id":"old-new","beat_ms":60000}`)).Err())
	}
	hooked := redistest.Open(t, "redis://"+db.UniversalClient.(*redis.Client).Options().Addr+"/0")
	hooked.AddHook(&faults{before: func(_ int, cmds []redis.Cmder) error {
		if args := fmt.Sprint(cmds[0].Args()...); strings.Contains(args, migration.Unfinished) {
			joins()
		}
		return nil
	}})
	if err := open(t.Context(), hooked); err == nil || !strings.Contains(err.Error(), "old-new") {
		t.Errorf("Open: %v", err)
	}
	if got := db.HGet(t.Context(), "dts:meta", "layout").Val(); got != "1" {
		t.Errorf("the layout is %q, want what it was", got)
	}
}

func TestOpen_ConvertsOnceForManyNodes(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	db := older(t)
	want := convertedOlder(t)
	addr := db.UniversalClient.(*redis.Client).Options().Addr
	var wg sync.WaitGroup
	var mu sync.Mutex
	converters := 0
	for range 5 {
		node := redistest.Open(t, "redis://"+addr+"/0")
		node.AddHook(&faults{before: func(_ int, cmds []redis.Cmder) error {
			if args := fmt.Sprint(cmds[0].Args()...); strings.Contains(args, migration.Unfinished) {
				mu.Lock()
				defer mu.Unlock()
				converters++
			}
			return nil
		}})
		wg.Go(func() {
			if err := open(t.Context(), node); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if converters != 1 {
		t.Errorf("%d nodes have converted", converters)
	}
	if diff := cmp.Diff(want, dumpConverted(t, db)); diff != "" {
		t.Errorf("(-one node +many):\n%s", diff)
	}
}

func TestOpen_TakesOverFromANodeThatDied(t *testing.T) {
	t.Parallel()
	db := older(t)
	testkit.Must(t, db.Set(t.Context(), "dts:conversion", "dead-node", 300*time.Millisecond).Err())
	testkit.Must(t, open(t.Context(), db))
	if got := db.HGet(t.Context(), "dts:meta", "layout").Val(); got != migration.Present {
		t.Errorf("the layout is %q", got)
	}
}

func TestRun_GivesUpWaitingForAnotherNode(t *testing.T) {
	t.Parallel()
	db := older(t)
	testkit.Must(t, db.Set(t.Context(), "dts:conversion", "slow-node", time.Hour).Err())
	err := migration.Run(t.Context(), migration.Options{
		DB: db, Keys: lua.NewKeyspace("", 0), Partitions: 2, WaitLimit: time.Millisecond, Log: slog.New(slog.DiscardHandler),
	})
	if err == nil || !strings.Contains(err.Error(), "slow-node has not finished") {
		t.Errorf("Run: %v", err)
	}
}

// convertedOlder is what becomes of the data in one go.
func convertedOlder(t *testing.T) map[string]any {
	t.Helper()
	db := older(t)
	testkit.Must(t, open(t.Context(), db))
	return dumpConverted(t, db)
}

// dumpConverted is what Redis holds after a conversion, without its time and what is drawn.
func dumpConverted(t *testing.T, db *redisx.DB) map[string]any {
	t.Helper()
	testkit.Must(t, db.HDel(t.Context(), "dts:meta", "retries", "data").Err())
	return redistest.Dump(t, db)
}

var errCut = errors.New("the connection is cut")

// A conversion may end after any command: because the node dies, or because an answer of Redis is lost.
func TestOpen_GoesOnWhereAConversionWasInterrupted(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	data, want := storetest.ReadOlder(t, layout1), convertedOlder(t)
	server := redistest.Start(t)
	db := server.DB(t)
	interrupted := func(n int, do func(*faults)) {
		data.Restore(t, db)
		node, f := server.DB(t), &faults{}
		do(f)
		node.AddHook(f)
		err := open(t.Context(), node)
		testkit.Must(t, node.Close())
		if f.count() < n {
			testkit.Must(t, err)
			return
		}
		testkit.Must(t, db.Del(t.Context(), "dts:conversion").Err()) // as if it had expired
		testkit.Must(t, open(t.Context(), db))
		if diff := cmp.Diff(want, dumpConverted(t, db)); diff != "" {
			t.Fatalf("interrupted at command %d (-in one go +interrupted):\n%s", n, diff)
		}
	}
	total := 0
	interrupted(1<<30, func(f *faults) { f.before = func(n int, _ []redis.Cmder) error { total = n; return nil } })
	all := make([]int, total)
	for i := range all {
		all[i] = i + 1
	}
	if total < 50 {
		t.Fatalf("a conversion takes %d commands only", total)
	}
	for _, n := range testkit.Sample(t, 10, all) {
		interrupted(n, func(f *faults) { // it dies
			f.before = func(i int, _ []redis.Cmder) error {
				if i >= n {
					return errCut
				}
				return nil
			}
		})
		interrupted(n, func(f *faults) { // it gets no answer
			f.after = func(i int, _ []redis.Cmder) error {
				if i == n {
					return errCut
				}
				return nil
			}
		})
	}
}

// faults fails commands before or after they are sent; n counts commands and pipelines, from 1.
type faults struct {
	mu            sync.Mutex
	n             int
	before, after func(n int, cmds []redis.Cmder) error
}

func (f *faults) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.n
}

func (f *faults) around(cmds []redis.Cmder, send func() error) error {
	f.mu.Lock()
	f.n++
	n := f.n
	f.mu.Unlock()
	err := call(f.before, n, cmds)
	if err == nil {
		err = send()
		if lost := call(f.after, n, cmds); lost != nil {
			err = lost
		}
	}
	if errors.Is(err, errCut) {
		for _, cmd := range cmds {
			cmd.SetErr(err)
		}
	}
	return err
}

func call(f func(int, []redis.Cmder) error, n int, cmds []redis.Cmder) error {
	if f == nil {
		return nil
	}
	return f(n, cmds)
}

func (f *faults) DialHook(next redis.DialHook) redis.DialHook { return next }

func (f *faults) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return f.around([]redis.Cmder{cmd}, func() error { return next(ctx, cmd) })
	}
}

func (f *faults) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return f.around(cmds, func() error { return next(ctx, cmds) })
	}
}
