package app

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/testkit"
)

// refusals are what a Redis can say instead of doing what it is asked. begin has it say so, and returns what ends
// that.
var refusals = []struct {
	name  string
	begin func(t *testing.T, s *redistest.Server) (end func())
	says  []string // in the log
	up    bool     // dts_redis_up meanwhile
	ready bool     // and /readyz
	over  string   // in the log, at the end
}{
	{"a replica", replicate, []string{"READONLY it is a replica"}, false, false, "Redis back"},
	{"a replica that answers nothing", func(t *testing.T, s *redistest.Server) func() {
		set(t, s, "replica-serve-stale-data", "no")
		return replicate(t, s)
	}, []string{"READONLY it is a replica"}, false, false, "Redis back"},
	{"a user without rights", func(t *testing.T, s *redistest.Server) func() {
		acl(t, s, "-@all")
		return func() { acl(t, s, "+@all") }
	}, []string{"Redis unreachable", "NOPERM"}, false, false, "Redis back"},
	{"a user without keys", func(t *testing.T, s *redistest.Server) func() {
		acl(t, s, "resetkeys")
		return func() { acl(t, s, "~*") }
	}, []string{"Redis unreachable", "NOPERM"}, false, false, "Redis back"},
	{"a user without scripts", func(t *testing.T, s *redistest.Server) func() {
		acl(t, s, "-eval", "-evalsha")
		return func() { acl(t, s, "+@all") }
	}, []string{"Redis unreachable", "NOPERM"}, false, false, "Redis back"},
	{"a user who may not write", func(t *testing.T, s *redistest.Server) func() {
		acl(t, s, "-@write")
		return func() { acl(t, s, "+@all") }
	}, []string{"heartbeat failed", "The user executing the script"}, true, false, "heartbeat works again"},
	{"a snapshot that failed", failToSave, []string{"heartbeat failed", "MISCONF"}, true, false, "heartbeat works again"},
	{"replicas that are away", func(_ *testing.T, s *redistest.Server) func() {
		s.RefuseWrites()
		return s.TakeWrites
	}, []string{"heartbeat failed", "NOREPLICAS"}, true, false, "heartbeat works again"},
	{"no memory", func(t *testing.T, s *redistest.Server) func() {
		set(t, s, "maxmemory", "1")
		return func() { set(t, s, "maxmemory", "0") }
	}, []string{"Redis is nearly full"}, true, true, "Redis has room again"},
	{"too many clients", fillConnections,
		[]string{"Redis unreachable", "max number of clients"}, false, false, "Redis back"},
	{"a script that does not end", keepBusy, []string{"Redis unreachable", "BUSY"}, false, false, "Redis back"},
	{"data that is read from the disk", load, []string{"Redis unreachable", "LOADING"}, false, false, "Redis back"},
}

func set(t *testing.T, s *redistest.Server, name, value string) {
	t.Helper()
	testkit.Must(t, s.Admin().ConfigSet(t.Context(), name, value).Err())
}

func acl(t *testing.T, s *redistest.Server, rules ...any) {
	t.Helper()
	testkit.Must(t, s.Admin().Do(t.Context(), append([]any{"acl", "setuser", "dts"}, rules...)...).Err())
}

// replicate makes the server a replica of a primary that does not answer.
func replicate(t *testing.T, s *redistest.Server) (end func()) {
	testkit.Must(t, s.Admin().ReplicaOf(t.Context(), "127.0.0.1", "1").Err())
	return func() { testkit.Must(t, s.Admin().ReplicaOf(t.Context(), "NO", "ONE").Err()) }
}

// failToSave has a snapshot fail: it does not take the place of a directory.
func failToSave(t *testing.T, s *redistest.Server) (end func()) {
	admin := s.Admin()
	setting := func(name string) string { return admin.ConfigGet(t.Context(), name).Val()[name] }
	file := filepath.Join(setting("dir"), setting("dbfilename"))
	save := func(status string) {
		testkit.Must(t, admin.BgSave(t.Context()).Err())
		testkit.Eventually(t, "the snapshot is "+status, func() bool {
			return strings.Contains(admin.Info(t.Context(), "persistence").Val(), "rdb_last_bgsave_status:"+status)
		})
	}
	set(t, s, "save", "3600 1000000")
	testkit.Must(t, os.Mkdir(file, 0o700))
	save("err")
	return func() {
		testkit.Must(t, os.Remove(file))
		save("ok")
	}
}

// fillConnections lets the server have no more connections than the one that ends this, and closes the others.
func fillConnections(t *testing.T, s *redistest.Server) (end func()) {
	admin := s.Admin().Conn()
	do := func(args ...any) { testkit.Must(t, admin.Do(context.Background(), args...).Err()) }
	do("config", "set", "maxclients", "1")
	for _, kind := range []string{"normal", "pubsub"} {
		do("client", "kill", "type", kind, "skipme", "yes")
	}
	return func() {
		do("config", "set", "maxclients", "10000")
		_ = admin.Close()
	}
}

// keepBusy has the server run a script without end.
func keepBusy(t *testing.T, s *redistest.Server) (end func()) {
	set(t, s, "lua-time-limit", "50")
	ended := make(chan error, 1)
	other := s.DB(t)
	go func() {
		ended <- redis.NewScript("while true do end").Eval(t.Context(), other.UniversalClient, nil).Err()
	}()
	return func() {
		testkit.Eventually(t, "the script is killed", func() bool { return s.Admin().ScriptKill(t.Context()).Err() == nil })
		if err := testkit.Receive(t, ended, "the end of the script"); err == nil {
			t.Error("the script has ended by itself")
		}
	}
}

