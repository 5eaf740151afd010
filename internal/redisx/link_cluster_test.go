package redisx_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
)

// limits is a hook that notes, by server, how long the last commands were allowed to take.
type limits struct {
	mu   sync.Mutex
	left map[string]time.Duration
}

func (l *limits) note(ctx context.Context, server string) {
	if deadline, ok := ctx.Deadline(); ok {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.left[server] = time.Until(deadline)
	}
}

func (l *limits) of(server string) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.left[server]
}

// limitHook is limits for the client of one server.
type limitHook struct {
	*limits
	server string
}

func (limitHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h limitHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "get" { // the map has a limit of its own
			h.note(ctx, h.server)
		}
		return next(ctx, cmd)
	}
}

func (h limitHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if cmds[0].Name() == "get" || cmds[0].Name() == "multi" { // not the greeting of a connection
			h.note(ctx, h.server)
		}
		return next(ctx, cmds)
	}
}

// logged is a log that may be read while it is written.
type logged struct {
	mu  sync.Mutex
	out bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(p)
}

func (l *logged) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.out.String(), text)
}

// One server of a cluster is away. That is one outage, and commands for the others keep their time.
func TestLink_OneServerOfAClusterIsAway(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.NoFailover())
	var log logged
	link := redisx.NewLink(slog.New(slog.NewTextHandler(&log, nil)))
	db, err := redisx.New(redisx.Options{URL: cluster.URL(), Link: link})
	testkit.Must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	limits := &limits{left: make(map[string]time.Duration)}
	db.UniversalClient.(*redis.ClusterClient).OnNewNode(func(server *redis.Client) {
		server.AddHook(limitHook{limits, server.Options().Addr})
	})
	away := cluster.Primary("away")
	other := cluster.Other("away")
	healthy := ""
	for i := 0; healthy == ""; i++ {
		if key := fmt.Sprint(i); cluster.Primary(key) == other {
			healthy = key
		}
	}
	ways := map[string]func(ctx context.Context, key string) error{
		"alone":       func(ctx context.Context, key string) error { return ignoreNil(db.Get(ctx, key).Err()) },
		"pipeline":    func(ctx context.Context, key string) error { return pipelined(ctx, db.Pipeline(), key) },
		"transaction": func(ctx context.Context, key string) error { return pipelined(ctx, db.TxPipeline(), key) },
	}
	for _, send := range ways {
		testkit.Must(t, send(t.Context(), healthy))
		testkit.Must(t, send(t.Context(), "away"))
	}

	away.Pause()
	t.Cleanup(away.Continue)
	hurried, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := ways["alone"](hurried, "away"); err == nil {
		t.Error("a server that is away answers")
	}
	for name, send := range ways {
		ended, watch := make(chan time.Duration, 1), testkit.StartStopwatch(t)
		go func() {
			if err := send(t.Context(), "away"); err == nil {
				t.Errorf("%s: a server that is away answers", name)
			}
			ended <- watch.Elapsed()
		}()
		for done := false; !done; {
			testkit.Must(t, send(t.Context(), healthy))
			if left := limits.of(other.Addr()); left < 4*time.Second {
				t.Errorf("%s: a server that answers is given %s", name, left)
			}
			if link.Up() {
				t.Fatalf("%s: the outage is over", name)
			}
			select {
			case took := <-ended:
				if done = true; took > 4*time.Second {
					t.Errorf("%s: it took %s to fail", name, took)
				}
			case <-time.After(10 * time.Millisecond):
			}
		}
		if left := limits.of(away.Addr()); left > 2*time.Second {
			t.Errorf("%s: the server that is away is given %s", name, left)
		}
	}
	if n := log.count("Redis unreachable\" server=" + away.Addr()); n != 1 || log.count("Redis unreachable") != 1 || log.count("Redis back") != 0 {
		t.Errorf("it says %d times that the server is away: %s", n, log.out.String())
	}

	away.Continue()
	testkit.Eventually(t, "the outage ends", func() bool { return ways["alone"](t.Context(), "away") == nil && link.Up() })
	if log.count("Redis back\" server="+away.Addr()) != 1 || log.count("Redis back") != 1 {
		t.Errorf("it does not say once that the server is back: %s", log.out.String())
	}
}

// The client repeats commands whose connection broke. That the server closes connections is no outage.
func TestLink_IsUpWhileAServerOfAClusterClosesConnections(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.NoFailover())
	var log logged
	db, err := redisx.New(redisx.Options{URL: cluster.URL(), Link: redisx.NewLink(slog.New(slog.NewTextHandler(&log, nil)))})
	testkit.Must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	admin := cluster.Primary("k").Admin()
	type write struct {
		writer int
		err    error
	}
	const writers = 4
	written := make(chan write)
	for i := range writers {
		go func() {
			for t.Context().Err() == nil {
				select {
				case written <- write{i, db.Set(t.Context(), "k", "v", 0).Err()}:
				case <-t.Context().Done():
				}
			}
		}()
	}
	for range 20 {
		// No write loses its connection more often than it is repeated: each writer begins one after the last time.
		for ended := map[int]int{}; len(ended) < writers || slices.Min(slices.Collect(maps.Values(ended))) < 2; {
			w := testkit.Receive(t, written, "a write")
			testkit.Must(t, w.err)
			ended[w.writer]++
		}
		testkit.Must(t, admin.ClientKillByFilter(t.Context(), "TYPE", "normal", "SKIPME", "yes").Err())
	}
	for range 20 {
		testkit.Must(t, testkit.Receive(t, written, "a write").err)
	}
	if n := log.count("Redis unreachable"); n != 0 {
		t.Errorf("it says %d times that the server is away: %s", n, log.out.String())
	}
}

