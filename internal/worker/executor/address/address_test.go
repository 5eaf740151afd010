package address

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/worker/executor"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// check checks an address with a port, or port 80 of one without.
func check(t *testing.T, r *Rules, text string) error {
	t.Helper()
	if ip, err := netip.ParseAddr(text); err == nil {
		return r.Check(t.Context(), netip.AddrPortFrom(ip, 80))
	}
	return r.Check(t.Context(), netip.MustParseAddrPort(text))
}

func TestRules_KnowOtherFormsOfAnAddress(t *testing.T) {
	t.Parallel()
	a := New()
	testkit.Must(t, a.Deny.Set("127.0.0.0/8,::ffff:10.0.0.0/104,::ffff:192.168.0.1"))
	for _, text := range []string{
		"0.0.0.0", "::", "::ffff:0.0.0.0", "127.1.2.3", "::ffff:127.0.0.1", "10.1.2.3", "64:ff9b::a00:1",
		"192.168.0.1", "fe80::a9fe:a9fe", "fe80::a9fe:a9fe%eth0",
	} {
		if check(t, a, text) == nil {
			t.Errorf("%s may be called", text)
		}
	}
	for _, text := range []string{"192.168.0.2", "64:ff9b::c0a8:2", "2001:db8::1"} {
		testkit.Must(t, check(t, a, text))
	}
}

// A name may have addresses that are denied beside one that cannot be reached at the moment.
func TestRules_AreFinallyDeniedOnlyIfAllAre(t *testing.T) {
	t.Parallel()
	a := New()
	testkit.Must(t, a.Deny.Set("::1"))
	_, err := a.Dial(t.Context(), "tcp", "localhost:1")
	if err == nil || executor.IsPermanent(err) {
		t.Errorf("127.0.0.1 may be called and refuses: %v", err)
	}
	testkit.Must(t, a.Deny.Set("::1,127.0.0.0/8"))
	if _, err = a.Dial(t.Context(), "tcp", "localhost:1"); !executor.IsPermanent(err) {
		t.Errorf("both are denied: %v", err)
	}
}

func TestRules_DenyTheLinkAndCloudMetadata(t *testing.T) {
	t.Parallel()
	a := New()
	for _, text := range []string{
		"169.254.169.254", "169.254.0.1", "169.254.255.255", "169.254.42.42", "::ffff:169.254.1.1",
		"64:ff9b::a9fe:101", "64:ff9b:1::a9fe:101", "::ffff:0:a9fe:101",
		"64:ff9b:1:a9fe:a9:fe00::", "64:ff9b:1:a9:fe:a9fe::", "64:ff9b:1:0:a9:fea9:fe00::", "64:ff9b:1:ab00::a9fe:101",
		"2002:a9fe:a9fe::1", "fe80::1", "fe80::1%eth0", "febf::1", "fd00:ec2::254",
		"fd00:c1::a9fe:a9fe", "100.100.100.200", "192.0.0.192",
	} {
		if err := check(t, a, text); err == nil || !executor.IsPermanent(err) {
			t.Errorf("%s: %v, want a final error", text, err)
		}
	}
	for _, text := range []string{
		"169.253.255.255", "169.255.0.1", "fec0::1", "64:ff9b::a00:1", "64:ff9b:1::a00:1", "64:ff9b:2:a9fe:a9:fe00::",
		"2002:a00:1::1", "10.0.0.1", "127.0.0.1", "::1",
	} {
		testkit.Must(t, check(t, a, text))
	}
	testkit.Must(t, a.Allow.Set("169.254.1.0/24,fe80::1"))
	for _, text := range []string{"169.254.1.1", "::ffff:169.254.1.1", "fe80::1%eth0"} {
		testkit.Must(t, check(t, a, text))
	}
}

// own makes rules that protect a Redis, an API and profiles.
func own(t *testing.T) *Rules {
	t.Helper()
	r := New()
	r.LookUp = func(_ context.Context, _, host string) ([]netip.Addr, error) {
		if host == "redis.test" {
			return []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("::ffff:127.0.0.1")}, nil
		}
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	r.Protect(func() []executor.Endpoint {
		servers := []string{"redis.test:6379", "[2001:db8::1]:6380", "gone.test:6390"}
		return append(executor.RedisEndpoints("the Redis of DTS", servers),
			executor.Endpoint{Part: "the API of this node", Address: "[::]:8080", Setting: "http-allow-api"},
			executor.Endpoint{Part: "the profiles of this node", Address: "127.0.0.1:6060"})
	})
	return r
}