// load has the server read its data slowly.
func load(t *testing.T, s *redistest.Server) (end func()) {
	pipe := s.Admin().Pipeline()
	for i := range 3000 {
		pipe.Set(t.Context(), fmt.Sprint("filler-", i), strings.Repeat("x", 100), 0)
	}
	_, err := pipe.Exec(t.Context())
	testkit.Must(t, err)
	testkit.Must(t, s.Admin().Save(t.Context()).Err())
	restarted := make(chan struct{})
	s.Kill()
	go func() { defer close(restarted); s.Restart() }()
	return func() { testkit.Receive(t, restarted, "the start") }
}

// Whoever reads the log at its default level learns within seconds what Redis refuses, and when it works again.
func TestRefusals_AreToldAndTheirEnd(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	for _, refusal := range refusals {
		t.Run(refusal.name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, redistest.User("dts", "~*", "&*", "+@all"),
				redistest.With("--key-load-delay", "1000", "--loading-process-events-interval-bytes", "1024"))
			r, log := watching(t, settings(s.URL()))
			before := log.Count(refusal.over) // a slow machine has outages, too
			end := refusal.begin(t, s)
			for _, text := range refusal.says {
				testkit.Eventually(t, "it says "+text, func() bool { return log.Has(text) })
			}
			testkit.Eventually(t, "dts_redis_up says so", func() bool { return r.link.Up() == refusal.up })
			testkit.Eventually(t, "readyz says so", func() bool { return r.ready() == refusal.ready })
			if log.Count(refusal.over) > before {
				t.Errorf("it says %q, and it is not", refusal.over)
			}
			end()
			testkit.Eventually(t, "it says that it is over", func() bool { return log.Count(refusal.over) > before })
			testkit.Eventually(t, "dts_redis_up is 1", func() bool { return r.link.Up() })
			testkit.Eventually(t, "new work is accepted", func() bool { // the node looks at the memory once a second
				status, _ := r.call(http.MethodPost, "/v1/tasks", `{"id":"after","type":"noop"}`)
				return status == http.StatusCreated
			})
			r.await("/v1/tasks/after", `"state":"succeeded"`)
		})
	}
}

// Redis answers all the time, and most scripts work: what some of them lack shows all the same.
func TestReadyz_TellsOfARightThatScriptsLack(t *testing.T) {
	t.Parallel()
	for name, rules := range map[string][]any{
		"no messages": {"-@pubsub"}, "no channels": {"resetchannels"}, "no keys of asynq": {"resetkeys", "~dts:*"},
		"no sorted sets": {"-@sortedset"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, redistest.User("dts", "~*", "&*", "+@all"))
			r, _ := watching(t, settings(s.URL()))
			testkit.Eventually(t, "it is ready", r.ready)
			acl(t, s, rules...)
			r.call(http.MethodPost, "/v1/tasks", `{"type":"noop"}`)
			testkit.Eventually(t, "readyz says so", func() bool {
				status, body := r.call(http.MethodGet, "/readyz", "")
				return status == http.StatusServiceUnavailable && strings.Contains(body, "a right that it needs")
			})
			if !r.link.Up() {
				t.Error("dts_redis_up is 0")
			}
		})
	}
}

// Nodes that have no password are refused in several ways, by the length of the command.
func TestRefusals_TellAPasswordWhereThereWasNone(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	r, log := watching(t, settings(s.URL()))
	admin := s.Admin().Conn()
	t.Cleanup(func() { _ = admin.Close() })
	testkit.Must(t, admin.ConfigSet(t.Context(), "requirepass", "new").Err())
	testkit.Must(t, admin.Do(t.Context(), "client", "kill", "type", "normal", "skipme", "yes").Err())
	testkit.Eventually(t, "it says so", func() bool { return log.Has("Redis unreachable") })
	for range 3 {
		status, _ := r.call(http.MethodPost, "/v1/tasks", `{"type":"noop"}`)
		if status != http.StatusServiceUnavailable || r.link.Up() {
			t.Errorf("a submission is answered with %d; up: %v", status, r.link.Up())
		}
	}
	if log.Has("Redis back") {
		t.Error("it says that Redis is back")
	}
	testkit.Must(t, admin.ConfigSet(t.Context(), "requirepass", "").Err())
	testkit.Eventually(t, "it says that it is over", func() bool { return log.Has("Redis back") })
	r.mustRun("after")
}

// All servers refuse everything while nobody has one of the slots, as after the loss of a server and its replicas.
func TestRefusals_TellAClusterThatLacksAPart(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	r, log := watching(t, settings(c.URL()))
	owner := c.Primary("nothing")
	slot := int(owner.Admin().ClusterKeySlot(t.Context(), "nothing").Val())
	testkit.Must(t, owner.Admin().ClusterDelSlots(t.Context(), slot).Err())
	for _, s := range c.Servers {
		if s != owner {
			testkit.Must(t, s.Admin().ClusterDelSlots(t.Context(), slot).Err())
		}
	}
	testkit.Eventually(t, "it says so", func() bool { return log.Has("CLUSTERDOWN") })
	testkit.Eventually(t, "dts_redis_up is 0", func() bool { return !r.link.Up() })
	if log.Has("Redis back") {
		t.Error("it says that Redis is back")
	}
	testkit.Must(t, owner.Admin().ClusterAddSlots(t.Context(), slot).Err())
	testkit.Eventually(t, "it says that it is over", func() bool { return log.Has("Redis back") })
	r.await("/metrics", "dts_redis_up 1")
	r.mustRun("after")
}
