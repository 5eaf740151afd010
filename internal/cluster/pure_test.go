package cluster

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func TestQuota_AddsUpAndDiffersByOneAtMost(t *testing.T) {
	t.Parallel()
	for nodes := 1; nodes <= 40; nodes++ {
		ids := make([]string, nodes)
		for i := range ids {
			ids[i] = NewNodeID("host")
		}
		for partitions := range 65 {
			sum, shares := 0, map[int]bool{}
			for _, self := range slices.Clone(ids) {
				rand.Shuffle(nodes, func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
				q := Quota(ids, self, partitions)
				sum += q
				shares[q-partitions/nodes] = true
			}
			delete(shares, 0)
			delete(shares, 1)
			if sum != partitions || len(shares) != 0 {
				t.Fatalf("%d partitions on %d nodes: quotas add up to %d", partitions, nodes, sum)
			}
		}
	}
}

func TestQuota_CountsSelfAndLeavesItsArgumentAlone(t *testing.T) {
	t.Parallel()
	ids := []string{"c", "b"}
	for self, want := range map[string]int{"a": 6, "b": 8, "d": 5} {
		if got := Quota(ids, self, 16); got != want {
			t.Errorf("%s gets %d, not %d", self, got, want)
		}
	}
	if got := Quota(nil, "a", 16); got != 16 {
		t.Errorf("a lone node gets %d", got)
	}
	if !slices.Equal(ids, []string{"c", "b"}) {
		t.Errorf("the ids are now %v", ids)
	}
}

func TestNewNodeID_IsValidForEveryHostName(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?-[a-z2-7]{8}$`)
	for host, want := range map[string]string{
		"web-1":                  "web-1-",
		"Web_1.Example.COM":      "web-1-example-com-",
		"":                       "node-",
		"...":                    "node-",
		"{7}:x":                  "7--x-",
		"größe":                  "gr--e-",
		strings.Repeat("x", 300): strings.Repeat("x", 40) + "-",
	} {
		id := NewNodeID(host)
		if !form.MatchString(id) || id[:len(id)-8] != want {
			t.Errorf("host %q: %q", host, id)
		}
		if id == NewNodeID(host) {
			t.Errorf("host %q: the id is not new", host)
		}
	}
}

func TestView_ListsWhoTakesOnWork(t *testing.T) {
	t.Parallel()
	of := func(id, state string, roles ...string) Node { return Node{ID: id, State: state, Roles: roles} }
	self := of("d", StateDraining, "worker")
	v := View{self: self, Nodes: []Node{
		of("a", StateAlive, "worker", "api"), of("b", StateDraining, "worker"), of("c", StateDead, "worker"), self,
		of("e", StateAlive, "scheduler"),
	}}
	for role, want := range map[string]string{
		"worker": "[a d]", "scheduler": "[e]", "api": "[a]", "": "[a d e]", "none": "[]",
	} {
		if got := fmt.Sprint(v.Alive(role)); got != want {
			t.Errorf("%q: %s, want %s", role, got, want)
		}
	}
}

// interfaces are the addresses of network interfaces.
func interfaces(t *testing.T, cidrs ...string) []net.Addr {
	t.Helper()
	var all []net.Addr
	for _, c := range cidrs {
		ip, network, err := net.ParseCIDR(c)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, &net.IPNet{IP: ip, Mask: network.Mask})
	}
	return all
}

func TestIP_IsTheFirstAddressThatOthersCanUse(t *testing.T) {
	t.Parallel()
	for want, addresses := range map[string][]net.Addr{
		"127.0.0.1":   interfaces(t, "127.0.0.1/8", "::1/128", "fe80::1/64"),
		"10.0.0.7":    interfaces(t, "127.0.0.1/8", "2001:db8::1/64", "10.0.0.7/24", "10.0.1.7/24"),
		"2001:db8::1": interfaces(t, "::1/128", "2001:db8::1/64", "2001:db8::2/64"),
	} {
		if got := firstOutside(addresses); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if net.ParseIP(IP()) == nil || Host() == "" {
		t.Errorf("this machine is %q at %q", Host(), IP())
	}
}

// A machine with many bridges of containers has an IPv4 address of each.
func TestAddresses_HaveRoomForIPv6(t *testing.T) {
	t.Parallel()
	many := []string{"127.0.0.1/8", "10.0.0.7/24"}
	for i := range 40 {
		many = append(many, fmt.Sprintf("172.18.%d.1/24", i))
	}
	found := first(interfaces(t, append(many, "::1/128", "2001:db8::1/64", "fe80::1/64")...))
	if len(found) != 17 || found[0].String() != "10.0.0.7" || found[16].String() != "2001:db8::1" {
		t.Errorf("got %v, want 10.0.0.7, 15 bridges and 2001:db8::1", found)
	}
}

func TestNetwork_NamesTheKernelAndItsNamespace(t *testing.T) {
	t.Parallel()
	proc := func(boot, namespace string) fs.FS {
		return fstest.MapFS{
			"sys/kernel/random/boot_id": {Data: []byte(boot + "\n")},
			"self/ns/net":               {Data: []byte("net:[" + namespace + "]"), Mode: fs.ModeSymlink},
		}
	}
	for want, c := range map[string]struct {
		proc fs.FS
		host string
	}{
		"b-1 net:[1]": {proc("b-1", "1"), "container"},
		"b-1 net:[2]": {proc("b-1", "2"), "container"},
		"b-2 net:[1]": {proc("b-2", "1"), "container"},
		"web net:[1]": {proc("", "1"), "web"},
		"web":         {fstest.MapFS{}, "web"},
	} {
		if got := networkOf(c.proc, c.host); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := Network(); got == "" || runtime.GOOS == "linux" && !strings.Contains(got, " net:[") {
		t.Errorf("this network is %q", got)
	}
}

func TestMeter_ReadsThisProcess(t *testing.T) {
	t.Parallel()
	m, err := NewMeter()
	if err != nil {
		t.Fatal(err)
	}
	for seen := false; !seen; { // work until it shows; the test's own timeout is the limit
		u, err := m.Read()
		if err != nil {
			t.Fatal(err)
		}
		if u.CPU < 0 || u.CPU > 1 || u.Memory == 0 {
			t.Fatalf("got %+v", u)
		}
		seen = u.CPU > 0
	}
}
