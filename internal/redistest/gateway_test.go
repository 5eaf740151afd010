package redistest_test

import (
	"context"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/testkit"
)

const one, another = "one", "another"

// callers knows which client has opened a connection.
type callers struct {
	mu    sync.Mutex // held while a client opens one: who asks for it waits
	names map[string]string
}

// dialer is how a client opens its connections.
func (c *callers) dialer(name string) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		var d net.Dialer
		conn, err := d.DialContext(ctx, network, addr)
		if err == nil {
			c.names[conn.LocalAddr().String()] = name
		}
		return conn, err
	}
}

func (c *callers) of(conn net.Conn) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.names[conn.RemoteAddr().String()]
}

func TestGated_BreaksTheWayOfOneClientToOneServerOfACluster(t *testing.T) {
	t.Parallel()
	known := callers{names: make(map[string]string)}
	c := redistest.StartCluster(t, redistest.Gated(known.of))
	clients := make(map[string]*redis.ClusterClient)
	for _, name := range []string{one, another} {
		clients[name] = redis.NewClusterClient(&redis.ClusterOptions{Addrs: hosts(t, c.URL()), Dialer: known.dialer(name), MaxRetries: -1, MaxRedirects: 1})
		t.Cleanup(func() { _ = clients[name].Close() })
	}
	works := func(name, key string) bool { return clients[name].Set(t.Context(), key, "v", 0).Err() == nil }
	check := func(oneWorks bool) {
		t.Helper()
		for _, k := range []struct {
			name, key string
			want      bool
		}{{one, "k", oneWorks}, {one, "other", true}, {another, "k", true}, {another, "other", true}} {
			if got := works(k.name, k.key); got != k.want {
				t.Errorf("%s writes %s: %t, want %t", k.name, k.key, got, k.want)
			}
		}
	}

	if c.Primary("k") == c.Primary("other") {
		t.Fatal("both keys are on one server")
	}
	check(true)
	c.Primary("k").Way(one).Cut()
	check(false)
	c.Primary("k").Way(one).Mend()
	check(true)
	c.Failover("k")
	testkit.Eventually(t, "clients know the new primary", func() bool { return works(one, "k") && works(another, "k") })
	c.Move("k", c.Other("k"))
	testkit.Eventually(t, "clients know where the slot is", func() bool { return works(one, "k") && works(another, "k") })
	c.Primary("k").Way(one).Cut()
	if works(one, "k") || !works(another, "k") {
		t.Error("a way that is broken is not that of the one client to the server that has the slot now")
	}
}

func TestGated_BreaksTheWayOfOneClientToThePrimary(t *testing.T) {
	t.Parallel()
	known := callers{names: make(map[string]string)}
	s := redistest.StartSentinel(t, redistest.Gated(known.of))
	clients := make(map[string]*redis.Client)
	for _, name := range []string{one, another} {
		clients[name] = redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: "mymaster", SentinelAddrs: hosts(t, s.URL()), Dialer: known.dialer(name), MaxRetries: -1,
		})
		t.Cleanup(func() { _ = clients[name].Close() })
	}
	works := func(name string) bool { return clients[name].Set(t.Context(), "k", "v", 0).Err() == nil }

	if !works(one) || !works(another) {
		t.Fatal("clients do not reach the primary")
	}
	s.Primary().Way(one).Cut()
	if works(one) || !works(another) {
		t.Error("the way that is broken is not that of the one client")
	}
	s.Primary().Way(one).Mend()
	s.Failover()
	testkit.Eventually(t, "clients know the new primary", func() bool { return works(one) && works(another) })
	s.Primary().Way(one).Cut()
	if works(one) || !works(another) {
		t.Error("the way that is broken is not that of the one client to the new primary")
	}
}

// hosts are the addresses in the URL of a deployment.
func hosts(t *testing.T, deployment string) []string {
	t.Helper()
	u, err := url.Parse(deployment)
	testkit.Must(t, err)
	return strings.Split(u.Host, ",")
}
