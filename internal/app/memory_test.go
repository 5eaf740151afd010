package app

import (
	"net/http"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/testkit"
)

// evicting has a server evict keys by a policy.
func evicting(t *testing.T, s *redistest.Server, policy string) {
	t.Helper()
	testkit.Must(t, s.Admin().Do(t.Context(), "config", "set", "maxmemory-policy", policy, "maxmemory", "1gb").Err())
}

// readiness is what /readyz says.
func (r *running) readiness() string {
	r.t.Helper()
	status, body := r.call(http.MethodGet, "/readyz", "")
	if status != http.StatusOK {
		r.t.Errorf("it is not ready: %d %s", status, body)
	}
	return body
}

func TestMemory_TellsEvictionAtTheStartAndWhenItChanges(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	evicting(t, server, "allkeys-lru")
	r, log := watching(t, settings(server.URL()))
	const line = `level=ERROR msg="Redis evicts keys when it is full`
	if !log.Has(line) || !log.Has(`maxmemory_policy=allkeys-lru loses="tasks, schedules`) {
		t.Error("it does not say so when it has started")
	}
	const warning = `"warnings":["Redis evicts keys when it is full (maxmemory-policy allkeys-lru), and loses tasks`
	if body := r.readiness(); !strings.Contains(body, warning) {
		t.Errorf("readyz: %s", body)
	}

	evicting(t, server, "volatile-lru")
	testkit.Eventually(t, "it says what is evicted now", func() bool {
		return log.Has(`maxmemory_policy=volatile-lru loses="locks that are held`)
	})
	evicting(t, server, "noeviction")
	testkit.Eventually(t, "it says that nothing is", func() bool { return log.Has("Redis does not evict keys any more") })
	if body := r.readiness(); strings.Contains(body, "warnings") {
		t.Errorf("readyz: %s", body)
	}
	evicting(t, server, "allkeys-random")
	testkit.Eventually(t, "it says so again", func() bool { return log.Has("maxmemory_policy=allkeys-random") })
	if n := log.Count(line); n != 3 {
		t.Errorf("it has said so %d times, want once for each change", n)
	}
}

func TestMemory_TellsAFullRedisAndItsEnd(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	r, log := watching(t, settings(server.URL()))
	server.FillMemory()
	testkit.Eventually(t, "it says that Redis is full", func() bool {
		return log.Has(`level=WARN msg="Redis is nearly full: above 90 % of its maxmemory new work is refused`) &&
			log.Has("server=Redis used_percent=9")
	})
	const warning = `"warnings":["Redis uses more than 90 % of its maxmemory: new work is refused"]`
	if body := r.readiness(); !strings.Contains(body, warning) {
		t.Errorf("readyz: %s", body)
	}
	testkit.Must(t, server.Admin().Del(t.Context(), "filler").Err())
	testkit.Eventually(t, "it says that there is room", func() bool {
		return log.Has(`level=INFO msg="Redis has room again: new work is accepted"`)
	})
	if body := r.readiness(); strings.Contains(body, "warnings") || log.Count("Redis is nearly full") != 1 {
		t.Errorf("readyz: %s; told %d times", body, log.Count("Redis is nearly full"))
	}
}

// A server that does not answer, or that holds nothing any more, says nothing new.
func TestShortages_KeepWhatIsKnownOfASilentServer(t *testing.T) {
	t.Parallel()
	evicts := redisx.Memory{Policy: "allkeys-lru", Limit: 1 << 30}
	both := map[string]redis.Cmdable{"a:1": nil, "b:1": nil}
	var s shortages
	if before := s.set(map[string]redisx.Memory{"a:1": evicts}, both); len(before) > 0 {
		t.Errorf("before the first look it knows %v", before)
	}
	if before := s.set(nil, both); before["a:1"].policy != "allkeys-lru" || before["b:1"] != (shortage{}) {
		t.Errorf("after the first look it knows %v", before)
	}
	if all := s.warnings(); len(all) != 1 || !strings.HasPrefix(all[0], "a:1 evicts keys") {
		t.Errorf("while it does not answer: %v", all)
	}
	delete(both, "a:1")
	if s.set(nil, both); len(s.warnings()) != 0 {
		t.Errorf("when it holds nothing any more: %v", s.warnings())
	}
}

func TestMemory_TellsEvictionOnlyWithALimit(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	testkit.Must(t, server.Admin().ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err())
	r, log := watching(t, settings(server.URL()))
	if body := r.readiness(); strings.Contains(body, "warnings") || log.Has("evicts") {
		t.Errorf("it warns of a Redis without maxmemory: %s", body)
	}
	testkit.Must(t, server.Admin().ConfigSet(t.Context(), "maxmemory", "1gb").Err())
	testkit.Eventually(t, "it warns of one with it", func() bool { return log.Has("maxmemory_policy=allkeys-lru") })
}

// A managed Redis refuses CONFIG.
func TestMemory_TellsEvictionWithoutConfig(t *testing.T) {
	t.Parallel()
	rights := redistest.User("dts", "~*", "&*", "+@all", "-config")
	server := redistest.Start(t, rights, redistest.With("--maxmemory", "1gb", "--maxmemory-policy", "allkeys-lfu"))
	if _, log := watching(t, settings(server.URL())); !log.Has("maxmemory_policy=allkeys-lfu") {
		t.Error("it does not say so")
	}
}

func TestMemory_TellsEvictionOfEachServerOfACluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	one := c.Primary("dts:{0}:states")
	evicting(t, one, "allkeys-lru")
	r, log := watching(t, settings(c.URL()))
	if !log.Has("server="+one.Addr()+" maxmemory_policy=allkeys-lru") || log.Count("Redis evicts keys") != 1 {
		t.Errorf("it has said so %d times", log.Count("Redis evicts keys"))
	}
	if body := r.readiness(); !strings.Contains(body, `"warnings":["`+one.Addr()+" evicts keys when it is full") {
		t.Errorf("readyz: %s", body)
	}
}
