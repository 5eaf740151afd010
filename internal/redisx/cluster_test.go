package redisx_test

import (
	"cmp"
	"context"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
	"github.com/dts-sched/dts/lua/contract"
)

// anyCall is a call of any script. Its arguments are missing, so it is for a Redis that does not run it.
type anyCall struct {
	script *lua.Script
	keys   []string
}

func (c anyCall) Script() *lua.Script      { return c.script }
func (c anyCall) Keys() []string           { return c.keys }
func (c anyCall) Args() []any              { return nil }
func (c anyCall) Decode(*lua.Reply) string { return "ran" }

// callsBySlot are calls of all scripts, with the keys that their headers declare, by the slot of their keys.
func callsBySlot(t *testing.T, db *redisx.DB) map[int64][]anyCall {
	t.Helper()
	library, err := contract.Load(os.DirFS("../../lua"))
	testkit.Must(t, err)
	patterns := map[string]string{}
	for _, kind := range contract.Keys {
		patterns[kind.Name] = kind.Pattern
	}
	calls := map[int64][]anyCall{}
	for _, name := range library.Names() {
		call := anyCall{script: lua.ByName(name)}
		for _, key := range library.Scripts[name].Keys {
			call.keys = append(call.keys, cmp.Or(patterns[key.Name], "dts:{p}:wheel")) // read_page reads any sorted set
		}
		slot := db.ClusterKeySlot(t.Context(), call.keys[0]).Val()
		calls[slot] = append(calls[slot], call)
	}
	return calls
}

// While a slot moves, no script runs in it: it could find only some of the keys that it makes by itself.
func TestRun_RunsNoScriptInASlotThatMoves(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	db := redistest.Open(t, cluster.URL()+"?max_redirects=1") // enough to be sent to the new server
	for _, calls := range callsBySlot(t, db) {
		for _, call := range calls {
			for _, key := range call.keys {
				testkit.Must(t, db.Set(t.Context(), key, "x", 0).Err())
			}
		}
		slotOf := calls[0].keys[0]
		move := cluster.BeginMove(slotOf, cluster.Other(slotOf))
		expectTryAgain(t, db, "all keys are at the old server", calls)
		move.MoveOnly(calls[0].keys...)
		expectTryAgain(t, db, "some keys have moved", calls)
		for move.MoveKeys(100) > 0 {
			continue
		}
		expectTryAgain(t, db, "all keys have moved", calls)
		move.End()
		testkit.Eventually(t, "scripts run again", func() bool {
			_, err := redisx.Run(t.Context(), db, calls[0])
			return !redis.HasErrorPrefix(err, "TRYAGAIN")
		})
	}
}

func expectTryAgain(t *testing.T, db *redisx.DB, where string, calls []anyCall) {
	t.Helper()
	var running sync.WaitGroup
	for _, call := range calls {
		running.Go(func() {
			alone, err := redisx.Run(t.Context(), db, call)
			if !redis.HasErrorPrefix(err, "TRYAGAIN") {
				t.Errorf("%s: %s: %q, error %v", where, call.script.Name, alone, err)
			}
		})
	}
	running.Wait()
	for i, result := range redisx.RunEach(t.Context(), db, calls) {
		if !redis.HasErrorPrefix(result.Err, "TRYAGAIN") {
			t.Errorf("%s: %s in a pipeline: %q, error %v", where, calls[i].script.Name, result.Reply, result.Err)
		}
	}
}

// When a server of a cluster has died, its replica is asked as soon as it has taken over. By default, go-redis would go on to ask the dead
// one for up to a minute.
func TestOpen_AsksTheReplicaThatTookOver(t *testing.T) {
	t.Parallel()
	for name, failFast := range map[string]bool{"patient": false, "fail fast": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := redistest.StartCluster(t)
			db, err := redisx.Open(t.Context(), redisx.Options{URL: cluster.URL(), FailFast: failFast})
			testkit.Must(t, err)
			t.Cleanup(func() { _ = db.Close() })
			testkit.Must(t, db.Set(t.Context(), "k", "v", 0).Err())
			cluster.Primary("k").Kill()
			testkit.Eventually(t, "the replica answers", func() bool { return db.Get(t.Context(), "k").Val() == "v" })
		})
	}
}

// A client asks any server for the map of the cluster. It must not wait for one that is silent as long as for an answer about data.
func TestOpen_ReadsTheMapWhileAServerIsSilent(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	db, err := redisx.Open(t.Context(), redisx.Options{URL: cluster.URL() + "?read_timeout=10m"})
	testkit.Must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	client, ok := db.UniversalClient.(*redis.ClusterClient)
	if !ok {
		t.Fatalf("it is a %T", db.UniversalClient)
	}
	silent := cluster.Primary("k")
	silent.Pause()
	t.Cleanup(silent.Continue)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range 20 { // each reads the map, and some ask the silent server first
		testkit.Must(t, client.ForEachShard(ctx, func(context.Context, *redis.Client) error { return nil }))
	}
	if ctx.Err() != nil {
		t.Error("it waited for the answer of the silent server")
	}
}

func TestRunReplicated_WaitsForTheReplicasOfEachServer(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	db := redistest.Open(t, cluster.URL())
	var calls []lua.Confirm
	servers := make(map[string]bool)
	for p := range 16 {
		key := lua.NewKeyspace("", 0).Partition(p).Confirmed()
		calls = append(calls, lua.Confirm{Confirmed: key})
		servers[cluster.Primary(string(key)).Addr()] = true
	}
	if len(servers) < 2 {
		t.Fatal("all keys are on one server")
	}
	for replicas, confirmed := range map[int]bool{1: true, 2: false} { // each server has one
		d := config.Durability{Replicas: replicas, Timeout: time.Second}
		for p, result := range redisx.RunReplicated[lua.ConfirmReply](t.Context(), db, d, calls) {
			if (result.Err == nil) != confirmed {
				t.Errorf("partition %d, %d replicas: %v, want confirmed: %t", p, replicas, result.Err, confirmed)
			}
		}
	}
}
