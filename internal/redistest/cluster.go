package redistest

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/testkit"
)

const (
	shards = 3 // each is a primary and a replica
	slots  = 16384
	// nodeTimeout is how long, in ms, a server may stay silent until the others take it for dead.
	nodeTimeout = 2000
	// busDistance is by how much the port is higher on which a server of a cluster talks with the others.
	busDistance = 10000
)

// Cluster is a Redis Cluster of three primaries, each with a replica. It ends with the test.
type Cluster struct {
	t       testing.TB
	Servers []*Server // at the start, the first three are the primaries
}

// StartCluster starts the servers with the options, and waits until all of them say that the cluster is complete.
func StartCluster(t testing.TB, opts ...Option) *Cluster {
	t.Helper()
	testkit.NotQuick(t)
	c := &Cluster{t: t}
	opts = append([]Option{With(
		"--cluster-enabled", "yes", "--cluster-node-timeout", fmt.Sprint(nodeTimeout),
		"--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1",
	)}, opts...)
	for range 2 * shards {
		c.Servers = append(c.Servers, startAt(t, freeBusPort, opts))
	}
	c.assemble()
	return c
}

// assemble gives the first servers the slots, introduces all servers to each other, and makes the others replicas.
func (c *Cluster) assemble() {
	c.t.Helper()
	ctx := c.t.Context()
	for i, s := range c.Servers {
		testkit.Must(c.t, s.Admin().Do(ctx, "cluster", "set-config-epoch", i+1).Err())
		testkit.Must(c.t, c.Servers[0].Admin().Do(ctx, "cluster", "meet", host, s.knownPort(), s.port+busDistance).Err())
		if i < shards {
			testkit.Must(c.t, s.Admin().ClusterAddSlotsRange(ctx, i*slots/shards, (i+1)*slots/shards-1).Err())
		}
	}
	c.eventually("all servers know each other", func(s *Server) bool { return clusterInfo(s, "cluster_known_nodes:6") })
	for i, replica := range c.Servers[shards:] {
		primary := c.Servers[i].id()
		testkit.Eventually(c.t, "a replica knows its primary", func() bool { return replica.Admin().ClusterReplicate(ctx, primary).Err() == nil })
	}
	c.eventually("every server knows all shards", (*Server).knowsShards)
}

func (c *Cluster) eventually(what string, holds func(*Server) bool) {
	c.t.Helper()
	for _, s := range c.Servers {
		testkit.Eventually(c.t, what, func() bool { return holds(s) })
	}
}

// knowsShards reports whether a server sees the cluster as complete, and follows its primary if it is a replica.
func (s *Server) knowsShards() bool {
	found := s.Admin().ClusterSlots(s.t.Context()).Val() //nolint:staticcheck // a Redis before 7.0 knows no CLUSTER SHARDS
	for _, shard := range found {
		if len(shard.Nodes) != 2 {
			return false
		}
	}
	return len(found) == shards && clusterInfo(s, "cluster_state:ok") && !strings.Contains(info(s.t, s, "replication"), "master_link_status:down")
}

func clusterInfo(s *Server, text string) bool {
	return strings.Contains(s.Admin().ClusterInfo(s.t.Context()).Val(), text)
}

// id is the name of a server in its cluster.
func (s *Server) id() string {
	s.t.Helper()
	id, err := s.Admin().ClusterMyID(s.t.Context()).Result()
	testkit.Must(s.t, err)
	return id
}

// URL is the address of the cluster as redisx.Open and --redis take it.
func (c *Cluster) URL() string {
	hosts := make([]string, len(c.Servers))
	for i, s := range c.Servers {
		hosts[i] = s.knownAddr()
	}
	return c.Servers[0].urlOf("redis+cluster", strings.Join(hosts, ","), url.Values{})
}

// Primary returns the server that most servers take for the one that holds a key.
func (c *Cluster) Primary(key string) *Server {
	c.t.Helper()
	return elected(c.t, c.Servers, c.holders(c.slot(key)))
}

// holders counts, by address, how many servers take one for the holder of a slot.
func (c *Cluster) holders(slot int) map[string]int {
	c.t.Helper()
	votes := map[string]int{}
	for _, s := range c.Servers {
		for _, shard := range s.Admin().ClusterSlots(c.t.Context()).Val() { //nolint:staticcheck // as above
			if shard.Start <= slot && slot <= shard.End {
				votes[shard.Nodes[0].Addr]++
			}
		}
	}
	return votes
}

// Settle waits until no server takes another one for dead: until then a replica can take over, also from one that is there again.
func (c *Cluster) Settle(*Server) {
	c.t.Helper()
	c.eventually("no failover goes on", func(s *Server) bool {
		nodes, err := s.Admin().ClusterNodes(c.t.Context()).Result()
		return err == nil && !takenForDead.MatchString(nodes)
	})
}

// takenForDead matches the flags of a server in a line of CLUSTER NODES.
var takenForDead = regexp.MustCompile(`(?m)^\S+ \S+ (\S+,)?fail\??(,\S+)? `)

