package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/worker/executor/builtin"
)

// watching is a node that looks at its data all the time, whose roles all run, and its log.
func watching(t *testing.T, c config.Config) (*running, *testkit.Log) {
	t.Helper()
	r, log := looking(t, c)
	testkit.Receive(t, r.Ready(), "all roles")
	return r, log
}

// looking is watching while the roles may not run yet.
func looking(t *testing.T, c config.Config) (*running, *testkit.Log) {
	t.Helper()
	log := &testkit.Log{}
	handler := slog.NewTextHandler(io.MultiWriter(log, t.Output()), nil)
	o := Options{Config: c, Executors: builtin.Table(), Log: slog.New(handler)}
	o.Executors.EnableAll()
	a, err := New(t.Context(), o)
	testkit.Must(t, err)
	a.dataPause = 20 * time.Millisecond
	ctx, stop := context.WithCancel(context.Background())
	r := &running{App: a, t: t, address: a.Addr(), stop: stop, end: make(chan error, 1)}
	go func() { r.end <- a.Run(ctx) }()
	t.Cleanup(r.finish)
	return r, log
}

func TestData_TellsALostListOfNodesFromLostData(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	db := redis.DB(t)
	for name, remove := range map[string]func(a, b *running) error{
		"the list":  func(*running, *running) error { return db.Del(t.Context(), "dts:nodes").Err() },
		"two nodes": func(a, b *running) error { return db.HDel(t.Context(), "dts:nodes", a.Node(), b.Node()).Err() },
	} {
		t.Run(name, func(t *testing.T) {
			a, logA := watching(t, settings(redis.URL()))
			b, logB := watching(t, settings(redis.URL()))
			testkit.Must(t, remove(a, b))
			for _, n := range []*running{a, b} {
				n.registry.BeatNow()
			}
			for _, log := range []*testkit.Log{logA, logB} {
				testkit.Eventually(t, "it says so", func() bool {
					return log.Has(`level=WARN msg="this node was missing from the list of nodes, dts:nodes,`)
				})
				if log.Has("Redis has lost") || log.Has("dts:meta was gone") {
					t.Error("it says that Redis has lost more")
				}
			}
			if n := db.HLen(t.Context(), "dts:nodes").Val(); n != 2 {
				t.Errorf("on the list are %d nodes, want 2", n)
			}
			if n := db.Exists(t.Context(), "dts:{0}:losses").Val(); n != 0 {
				t.Error("lost writes are recorded")
			}
			a.await("/metrics", "dts_redis_data_lost_total 0")
		})
	}
}

// Redis may have restarted without its data while this node counted as dead.
func TestData_TellsLostDataAfterALongOutage(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	redis := redistest.Start(t)
	c := settings(redis.URL())
	// The first heartbeat after the restart must be answered in time: a repeated one does not tell that Redis had
	// forgotten the node.
	c.Heartbeat = 300 * time.Millisecond
	a, log := watching(t, c)
	last := a.store.Keys.Partition(15).Mark()
	testkit.Eventually(t, "the partitions are marked", func() bool {
		return redis.Admin().Exists(t.Context(), string(last)).Val() == 1
	})
	a.mustRun("before") // meanwhile the node hears that they are, or else it would mark the empty Redis
	redis.Kill()
	killed := time.Now()
	testkit.Eventually(t, "it would be dead", func() bool { return time.Since(killed) > 5*c.Heartbeat })
	redis.Restart()
	testkit.Eventually(t, "it says so", func() bool { return log.Has("Redis has lost its data") })
	if log.Has("dts:meta was gone, and the data is there") {
		t.Error("it says that the data is there")
	}
	a.await("/metrics", "dts_redis_data_lost_total 1")
	a.mustRun("after")
}

func TestData_WritesMetaAgainThatIsGone(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	db := redis.DB(t)
	a, log := watching(t, settings(redis.URL()))
	before, err := db.HGetAll(t.Context(), "dts:meta").Result()
	testkit.Must(t, err)
	testkit.Must(t, db.Del(t.Context(), "dts:meta").Err())
	testkit.Eventually(t, "it says so, and what is right to do", func() bool {
		return log.Has(`level=ERROR msg="dts:meta was gone, and the data is there: look with dtsctl doctor`) &&
			log.Has("partitions=16")
	})
	after, err := db.HGetAll(t.Context(), "dts:meta").Result()
	testkit.Must(t, err)
	if !maps.Equal(before, after) {
		t.Errorf("it was %v, is %v", before, after)
	}
	if log.Has("Redis has lost") {
		t.Error("it says that Redis has lost all data")
	}
	a.mustRun("after")
}

