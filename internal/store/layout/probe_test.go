package layout_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/testkit"
)

// A node works on with the servers of a cluster that are left.
func TestReady_NeedsOneServerOfAClusterThatTakesWrites(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.NoFailover())
	db := redistest.Open(t, cluster.URL())
	l, err := layout.Open(t.Context(), layout.Options{DB: db})
	testkit.Must(t, err)
	ready := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		return l.Ready(ctx)
	}
	asked := make(map[*redistest.Server]string) // by the key of the first partition of each server
	for p := range layout.DefaultPartitions {
		key := string(l.Keys.Partition(p).States())
		if server := cluster.Primary(key); asked[server] == "" {
			asked[server] = key
		}
	}
	heard := &answers{of: make(map[string]int)}
	db.AddHook(heard)
	testkit.Must(t, ready())
	rounds, left, refusing := 1, len(asked), 0
	answering := maps.Clone(asked)
	for server := range asked {
		// Ready shares the answer to a write that is still under way: that of a server that takes writes until now.
		testkit.Eventually(t, "all that can answer have answered", func() bool { return heard.all(rounds, answering) })
		if left--; left%2 == 0 {
			server.RefuseWrites()
			refusing++
		} else {
			server.Pause()
			defer server.Continue()
			delete(answering, server)
		}
		rounds++
		err := ready()
		if (err == nil) != (left > 0) {
			t.Fatalf("with %d servers left: %v", left, err)
		}
		if left == 0 && strings.Count(err.Error(), "NOREPLICAS") != refusing {
			t.Errorf("%d servers refuse writes: %v", refusing, err)
		}
	}
}

// answers counts the commands that Redis has answered, by their key.
type answers struct {
	mu sync.Mutex
	of map[string]int
}

func (a *answers) all(n int, keys map[*redistest.Server]string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, key := range keys {
		if a.of[key] < n {
			return false
		}
	}
	return true
}

func (a *answers) DialHook(next redis.DialHook) redis.DialHook { return next }

func (a *answers) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if key, ok := cmd.Args()[len(cmd.Args())-1].(string); ok {
			a.mu.Lock()
			a.of[key]++
			a.mu.Unlock()
		}
		return err
	}
}

func (a *answers) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func TestReady_SaysWhatRedisSays(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	l, err := layout.Open(t.Context(), layout.Options{DB: server.DB(t)})
	testkit.Must(t, err)
	server.RefuseWrites()
	const want = "Redis takes no writes: NOREPLICAS Not enough good replicas to write."
	if err := l.Ready(t.Context()); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// Whoever asks gets an answer at once, and a server that is silent for long is not asked by more and more calls.
func TestReady_DoesNotWaitForAServerThatIsSilent(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.NoFailover())
	db := redistest.Open(t, cluster.URL())
	l, err := layout.Open(t.Context(), layout.Options{DB: db})
	testkit.Must(t, err)
	s := &silence{over: make(chan struct{})}
	silent := cluster.Primary(string(l.Keys.Partition(0).States()))
	for p := range layout.DefaultPartitions {
		if key := string(l.Keys.Partition(p).States()); cluster.Primary(key) == silent {
			s.keys = append(s.keys, key)
		}
	}
	db.AddHook(s)
	defer close(s.over)
	for range 5 {
		answer := make(chan error, 1)
		go func() { answer <- l.Ready(t.Context()) }()
		if err := testkit.Receive(t, answer, "the answer, while one server is silent"); err != nil {
			t.Errorf("the others take writes: %v", err)
		}
		testkit.Eventually(t, "the silent server is asked", func() bool { return s.held.Load() > 0 })
	}
	if n := s.held.Load(); n != 1 {
		t.Errorf("%d commands wait for the silent server, want 1", n)
	}
}

// silence holds the commands for some keys until it is over, as a silent server does: also when their context is cancelled.
type silence struct {
	keys []string
	held atomic.Int64
	over chan struct{}
}

func (s *silence) hold(cmds ...redis.Cmder) {
	concerns := func(arg any) bool { key, text := arg.(string); return text && slices.Contains(s.keys, key) }
	asks := func(cmd redis.Cmder) bool { return slices.ContainsFunc(cmd.Args(), concerns) }
	if slices.ContainsFunc(cmds, asks) {
		s.held.Add(int64(len(cmds)))
		<-s.over
	}
}

func (s *silence) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *silence) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { s.hold(cmd); return next(ctx, cmd) }
}

func (s *silence) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { s.hold(cmds...); return next(ctx, cmds) }
}