// Other returns a primary that does not hold a key.
func (c *Cluster) Other(key string) *Server {
	c.t.Helper()
	holds := c.Primary(key)
	for _, s := range c.Servers {
		if s != holds && strings.Contains(info(c.t, s, "replication"), "role:master") {
			return s
		}
	}
	c.t.Fatalf("%s is the only primary that answers", holds.Addr())
	return nil
}

// slot returns the slot of a key, by any server that answers.
func (c *Cluster) slot(key string) int {
	c.t.Helper()
	var err error
	for _, s := range c.Servers {
		var slot int64
		if slot, err = s.Admin().ClusterKeySlot(c.t.Context(), key).Result(); err == nil {
			return int(slot)
		}
	}
	c.t.Fatalf("no server of the cluster answers: %v", err)
	return 0
}

// manualFailover is a while more than after what time Redis gives up a failover that it was told to make.
const manualFailover = 6 * time.Second

// Failover makes a replica of the server that holds a key the primary in its place, and waits until the others know.
func (c *Cluster) Failover(key string) {
	c.t.Helper()
	replica := c.replica(c.Primary(key))
	var asked time.Time
	testkit.Eventually(c.t, "the replica takes over", func() bool {
		if clock.Since(asked) > manualFailover && replica.follows() {
			asked = clock.Now()
			_ = replica.Admin().ClusterFailover(c.t.Context()) // it ends without one if not all servers know who is who yet
		}
		return c.Primary(key) == replica
	})
}

// replica returns the replica of a primary.
func (c *Cluster) replica(primary *Server) *Server {
	c.t.Helper()
	var replicas []string
	testkit.Eventually(c.t, "a replica, as a primary that has been replaced becomes one", func() bool {
		var err error
		replicas, err = primary.Admin().Do(c.t.Context(), "cluster", "replicas", primary.id()).StringSlice()
		return err == nil && len(replicas) > 0
	})
	address, _, _ := strings.Cut(strings.Fields(replicas[0])[1], "@")
	return elected(c.t, c.Servers, map[string]int{address: 1})
}

// Migration is the way of a slot from one server of a cluster to another one.
type Migration struct {
	c        *Cluster
	slot     int
	from, to *Server
}

// Move moves the slot of a key, with all keys in it, to another primary.
func (c *Cluster) Move(key string, to *Server) {
	c.t.Helper()
	m := c.BeginMove(key, to)
	for m.MoveKeys(100) > 0 {
		continue
	}
	m.End()
}

// BeginMove has both servers know that the slot of a key is about to move to another primary. From then on, the keys that are not at
// the old server any more are asked for at the new one.
func (c *Cluster) BeginMove(key string, to *Server) *Migration {
	c.t.Helper()
	m := &Migration{c: c, slot: c.slot(key), from: c.Primary(key), to: to}
	m.set(to, "importing", m.from.id())
	m.set(m.from, "migrating", to.id())
	return m
}

// MoveKeys moves up to n keys of the slot, and returns how many it moved.
func (m *Migration) MoveKeys(n int) int {
	m.c.t.Helper()
	keys, err := m.from.Admin().ClusterGetKeysInSlot(m.c.t.Context(), m.slot, n).Result()
	testkit.Must(m.c.t, err)
	m.MoveOnly(keys...)
	return len(keys)
}

// MoveOnly moves these keys of the slot.
func (m *Migration) MoveOnly(keys ...string) {
	m.c.t.Helper()
	if len(keys) == 0 {
		return
	}
	migrate := []any{"migrate", host, m.to.port, "", 0, 5000}
	if m.from.user != "" {
		migrate = append(migrate, "auth", secret)
	}
	migrate = append(migrate, "keys")
	for _, key := range keys {
		migrate = append(migrate, key)
	}
	testkit.Must(m.c.t, m.from.Admin().Do(m.c.t.Context(), migrate...).Err())
}

// End has the cluster know that the slot is at its new server, and waits until all servers that answer know it: replicas hear of it
// from the others. Keys that have not been moved are lost.
func (m *Migration) End() {
	m.c.t.Helper()
	id := m.to.id()
	m.set(m.to, "node", id)
	for _, s := range m.c.Servers {
		if s != m.to && strings.Contains(info(m.c.t, s, "replication"), "role:master") {
			m.set(s, "node", id)
		}
	}
	testkit.Eventually(m.c.t, "the cluster agrees on the new server", func() bool {
		votes := m.c.holders(m.slot)
		return len(votes) == 1 && votes[m.to.knownAddr()] > 0
	})
}

func (m *Migration) set(at *Server, what, id string) {
	m.c.t.Helper()
	testkit.Must(m.c.t, at.Admin().Do(m.c.t.Context(), "cluster", "setslot", m.slot, what, id).Err())
}

// freeBusPort finds a port that is free together with the one on which a server of a cluster talks with the others.
func freeBusPort(t testing.TB) int {
	t.Helper()
	for range portTries {
		port := FreePort(t)
		bus := port + busDistance
		if bus > highestPort {
			continue
		}
		if l, err := listenOn(t, bus); err == nil {
			testkit.Must(t, l.Close())
			return port
		}
	}
	t.Fatalf("no free port with its bus port after %d tries", portTries)
	return 0
}
