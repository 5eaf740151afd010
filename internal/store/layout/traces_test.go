package layout

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// leave writes what an installation with 16 partitions leaves: leases of the first ones, and tasks.
func leave(t *testing.T, db *redisx.DB, led, tasks int) {
	t.Helper()
	l := &Layout{partitions: 16}
	for p := range led {
		testkit.Must(t, db.Set(t.Context(), fmt.Sprintf("dts:{%d}:lease", p), "7:gone", 0).Err())
	}
	for i := range tasks {
		ref := task.Ref{Namespace: "default", ID: fmt.Sprint("task-", i)}
		testkit.Must(t, db.HSet(t.Context(), fmt.Sprintf("dts:{%d}:defs", l.PartitionOf(ref)), ref.String(), "x").Err())
	}
}

func TestOpen_TakesThePartitionsFromTheData(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	for name, c := range map[string]struct {
		led, tasks int // of 16 partitions
		setting    int
		want       int
		refuses    string
	}{
		"no data":                            {want: 16},
		"no data, a setting":                 {setting: 8, want: 8},
		"leases":                             {led: 16, want: 16},
		"leases, the setting":                {led: 16, setting: 16, want: 16},
		"leases, fewer":                      {led: 16, setting: 8, refuses: "cannot be changed to 8: set partitions to 16"},
		"leases, more":                       {led: 16, setting: 32, refuses: "changed to 32: set partitions to 16"},
		"leases and tasks, more":             {led: 16, tasks: 300, setting: 64, refuses: "cannot be changed to 64"},
		"tasks":                              {tasks: 300, want: 16},
		"tasks, the setting":                 {tasks: 300, setting: 16, want: 16},
		"tasks, fewer":                       {tasks: 300, setting: 8, refuses: "in 16 partitions, which cannot be changed"},
		"tasks, more":                        {tasks: 300, setting: 32, refuses: "in 16 partitions, which cannot be changed"},
		"tasks, and leases of a first start": {led: 3, tasks: 300, want: 16},
		"one task":                           {tasks: 1, refuses: "the number of the first start, 16 unless it was set"},
		"one task, the setting":              {tasks: 1, setting: 16, want: 16},
		"one task, not there":                {tasks: 1, setting: 1000, refuses: "does not fit 1000 partitions: set"},
	} {
		testkit.Must(t, db.FlushAll(t.Context()).Err())
		testkit.Must(t, db.Set(t.Context(), "somebody:else", "x", 0).Err())
		leave(t, db, c.led, c.tasks)
		l, err := Open(t.Context(), Options{DB: db, Partitions: c.setting})
		stored := db.HGet(t.Context(), "dts:meta", "partitions").Val()
		if c.refuses != "" {
			said := fmt.Sprint(err)
			if !strings.Contains(said, c.refuses) || !strings.HasPrefix(said, "partitions: ") || stored != "" {
				t.Errorf("%s: stored %q, %v", name, stored, err)
			}
			continue
		}
		if err != nil || l.Partitions() != c.want || stored != fmt.Sprint(c.want) {
			t.Errorf("%s: stored %q, %v; want %d", name, stored, err, c.want)
		}
	}
}

// What an installation without a leader has of schedules, locks and ids tells the number as well.
func TestOpen_FindsAllNamesInTheData(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	l := &Layout{partitions: 16}
	for _, c := range []struct{ command, key, value string }{
		{"zadd", "schedules", ""}, {"zadd", "locks", ""}, {"hset", "remembered", "x"},
	} {
		testkit.Must(t, db.FlushAll(t.Context()).Err())
		for i := range 300 {
			ref := task.Ref{Namespace: "default", ID: fmt.Sprint("n", i)}
			args := []any{c.command, fmt.Sprintf("dts:{%d}:%s", l.PartitionOf(ref), c.key), "0", ref.String()}
			if c.command == "hset" {
				args = []any{c.command, args[1], ref.String(), c.value}
			}
			testkit.Must(t, db.Do(t.Context(), args...).Err())
		}
		_, err := Open(t.Context(), Options{DB: db, Partitions: 8})
		if err == nil || !strings.Contains(err.Error(), "in 16 partitions") {
			t.Errorf("%s: %v", c.key, err)
		}
	}
}