func TestRules_DenyTheInstallationItself(t *testing.T) {
	t.Parallel()
	r := own(t)
	for _, text := range []string{
		"192.0.2.1:6379", "127.0.0.1:6379", "127.9.9.9:6379", "[::1]:6379", "0.0.0.0:6379", "[::]:6379",
		"[::ffff:127.0.0.1]:6379", "[::ffff:192.0.2.1]:6379", "[64:ff9b::c000:201]:6379", "[64:ff9b:1::c000:201]:6379",
		"[2001:db8::1]:6380", "127.0.0.1:8080", "127.0.0.2:8080", "[::1]:8080", "[::1%lo]:8080", "0.0.0.0:8080",
		"127.0.0.1:6060", "0.0.0.0:6060", "[::]:6060",
	} {
		err := check(t, r, text)
		if err == nil || !executor.IsPermanent(err) || !strings.Contains(err.Error(), " listens there; --http-allow") {
			t.Errorf("%s: %v, want a final error", text, err)
		}
	}
	for _, text := range []string{
		"203.0.113.2:6379", "192.0.2.1:6378", "127.0.0.1:6380", "127.0.0.1:80", "127.0.0.2:6060", "203.0.113.9:8080",
	} {
		testkit.Must(t, check(t, r, text))
	}
	if err := check(t, r, "203.0.113.1:6390"); err == nil || executor.IsPermanent(err) {
		t.Errorf("a Redis whose name cannot be looked up: %v, want an error that is not final", err)
	}
}

func TestRules_DenyOtherNodes(t *testing.T) {
	t.Parallel()
	here := []netip.Addr{netip.MustParseAddr("198.51.100.3")}
	away := []netip.Addr{netip.MustParseAddr("198.51.100.1"), netip.MustParseAddr("2001:db8::2")}
	r := New()
	r.Protect(func() []executor.Endpoint {
		return []executor.Endpoint{
			{Part: "api", Address: "[::]:8080", Also: away, Away: true},
			{Part: "profiles", Address: "127.0.0.1:6060", Away: true},
			{Part: "api", Address: "0.0.0.0:8081", Also: here}, {Part: "profiles", Address: "127.0.0.1:6061"},
			{Part: "api", Address: "198.51.100.9:8082", Away: true}, {Part: "api", Address: "0.0.0.0:8083", Away: true},
			{Part: "api", Address: "198.51.100.9:8084", Also: away, Away: true},
		}
	})
	for _, text := range []string{
		"198.51.100.1:8080", "[2001:db8::2]:8080", "[64:ff9b::c633:6401]:8080", "198.51.100.3:8081", "127.0.0.1:8081",
		"[::1]:8081", "0.0.0.0:8081", "127.0.0.1:6061", "0.0.0.0:6061", "198.51.100.9:8082", "198.51.100.1:8084",
	} {
		if err := check(t, r, text); err == nil || !executor.IsPermanent(err) {
			t.Errorf("%s: %v, want a final error", text, err)
		}
	}
	for _, text := range []string{
		"127.0.0.1:8080", "198.51.100.2:8080", "198.51.100.1:8081", "127.0.0.1:6060", "127.0.0.2:6061", "198.51.100.1:8082",
		"0.0.0.0:6060", "127.0.0.1:8083", "0.0.0.0:8083", "[::]:8083",
	} {
		testkit.Must(t, check(t, r, text))
	}
}

// Bridges of containers have the same address on many machines.
func TestRules_DenyNoAddressOfThisMachineForOthers(t *testing.T) {
	t.Parallel()
	all, err := net.InterfaceAddrs()
	testkit.Must(t, err)
	shared := []netip.Addr{netip.MustParseAddr("198.51.100.1")}
	for _, one := range all {
		if ip := netip.MustParsePrefix(one.String()).Addr(); !ip.IsLinkLocalUnicast() {
			shared = append(shared, ip)
		}
	}
	r := New()
	r.Protect(func() []executor.Endpoint {
		found := []executor.Endpoint{{Part: "api", Address: "0.0.0.0:8080", Also: shared, Away: true}}
		for _, ip := range shared {
			at := netip.AddrPortFrom(ip, 8081).String()
			found = append(found, executor.Endpoint{Part: "api", Address: at, Away: true})
		}
		return found
	})
	for _, port := range []uint16{8080, 8081} {
		for i, ip := range append(shared, netip.MustParseAddr("127.0.0.1"), netip.IPv6Loopback()) {
			at := netip.AddrPortFrom(ip, port)
			if err := r.Check(t.Context(), at); (err != nil) != (i == 0) {
				t.Errorf("%s: %v", at, err)
			}
		}
	}
}

