package app

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/layout"
)

// memoryLimit is for the answers to a look at the memory of the servers of Redis.
const memoryLimit = time.Second

// shortage is what is wrong with the memory of a server of Redis.
type shortage struct {
	policy, loses string  // by which it evicts keys when it is full, and what; "" if it does not
	full          bool    // it refuses new work
	inUse         float64 // of its maxmemory, 0 without one
}

func shortageOf(m redisx.Memory) shortage {
	s := shortage{full: m.InUse() > layout.NearlyFull, inUse: m.InUse()}
	if m.Limit > 0 && m.Loses() != "" {
		s.policy, s.loses = m.Policy, m.Loses()
	}
	return s
}

// shortages are those of the servers of Redis. The zero value is ready for use.
type shortages struct {
	mu      sync.Mutex
	servers map[string]shortage // by address; "" if Redis is no cluster
}

// set notes what servers have answered; of the others it keeps what is known. It returns what was known before.
func (s *shortages) set(
	answers map[string]redisx.Memory, servers map[string]redis.Cmdable,
) (before map[string]shortage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, now := s.servers, make(map[string]shortage)
	for address := range servers {
		if m, answered := answers[address]; answered {
			now[address] = shortageOf(m)
		} else {
			now[address] = known[address]
		}
	}
	s.servers = now
	return known
}

// warnings says what is wrong, for /readyz.
func (s *shortages) warnings() (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, address := range slices.Sorted(maps.Keys(s.servers)) {
		name, of := serverName(address), s.servers[address]
		if of.policy != "" {
			all = append(all, fmt.Sprintf("%s evicts keys when it is full (maxmemory-policy %s), and loses %s",
				name, of.policy, of.loses))
		}
		if of.full {
			all = append(all, fmt.Sprintf("%s uses more than %.0f %% of its maxmemory: new work is refused",
				name, 100*layout.NearlyFull))
		}
	}
	return all
}

// inUse is the largest share of its maxmemory that a server uses; 0 if none has one, or none has answered yet.
func (s *shortages) inUse() (share float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, of := range s.servers {
		share = max(share, of.inUse)
	}
	return share
}

// serverName is how people read the address of a server, which is "" where there is only one.
func serverName(address string) string { return cmp.Or(address, "Redis") }

// watchMemory notices changes of the settings and the use of the memory of Redis, until ctx ends.
func (a *App) watchMemory(ctx context.Context) error {
	for clock.Sleep(ctx, a.dataPause) == nil {
		a.lookAtMemory(ctx)
	}
	return nil
}

// lookAtMemory says so once if a server of Redis evicts keys when it is full, and if it is nearly full, and once when
// that is over. Of a server that does not answer, it says nothing.
func (a *App) lookAtMemory(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, memoryLimit)
	defer cancel()
	servers, err := a.holders(ctx)
	if err != nil {
		return
	}
	answers := readMemories(ctx, servers)
	before := a.shortages.set(answers, servers)
	for address, m := range answers {
		now := shortageOf(m)
		a.tellEviction(address, before[address], now)
		a.tellFull(address, before[address], now, m)
	}
}

func (a *App) tellEviction(address string, before, now shortage) {
	switch {
	case now.policy == before.policy:
	case now.policy == "":
		a.o.Log.Info("Redis does not evict keys any more", "server", serverName(address))
	default:
		a.o.Log.Error("Redis evicts keys when it is full, and so loses what DTS keeps there: set maxmemory-policy noeviction",
			"server", serverName(address), "maxmemory_policy", now.policy, "loses", now.loses)
	}
}

func (a *App) tellFull(address string, before, now shortage, m redisx.Memory) {
	attributes := []any{"server", serverName(address), "used_percent", int(100 * m.InUse())}
	switch {
	case now.full == before.full:
	case now.full:
		a.o.Log.Warn(fmt.Sprintf("Redis is nearly full: above %.0f %% of its maxmemory new work is refused, "+
			"above %.0f %% ticks are held back: give it more memory, or keep less",
			100*layout.NearlyFull, 100*layout.AlmostFull), attributes...)
	default:
		a.o.Log.Info("Redis has room again: new work is accepted", attributes...)
	}
}

// holders are the servers of Redis that hold data of DTS, by address. Error: one of Redis.
func (a *App) holders(ctx context.Context) (map[string]redis.Cmdable, error) {
	keys := []string{string(a.store.Keys.Meta()), string(a.store.Keys.Nodes())}
	for p := range a.store.Layout.Partitions() {
		keys = append(keys, string(a.store.Keys.Partition(p).States()))
	}
	servers := make(map[string]redis.Cmdable)
	for _, key := range keys {
		server, address, err := a.store.DB.ServerOf(ctx, key)
		if err != nil {
			return nil, err
		}
		servers[address] = server
	}
	return servers, nil
}

// readMemories asks all servers at once. Those that do not answer are left out.
func readMemories(ctx context.Context, servers map[string]redis.Cmdable) map[string]redisx.Memory {
	var mu sync.Mutex
	var asking sync.WaitGroup
	answers := make(map[string]redisx.Memory)
	for address, server := range servers {
		asking.Go(func() {
			found, err := redisx.ReadMemory(ctx, server)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				answers[address] = found
			}
		})
	}
	asking.Wait()
	return answers
}
