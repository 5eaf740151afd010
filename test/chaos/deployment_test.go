package chaos

import (
	"context"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/layout"
)

// deployment is the Redis of a round.
type deployment interface {
	// way is the address of Redis for one member of the fleet, and the proxies to all of its servers; none: it reaches them without.
	way(t *testing.T, member string) (url string, network []*redistest.Proxy)
	// db is a client past all proxies.
	db(t *testing.T) *redisx.DB
	// server is the server that has a key.
	server(key string) *redistest.Server
	// all are all servers that may have data.
	all() []*redistest.Server
	// flags are those that members need with it.
	flags() []string
	// faults are those that only Redis of this shape can have.
	faults() []fault
}

// deployments by name, in the order in which rounds take turns.
var deployments = []namedDeployment{
	{"standalone", startStandalone},
	{"sentinel", startSentinel},
	{"cluster", startCluster},
	{"replica", startReplica},
	{"replica-wait", startDurable},
	{"sentinel-lossy", startLossySentinel},
	{"cluster-lossy", startLossyCluster},
}

type namedDeployment struct {
	name string
	// start starts it. Unless member is nil, and if it can, all connections to it go through proxies: member returns which member opened one.
	start func(t *testing.T, member func(net.Conn) string) deployment
}

// gated are options with which a server is reached as start says.
func gated(member func(net.Conn) string, opts ...redistest.Option) []redistest.Option {
	if member != nil {
		opts = append(opts, redistest.Gated(member))
	}
	return opts
}

// ways are the proxies by which a member reaches servers, if there are any.
func ways(member string, servers ...*redistest.Server) (all []*redistest.Proxy) {
	for _, s := range servers {
		if p := s.Way(member); p != nil {
			all = append(all, p)
		}
	}
	return all
}

// standalone is one server that writes everything to its append-only file before it answers, and whose clock jumps.
type standalone struct{ *redistest.Server }

func startStandalone(t *testing.T, _ func(net.Conn) string) deployment {
	return standalone{redistest.Start(t, redistest.AOF(), redistest.MovableClock(t))}
}

func (s standalone) way(t *testing.T, _ string) (string, []*redistest.Proxy) {
	p := redistest.NewProxy(t, s.Addr())
	return p.URL(), []*redistest.Proxy{p}
}

func (s standalone) db(t *testing.T) *redisx.DB      { return s.DB(t) }
func (s standalone) server(string) *redistest.Server { return s.Server }
func (s standalone) all() []*redistest.Server        { return []*redistest.Server{s.Server} }
func (s standalone) flags() []string                 { return nil }

func (s standalone) faults() []fault {
	return []fault{{name: "clock-jump", keepsRuns: true, longest: 9 * time.Second, harmRedis: func(ctx context.Context, r *round, h happening) {
		s.jump(ctx, r, time.Duration(h.size*float64(longestJump)).Truncate(time.Millisecond), h.lasts)
	}}}
}

// sentinel is a primary that writes only while it has a replica, two replicas, and three sentinels.
type sentinel struct{ *redistest.Sentinel }

func startSentinel(t *testing.T, member func(net.Conn) string) deployment {
	return startPatiently(t, gated(member)...)
}

// patience is how long a primary may be silent until sentinels replace it, unless a fault has it be silent: a busy machine must not be the reason, as
// what the primary took last may be lost then.
const patience = 4 * time.Second

func startPatiently(t *testing.T, opts ...redistest.Option) sentinel {
	s := redistest.StartSentinel(t, append(opts, redistest.AOF())...)
	s.SetPatience(patience)
	return sentinel{s}
}

func (s sentinel) way(_ *testing.T, member string) (string, []*redistest.Proxy) {
	return s.URL(), ways(member, slices.Concat(s.Servers, s.Sentinels)...)
}

func (s sentinel) db(t *testing.T) *redisx.DB      { return redistest.Open(t, s.URL()) }
func (s sentinel) server(string) *redistest.Server { return s.Primary() }
func (s sentinel) all() []*redistest.Server        { return s.Servers }
func (s sentinel) flags() []string                 { return nil }

func (s sentinel) faults() []fault {
	return []fault{{name: "failover", keepsRuns: true, away: true, always: true, harmRedis: func(context.Context, *round, happening) { s.Failover() }}}
}

// cluster has three primaries and a replica of each.
type cluster struct{ *redistest.Cluster }

func startCluster(t *testing.T, member func(net.Conn) string) deployment {
	return cluster{redistest.StartCluster(t, gated(member, redistest.AOF())...)}
}

func (c cluster) way(_ *testing.T, member string) (string, []*redistest.Proxy) {
	return c.URL(), ways(member, c.Servers...)
}

func (c cluster) db(t *testing.T) *redisx.DB          { return redistest.Open(t, c.URL()) }
func (c cluster) server(key string) *redistest.Server { return c.Primary(key) }
func (c cluster) all() []*redistest.Server            { return c.Servers }
func (c cluster) flags() []string                     { return nil }

func (c cluster) faults() []fault {
	return []fault{
		{name: "failover", keepsRuns: true, away: true, always: true, harmRedis: func(_ context.Context, _ *round, h happening) { c.Failover(h.key) }},
		{name: "slot-moves", keepsRuns: true, away: true, longest: 3 * time.Second, harmRedis: func(ctx context.Context, _ *round, h happening) {
			m := c.BeginMove(h.key, c.Other(h.key))
			m.MoveKeys(5)
			_ = clock.Sleep(ctx, h.lasts)
			for m.MoveKeys(100) > 0 {
				continue
			}
			m.End()
		}},
	}
}

// keyOf is a key that tells a partition, and what shares a server with it.
func keyOf(partition int) string {
	return fmt.Sprintf("dts:{%d}:lease", partition%layout.DefaultPartitions)
}