// marked waits until the partitions are marked.
func marked(t *testing.T, db *redisx.DB) {
	t.Helper()
	testkit.Eventually(t, "the partitions are marked", func() bool {
		return db.Exists(t.Context(), "dts:{0}:mark", "dts:{15}:mark").Val() == 2
	})
}

// An incomplete restore, or eviction, may leave out all keys that are not of a partition.
func TestData_TellsLostSharedKeysFromLostData(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	db := redis.DB(t)
	a, logA := watching(t, settings(redis.URL()))
	b, logB := watching(t, settings(redis.URL()))
	a.mustRun("before")
	marked(t, db)
	data := db.HGet(t.Context(), "dts:meta", "data").Val()
	testkit.Must(t, db.Del(t.Context(), "dts:meta", "dts:nodes", "dts:namespaces", "dts:limits").Err())
	for _, n := range []*running{a, b} {
		n.registry.BeatNow()
	}
	testkit.Eventually(t, "one of them says what is gone", func() bool {
		const gone = `level=ERROR msg="dts:meta was gone, and the data is there:`
		return logA.Has(gone) || logB.Has(gone)
	})
	testkit.Eventually(t, "both are on the list again", func() bool {
		return db.HLen(t.Context(), "dts:nodes").Val() == 2
	})
	b.mustRun("after")
	for _, n := range []*running{a, b} {
		n.await("/metrics", "dts_redis_data_lost_total 0")
	}
	if is := db.HGet(t.Context(), "dts:meta", "data").Val(); is != data || logA.Has("has lost") || logB.Has("has lost") {
		t.Errorf("the data was %s, is %s; or a node says that Redis has lost it", data, is)
	}
}

func TestData_AClientTellsLostSharedKeysFromLostData(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	db := redis.DB(t)
	a, _ := watching(t, settings(redis.URL()))
	marked(t, db)
	a.finish()
	log := &testkit.Log{}
	o := DirectOptions{Config: settings(redis.URL()), Log: slog.New(slog.NewTextHandler(log, nil))}
	d, err := OpenDirect(t.Context(), o)
	testkit.Must(t, err)
	defer func() { testkit.Must(t, d.Close()) }()
	testkit.Must(t, db.Del(t.Context(), "dts:meta", "dts:nodes").Err())
	d.nodes.View()
	if !log.Has("dts:meta was gone, and the data is there") || log.Has("Redis has lost") {
		t.Error("it does not say that dts:meta was gone, or says that all is lost")
	}
}

// While Redis refuses writes, nobody can write dts:meta again: operators must hear of it nevertheless.
func TestData_SaysThatMetaIsGoneWhileWritesAreRefused(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string][2]string{
		"it is full":            {"maxmemory", "1mb"},
		"it lacks its replicas": {"min-replicas-to-write", "1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redis := redistest.Start(t)
			db := redis.DB(t)
			_, log := watching(t, settings(redis.URL()))
			marked(t, db)
			both := redis.Admin().TxPipeline() // before the node can write it again
			both.Del(t.Context(), "dts:meta")
			both.ConfigSet(t.Context(), refuse[0], refuse[1])
			_, err := both.Exec(t.Context())
			testkit.Must(t, err)
			testkit.Eventually(t, "it says so", func() bool {
				return log.Has(`level=ERROR msg="dts:meta is gone, and cannot be written`)
			})
			testkit.Must(t, redis.Admin().ConfigSet(t.Context(), refuse[0], "0").Err())
			testkit.Eventually(t, "it says that it is there again", func() bool {
				return log.Has("dts:meta was gone, and the data is there")
			})
			if log.Has("Redis has lost its data") {
				t.Error("it says that all is lost")
			}
		})
	}
}

func TestFindings_TellOnceThatMetaIsGone(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	data, err := store.Open(t.Context(), store.Options{DB: redistest.Start(t).DB(t)})
	testkit.Must(t, err)
	f := &findings{store: data, log: slog.New(slog.NewTextHandler(&log, nil))}
	gone, full := layout.Finding{Missing: []string{"secret"}}, errors.New("OOM")
	for _, c := range []struct {
		step func()
		want string
	}{
		{func() { f.tellGone(layout.Finding{}, full) }, ""},
		{func() { f.tellGone(gone, full) }, "dts:meta is gone, and cannot be written"},
		{func() { f.tellGone(gone, full) }, ""},
		{func() { f.tell(layout.Finding{}) }, "dts:meta is there again"},
		{func() { f.tell(layout.Finding{}) }, ""},
		{func() { f.tellGone(gone, full) }, "dts:meta is gone, and cannot be written"},
		{func() { f.tell(gone) }, "dts:meta was gone, and the data is there"},
		{func() { f.tell(layout.Finding{}) }, ""},
	} {
		log.Reset()
		c.step()
		if said := log.String(); !strings.Contains(said, c.want) || (said == "") != (c.want == "") {
			t.Errorf("it says %q, want %q", said, c.want)
		}
	}
}