// Marks tell the number of partitions, too, and a key of the wrong type does not hide what the others tell.
func TestOpen_TakesThePartitionsFromTheMarks(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	testkit.Must(t, serving(t, db).Mark(t.Context()))
	testkit.Must(t, db.Del(t.Context(), "dts:meta").Err())
	testkit.Must(t, db.Set(t.Context(), "dts:{3}:defs", "garbage", 0).Err())
	_, err := Open(t.Context(), Options{DB: db, Partitions: 8})
	if err == nil || !strings.Contains(err.Error(), "in 16 partitions, which cannot be changed to 8") {
		t.Errorf("got %v", err)
	}
}

// An older node would read the data otherwise, so its layout must be known.
func TestOpen_RefusesOlderDataWithoutItsLayout(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	testkit.Must(t, db.Set(t.Context(), "dts:{0}:epoch", "7", 0).Err())
	_, err := Open(t.Context(), Options{DB: db})
	if err == nil || !strings.Contains(err.Error(), "of an older layout: restore dts:meta") {
		t.Errorf("got %v", err)
	}
}

// starting lets another node start, and create a task, before data is looked for.
type starting struct {
	redis.Hook
	start func()
	once  sync.Once
}

func (h *starting) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *starting) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h *starting) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, c redis.Cmder) error {
		if c.Name() == "dbsize" {
			h.once.Do(h.start)
		}
		return next(ctx, c)
	}
}

// Of two nodes that start at once on an empty Redis, the second one takes the first one's data for what it is.
func TestOpen_KnowsANodeThatStartedMeanwhile(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	db := server.DB(t)
	db.AddHook(&starting{start: func() {
		other := server.DB(t)
		_, err := Open(t.Context(), Options{DB: other})
		testkit.Must(t, err)
		leave(t, other, 0, 1)
	}})
	log := &testkit.Log{}
	l, err := Open(t.Context(), Options{DB: db, Log: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil || l.Partitions() != 16 || log.Has("gone") {
		t.Errorf("%v, or it says that something is gone", err)
	}
}

func TestOpen_LeavesMetaToALivingNode(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	living := serving(t, db)
	before := metaOf(t, db)
	leave(t, db, 16, 10)
	now, err := living.Now(t.Context(), 0)
	testkit.Must(t, err)
	entry := fmt.Sprintf(`%d {"state":"alive","beat_ms":60000}`, now.UnixMilli())
	testkit.Must(t, db.HSet(t.Context(), "dts:nodes", "living", entry).Err())
	testkit.Must(t, db.Del(t.Context(), "dts:meta").Err())
	log := &testkit.Log{}
	opened := make(chan error, 1)
	go func() {
		l, err := Open(t.Context(), Options{DB: db, Log: slog.New(slog.NewTextHandler(log, nil))})
		if err == nil {
			_, err = l.Check(t.Context(), known)
		}
		opened <- err
	}()
	testkit.Eventually(t, "it says what is wrong", func() bool {
		return log.Has("dts:meta is gone, and the data is there")
	})
	if n := db.Exists(t.Context(), "dts:meta").Val(); n != 0 {
		t.Error("it has written dts:meta, though a node lives")
	}
	if f, err := living.Check(t.Context(), known); err != nil || f.Lost {
		t.Errorf("the living node: %+v, %v", f, err)
	}
	testkit.Must(t, testkit.Receive(t, opened, "the node that starts"))
	if after := metaOf(t, db); after["secret"] != before["secret"] || after["data"] != before["data"] {
		t.Errorf("it was %v, is %v", before, after)
	}
}