// Whoever cannot tell what is here denies all that another node has, and all that may be the node itself.
func TestRules_DenyMoreIfTheMachineIsUnknown(t *testing.T) {
	t.Parallel()
	here := func() addresses { return addresses{unknown: true} }
	one := netip.MustParseAddr("192.0.2.1")
	for name, c := range map[string]struct {
		to, listens string
		e           executor.Endpoint
		want        bool
	}{
		"its own":         {"192.0.2.1", "0.0.0.0", executor.Endpoint{}, true},
		"other node":      {"192.0.2.1", "0.0.0.0", executor.Endpoint{Away: true, Also: []netip.Addr{one}}, true},
		"other address":   {"192.0.2.2", "0.0.0.0", executor.Endpoint{Away: true, Also: []netip.Addr{one}}, false},
		"other loopback":  {"127.0.0.1", "127.0.0.1", executor.Endpoint{Away: true}, false},
		"Redis elsewhere": {"192.0.2.1", "192.0.2.2", executor.Endpoint{Machine: true}, true},
	} {
		if got := leadsTo(netip.MustParseAddr(c.to), netip.MustParseAddr(c.listens), c.e, here); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}

func TestRules_DenyEveryAddressOfTheMachine(t *testing.T) {
	t.Parallel()
	r := own(t)
	all, err := net.InterfaceAddrs()
	testkit.Must(t, err)
	for _, one := range all {
		ip := netip.MustParsePrefix(one.String()).Addr()
		if at := netip.AddrPortFrom(ip, 6379); !ip.IsLinkLocalUnicast() && r.Check(t.Context(), at) == nil {
			t.Errorf("%s may be called, and the Redis is on this machine", at)
		}
	}
}

// Who allows a network does not mean to open the Redis in it.
func TestRules_OpenTheInstallationByPortOnly(t *testing.T) {
	t.Parallel()
	r := own(t)
	testkit.Must(t, r.Allow.Set("127.0.0.0/8,192.0.2.1"))
	for _, text := range []string{"127.0.0.1:6379", "192.0.2.1:6379", "127.0.0.1:8080"} {
		if check(t, r, text) == nil {
			t.Errorf("%s may be called", text)
		}
	}
	testkit.Must(t, r.Allow.Set("127.0.0.1:6379,127.0.0.0/8:8080,[::1]:8080"))
	testkit.Must(t, r.Deny.Set("127.0.0.0/8,::1"))
	for _, text := range []string{"127.0.0.1:6379", "127.0.0.2:8080", "[::1]:8080", "[::ffff:127.0.0.1]:6379"} {
		testkit.Must(t, check(t, r, text))
	}
	for _, text := range []string{"127.0.0.2:6379", "127.0.0.1:6060", "127.0.0.1:80", "0.0.0.0:6379"} {
		if check(t, r, text) == nil {
			t.Errorf("%s may be called", text)
		}
	}
	err := check(t, own(t), "127.0.0.1:8080")
	want := "this task may not call the address 127.0.0.1:8080: the API of this node listens there; " +
		"--http-allow-api, as dtsd dev has it by default, or --http-allow 127.0.0.1:8080, would allow it"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestNetworks_ReadsBlocksAndAddresses(t *testing.T) {
	t.Parallel()
	var n Networks
	testkit.Must(t, n.Set("10.1.2.3/8, 192.0.2.1,fd00::/8,127.0.0.1:80,10.0.0.0/8:81,[::1]:82,[fd00::/8]:83,"))
	want := "10.0.0.0/8,192.0.2.1/32,fd00::/8,127.0.0.1/32:80,10.0.0.0/8:81,[::1/128]:82,[fd00::/8]:83"
	if got := n.String(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	again := n
	if err := again.Set(want); err != nil || again.String() != want {
		t.Errorf("what it writes is read as %s, %v", again, err)
	}
	for _, text := range []string{
		"10.0.0.0/33", "::ffff:0.0.0.0/90", "host", "10.0.0", "1.2.3.4-5", "1.2.3.4:", "1.2.3.4:0", "1.2.3.4:65536",
		"host:80", ":80", "[]:80",
	} {
		if err := n.Set(text); err == nil || !strings.Contains(err.Error(), `"`+text+`" is no address`) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