// It sends scripts to the server itself, whose client repeats nothing.
func TestRunReplicated_RunsAgainWhatTheServerClosedTheConnectionOf(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.NoFailover())
	var log logged
	db, err := redisx.Open(t.Context(), redisx.Options{URL: cluster.URL(), Link: redisx.NewLink(slog.New(slog.NewTextHandler(&log, nil)))})
	testkit.Must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	key := lua.NewKeyspace("", 0).Partition(0).Confirmed()
	admin := cluster.Primary(string(key)).Admin()
	ended := make(chan error, 1)
	go func() {
		tooMany := config.Durability{Replicas: 9, Timeout: 2 * time.Second}
		ended <- redisx.RunReplicated[lua.ConfirmReply](t.Context(), db, tooMany, []lua.Confirm{{Confirmed: key}})[0].Err
	}()
	testkit.Eventually(t, "it waits for replicas", func() bool {
		return strings.Contains(admin.ClientList(t.Context()).Val(), " cmd=wait ")
	})
	testkit.Must(t, admin.ClientKillByFilter(t.Context(), "TYPE", "normal", "SKIPME", "yes").Err())
	if err := testkit.Receive(t, ended, "the answer"); err == nil || !strings.Contains(err.Error(), "of 9 replicas") {
		t.Errorf("it ends with %v", err)
	}
	if n := log.count("Redis unreachable"); n != 0 {
		t.Errorf("it says %d times that the server is away: %s", n, log.out.String())
	}
}

func ignoreNil(err error) error {
	if err == redis.Nil { //nolint:errorlint // it is never wrapped
		return nil
	}
	return err
}

func pipelined(ctx context.Context, pipe redis.Pipeliner, key string) error {
	got := pipe.Get(ctx, key)
	_, _ = pipe.Exec(ctx)
	return ignoreNil(got.Err())
}

// A server whose replica has taken over is not asked any more. It does not count as away for ever.
func TestLink_ForgetsAServerOfAClusterThatWasReplaced(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	var log logged
	link := redisx.NewLink(slog.New(slog.NewTextHandler(&log, nil)))
	db, err := redisx.Open(t.Context(), redisx.Options{URL: cluster.URL(), Link: link, FailFast: true})
	testkit.Must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	testkit.Must(t, db.Set(t.Context(), "k", "v", 0).Err())
	old := cluster.Primary("k")
	old.Kill()
	testkit.Eventually(t, "it is noticed", func() bool { _ = db.Get(t.Context(), "k"); return !link.Up() })
	testkit.Within(t, time.Minute, "the replica answers, and the server that was replaced is forgotten", func() bool {
		return db.Get(t.Context(), "k").Val() == "v" && link.Up()
	})
	killed := "server=" + old.Addr()
	if log.count("Redis unreachable\" "+killed) != 1 || log.count("Redis server not asked any more\" "+killed) != 1 || log.count("Redis back\" "+killed) != 0 {
		t.Errorf("it says: %s", log.out.String())
	}
}

// A server that was replaced without dying is never asked again, and so never away.
func TestLink_DoesNotAnswerWhenAllServersAreSilentAfterAFailover(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	db, err := redisx.Open(t.Context(), redisx.Options{URL: cluster.URL(), FailFast: true})
	testkit.Must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	keys := make([]string, 20) // on all servers
	for i := range keys {
		keys[i] = fmt.Sprint(i)
	}
	write := func() error {
		pipe := db.Pipeline()
		for _, key := range keys {
			pipe.Set(t.Context(), key, "v", 0)
		}
		_, err := pipe.Exec(t.Context())
		return err
	}
	testkit.Must(t, write())
	cluster.Failover(keys[0])
	testkit.Eventually(t, "the replica is asked", func() bool { return write() == nil })
	for _, server := range cluster.Servers {
		server.Pause()
		t.Cleanup(server.Continue)
	}
	testkit.Within(t, time.Minute, "no server answers", func() bool { _ = write(); return !db.Link().Answers() })
}

// The connection of a subscription is to the server of its first channel. While this server is away, another one of the
// cluster serves all channels.
func TestListen_NeedsNoServerThatIsAway(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.NoFailover())
	away := cluster.Primary("away")
	healthy := ""
	for i := 0; healthy == ""; i++ {
		if key := fmt.Sprint(i); cluster.Primary(key) != away {
			healthy = key
		}
	}
	db := redistest.Open(t, cluster.URL())
	testkit.Must(t, ignoreNil(db.Get(t.Context(), "away").Err()))
	away.Kill()
	connected := make(chan string, 2)
	go func() {
		_ = db.Listen(t.Context(), redisx.Listener{
			Connected: func(channel string) { connected <- channel },
			Message:   func(string, string) {},
		}, "away", healthy)
	}()
	for range 2 {
		testkit.Receive(t, connected, "a subscription")
	}
}
