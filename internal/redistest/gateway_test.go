package redistest_test

import (
	"context"
	"net"
	"net/url"
	"runtime"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/testkit"
)

// from has a client open its connections from an address of its own, by which gateways know it.
func from(address string) func(ctx context.Context, network, addr string) (net.Conn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	return d.DialContext
}

const one, another = "127.0.0.2", "127.0.0.3"

// byAddress skips the test where there is only one address of this machine.
func byAddress(t *testing.T) redistest.Option {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has the addresses by which the test tells clients apart")
	}
	return redistest.Gated(func(c net.Conn) string { return c.RemoteAddr().(*net.TCPAddr).IP.String() })
}

func TestGated_BreaksTheWayOfOneClientToOneServerOfACluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, byAddress(t))
	clients := make(map[string]*redis.ClusterClient)
	for _, address := range []string{one, another} {
		clients[address] = redis.NewClusterClient(&redis.ClusterOptions{Addrs: hosts(t, c.URL()), Dialer: from(address), MaxRetries: -1, MaxRedirects: 1})
		t.Cleanup(func() { _ = clients[address].Close() })
	}
	works := func(address, key string) bool { return clients[address].Set(t.Context(), key, "v", 0).Err() == nil }
	check := func(oneWorks bool) {
		t.Helper()
		for _, k := range []struct {
			address, key string
			want         bool
		}{{one, "k", oneWorks}, {one, "other", true}, {another, "k", true}, {another, "other", true}} {
			if got := works(k.address, k.key); got != k.want {
				t.Errorf("%s writes %s: %t, want %t", k.address, k.key, got, k.want)
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
	s := redistest.StartSentinel(t, byAddress(t))
	clients := make(map[string]*redis.Client)
	for _, address := range []string{one, another} {
		clients[address] = redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: "mymaster", SentinelAddrs: hosts(t, s.URL()), Dialer: from(address), MaxRetries: -1,
		})
		t.Cleanup(func() { _ = clients[address].Close() })
	}
	works := func(address string) bool { return clients[address].Set(t.Context(), "k", "v", 0).Err() == nil }

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