// Marks help to tell lost data from lost keys. Nothing waits for them, and those that are missing are written later.
func TestData_ANodeStartsWhileAServerOfAClusterIsAway(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.NoFailover())
	run(t, Options{Config: settings(c.URL())}).finish()
	away := c.Primary("dts:{1}:mark")
	for _, key := range []string{"dts:meta", "dts:nodes"} {
		if c.Primary(key) == away {
			t.Fatalf("%s is on the server that goes away", key)
		}
	}
	away.Kill()
	a, log := looking(t, settings(c.URL()))
	testkit.Receive(t, a.checked, "the check of the data, after which roles start")
	const unmarked = `level=WARN msg="cannot mark all partitions`
	testkit.Eventually(t, "it says what it cannot mark", func() bool { return log.Has(unmarked) })
	away.Restart() // and has nothing
	data := a.store.DB.HGet(t.Context(), "dts:meta", "data").Val()
	testkit.Eventually(t, "the partitions there are marked", func() bool {
		return data != "" && away.Admin().Get(t.Context(), "dts:{1}:mark").Val() == data
	})
	if n := log.Count(unmarked); n != 1 {
		t.Errorf("it says %d times what it cannot mark", n)
	}
}

// Nobody takes one key that is gone for the loss of all data, and the node goes on.
func TestData_SurvivesTheLossOfASingleKey(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	redis := redistest.Start(t)
	db := redis.DB(t)
	c := settings(redis.URL())
	c.Partitions = 1
	a, log := watching(t, c)
	fence := ""
	testkit.Eventually(t, "the node leads", func() bool {
		fence = db.Get(t.Context(), "dts:{0}:lease").Val()
		return fence != ""
	})
	for i, key := range []string{
		"dts:nodes", "dts:meta", "dts:namespaces", "dts:limits", "dts:{0}:lease:" + fence, "dts:{0}:lease", "dts:{0}:wakes",
		"dts:{0}:losses", "dts:{0}:backlog", "dts:{0}:remembered:order", "dts:{0}:token", "dts:{0}:mark",
		"asynq:queues", "asynq:servers",
	} {
		if key == "dts:limits" {
			testkit.Must(t, db.HSet(t.Context(), key, "default", 1000).Err())
		}
		testkit.Must(t, db.Del(t.Context(), key).Err())
		a.registry.BeatNow()
		a.mustRun(fmt.Sprint("after-", i))
	}
	if log.Has("Redis has lost") {
		t.Error("it says that Redis has lost its data, or writes")
	}
	a.await("/metrics", "dts_redis_data_lost_total 0")
}

// Of what lies in 16 partitions, a node with another number would find little.
func TestData_ANodeTakesThePartitionsFromTheData(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	redis := redistest.Start(t)
	db := redis.DB(t)
	first := run(t, Options{Config: settings(redis.URL())})
	for i := range 10 {
		submission := fmt.Sprintf(`{"id":"waits-%d","type":"noop","delay":"1h"}`, i)
		if status, body := first.call(http.MethodPost, "/v1/tasks", submission); status != http.StatusCreated {
			t.Fatalf("submitting: %d %s", status, body)
		}
	}
	first.finish()
	testkit.Must(t, db.Del(t.Context(), "dts:meta").Err())
	for _, partitions := range []int{8, 32} {
		c := settings(redis.URL())
		c.Partitions = partitions
		_, err := New(t.Context(), Options{Config: c, Executors: builtin.Table(), Log: slog.New(slog.DiscardHandler)})
		want := fmt.Sprintf("partitions: dts:meta is gone, and the data is there, in 16 partitions, "+
			"which cannot be changed to %d", partitions)
		if !errors.Is(err, redisx.ErrUnusable) || !strings.Contains(err.Error(), want) {
			t.Errorf("with %d: %v", partitions, err)
		}
	}
	log := &testkit.Log{}
	second := run(t, Options{Config: settings(redis.URL()), Log: slog.New(slog.NewTextHandler(log, nil))})
	for i := range 10 {
		if status, _ := second.call(http.MethodGet, fmt.Sprint("/v1/tasks/waits-", i), ""); status != http.StatusOK {
			t.Errorf("task %d: %d", i, status)
		}
	}
	if !log.Has(`level=ERROR msg="dts:meta is gone, and the data is there:`) {
		t.Error("it does not say what was wrong")
	}
}
